"""The State of the Union addresses: whole texts, with who spoke and when."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass

from companion.data.labelled import FILES

__all__ = ["Address", "load_state_of_the_union"]


@dataclass(frozen=True, repr=False)
class Address:
    """What a president of the United States told the Congress in one year.

    Attributes:
        year: of the address.
        president: the name, as ``John F Kennedy``.
        party: ``Democratic`` or ``Republican``.
        text: the address, in one line.

    Example:
        >>> from companion.data import load
        >>> addresses = load("state-of-the-union")
        >>> len(addresses), addresses[-1]
        (61, Address(2021, 'Joseph R Biden', 7945 words))
        >>> addresses[0].text[:56]
        'Mr. Speaker, Mr. Vice President, Members of the Congress'
    """

    year: int
    president: str
    party: str
    text: str

    def __repr__(self) -> str:
        return f"Address({self.year}, {self.president!r}, {len(self.text.split())} words)"


def load_state_of_the_union() -> list[Address]:
    """Read the vendored addresses, 1961 to 2021, in the order of time."""
    path = FILES / "state-of-the-union" / "addresses.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [Address(**json.loads(line)) for line in file]
