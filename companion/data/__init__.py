"""Data sets by name, vocabularies, and batches of sequences.

``load("surnames")`` works anywhere; ``python -m companion data list`` shows what else there is.
"""

from __future__ import annotations

from typing import Any, Literal, overload

from companion.data.addresses import Address
from companion.data.batching import Batches, batches, pad
from companion.data.benchmarks import NEWS_CLASSES, read_ag_news
from companion.data.bucketing import BucketBatches, bucket_batches
from companion.data.catalogue import CATALOGUE, find
from companion.data.conllu import ConlluToken, Sentence, read_conllu
from companion.data.entry import DataFile, DataSet
from companion.data.fetching import DataError, fetch, on_this_machine, verify
from companion.data.frames import Recordings
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
from companion.data.pairs import Pairs, number_names
from companion.data.passages import FOUR_PRESIDENTS, Passages, passages
from companion.data.pronunciations import Pronunciations
from companion.data.restoration import RESTORATION_LABELS, case_and_punctuation, restore_text
from companion.data.series import Weather
from companion.data.streaming import StreamBatch, Streams, stream_batches
from companion.data.tagged import Tagged, TurkishTreebank
from companion.data.texts import Play, Texts
from companion.data.tokenizing import basic_english, get_tokenizer
from companion.data.vocabulary import Vocab, build_vocab_from_iterator
from companion.data.windowing import Scaler, Windows, split_by_time, windows
from companion.data.years import Series

__all__ = [
    "CATALOGUE",
    "FOUR_PRESIDENTS",
    "NEWS_CLASSES",
    "RESTORATION_LABELS",
    "Address",
    "Batches",
    "BucketBatches",
    "ConlluToken",
    "DataError",
    "DataFile",
    "DataSet",
    "Digits",
    "Labelled",
    "MarkovChain",
    "Pairs",
    "Passages",
    "Play",
    "Pronunciations",
    "Recordings",
    "Scaler",
    "Sentence",
    "Series",
    "Split",
    "StreamBatch",
    "Streams",
    "Surnames",
    "Tagged",
    "Task",
    "Texts",
    "TurkishTreebank",
    "Vocab",
    "Weather",
    "Windows",
    "adding",
    "anbn",
    "basic_english",
    "batches",
    "bucket_batches",
    "build_vocab_from_iterator",
    "case_and_punctuation",
    "copying",
    "fetch",
    "first_token_recall",
    "get_tokenizer",
    "load",
    "number_names",
    "pad",
    "parity",
    "passages",
    "read_ag_news",
    "read_conllu",
    "restore_text",
    "selective_copying",
    "spike_delays",
    "split_by_time",
    "stream_batches",
    "verify",
    "windows",
]


@overload
def load(name: Literal["surnames"], *, download: bool = False) -> Surnames: ...
@overload
def load(name: Literal["digits"], *, download: bool = False) -> Digits: ...
@overload
def load(name: Literal["co2", "sunspots"], *, download: bool = False) -> Series: ...
@overload
def load(name: Literal["weather"], *, download: bool = False) -> Weather: ...
@overload
def load(
    name: Literal["state-of-the-union", "state_of_the_union"], *, download: bool = False
) -> list[Address]: ...
@overload
def load(
    name: Literal["turkish-treebank", "turkish_treebank"], *, download: bool = False
) -> TurkishTreebank: ...
@overload
def load(name: Literal["shakespeare"], *, download: bool = False) -> list[Play]: ...
@overload
def load(
    name: Literal["wordnet-glosses", "wordnet_glosses"], *, download: bool = False
) -> Texts: ...
@overload
def load(name: Literal["cmudict"], *, download: bool = False) -> Pronunciations: ...
@overload
def load(name: Literal["numbers"], *, download: bool = False) -> Pairs: ...
@overload
def load(
    name: Literal["spoken-digits", "spoken_digits"], *, download: bool = False
) -> Recordings: ...
@overload
def load(
    name: Literal["japanese-vowels", "japanese_vowels", "basic-motions", "basic_motions"],
    *,
    download: bool = False,
) -> dict[str, Recordings]: ...
@overload
def load(name: Literal["ag-news", "ag_news"], *, download: bool = False) -> dict[str, Texts]: ...
@overload
def load(
    name: Literal["ptb", "wikitext-2", "wikitext_2"], *, download: bool = False
) -> dict[str, list[str]]: ...
@overload
def load(name: str, *, download: bool = False) -> Any: ...


def load(name: str, *, download: bool = False) -> Any:
    """Load a data set of the catalogue.

    Args:
        name: of the data set; ``python -m companion data list`` shows them.
            An underscore counts as a hyphen.
        download: fetch what is not on this machine. Without it nothing uses the network.

    Returns:
        The data as its loader reads it, such as ``Surnames`` or ``Digits``; of a set that has
        parts of its own a dict, ``train``, ``test`` and perhaps ``valid``. A download set without
        a loader gives a dict from file name to path; the path of an archive is that of the folder
        it is unpacked in, which is complete.

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
        return paths if entry.loader is None else entry.loader(paths)
    assert entry.loader is not None  # DataSet sees to it
    return entry.loader()
