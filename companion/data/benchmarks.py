"""Readers of the optional benchmarks: news items, lines of text, sentences in two languages."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from companion.data.pairs import Pairs, read_parallel
from companion.data.texts import Texts
from companion.data.unpacking import DataError

__all__ = [
    "NEWS_CLASSES",
    "load_ag_news",
    "load_multi30k",
    "load_ptb",
    "load_wikitext_2",
    "read_ag_news",
]

NEWS_CLASSES = ["World", "Sports", "Business", "Sci/Tech"]  # of the labels 1 to 4


def read_ag_news(path: str | Path) -> Iterator[tuple[int, str]]:
    """Read a file of AG_NEWS: the records that ``torchtext.datasets.AG_NEWS`` gives.

    Args:
        path: of ``train.csv`` or ``test.csv``: label, title, description, without a header.

    Yields:
        (label, text): the label is 1 to 4, the text is the title, a space, and the description.

    Raises:
        ValueError: the name of the file, the number of the line, and what is wrong with it.
        OSError: the file cannot be read.
    """
    path = Path(path)
    # newline="": csv itself reads line ends, as in a quoted field of two lines
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        try:
            for row in rows:
                if len(row) != 3 or row[0] not in ("1", "2", "3", "4"):
                    raise ValueError(
                        f"{path.name}, line {rows.line_num}: expected a label from 1 to 4, a "
                        f"title and a description, got {len(row)} columns, {row[:1]}"
                    )
                yield int(row[0]), " ".join(row[1:])
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path.name}, after line {rows.line_num}: expected UTF-8, {error.reason}"
            ) from error
        except csv.Error as error:
            raise ValueError(f"{path.name}, line {rows.line_num}: {error}") from error


def load_ag_news(paths: Mapping[str, Path]) -> dict[str, Texts]:
    """Read AG_NEWS as it is divided, ``train`` and ``test``.

    Labels are positions in ``classes``, 0 to 3; those of the file are 1 to 4.
    """
    return {part: _news(paths[f"{part}.csv"]) for part in ("train", "test")}


def _news(path: Path) -> Texts:
    labels, texts = [], []
    for label, text in read_ag_news(path):
        labels.append(label - 1)
        texts.append(text)
    return Texts(
        labels=torch.tensor(labels, dtype=torch.int64, device="cpu"),
        texts=texts,
        classes=list(NEWS_CLASSES),
    )


def load_ptb(paths: Mapping[str, Path]) -> dict[str, list[str]]:
    """Read the lines of the Penn Treebank's ``train``, ``valid`` and ``test``.

    A line is a sentence in lower case, its words parted by single spaces, rare ones ``<unk>``,
    numbers ``N``. There is no token for the end of a line: most count one, ``<eos>``, and so has
    whoever compares perplexities to add it.
    """
    return {part: _lines(paths[f"ptb.{part}.txt"]) for part in ("train", "valid", "test")}


def load_wikitext_2(paths: Mapping[str, Path]) -> dict[str, list[str]]:
    """Read the lines of WikiText-2's ``train``, ``valid`` and ``test``.

    A line is a paragraph, a heading such as ``= Robert Boulter =``, or empty; words are parted by
    spaces, and rare ones are ``<unk>``. As in the Penn Treebank, ``<eos>`` has to be added.
    """
    folder = paths["wikitext-2-v1.zip"] / "wikitext-2"
    return {part: _lines(folder / f"wiki.{part}.tokens") for part in ("train", "valid", "test")}


def load_multi30k(paths: Mapping[str, Path]) -> dict[str, Pairs]:
    """Read Multi30k's ``train``, ``valid`` and ``test``, German to English as torchtext has it.

    ``swapped`` turns them round. The test is that of 2016.
    """
    archives = {
        "train": ("training.tar.gz", "train"),
        "valid": ("validation.tar.gz", "val"),
        "test": ("mmt16_task1_test.tar.gz", "test"),
    }
    return {
        part: read_parallel(
            *(_only(paths[archive], f"{stem}.{ending}") for ending in ("de", "en"))
        )
        for part, (archive, stem) in archives.items()
    }


def _only(folder: Path, name: str) -> Path:
    """The one file of this name in an unpacked archive, however deep."""
    found = sorted(path for path in folder.rglob(name) if path.is_file())
    if len(found) != 1:
        raise DataError(f"{folder}: expected one file {name} in the archive, got {len(found)}")
    return found[0]


def _lines(path: Path) -> list[str]:
    """Lines without the spaces that stand on both sides of them."""
    with open(path, encoding="utf-8", newline="\n") as file:
        return [line.strip() for line in file]
