"""Data sets by name, vocabularies, and batches of sequences.

``load("surnames")`` works anywhere; ``python -m companion data list`` shows what else there is.
"""

from __future__ import annotations

from typing import Any, Literal, overload

from companion.data.batching import Batches, batches, pad
from companion.data.catalogue import CATALOGUE, find
from companion.data.entry import DataFile, DataSet
from companion.data.fetching import DataError, fetch, on_this_machine, verify
from companion.data.generated import (
    Task,
    adding,
    anbn,
    copying,
    first_token_recall,
    parity,
    selective_copying,
    spike_delays,
)
from companion.data.labelled import Digits, Labelled, Split, Surnames
from companion.data.markov import MarkovChain
from companion.data.series import Weather
from companion.data.vocabulary import Vocab, build_vocab_from_iterator

__all__ = [
    "CATALOGUE",
    "Batches",
    "DataError",
    "DataFile",
    "DataSet",
    "Digits",
    "Labelled",
    "MarkovChain",
    "Split",
    "Surnames",
    "Task",
    "Vocab",
    "Weather",
    "adding",
    "anbn",
    "batches",
    "build_vocab_from_iterator",
    "copying",
    "fetch",
    "first_token_recall",
    "load",
    "pad",
    "parity",
    "selective_copying",
    "spike_delays",
    "verify",
]


@overload
def load(name: Literal["surnames"], *, download: bool = False) -> Surnames: ...
@overload
def load(name: Literal["digits"], *, download: bool = False) -> Digits: ...
@overload
def load(name: Literal["weather"], *, download: bool = False) -> Weather: ...
@overload
def load(name: str, *, download: bool = False) -> Any: ...


def load(name: str, *, download: bool = False) -> Any:
    """Load a data set of the catalogue.

    Args:
        name: of the data set; ``python -m companion data list`` shows them.
        download: fetch what is not on this machine. Without it nothing uses the network.

    Returns:
        The data as its loader reads it, such as ``Surnames`` or ``Digits``. A download set without
        a loader of its own gives a dict from file name to path; the path of an archive is that of
        the folder it is unpacked in, which is complete.

    Raises:
        TypeError: the name is no string.
        ValueError: unknown name.
        DataError: a download set that is not here, or damaged, or cannot be had.
        ImportError: the pip package that carries the set is not installed.

    Example:
        >>> surnames = load("surnames")
        >>> len(surnames), len(surnames.languages)
        (9584, 15)
        >>> train, valid, test = surnames.split(seed=0)
        >>> len(train), len(valid), len(test)
        (7668, 958, 958)
    """
    entry = find(name)
    if entry.kind == "download":
        if download:
            fetch(name)
        paths = on_this_machine(entry)
        if entry.loader is None:
            return paths
    assert entry.loader is not None  # DataSet sees to it
    return entry.loader()
