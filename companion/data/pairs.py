"""Pairs of texts, the data of sequence to sequence: the names of numbers in two languages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from companion.data.labelled import Rows

__all__ = ["Pairs", "load_numbers", "number_names"]

NUMBERS = 10_000  # of load("numbers"): 0 to 9,999


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(Rows):
    """N texts, and what each of them becomes.

    Attributes:
        sources: N strings.
        targets: N strings.

    Raises:
        ValueError: there are more of one than of the other.

    Example:
        >>> pairs = Pairs(["one", "two", "three"], ["un", "deux", "trois"])
        >>> pairs, pairs.swapped().sources
        (Pairs(3 pairs), ['un', 'deux', 'trois'])
    """

    sources: list[str]
    targets: list[str]
    rows: ClassVar[tuple[str, ...]] = ("sources", "targets")

    def __post_init__(self) -> None:
        for field in self.rows[1:]:
            found = len(getattr(self, field))
            if found != len(self.sources):
                raise ValueError(
                    f"{field}: expected one for each of {len(self.sources)} sources, got {found}"
                )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} pairs)"

    def swapped(self) -> Pairs:
        """The same pairs the other way round: every target is a source."""
        return Pairs(self.targets, self.sources)


def number_names(numbers: Iterable[int], source: str = "en", target: str = "fr") -> Pairs:
    """The names of whole numbers in two languages, as the package num2words spells them.

    Args:
        numbers: to be named, in the order of the rows; negative ones have names too.
        source: language of the sources, by num2words' code, as ``en`` or ``pt_BR``.
        target: language of the targets.

    Returns:
        Pairs, one a number.

    Raises:
        TypeError: a number is no int, or a language no string.
        ValueError: num2words does not know the language, or has no name for the number.
        ImportError: num2words is not installed.

    Example:
        >>> pairs = number_names([21, 80, 2001])
        >>> pairs.sources
        ['twenty-one', 'eighty', 'two thousand and one']
        >>> pairs.targets
        ['vingt et un', 'quatre-vingts', 'deux mille un']
    """
    try:
        from num2words import CONVERTER_CLASSES, num2words
    except ImportError as error:
        raise ImportError(
            "the names of numbers come with the package num2words, which is not installed; "
            "run: pip install num2words"
        ) from error
    # num2words itself takes "french" for "fr", and "enough" for "en"
    for name, language in (("source", source), ("target", target)):
        if not isinstance(language, str):
            raise TypeError(f"{name}: expected the code of a language, a str, got {language!r}")
        if language not in CONVERTER_CLASSES:
            raise ValueError(
                f"{name}: expected one of {', '.join(sorted(CONVERTER_CLASSES))}, got {language!r}"
            )
    sources, targets = [], []
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"numbers: expected ints, got {type(number).__name__} ({number!r})")
        try:
            sources.append(num2words(number, lang=source))
            targets.append(num2words(number, lang=target))
        except (NotImplementedError, OverflowError) as error:
            raise ValueError(
                f"numbers: {str(number):.40} has no name in {source} or {target}"
            ) from error
    return Pairs(sources, targets)


def load_numbers() -> Pairs:
    """Name the numbers from 0 to 9,999 in English and in French; row n is the number n.

    Raises:
        ImportError: num2words is not installed.
    """
    return number_names(range(NUMBERS))
