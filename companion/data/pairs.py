"""Pairs of texts, the data of sequence to sequence: numbers, messages, and files side by side."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from companion.data.labelled import FILES, Rows

__all__ = ["Messages", "Pairs", "load_interface", "load_numbers", "number_names", "read_parallel"]

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

    def swapped(self) -> Self:
        """The same pairs the other way round: every target is a source."""
        return replace(self, sources=self.targets, targets=self.sources)


@dataclass(frozen=True, eq=False, repr=False)
class Messages(Pairs):
    """N texts that programs show, each with its translation.

    What the program puts into a text stays as it is there: ``%(name)s``, ``%1``, ``{name}``.

    Attributes:
        sources: N strings, of 30 words at most.
        targets: N strings, of 30 words at most.
        origin: N times ``jupyterlab``, ``django`` or ``home-assistant``.

    Example:
        >>> from companion.data import load
        >>> messages = load("interface")
        >>> messages
        Messages(13282 pairs)
        >>> i = messages.sources.index("Enter a list of values.")
        >>> messages.targets[i], messages.origin[i]
        ('Saisissez une liste de valeurs.', 'django')
    """

    origin: list[str]
    rows: ClassVar[tuple[str, ...]] = ("sources", "targets", "origin")


def number_names(numbers: Iterable[int], source: str = "en", target: str = "fr") -> Pairs:
    """The names of whole numbers in two languages, as the package num2words spells them.

    Args:
        numbers: to be named, in the order of the rows; most languages have names of negative
            ones too.
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
    if not isinstance(numbers, Iterable):
        raise TypeError(f"numbers: expected ints one after another, got {numbers!r:.60}")
    columns: tuple[list[str], list[str]] = [], []
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"numbers: expected ints, got {type(number).__name__} ({number!r})")
        for language, names in zip((source, target), columns, strict=True):
            try:
                name = num2words(number, lang=language)
            except Exception as error:  # each language has its own for what it cannot name
                raise _nameless(number, language) from error
            if not name:  # so Persian
                raise _nameless(number, language)
            names.append(name)
    return Pairs(*columns)


def _nameless(number: int, language: str) -> ValueError:
    """The error for a number that a language has no name for."""
    # Python itself refuses to write out more than 4,300 digits
    shown = f"{number:d}"[:40] if number.bit_length() < 10_000 else "one of over 3,000 digits"
    return ValueError(f"numbers: {shown} has no name in {language}")


def read_parallel(sources: str | Path, targets: str | Path) -> Pairs:
    """Read two files whose lines go together, the usual form of texts and their translations.

    Args:
        sources: path of a text file, one source a line.
        targets: path of another, whose line n is what line n of the first becomes.

    Returns:
        Pairs, without the white space at both ends of a line. A line that is empty in both files
        is none.

    Raises:
        ValueError: the name of the file, the number of the line, and what is wrong with it.
        OSError: a file cannot be read.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     en, fr = (pathlib.Path(folder) / name for name in ("a.en", "a.fr"))
        ...     _ = en.write_text("yes\\nno\\n"), fr.write_text("oui\\nnon\\n")
        ...     read_parallel(en, fr).targets
        ['oui', 'non']
    """
    columns = [_lines(Path(path)) for path in (sources, targets)]
    names = [Path(path).name for path in (sources, targets)]
    if len(columns[0]) != len(columns[1]):
        raise ValueError(
            f"{names[1]}: expected as many lines as in {names[0]}, {len(columns[0])}, "
            f"got {len(columns[1])}"
        )
    rows = []
    for number, row in enumerate(zip(*columns, strict=True), start=1):
        if any(row):
            if not all(row):
                name, other = names if row[1] else names[::-1]
                raise ValueError(
                    f"{name}, line {number}: expected a text, as {other} has one, got an empty "
                    "line"
                )
            rows.append(row)
    return Pairs([source for source, _ in rows], [target for _, target in rows])


def _lines(path: Path) -> list[str]:
    """Lines without the white space at both ends; the first may have a byte order mark."""
    lines = []
    # newline="\n": what else may end a line, such as U+0085, is inside one here
    with open(path, encoding="utf-8-sig", newline="\n") as file:
        try:
            for line in file:
                lines.append(line.strip())
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path.name}, after line {len(lines)}: expected UTF-8, {error.reason}"
            ) from error
    return lines


def load_numbers() -> Pairs:
    """Name the numbers from 0 to 9,999 in English and in French; row n is the number n.

    Raises:
        ImportError: num2words is not installed.
    """
    return number_names(range(NUMBERS))


def load_interface() -> Messages:
    """Read the vendored messages, English to French: 13,282 of three programs."""
    with gzip.open(FILES / "interface" / "pairs.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    origin, sources, targets = map(list, zip(*rows, strict=True))
    return Messages(sources, targets, origin)
