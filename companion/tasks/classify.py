"""``companion train classify``: a text in, a label out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.data.batching import pad
from companion.data.tokenizing import basic_english
from companion.data.vocabulary import build_vocab_from_iterator
from companion.models.classifier import TextClassifier, classification_objective
from companion.models.sampling import evaluating
from companion.tasks.files import STDIN, FileError, Rows, ending_of, source_name
from companion.tasks.inputs import text_lines
from companion.tasks.known import check_counts, check_labels
from companion.tasks.settings import Settings, SettingsError, check_separator
from companion.tasks.tables import read_table
from companion.tasks.task import UNKNOWN, Parts, Request, RowBatches, Task, divide, vocabulary
from companion.train.processes import Alone

__all__ = ["Classify"]

EXAMPLE = """\
FILE is a table with a header: CSV (commas), TSV (tabs), or JSON Lines (an object a line), in
UTF-8. Two columns are read, by name; others may be there:

  text,label
  "It rained, again.",bad
  What a day!,good

examples:
  python -m companion train classify reviews.csv
  python -m companion train classify names.tsv --text name --label country --units characters
  python -m companion evaluate runs/reviews-classify other.csv
  echo "What a day!" | python -m companion predict runs/reviews-classify

FILE may be -, the standard input. `predict` takes such a table too; of standard input and of any
other file, such as .txt, it takes a text a line. (A table whose name ends otherwise is read with
commas, and `evaluate` and `predict` read files of that ending so, too.)

A tenth of the rows is set aside for validation, a tenth for the test, unless they have files of
their own. The report compares the network with always naming the most frequent label.
"""


@dataclass(frozen=True)
class ClassifySettings(Settings):
    """What ``train classify`` can be told."""

    text: str = "text"
    """Name of the column with the texts."""

    label: str = "label"
    """Name of the column with the labels."""

    separator: str | None = None
    """Between the columns; otherwise a tab in .tsv files, a comma in others."""

    units: Literal["words", "characters"] = "words"
    """What the network reads: lower-case words and marks, or characters as they are."""

    max_tokens: int = 20_000
    """Size of the vocabulary, at most; the rarest go first, and count as unknown."""

    embedding_dim: int = 64
    """Size of a token's embedding."""

    bidirectional: bool = True
    """Read the text in both directions."""

    pooling: Literal["last", "mean", "max", "attention"] = "max"
    """What is kept of the outputs of all tokens."""

    def __post_init__(self) -> None:
        """Raise ``SettingsError`` for what has no meaning."""
        super().__post_init__()
        check_separator(self.separator)
        if self.text == self.label:
            raise SettingsError(
                f"--text, --label: expected two columns, got {self.text!r} for both"
            )

    def sizes(self) -> tuple[str, ...]:
        """The settings that are numbers of at least 1."""
        return (*super().sizes(), "max_tokens", "embedding_dim")


@dataclass(frozen=True)
class ClassifyKnown:
    """The vocabulary, the labels, how often each was seen, and how the training file ended."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    ending: str

    def __post_init__(self) -> None:
        """Raise ``SettingsError`` for what training cannot have found."""
        if not self.labels or len(self.labels) != len(self.counts):
            raise SettingsError(
                "labels, counts: expected labels, and a count for each, got "
                f"{len(self.labels)} and {len(self.counts)}"
            )
        check_labels("labels", self.labels)
        check_counts("counts", self.counts)


class Example(NamedTuple):
    """A row of the file."""

    text: str
    label: str


class Classify(Task):
    """Texts and labels."""

    name: ClassVar[str] = "classify"
    summary: ClassVar[str] = "a label for each text: a table with a text and a label in each row"
    example: ClassVar[str] = EXAMPLE
    Settings: ClassVar[type[Settings]] = ClassifySettings
    Known: ClassVar[type[Any]] = ClassifyKnown
    metric: ClassVar[str] = "accuracy"
    largest: ClassVar[bool] = True

    def __init__(self, settings: Any, known: Any, device: Any = None) -> None:
        self.vocab = vocabulary(known.tokens)
        super().__init__(settings, known, device)

    @classmethod
    def read(cls, path: str | Path, settings: Any, known: Any = None) -> Rows[Example]:
        """Read texts and labels."""
        examples: Rows[Example] = Rows(path=path)
        wanted, trained = (settings.text, settings.label), known.ending if known else None
        for line, values in read_table(path, wanted, settings.separator, trained).rows:
            for name in (settings.text, settings.label):
                if not values[name].strip():
                    raise FileError(path, "expected a text, got an empty one", line, name)
            label = values[settings.label].strip()
            if any(mark in label for mark in "\t\n\r"):
                fault = f"expected a label without tabs and ends of line, got {label!r:.60}"
                raise FileError(path, fault, line, settings.label)
            if known is not None and label not in known.labels:
                raise FileError(
                    path,
                    f"the label {label!r} is unknown; in training there were "
                    f"{', '.join(map(repr, known.labels[:20]))}",
                    line,
                    settings.label,
                )
            examples.append(Example(values[settings.text], label))
        if known is None and len({e.label for e in examples}) < 2:
            raise FileError(
                path,
                f"expected at least two labels, got {examples[0].label!r} in every row",
                None,
                settings.label,
            )
        return examples

    @classmethod
    def divide(cls, whole: Rows[Example], settings: Any) -> Parts:
        """Divide the rows at random."""
        return divide(whole, settings, lambda row: [row.label])

    @classmethod
    def learn(cls, train: Rows[Example], settings: Any) -> ClassifyKnown:
        """Count tokens and labels."""
        cut = basic_english if settings.units == "words" else list
        vocab = build_vocab_from_iterator(
            (cut(row.text) for row in train),
            specials=[UNKNOWN],
            max_tokens=max(settings.max_tokens, 2),
        )
        counts = Counter(row.label for row in train)
        labels, tokens = tuple(sorted(counts)), tuple(vocab.get_itos())
        if len(tokens) < 2:
            raise SettingsError(
                f"{source_name(train.path)}: expected {settings.units} in the texts, got none in "
                f"{len(train)} rows"
            )
        numbers = tuple(counts[label] for label in labels)
        return ClassifyKnown(tokens, labels, numbers, ending_of(train.path))

    def make_model(self, device: Any) -> TextClassifier:
        """Embeddings, a recurrence, pooling, scores."""
        s = self.settings
        return TextClassifier(
            len(self.known.tokens),
            len(self.known.labels),
            s.embedding_dim,
            s.hidden_size,
            s.cell,
            s.num_layers,
            s.bidirectional,
            s.dropout,
            s.pooling,
            padding_idx=0,  # also that of unknown words, which so add nothing
            device=device,
        )

    def indices(self, text: str) -> list[int]:
        """The tokens of a text."""
        return self.vocab(basic_english(text) if self.settings.units == "words" else list(text))

    def batches(self, rows: list[Example], *, shuffle: bool, group: Alone) -> RowBatches:
        """Texts of like lengths together."""
        number = {label: n for n, label in enumerate(self.known.labels)}
        pairs = [(self.indices(row.text), number[row.label]) for row in rows]
        lengths = [len(text) for text, _ in pairs]
        s = self.settings
        return RowBatches(pairs, lengths, s.batch_size, shuffle, s.seed, collate, group.world)

    def objective(self, model: Any, *batch: Any) -> tuple[Any, ...]:
        """The cross-entropy."""
        return classification_objective(model, batch[0])

    def describe(self, parts: Parts) -> str:
        """How much there is, and how much of it training gives away."""
        texts = {row.text for row in parts.train}
        known = sum(row.text in texts for part in parts[1:] for row in part or ())
        return (
            f"{len(self.known.tokens)} {self.settings.units}, {len(self.known.labels)} labels; "
            "rows: "
            + ", ".join(f"{len(p or ())} {n}" for n, p in parts._asdict().items())
            + (f" ({known} of those set aside have a text that training has too)" if known else "")
        )

    @torch.no_grad()
    def logits(self, texts: Sequence[str]) -> Tensor:
        """Scores (N, C) of the labels of texts."""
        rows = [(self.indices(text), n) for n, text in enumerate(texts)]
        found = torch.zeros(len(rows), len(self.known.labels))
        lengths = [len(text) for text, _ in rows]
        size = self.settings.batch_size
        with evaluating(self.model):
            for tokens, valid, which in RowBatches(rows, lengths, size, False, 0, collate):
                found[which] = self.model(tokens.to(self.device), valid).float().cpu()
        return found

    def measure(self, rows: list[Example]) -> dict[str, float]:
        """Accuracy, macro F1 and the cross-entropy."""
        from companion.train.metrics import f1

        target = self._targets(rows)
        logits = self.logits([row.text for row in rows])
        predicted = logits.argmax(1)
        return {
            "accuracy": float((predicted == target).double().mean()),
            "macro_f1": f1(predicted, target, classes=len(self.known.labels)),
            "loss": float(F.cross_entropy(logits, target)),
        }

    def baselines(self, rows: list[Example]) -> dict[str, dict[str, float]]:
        """The most frequent label of the training, and the share of each as its probability."""
        from companion.train.metrics import f1

        counts = torch.tensor(self.known.counts, dtype=torch.float64)
        most, target = int(counts.argmax()), self._targets(rows)
        predicted = torch.full_like(target, most)
        loss = F.cross_entropy((counts / counts.sum()).log().expand(len(rows), -1), target)
        numbers = {
            "accuracy": float((predicted == target).double().mean()),
            "macro_f1": f1(predicted, target, classes=len(counts)),
            "loss": float(loss),
        }
        return {f"always {self.known.labels[most]!r}": numbers}

    def _targets(self, rows: list[Example]) -> Tensor:
        number = {label: n for n, label in enumerate(self.known.labels)}
        return torch.tensor([number[row.label] for row in rows])

    def predict(
        self, path: str | Path, request: Request, warn: Callable[[str], None]
    ) -> Iterator[str]:
        """A header, then for each text its label and the probability of every label."""
        yield "\t".join(["label", *self.known.labels])
        column, separator = self.settings.text, self.settings.separator
        chunk = 1 if str(path) == STDIN else self.settings.batch_size
        for texts in text_lines(path, column, separator, self.known.ending, chunk, warn):
            kept = [text for text in texts if text.strip()]
            answers = iter(self.logits(kept).softmax(1).tolist() if kept else [])
            for text in texts:
                if not text.strip():
                    yield ""
                    continue
                p = next(answers)
                best = self.known.labels[max(range(len(p)), key=p.__getitem__)]
                yield "\t".join([best, *(f"{value:.4f}" for value in p)])


def collate(rows: list[tuple[list[int], int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (B, T), their lengths, and labels; of no rows, tensors of none."""
    tokens, lengths = pad([torch.tensor(text, dtype=torch.int64) for text, _ in rows] or [[]])
    labels = torch.tensor([label for _, label in rows], dtype=torch.int64)
    return tokens[: len(rows)].long(), lengths[: len(rows)], labels
