"""Texts: plays, and short texts with a class each."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

import torch

from companion.data.labelled import FILES, Labelled

__all__ = ["Play", "Texts", "load_glosses", "load_shakespeare"]


@dataclass(frozen=True, repr=False)
class Play:
    """A play, whole.

    Attributes:
        title: such as ``Hamlet``.
        text: with the list of persons, the names of who speaks, and the directions.

    Example:
        >>> from companion.data import load
        >>> plays = load("shakespeare")
        >>> plays[0], sum(len(play.text) for play in plays)
        (Play('Hamlet', 173942 characters), 1036467)
    """

    title: str
    text: str

    def __repr__(self) -> str:
        return f"Play({self.title!r}, {len(self.text)} characters)"


@dataclass(frozen=True, eq=False, repr=False)
class Texts(Labelled):
    """N texts, each of one class.

    Attributes:
        texts: N strings.
        labels: int64 (N,), positions in ``classes``.
        classes: names of the classes.

    Example:
        >>> from companion.data import load
        >>> glosses = load("wordnet-glosses")
        >>> len(glosses), glosses.classes
        (20000, ['act', 'artifact', 'communication', 'person'])
        >>> glosses.texts[-1], glosses.classes[glosses.labels[-1]]
        ('young nobleman attendant on a knight', 'person')
    """

    texts: list[str]
    classes: list[str]
    rows: ClassVar[tuple[str, ...]] = ("texts",)

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Self:
        """Texts of (text, name of the class), the classes in alphabetical order.

        Args:
            pairs: N of them.
        """
        rows = list(pairs)
        classes = sorted({name for _, name in rows})
        position = {name: i for i, name in enumerate(classes)}
        labels = [position[name] for _, name in rows]
        return cls(
            labels=torch.tensor(labels, dtype=torch.int64, device="cpu"),
            texts=[text for text, _ in rows],
            classes=classes,
        )


def load_shakespeare() -> list[Play]:
    """Read the eight vendored plays."""
    path = FILES / "shakespeare" / "plays.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [Play(**json.loads(line)) for line in file]


def load_glosses() -> Texts:
    """Read the vendored glosses: 20,000 in 4 classes."""
    path = FILES / "wordnet-glosses" / "glosses.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        pairs = (line.rstrip("\n").split("\t") for line in file)
        return Texts.of((text, name) for text, name in pairs)
