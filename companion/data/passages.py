"""Passages of the State of the Union addresses by president: a text classification task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from companion.checks import check_size
from companion.data.addresses import Address
from companion.data.labelled import Split, checked_shares
from companion.data.texts import Texts
from companion.reproduce import cpu_generator

__all__ = ["FOUR_PRESIDENTS", "Passages", "passages"]

# those with the most addresses of like form since 1961, seven or eight each
FOUR_PRESIDENTS = ("Ronald Reagan", "William J Clinton", "George W Bush", "Barack Obama")

# what the one who took the address down wrote in: it would give the president away
NOTES = re.compile(
    r"\s*\[(?:laughter|applause|at this point[^\]]*)\]|(?<=[.!?])\s+(?:The President|"
    r"Audience members)\.(?=\s)",
    re.IGNORECASE,
)
# after the mark that ends a sentence, and quotation marks and brackets that close with it
SENTENCE = re.compile(
    r"""(?: (?<=[.!?]) | (?<=[.!?]["')\]]) ) (?<!\bMr\.) (?<!\bMrs\.) (?<!\bMs\.) (?<!\bDr\.)
        (?<!\bSt\.) (?<!\bNo\.) (?<!\b[A-Z]\.) \s+""",
    re.VERBOSE,
)


@dataclass(frozen=True, eq=False, repr=False)
class Passages(Texts):
    """Passages of addresses, and who spoke. Made by ``passages``.

    Attributes:
        texts: N passages, of whole sentences.
        labels: int64 (N,), positions in ``classes``.
        classes: names of the presidents.
        years: int64 (N,), of the addresses.

    Example:
        >>> from companion.data import load
        >>> found = passages(load("state-of-the-union"))
        >>> train, valid, test = found.split(seed=0)
        >>> set(train.years.tolist()) & set(test.years.tolist())
        set()
    """

    years: Tensor
    rows: ClassVar[tuple[str, ...]] = ("texts", "years")

    def split(self, seed: int = 0, valid: float = 0.15, test: float = 0.15) -> Split:
        """Divide the addresses at random into three parts; a passage goes with its address.

        Passages of one address share its subjects and its phrases. Divided one by one they would
        test whether an address is recognized, not a speaker.

        Args:
            seed: the same seed gives the same parts on every machine and device.
            valid: share of each president's addresses for validation, one at least.
            test: share for the test, one at least. A share of 0 gives none.

        Returns:
            Split(train, valid, test), passages in the order of the whole.

        Raises:
            TypeError: a share or the seed is no number.
            ValueError: a share is negative, or they leave a president nothing for training.
        """
        checked_shares(valid, test)
        generator = cpu_generator(seed)
        parts: list[list[int]] = [[], [], []]
        for label, name in enumerate(self.classes):
            years = self.years[self.labels == label].unique()
            years = years[torch.randperm(len(years), generator=generator, device="cpu")]
            counts = [max(round(len(years) * s), 1) if s > 0 else 0 for s in (valid, test)]
            if len(years) <= sum(counts):
                raise ValueError(
                    f"valid, test: expected shares that leave an address of {name} to train, "
                    f"got valid={valid}, test={test} of {len(years)}"
                )
            sizes = [len(years) - sum(counts), *counts]
            for part, chosen in zip(parts, years.split(sizes), strict=True):
                own = (self.labels == label) & torch.isin(self.years, chosen)
                part += own.nonzero(as_tuple=True)[0].tolist()
        return Split(
            *(self.subset(torch.tensor(p, dtype=torch.int64, device="cpu")) for p in parts)
        )


def passages(
    addresses: Iterable[Address],
    presidents: Sequence[str] = FOUR_PRESIDENTS,
    *,
    shortest: int = 20,
    longest: int = 90,
    seed: int = 0,
) -> Passages:
    """Cut addresses into passages of some sentences, to be told apart by president.

    A passage ends with the first sentence at which it has n words or more, n drawn anew for each
    from ``shortest`` to 45 (or ``longest``, if that is less). A sentence that would take it past
    ``longest`` is cut there, and the rest of it is left out, as is what remains at the end of an
    address and has fewer than ``shortest`` words. Notes of laughter, applause and who speaks are
    taken out.

    Args:
        addresses: such as ``load("state-of-the-union")``.
        presidents: names of those who are to be told apart.
        shortest: words of a passage at least.
        longest: words of a passage at most.
        seed: draws the lengths; the same on every machine and device.

    Returns:
        The passages, addresses in the order given. A word is what stands between spaces.

    Raises:
        TypeError: presidents is no list of names, or a number is no int.
        ValueError: a president has no address, or comes twice, or shortest and longest are not
            1 ≤ shortest ≤ longest.

    Example:
        >>> from companion.data import load
        >>> found = passages(load("state-of-the-union"))
        >>> found.classes[found.labels[0]], len(found.texts[0].split())
        ('Ronald Reagan', 73)
    """
    check_size("shortest", shortest)
    check_size("longest", longest, shortest)
    if isinstance(presidents, str):
        raise TypeError(f"presidents: expected a list of names, got the str {presidents!r}")
    chosen = list(presidents)
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"presidents: expected each once, got {chosen}")
    generator = cpu_generator(seed)
    texts: list[str] = []
    labels: list[int] = []
    years: list[int] = []
    for address in addresses:
        if address.president in chosen:
            found = list(_cut(address.text, shortest, longest, generator))
            texts += found
            labels += [chosen.index(address.president)] * len(found)
            years += [address.year] * len(found)
    for label, name in enumerate(chosen):
        if label not in labels:
            raise ValueError(f"presidents: expected some with an address, got {name!r}")
    return Passages(
        labels=torch.tensor(labels, dtype=torch.int64, device="cpu"),
        texts=texts,
        classes=chosen,
        years=torch.tensor(years, dtype=torch.int64, device="cpu"),
    )


def _cut(text: str, shortest: int, longest: int, generator: torch.Generator) -> Iterator[str]:
    """The passages of one address."""
    words: list[str] = []
    enough = 0
    for sentence in SENTENCE.split(NOTES.sub("", text)):
        if not words:
            high = max(min(45, longest), shortest)
            enough = int(torch.randint(shortest, high + 1, (), generator=generator, device="cpu"))
        words += sentence.split()
        if len(words) >= enough:
            yield " ".join(words[:longest])
            words = []
    if len(words) >= shortest:
        yield " ".join(words)
