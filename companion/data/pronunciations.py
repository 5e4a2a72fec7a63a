"""Words and how they are spoken: letters to phones, a task of sequence to sequence."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace
from typing import ClassVar

from companion.data.labelled import FILES, Rows

__all__ = ["Pronunciations", "load_cmudict"]


@dataclass(frozen=True, eq=False, repr=False)
class Pronunciations(Rows):
    """N words, each with one pronunciation or more.

    Attributes:
        words: N words in small letters.
        phones: N lists, the first pronunciation of each word, a string a phone, as ``AH0``.
        others: N lists of the further pronunciations, most of them empty. Whoever says one of
            these is right as well.

    Example:
        >>> from companion.data import load
        >>> spoken = load("cmudict")
        >>> spoken
        Pronunciations(25000 words)
        >>> i = spoken.words.index("herb")
        >>> " ".join(spoken.phones[i]), [" ".join(other) for other in spoken.others[i]]
        ('ER1 B', ['HH ER1 B'])
        >>> plain = spoken.without_stress()
        >>> len(spoken.alphabet), len(plain.alphabet)
        (69, 39)
    """

    words: list[str]
    phones: list[list[str]]
    others: list[list[list[str]]]
    rows: ClassVar[tuple[str, ...]] = ("words", "phones", "others")

    def __repr__(self) -> str:
        return f"Pronunciations({len(self)} words)"

    @property
    def alphabet(self) -> list[str]:
        """The different phones of all pronunciations, in alphabetical order."""
        others = {phone for row in self.others for spoken in row for phone in spoken}
        return sorted(others.union(*self.phones))

    def without_stress(self) -> Pronunciations:
        """The same without the digits that say how a vowel is stressed.

        Returns:
            Pronunciations in 39 phones at most. Those that differ in stress alone are one.
        """
        phones, others = [], []
        for first, rest in zip(self.phones, self.others, strict=True):
            plain = [[phone.rstrip("012") for phone in spoken] for spoken in (first, *rest)]
            distinct = [s for i, s in enumerate(plain) if s not in plain[:i]]
            phones.append(distinct[0])
            others.append(distinct[1:])
        return replace(self, phones=phones, others=others)


def load_cmudict() -> Pronunciations:
    """Read the vendored words: 25,000 of the Carnegie Mellon Pronouncing Dictionary."""
    words, phones, others = [], [], []
    with gzip.open(FILES / "cmudict" / "words.tsv.gz", "rt", encoding="utf-8") as file:
        for line in file:
            word, first, *rest = line.rstrip("\n").split("\t")
            words.append(word)
            phones.append(first.split())
            others.append([spoken.split() for spoken in rest])
    return Pronunciations(words, phones, others)
