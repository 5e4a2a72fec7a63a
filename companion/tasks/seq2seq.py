"""``companion train seq2seq``: a text in, another text out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import torch

from companion.data.vocabulary import build_vocab_from_iterator
from companion.models.attention_decoder import AttentionDecoder
from companion.models.decoder import Decoder
from companion.models.encoder import Encoder
from companion.models.generation import Translation
from companion.models.sampling import evaluating
from companion.models.seq2seq import Seq2Seq, seq2seq_objective
from companion.tasks.cutting import NAMES, Units, cut, joined, plain, scores, token_error
from companion.tasks.files import STDIN, FileError, Rows, ending_of, source_name
from companion.tasks.inputs import text_lines
from companion.tasks.known import most_frequent
from companion.tasks.nearest import Nearest, remembered
from companion.tasks.settings import Settings, SettingsError, check_separator
from companion.tasks.tables import read_table
from companion.tasks.task import UNKNOWN, Parts, Request, RowBatches, Task, divide, vocabulary
from companion.tasks.writing import Beams, collate, write
from companion.train.processes import Alone

__all__ = ["SequenceToSequence"]

EXAMPLE = """\
FILE is a table with a header: CSV (commas), TSV (tabs), or JSON Lines (an object a line), in
UTF-8. Two columns are read, by name; others may be there:

  source,target
  twenty-one,vingt et un
  eighty,quatre-vingts

examples:
  python -m companion train seq2seq numbers.csv
  python -m companion train seq2seq said.tsv --source word --target phones --target-tokens spaces
  python -m companion train seq2seq en-fr.tsv --source-tokens words --target-tokens words
  python -m companion evaluate runs/numbers-seq2seq other.csv --output written.tsv
  echo "twenty-two" | python -m companion predict runs/numbers-seq2seq --beam 4

A tenth of the rows is set aside for validation, a tenth for the test, unless they have files of
their own. The report compares the network with the most frequent target, with the source itself,
and with the target of the most similar source; for the last, model.safetensors keeps up to 5,000
rows of the training, and of long ones up to two million characters. BLEU and chrF are those of
sacrebleu, where the target's tokens are words.
"""
BREAKS = "\t\n\r"  # what is written is one field of a line


@dataclass(frozen=True)
class Seq2SeqSettings(Settings):
    """What ``train seq2seq`` can be told."""

    source: str = "source"
    """Name of the column with the texts to read."""

    target: str = "target"
    """Name of the column with the texts to write."""

    separator: str | None = None
    """Between the columns; otherwise a tab in .tsv files, a comma in others."""

    source_tokens: Units = "characters"
    """What is read one by one: characters, words and marks, or what stands between spaces."""

    target_tokens: Units = "characters"
    """What is written one by one."""

    min_count: int = 2
    """Tokens that occur less often in training are all the same one, unknown; never written."""

    max_tokens: int = 20_000
    """Size of each vocabulary, at most; the rarest go first."""

    embedding_dim: int = 64
    """Size of a token's embedding."""

    bidirectional: bool = True
    """Read the source in both directions."""

    attention: Literal["general", "additive", "dot", "none"] = "general"
    """How the writer looks back at the source; none: its first state is all it knows."""

    def __post_init__(self) -> None:
        """Raise ``SettingsError`` for what has no meaning."""
        super().__post_init__()
        check_separator(self.separator)
        if self.attention == "dot" and self.bidirectional:
            raise SettingsError(
                "--attention dot: expected --no-bidirectional, so that reader and writer have "
                "states of one size; or take --attention general"
            )
        if self.source == self.target:
            raise SettingsError(f"--target: expected another column than {self.source!r}")

    def sizes(self) -> tuple[str, ...]:
        """The settings that are numbers of at least 1."""
        return (*super().sizes(), "min_count", "max_tokens", "embedding_dim")


@dataclass(frozen=True)
class Seq2SeqKnown:
    """The vocabularies, what the baselines remember, and how the training file ended."""

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    longest: int
    most: str
    memory: dict[str, str]
    ending: str

    def __post_init__(self) -> None:
        """Raise ``SettingsError`` for what training cannot have found."""
        if any(mark in token for token in self.target_tokens for mark in BREAKS):
            raise SettingsError("target_tokens: expected them without tabs and ends of line")
        for mark in "".join(self.target_tokens):
            if "\ud800" <= mark <= "\udfff":  # no output can hold it
                raise SettingsError(
                    f"target_tokens: expected text, got half a character, {mark!r}"
                )
        if not 1 <= self.longest < 2**20:
            raise SettingsError(f"longest: expected at least 1, below 2**20, got {self.longest}")


class Pair(NamedTuple):
    """A row of the file."""

    source: str
    target: str


class SequenceToSequence(Task):
    """Texts and what becomes of them."""

    name: ClassVar[str] = "seq2seq"
    summary: ClassVar[str] = "a text for each text: translations, spellings, any rewriting"
    example: ClassVar[str] = EXAMPLE
    Settings: ClassVar[type[Settings]] = Seq2SeqSettings
    Known: ClassVar[type[Any]] = Seq2SeqKnown
    metric: ClassVar[str] = "token_error"
    largest: ClassVar[bool] = False
    requests: ClassVar[tuple[str, ...]] = ("beam", "n_best", "length_penalty", "log_prob")
    model: Seq2Seq

    def __init__(self, settings: Any, known: Any, device: Any = None) -> None:
        self.vocabs = (
            vocabulary(known.source_tokens, "source_tokens"),
            vocabulary(known.target_tokens, "target_tokens"),
        )
        super().__init__(settings, known, device)

    @classmethod
    def read(cls, path: str | Path, settings: Any, known: Any = None) -> Rows[Pair]:
        """Read sources and targets."""
        names, pairs = (settings.source, settings.target), Rows[Pair](path=path)
        trained = known.ending if known else None
        for line, values in read_table(path, names, settings.separator, trained).rows:
            for name in names:
                if not values[name].strip():
                    raise FileError(path, "expected a text, got an empty one", line, name)
            source = plain(values[settings.source], settings.source_tokens)
            target = plain(values[settings.target], settings.target_tokens)
            if any(mark in target for mark in BREAKS):
                fault = f"expected a text without tabs and ends of line, got {target!r:.60}"
                raise FileError(path, fault, line, settings.target)
            pairs.append(Pair(source, target))
        return pairs

    @classmethod
    def divide(cls, whole: Rows[Pair], settings: Any) -> Parts:
        """Divide the rows at random."""
        return divide(whole, settings, lambda row: ["any"], "pairs")

    @classmethod
    def learn(cls, train: Rows[Pair], settings: Any) -> Seq2SeqKnown:
        """Count tokens, and remember some of the pairs."""
        tables = []
        for side, (name, units) in enumerate(
            ((settings.source, settings.source_tokens), (settings.target, settings.target_tokens))
        ):
            table = build_vocab_from_iterator(
                (cut(row[side], units) for row in train),
                settings.min_count,
                [UNKNOWN],
                max_tokens=max(settings.max_tokens, 2),
            )
            if len(table) < 2:
                raise SettingsError(
                    f"{source_name(train.path)}, column {name!r}: no token occurs --min-count "
                    f"{settings.min_count} times in the {len(train)} rows of the training"
                )
            tables.append(tuple(table.get_itos()))
        return Seq2SeqKnown(
            tables[0],
            tables[1],
            max(len(cut(row.target, settings.target_tokens)) for row in train),
            most_frequent(Counter(row.target for row in train)),
            remembered(train, settings.seed),
            ending_of(train.path),
        )

    def make_model(self, device: Any) -> Seq2Seq:
        """Encoder, bridge, and a decoder with attention or without."""
        s, known = self.settings, self.known
        size = len(known.target_tokens)  # BOS and EOS come after the tokens of texts
        encoder = Encoder(
            len(known.source_tokens),
            s.embedding_dim,
            s.hidden_size,
            s.cell,
            s.num_layers,
            s.bidirectional,
            s.dropout,
            device=device,
        )
        shared: dict[str, Any] = {
            "embedding_dim": s.embedding_dim,
            "hidden_size": s.hidden_size,
            "cell": s.cell,
            "num_layers": s.num_layers,
            "dropout": s.dropout,
            "device": device,
        }
        decoder = (
            Decoder(size + 2, **shared)
            if s.attention == "none"
            else AttentionDecoder(size + 2, encoder.output_size, attention=s.attention, **shared)
        )
        with torch.no_grad():
            for part in (encoder, decoder):
                part.embedding.weight[0] = 0.0  # of what is unknown
        return Seq2Seq(encoder, decoder, bos=size, eos=size + 1)

    def indices(self, text: str, side: int) -> list[int]:
        """The tokens of a source (0) or a target (1)."""
        units = (self.settings.source_tokens, self.settings.target_tokens)[side]
        return self.vocabs[side](cut(text, units))

    def batches(self, rows: list[Pair], *, shuffle: bool, group: Alone) -> RowBatches:
        """Pairs of like lengths together."""
        pairs = [(self.indices(row.source, 0), self.indices(row.target, 1)) for row in rows]
        lengths = [len(source) + len(target) for source, target in pairs]
        s = self.settings
        return RowBatches(pairs, lengths, s.batch_size, shuffle, s.seed, collate, group.world)

    def objective(self, model: Any, *batch: Any) -> tuple[Any, ...]:
        """The cross-entropy a token, EOS among them, with the right tokens before it."""
        return seq2seq_objective(model, batch[0])

    def describe(self, parts: Parts) -> str:
        """How much there is, and how much of it training gives away."""
        s, known = self.settings, self.known
        sources = {row.source for row in parts.train}
        again = sum(row.source in sources for part in parts[1:] for row in part or ())
        return (
            f"{len(known.source_tokens)} {NAMES[s.source_tokens]} to read, "
            f"{len(known.target_tokens)} {NAMES[s.target_tokens]} to write; pairs: "
            + ", ".join(f"{len(p or ())} {n}" for n, p in parts._asdict().items())
            + (
                f" ({again} of those set aside have a source that training has too)"
                if again
                else ""
            )
        )

    def write(self, sources: Sequence[str], beams: Beams | None = None) -> list[list[Translation]]:
        """What becomes of each source, best first."""
        rows = [self.indices(text, 0) for text in sources]
        most = self.known.longest + self.known.longest // 2 + 1
        return write(self.model, rows, most, self.settings.batch_size, beams or Beams())

    def text(self, written: Translation) -> str:
        """The tokens that were written, as a text."""
        return joined(self.vocabs[1].lookup_tokens(written.tokens), self.settings.target_tokens)

    @torch.no_grad()
    def measure(self, rows: list[Pair]) -> dict[str, float]:
        """Of what is written, the likeliest token each time; and the loss of the right texts."""
        written = [self.text(best) for best, *_ in self.write([row.source for row in rows])]
        total, count, unknown = 0.0, 0, 0
        with evaluating(self.model):
            for batch in self.batches(rows, shuffle=False, group=Alone(self.device)):
                loss, tokens, _ = self.objective(self.model, [x.to(self.device) for x in batch])
                total, count = total + float(loss) * tokens, count + tokens
        for row in rows:
            unknown += self.indices(row.target, 1).count(0)
        right = [row.target for row in rows]
        return scores(written, right, self.settings.target_tokens) | {
            "loss": total / count,
            "unknown": unknown / (count - len(rows)),
        }

    def baselines(self, rows: list[Pair]) -> dict[str, dict[str, float]]:
        """One target for all, the source itself, and the target of the most similar source."""
        units, right = self.settings.target_tokens, [row.target for row in rows]
        ways: dict[str, Callable[[str], str]] = {
            "most frequent target": lambda source: self.known.most,
            "the source itself": lambda source: plain(source, units),
            "most similar source": Nearest(self.known.memory, self.known.most),
        }
        return {
            name: scores([way(row.source) for row in rows], right, units)
            for name, way in ways.items()
        }

    def predict(
        self, path: str | Path, request: Request, warn: Callable[[str], None]
    ) -> Iterator[str]:
        """For each text what becomes of it; further ones and log-probabilities after tabs."""
        beams = Beams.of(request)
        s, ending, number = self.settings, self.known.ending, 0
        chunk = 1 if str(path) == STDIN else s.batch_size
        for texts in text_lines(path, s.source, s.separator, ending, chunk, warn):
            sources = [plain(text, s.source_tokens) for text in texts]
            answers = iter(self.write([x for x in sources if x], beams))
            for source in sources:
                number += 1
                found = next(answers) if source else []
                self._notes(source, found, number, warn)
                cells = []
                for one in found:
                    cells += [self.text(one), *([f"{one.log_prob:.4f}"] * request.log_prob)]
                yield "\t".join(cells)

    def _notes(
        self, source: str, found: list[Translation], number: int, warn: Callable[[str], None]
    ) -> None:
        tokens = dict.fromkeys(cut(source, self.settings.source_tokens))
        strange = [token.strip() or token for token in tokens if token not in self.vocabs[0]]
        if strange:
            warn(f"text {number}: unknown in training: {', '.join(map(repr, strange[:10]))}")
        if found and not found[0].finished:
            warn(f"text {number}: broken off after {len(found[0].tokens)} tokens, without an end")

    def details(self, path: str | Path) -> Iterator[str]:
        """For each row whether it is right, its edits for each token, and the texts."""
        rows = self.read(path, self.settings, self.known)
        yield "exact\ttoken_error\tsource\ttarget\twritten"
        for row, (best, *_) in zip(rows, self.write([row.source for row in rows]), strict=True):
            text = self.text(best)
            edits = token_error([text], [row.target], self.settings.target_tokens)
            source = " ".join(row.source.split())
            yield f"{int(text == row.target)}\t{edits:.4f}\t{source}\t{row.target}\t{text}"
