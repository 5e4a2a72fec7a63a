"""Files in CoNLL-U, the format of treebanks: one word a line, ten columns, an empty line between
sentences.

Source: Universal Dependencies, "CoNLL-U Format", universaldependencies.org/format.html.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

__all__ = ["ConlluToken", "Sentence", "read_conllu"]

DOUBTFUL = re.compile(r"[^\S\t]|^\t|\t\t|\t$")  # a space, or a column with nothing in it

NUMBER = "[0-9]{1,18}"  # of more than 4,300 digits Python makes no int


class ConlluToken(NamedTuple):
    """A word of a sentence: the ten columns of its line, as they are written.

    An underscore stands where nothing is given.
    """

    id: str
    form: str
    lemma: str
    upos: str
    xpos: str
    feats: str
    head: str
    deprel: str
    deps: str
    misc: str


@dataclass(frozen=True, repr=False)
class Sentence:
    """A sentence of a treebank.

    Attributes:
        tokens: its words, numbered from 1 in column ``id``.
        metadata: what the comments of the form ``# name = value`` say, ``sent_id`` for one.

    Example:
        >>> rest = 6 * "\\t_"
        >>> (sentence,) = read_conllu(["1\\tGo\\t_\\tVERB" + rest, "2\\t!\\t_\\tPUNCT" + rest])
        >>> sentence.column("form"), sentence.column("upos")
        (['Go', '!'], ['VERB', 'PUNCT'])
    """

    tokens: tuple[ConlluToken, ...]
    metadata: dict[str, str]

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"Sentence({' '.join(self.column('form'))!r})"

    def column(self, name: str) -> list[str]:
        """One column of all words.

        Args:
            name: ``form``, ``upos``, ``xpos`` or another field of ``ConlluToken``.

        Returns:
            A string for each word.

        Raises:
            ValueError: there is no such column.
        """
        position = _position(name)
        return [token[position] for token in self.tokens]


def read_conllu(source: str | Path | Iterable[str]) -> list[Sentence]:
    """Read a file in CoNLL-U, strictly: a file that does not keep to the format is an error.

    Lines of multiword tokens (``3-4``) and of empty nodes (``8.1``) are checked and left out: what
    is tagged are the words, the lines with a whole number.

    Args:
        source: path of a file in UTF-8, packed if it ends in ``.gz``, or the lines themselves.

    Returns:
        The sentences, in order.

    Raises:
        ValueError: the name of the file, the number of the line, and what is wrong with it.
        OSError: the file cannot be read.

    Example:
        >>> lines = ["# sent_id = s1", "1\\tGo\\tgo\\tVERB\\tVB\\t_\\t0\\troot\\t_\\t_", ""]
        >>> (sentence,) = read_conllu(lines)
        >>> sentence.metadata, sentence.tokens[0].lemma
        ({'sent_id': 's1'}, 'go')
        >>> read_conllu(["1 Go go VERB VB _ 0 root _ _"])
        Traceback (most recent call last):
        ValueError: source, line 1: expected 10 columns with tabs between them, got 1
    """
    if isinstance(source, (str, Path)):
        path = Path(source)
        try:
            with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
                return list(_sentences(_decoded(file, path.name), path.name))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise OSError(f"{path} cannot be unpacked ({error})") from error
    return list(_sentences(source, "source"))


class _Fault(ValueError):
    """What is wrong with a line, to which its number is added."""


def _decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}, line {number}: expected UTF-8, {error.reason}") from error


def _sentences(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    reading = _Reading()
    for number, line in enumerate(chain(lines, [""]), 1):  # the last sentence may want its end
        line = line.rstrip("\r\n")
        if number == 1:  # Windows' editors begin a file with a byte order mark
            line = line.removeprefix("\ufeff")
        try:
            if line:
                reading.take(line)
                continue
            sentence = reading.finish() if reading.begun else None
        except _Fault as fault:
            at = number if line else number - 1  # what a sentence lacks is seen behind it
            raise ValueError(f"{name}, line {at}: {fault}") from None
        if sentence is not None:
            yield sentence
            reading = _Reading()


class _Reading:
    """One sentence while its lines come in."""

    def __init__(self) -> None:
        self.tokens: list[ConlluToken] = []
        self.metadata: dict[str, str] = {}
        self.begun = False
        self.covered = 0  # the last word inside a multiword token
        self.empty = 0  # empty nodes after the last word

    def take(self, line: str) -> None:
        self.begun = True
        if line.startswith("#"):
            self._comment(line)
            return
        columns = line.split("\t")
        if len(columns) != 10:
            raise _Fault(f"expected 10 columns with tabs between them, got {len(columns)}")
        token = ConlluToken(*columns)
        if DOUBTFUL.search(line):  # rare, and a look at each column takes time
            for field, value in zip(token._fields, token, strict=True):
                spaced = field not in ("form", "lemma", "misc") and re.search(r"\s", value)
                if not value.strip() or spaced:
                    raise _Fault(f"{field}: expected a value without spaces or '_', got {value!r}")
        if token.id.isdecimal():
            self._word(token)
        else:
            self._other(token.id)

    def finish(self) -> Sentence:
        n = len(self.tokens)
        if not n:
            raise _Fault("expected words after the comments, got the end of the sentence")
        if self.covered > n:
            raise _Fault(f"a multiword token ends at word {self.covered} of {n}")
        for token in self.tokens:
            if token.head != "_" and int(token.head) > n:
                raise _Fault(f"head of word {token.id}: expected at most {n}, got {token.head}")
        return Sentence(tuple(self.tokens), self.metadata)

    def _comment(self, line: str) -> None:
        if self.tokens or self.covered or self.empty:
            raise _Fault("a comment inside a sentence; is the empty line before it missing?")
        name, equals, value = line[1:].partition("=")
        if equals:
            self.metadata[name.strip()] = value.strip()

    def _word(self, token: ConlluToken) -> None:
        expected = str(len(self.tokens) + 1)
        if token.id != expected:
            raise _Fault(
                f"id: expected {expected}, got {token.id:.60}"
                + ("; is an empty line missing?" if token.id == "1" else "")
            )
        if not re.fullmatch(rf"_|{NUMBER}", token.head):
            raise _Fault(f"head: expected the number of a word, 0 or '_', got {token.head!r:.60}")
        self.tokens.append(token)
        self.empty = 0

    def _other(self, id: str) -> None:
        n = len(self.tokens)
        pair = re.fullmatch(rf"({NUMBER})([-.])({NUMBER})", id)
        if pair is None:
            raise _Fault(f"id: expected a number, or one like 3-4 or 8.1, got {id!r:.60}")
        first, last = int(pair[1]), int(pair[3])
        if pair[2] == "-":
            if first != n + 1 or last < first or first <= self.covered:
                raise _Fault(f"id: expected a multiword token from word {n + 1} on, got {id}")
            self.covered = last
        else:
            if (first, last) != (n, self.empty + 1):
                raise _Fault(f"id: expected the empty node {n}.{self.empty + 1}, got {id}")
            self.empty = last


def _position(name: str) -> int:
    if name not in ConlluToken._fields:
        raise ValueError(f"name: expected one of {', '.join(ConlluToken._fields)}, got {name!r}")
    return ConlluToken._fields.index(name)
