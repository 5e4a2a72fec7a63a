"""Sentences with a tag for each word, and the treebank that comes with the package."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch

from companion.data.conllu import Sentence, read_conllu
from companion.data.labelled import FILES, Rows, Split

__all__ = ["Tagged", "TurkishTreebank", "load_turkish_treebank"]


@dataclass(frozen=True, eq=False, repr=False)
class Tagged(Rows):
    """N sentences with one tag a word.

    Attributes:
        words: N lists of words.
        tags: N lists of tags, as long as those of the words.

    Raises:
        ValueError: a sentence has another number of tags than of words.

    Example:
        >>> sentences = Tagged([["Go", "on"], ["Stop"]], [["VERB", "ADP"], ["VERB"]])
        >>> sentences, sentences.tagset
        (Tagged(2 sentences, 3 words, 2 tags), ['ADP', 'VERB'])
    """

    words: list[list[str]]
    tags: list[list[str]]
    rows: ClassVar[tuple[str, ...]] = ("words", "tags")

    def __post_init__(self) -> None:
        if len(self.words) != len(self.tags):
            raise ValueError(
                f"tags: expected those of {len(self.words)} sentences, got {len(self.tags)}"
            )
        for i, (words, tags) in enumerate(zip(self.words, self.tags, strict=True)):
            if len(words) != len(tags):
                raise ValueError(
                    f"tags of sentence {i}: expected one for each of {len(words)} words, "
                    f"got {len(tags)}"
                )

    @classmethod
    def of(cls, sentences: Iterable[Sentence], column: str = "upos") -> Tagged:
        """The words and one column of the sentences of a treebank, such as ``read_conllu`` gives.

        Args:
            sentences: of a treebank.
            column: with the tags.

        Raises:
            ValueError: a word has no tag, or there is no such column.
        """
        words, tags = [], []
        for i, sentence in enumerate(sentences):
            words.append(sentence.column("form"))
            tags.append(sentence.column(column))
            if "_" in tags[-1]:
                at = tags[-1].index("_")
                raise ValueError(
                    f"sentences: expected a tag in column {column!r} for every word, got '_' for "
                    f"{words[-1][at]!r}, word {at + 1} of sentence {i}"
                )
        return Tagged(words, tags)

    def __repr__(self) -> str:
        words = sum(map(len, self.words))
        return (
            f"{type(self).__name__}({len(self)} sentences, {words} words, {len(self.tagset)} tags)"
        )

    @property
    def tagset(self) -> list[str]:
        """The different tags, in alphabetical order."""
        return sorted({tag for sentence in self.tags for tag in sentence})


@dataclass(frozen=True, eq=False, repr=False)
class TurkishTreebank(Tagged):
    """The Turkish Web Treebank: sentences of the web and of Wikipedia, tagged by hand.

    A Turkish word may change its category as endings are added, and the treebank cuts it there
    into inflectional groups: açık-la-nma-yan, "unexplained", is NOUN, VERB, VERB, ADJ. Here a word
    is whole and has the tag of its last group, by which it takes its place in the sentence.

    Attributes:
        words: N lists of words.
        tags: N lists of tags, the coarse parts of speech.
        sections: N times ``web`` or ``wiki``.
        parts: N times ``train``, ``valid`` or ``test``, as the authors divide the sentences: of
            each ten of a section the ninth is for validation, the tenth for the test.
        sentences: the N sentences cut into groups; ``Tagged.of(sentences, "xpos")`` gives groups
            with fine parts of speech.

    Source: Kayadelen, Öztürel and Bohnet (2020), A Gold Standard Dependency Treebank for Turkish,
    LREC; the README of the repository turkish-treebanks for the division.

    Example:
        >>> from companion.data import load
        >>> treebank = load("turkish-treebank")
        >>> treebank
        TurkishTreebank(4851 sentences, 66466 words, 14 tags)
        >>> treebank.words[3][:3], treebank.tags[3][:3]
        (['İnternette', 'araştırdım', 'açıklayıcı'], ['NOUN', 'VERB', 'ADJ'])
        >>> [len(part) for part in treebank.split()]
        [3881, 485, 485]
    """

    sections: list[str]
    parts: list[str]
    sentences: list[Sentence]
    rows: ClassVar[tuple[str, ...]] = ("words", "tags", "sections", "parts", "sentences")

    def split(self, seed: int | None = None, valid: float = 0.1, test: float = 0.1) -> Split:
        """Divide the sentences into three disjoint parts.

        Args:
            seed: for a random division. Without one it is that of the authors, in the order of
                the file, and the shares have no part in it.
            valid: share of the sentences for validation.
            test: share of the sentences for the test.

        Returns:
            Split(train, valid, test).

        Raises:
            ValueError: a share is negative, or they leave nothing for training.
        """
        if seed is not None:
            return super().split(seed, valid, test)
        chosen = {part: [i for i, p in enumerate(self.parts) if p == part] for part in PARTS}
        return Split(
            *(
                self.subset(torch.tensor(rows, dtype=torch.int64, device="cpu"))
                for rows in chosen.values()
            )
        )


PARTS = ("train", "valid", "test")


def load_turkish_treebank() -> TurkishTreebank:
    """Read the vendored treebank: 4,851 sentences, 66,466 words."""
    folder = FILES / "turkish-treebank"
    sentences, sections, parts = [], [], []
    for section in ("web", "wiki"):
        for i, sentence in enumerate(read_conllu(folder / f"{section}.conllu.gz")):
            sentences.append(sentence)
            sections.append(section)
            parts.append("train" if i % 10 < 8 else "valid" if i % 10 == 8 else "test")
    whole = [_whole_words(sentence) for sentence in sentences]
    return TurkishTreebank(
        words=[words for words, _ in whole],
        tags=[tags for _, tags in whole],
        sections=sections,
        parts=parts,
        sentences=sentences,
    )


def _whole_words(sentence: Sentence) -> tuple[list[str], list[str]]:
    """Join the inflectional groups of a word; the relation ``ig`` ties one to the next."""
    words, tags, begun = [], [], ""
    for token in sentence.tokens:
        begun += token.form
        if token.deprel != "ig":
            words.append(begun)
            tags.append(token.upos)
            begun = ""
    return words, tags
