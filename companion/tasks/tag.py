"""``companion train tag``: a sentence in, a tag for each of its tokens out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.data.batching import pad
from companion.data.conllu import ConlluToken
from companion.data.vocabulary import build_vocab_from_iterator
from companion.models.sampling import evaluating
from companion.models.tagger import Tagger, tagging_objective
from companion.tasks.files import STDIN, FileError, Rows, ending_of
from companion.tasks.inputs import input_lines
from companion.tasks.known import check_labels, most_frequent
from companion.tasks.sentences import COLUMNS, read_sentences
from companion.tasks.settings import Settings, SettingsError
from companion.tasks.task import UNKNOWN, Parts, Request, RowBatches, Task, divide, vocabulary
from companion.tasks.units import SHAPES, shape_of
from companion.train.processes import Alone

__all__ = ["Tag"]

EXAMPLE = """\
FILE has a token a line, its tag in the last column (tabs or spaces between the columns, as many
columns in every line), and an empty line between sentences, as CoNLL files have; comments, such
as "# sent_id = 3" before a sentence, are passed over:

  The    DET
  rain   NOUN
  stops  VERB

  Go     VERB

A file whose name ends in .conllu is read as CoNLL-U, the tags from --column.

examples:
  python -m companion train tag sentences.conll
  python -m companion train tag tr.conllu --column xpos --cell gru
  python -m companion evaluate runs/sentences-tag other.conll
  echo "The rain stops" | python -m companion predict runs/sentences-tag

FILE may be -, the standard input. `predict` takes .conll and .conllu files too, and those that end
as the training file did; of standard input and of any other file a line is a sentence, its tokens
between spaces.

A tenth of the sentences is set aside for validation, a tenth for the test, unless they have files
of their own. The report compares the network with each word's most frequent tag.
"""


@dataclass(frozen=True)
class TagSettings(Settings):
    """What ``train tag`` can be told."""

    column: str = "upos"
    """Of CoNLL-U, the column with the tags: upos, xpos, deprel ..."""

    min_count: int = 2
    """Words that occur less often in training count as unknown; their endings still tell."""

    max_tokens: int = 50_000
    """Size of the vocabulary of words, at most; the rarest go first."""

    embedding_dim: int = 64
    """Size of a word's embedding; its last three letters have one of half the size."""

    bidirectional: bool = True
    """Whether a tag may depend on what follows."""

    epochs: int = 15
    """Passes over the training data, at most."""

    def __post_init__(self) -> None:
        """Raise ``SettingsError`` for what has no meaning."""
        super().__post_init__()
        if self.column not in ConlluToken._fields:
            known = ", ".join(ConlluToken._fields)
            raise SettingsError(f"--column: expected one of {known}, got {self.column!r}")

    def sizes(self) -> tuple[str, ...]:
        """The settings that are numbers of at least 1."""
        return (*super().sizes(), "min_count", "max_tokens", "embedding_dim")


@dataclass(frozen=True)
class TagKnown:
    """The vocabularies, the tags, each word's most frequent one, and how the file ended."""

    words: tuple[str, ...]
    endings: tuple[str, ...]
    tags: tuple[str, ...]
    usual: dict[str, str]
    most: str
    ending: str

    def __post_init__(self) -> None:
        """Raise ``SettingsError`` for what training cannot have found."""
        if not self.tags:
            raise SettingsError("tags: expected tags, got none")
        check_labels("tags", self.tags)
        strange = {self.most, *self.usual.values()} - set(self.tags)
        if strange:
            raise SettingsError(
                f"most, usual: expected some of the tags, got {min(strange)!r:.60}"
            )


class Tokens(NamedTuple):
    """A sentence."""

    words: list[str]
    tags: list[str]


class Tag(Task):
    """Tokens and tags."""

    name: ClassVar[str] = "tag"
    summary: ClassVar[str] = "a tag for each token: part of speech, name or not, any other"
    example: ClassVar[str] = EXAMPLE
    Settings: ClassVar[type[Settings]] = TagSettings
    Known: ClassVar[type[Any]] = TagKnown
    metric: ClassVar[str] = "accuracy"
    largest: ClassVar[bool] = True

    def __init__(self, settings: Any, known: Any, device: Any = None) -> None:
        self.vocabs = vocabulary(known.words, "words"), vocabulary(known.endings, "endings")
        self.number = {tag: n for n, tag in enumerate(known.tags)}
        super().__init__(settings, known, device)

    @classmethod
    def read(cls, path: str | Path, settings: Any, known: Any = None) -> Rows[Tokens]:
        """Read sentences with their tags."""
        sentences: Rows[Tokens] = Rows(path=path)
        trained = known.ending if known else None
        for lines, words, tags in read_sentences(path, settings.column, trained=trained):
            for line, tag in zip(lines, tags, strict=True):
                if known is not None and tag not in known.tags:
                    raise FileError(
                        path,
                        f"the tag {tag!r} is unknown; in training there were "
                        f"{', '.join(map(repr, known.tags[:40]))}",
                        line,
                    )
            sentences.append(Tokens(words, tags))
        tagset = {tag for sentence in sentences for tag in sentence.tags}
        if known is None and len(tagset) < 2:
            raise FileError(path, f"expected at least two tags, got only {tagset.pop()!r}")
        return sentences

    @classmethod
    def divide(cls, whole: Rows[Tokens], settings: Any) -> Parts:
        """Divide the sentences at random."""
        return divide(whole, settings, lambda sentence: sentence.tags, "sentences")

    @classmethod
    def learn(cls, train: Rows[Tokens], settings: Any) -> TagKnown:
        """Count words, endings and tags."""
        words = [[word.lower() for word in sentence.words] for sentence in train]
        vocab = build_vocab_from_iterator(
            words, settings.min_count, [UNKNOWN], max_tokens=max(settings.max_tokens, 2)
        )
        endings = build_vocab_from_iterator(
            ([word[-3:] for word in sentence] for sentence in words), 2, [UNKNOWN]
        )
        seen: dict[str, Counter[str]] = defaultdict(Counter)
        for sentence, row in zip(words, train, strict=True):
            for word, tag in zip(sentence, row.tags, strict=True):
                seen[word][tag] += 1
        whole = sum(seen.values(), Counter())
        return TagKnown(
            tuple(vocab.get_itos()),
            tuple(endings.get_itos()),
            tuple(sorted(whole)),
            {word: most_frequent(tags) for word, tags in sorted(seen.items())},
            most_frequent(whole),
            ending_of(train.path),
        )

    def make_model(self, device: Any) -> Tagger:
        """Embeddings of words, endings and shapes, a recurrence, scores."""
        s, known = self.settings, self.known
        model = Tagger(
            (len(known.words), len(known.endings), len(SHAPES)),
            len(known.tags),
            (s.embedding_dim, max(1, s.embedding_dim // 2), 8),
            s.hidden_size,
            s.cell,
            s.num_layers,
            s.bidirectional,
            s.dropout,
            device=device,
        )
        with torch.no_grad():
            for table in model.embeddings[:2]:
                table.get_parameter("weight")[0] = 0.0  # of what is unknown
        return model

    def features(self, words: Sequence[str]) -> Tensor:
        """(T, 3): word, ending and shape of each token."""
        small = [word.lower() for word in words]
        vocab, endings = self.vocabs
        rows = zip(
            vocab(small), endings([w[-3:] for w in small]), map(shape_of, words), strict=True
        )
        return torch.tensor(list(rows), dtype=torch.int64).reshape(len(words), 3)

    def batches(self, rows: list[Tokens], *, shuffle: bool, group: Alone) -> RowBatches:
        """Sentences of like lengths together."""
        pairs = [
            (self.features(row.words), torch.tensor([self.number[tag] for tag in row.tags]))
            for row in rows
        ]
        lengths = [len(row.words) for row in rows]
        s = self.settings
        return RowBatches(pairs, lengths, s.batch_size, shuffle, s.seed, collate, group.world)

    def objective(self, model: Any, *batch: Any) -> tuple[Any, ...]:
        """The cross-entropy a token."""
        return tagging_objective(model, batch[0])

    def describe(self, parts: Parts) -> str:
        """How much there is."""
        return (
            f"{len(self.known.words)} words, {len(self.known.tags)} tags; sentences: "
            + ", ".join(f"{len(p or ())} {n}" for n, p in parts._asdict().items())
        )

    @torch.no_grad()
    def logits(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Scores (T, C) of the tags of each sentence's tokens."""
        rows = [(self.features(words), torch.tensor([n])) for n, words in enumerate(sentences)]
        found: list[Tensor] = [torch.empty(0)] * len(rows)
        size = self.settings.batch_size
        lengths = [len(words) for words in sentences]
        with evaluating(self.model):
            for tokens, valid, which in RowBatches(rows, lengths, size, False, 0, collate):
                scores = self.model(tokens.to(self.device), valid).float().cpu()
                for n, row, length in zip(which[:, 0].tolist(), scores, valid, strict=True):
                    found[n] = row[:length]
        return found

    def measure(self, rows: list[Tokens]) -> dict[str, float]:
        """Accuracy and the cross-entropy, over tokens."""
        logits = torch.cat(self.logits([row.words for row in rows]))
        target = torch.tensor([self.number[tag] for row in rows for tag in row.tags])
        right = (logits.argmax(1) == target).double().mean()
        return {"accuracy": float(right), "loss": float(F.cross_entropy(logits, target))}

    def baselines(self, rows: list[Tokens]) -> dict[str, dict[str, float]]:
        """The most frequent tag of a word; of an unknown word, the most frequent of all."""
        pairs = [pair for row in rows for pair in zip(row.words, row.tags, strict=True)]
        usual, most = self.known.usual, self.known.most
        right = sum(usual.get(word.lower(), most) == tag for word, tag in pairs)
        always = sum(tag == most for _, tag in pairs)
        return {
            "usual tag of the word": {"accuracy": right / len(pairs)},
            f"always {most!r}": {"accuracy": always / len(pairs)},
        }

    def predict(
        self, path: str | Path, request: Request, warn: Callable[[str], None]
    ) -> Iterator[str]:
        """A token, a tab and its tag a line; an empty line after each sentence."""
        chunk = 1 if str(path) == STDIN else self.settings.batch_size
        for sentences in self._sentences(path, chunk, warn):
            answers = iter(self.logits([words for words in sentences if words]))
            for words in sentences:
                if words:
                    best = next(answers).argmax(1).tolist()
                    for word, n in zip(words, best, strict=True):
                        yield f"{word}\t{self.known.tags[n]}"
                yield ""

    def _sentences(
        self, path: str | Path, chunk: int, warn: Callable[[str], None]
    ) -> Iterator[list[list[str]]]:
        ending = ending_of(path)
        if ending in COLUMNS or (ending == self.known.ending and str(path) != STDIN):
            column, trained = self.settings.column, self.known.ending
            whole = [s.words for s in read_sentences(path, column, False, trained)]
            yield from (whole[i : i + chunk] for i in range(0, len(whole), chunk))
            return
        sentences: list[list[str]] = []
        for number, line in enumerate(input_lines(path), 1):
            if number == 1 and len(line.split()) > 1 and line.split()[-1] in self.number:
                warn(
                    f"line 1 ends in a tag, {line.split()[-1]!r}, but is read as a sentence; a "
                    "token and its tag a line is a file whose name ends in .conll"
                )
            sentences.append(line.split())
            if not sentences[-1]:
                warn(f"line {number} is empty: no prediction, an empty line stands in its place")
            if len(sentences) == chunk:
                yield sentences
                sentences = []
        if sentences:
            yield sentences


def collate(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (B, T, 3), their lengths, and tags (B, T); of no rows, tensors of none."""
    if not rows:
        empty = torch.zeros(0, 1, 3, dtype=torch.int64)
        return empty, torch.zeros(0, dtype=torch.int64), empty[..., 0]
    tokens, lengths = pad([features for features, _ in rows])
    return tokens, lengths, pad([tags for _, tags in rows])[0]
