"""``companion train lm``: a text in, what may come next out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.data.batching import pad
from companion.data.streaming import StreamBatch
from companion.data.vocabulary import build_vocab_from_iterator
from companion.models.language_model import LanguageModel
from companion.models.likelihood import UNKNOWN as NOT_COUNTED
from companion.models.likelihood import bits, language_model_objective
from companion.models.sampling import check_sampling, evaluating
from companion.reproduce import check_seed
from companion.tasks.files import FileError, Rows, read_lines, read_text, source_name
from companion.tasks.inputs import input_lines
from companion.tasks.known import check_counts
from companion.tasks.pieces import Pieces, side_by_side
from companion.tasks.settings import Settings, SettingsError, as_option
from companion.tasks.task import UNKNOWN, Parts, Request, Task, vocabulary
from companion.tasks.units import all_unknown, joined, tokens_of
from companion.train.metrics import perplexity
from companion.train.processes import Alone

__all__ = ["LanguageModelling"]

MOST = 10_000_000  # tokens of a continuation, which is held in memory

EXAMPLE = """\
FILE is plain text in UTF-8, of any kind; the more, the better: 100 kB or so at least.

  It was the best of times,
  it was the worst of times,

examples:
  python -m companion train lm novel.txt
  python -m companion train lm novel.txt --units words --epochs 10
  python -m companion evaluate runs/novel-lm other.txt --output perplexity-of-each-line.tsv
  echo "It was" | python -m companion predict runs/novel-lm --temperature 0.7 --seed 1

The last tenth of the text is for the test, the tenth before it for validation, unless they have
files of their own. The report compares the network with the frequencies of the tokens, and says
what share of them is unknown. FILE may be -, the standard input.
"""


@dataclass(frozen=True)
class LanguageModelSettings(Settings):
    """What ``train lm`` can be told."""

    units: Literal["words", "characters"] = "characters"
    """What the network reads: what stands between spaces, or characters; an end of line is one."""

    min_count: int = 2
    """Tokens that occur less often in training are all the same one, unknown."""

    max_tokens: int = 20_000
    """Size of the vocabulary, at most; the rarest go first."""

    embedding_dim: int = 128
    """Size of a token's embedding; the output reads the same table."""

    steps: int = 64
    """Tokens of a piece of text: the gradient reaches no further back, the state does."""

    hidden_size: int = 256
    """Hidden units of each layer."""

    batch_size: int = 32
    """Stretches of the text read side by side, of all processes; a short text has fewer."""

    epochs: int = 15
    """Passes over the training data, at most."""

    def sizes(self) -> tuple[str, ...]:
        """The settings that are numbers of at least 1."""
        return (*super().sizes(), "min_count", "max_tokens", "embedding_dim", "steps")


@dataclass(frozen=True)
class LanguageModelKnown:
    """The vocabulary, and how often each token was seen in training."""

    tokens: tuple[str, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        """Raise ``SettingsError`` for what training cannot have found."""
        if len(self.tokens) != len(self.counts) or len(self.tokens) < 2:
            raise SettingsError(
                "tokens, counts: expected two tokens or more, and a count for each, got "
                f"{len(self.tokens)} and {len(self.counts)}"
            )
        check_counts("counts", self.counts[:1], 0)  # that of unknown ones
        check_counts("counts", self.counts[1:])


class LanguageModelling(Task):
    """A text and its next token."""

    name: ClassVar[str] = "lm"
    summary: ClassVar[str] = "what comes next in a text, by characters or words"
    example: ClassVar[str] = EXAMPLE
    Settings: ClassVar[type[Settings]] = LanguageModelSettings
    Known: ClassVar[type[Any]] = LanguageModelKnown
    metric: ClassVar[str] = "perplexity"
    largest: ClassVar[bool] = False
    stateful: ClassVar[bool] = True
    requests: ClassVar[tuple[str, ...]] = ("tokens", "temperature", "top_k", "top_p", "seed")
    model: LanguageModel

    def __init__(self, settings: Any, known: Any, device: Any = None) -> None:
        self.vocab = vocabulary(known.tokens)
        super().__init__(settings, known, device)

    @classmethod
    def read(cls, path: str | Path, settings: Any, known: Any = None) -> Rows[str]:
        """Read a text as its tokens."""
        tokens = Rows(tokens_of(read_text(path), settings.units), path)
        strange = 0 if known is None else all_unknown(tokens, set(known.tokens))
        if strange:
            raise FileError(
                path,
                f"expected some {settings.units} that training had, got {strange:,} that are all "
                "unknown",
            )
        return tokens

    @classmethod
    def divide(cls, whole: Rows[str], settings: Any) -> Parts:
        """Cut the text: what comes first is for training, what comes last for the test."""
        shares = (
            0.0 if settings.valid_file else settings.valid_share,
            0.0 if settings.test_file else settings.test_share,
        )
        valid, test = (round(len(whole) * share) for share in shares)
        first, second = len(whole) - valid - test, len(whole) - test
        parts = whole[:first], whole[first:second], whole[second:]
        for part, wanted in zip(parts, (1.0, *shares), strict=True):
            if wanted and len(part) < 2:
                raise SettingsError(
                    f"{source_name(whole.path)}: a text of {len(whole)} {settings.units} is too "
                    "short to be divided; give more of it, or --valid-share 0 --test-share 0"
                )
        train, *others = (Rows(part, whole.path) for part in parts)
        return Parts(train, *(part or None for part in others))

    @classmethod
    def learn(cls, train: Rows[str], settings: Any) -> LanguageModelKnown:
        """Count the tokens."""
        vocab = build_vocab_from_iterator(
            [train],
            min_freq=settings.min_count,
            specials=[UNKNOWN],
            max_tokens=max(settings.max_tokens, 2),
        )
        seen, tokens = Counter(train), vocab.get_itos()
        if len(tokens) < 2:
            raise SettingsError(
                f"{source_name(train.path)}: expected {settings.units} that occur "
                f"{settings.min_count} times or more in training, got none among {len(seen):,} "
                "different ones; give more text, or a smaller "
                "--min-count"
            )
        counts = [seen[token] for token in tokens[1:]]
        return LanguageModelKnown(tuple(tokens), (len(train) - sum(counts), *counts))

    def make_model(self, device: Any) -> LanguageModel:
        """Embeddings, layers, and the same embeddings again."""
        s = self.settings
        return LanguageModel(
            len(self.known.tokens),
            s.embedding_dim,
            s.hidden_size,
            s.cell,
            s.num_layers,
            dropout=s.dropout,
            device=device,
        )

    def batches(self, rows: list[str], *, shuffle: bool, group: Alone) -> Pieces:
        """Streams side by side, each process has its own, or none. They have an order to keep."""
        s = self.settings
        size = max(1, min(s.batch_size, len(rows) // (8 * s.steps)))  # so that a stream has pieces
        if len(rows) < 2:
            raise SettingsError(f"expected a text of at least 2 {s.units}, got {len(rows)}")
        tokens = torch.tensor(self.vocab(rows), dtype=torch.int64)
        if all_unknown(rows, self.vocab) or not tokens[1:].any():
            raise SettingsError(
                f"expected some {s.units} that training has, got a part of {len(rows):,} that are "
                "all unknown"
            )
        mine = side_by_side(tokens, size)[group.rank :: group.world]
        return Pieces(mine, s.steps, masked=self.known.counts[0] == 0)

    def objective(self, model: Any, *batch: Any) -> tuple[Any, ...]:
        """The negative log-likelihood a token."""
        return language_model_objective(model, *batch)

    def describe(self, parts: Parts) -> str:
        """How much there is."""
        counts = self.known.counts
        return (
            f"{len(self.known.tokens)} different {self.settings.units}; length: "
            + ", ".join(f"{len(p or ()):,} {n}" for n, p in parts._asdict().items())
            + (f"; {counts[0] / sum(counts):.1%} of training are unknown" if counts[0] else "")
        )

    @torch.no_grad()
    def measure(self, rows: list[str]) -> dict[str, float]:
        """Perplexity, nats and bits a token, and the share of tokens that are unknown."""
        total, count, state = 0.0, 0, None
        with evaluating(self.model):
            for x, y, _ in self.batches(rows, shuffle=False, group=Alone(self.device)):
                piece = StreamBatch(x.to(self.device), y.to(self.device), None)
                nll, tokens, state = self.objective(self.model, piece, state)
                total, count = total + nll.item() * tokens, count + tokens
        unknown = self.vocab(rows).count(0) / len(rows)
        return _numbers(total / max(count, 1)) | {"unknown": unknown}

    def baselines(self, rows: list[str]) -> dict[str, dict[str, float]]:
        """Each token by its frequency in training, whatever came before it."""
        counts = torch.tensor(self.known.counts, dtype=torch.float64)
        score = (counts / counts.sum()).log()
        pieces = self.batches(rows, shuffle=False, group=Alone(self.device))
        targets = torch.cat([y.flatten() for _, y, _ in pieces])
        targets = targets[targets != NOT_COUNTED]
        return {"frequencies": _numbers(-float(score[targets].sum()) / max(len(targets), 1))}

    def predict(
        self, path: str | Path, request: Request, warn: Callable[[str], None]
    ) -> Iterator[str]:
        """Each line and its continuation; an empty line between two of them."""
        try:
            check_sampling(request.temperature, request.top_k, request.top_p)
            check_seed(request.seed)
        except (TypeError, ValueError) as error:
            fault = str(error).replace("seed must be in", "seed: expected")
            raise SettingsError(as_option(ValueError(fault), request)) from error
        if not 0 <= request.tokens <= MOST:
            limit = "at least 0" if request.tokens < 0 else f"at most {MOST}"
            raise SettingsError(f"--tokens: expected {limit}, got {request.tokens!s:.40}")
        for number, line in enumerate(input_lines(path), 1):
            tokens = tokens_of(line, self.settings.units, ended=False)
            strange = [token for token in dict.fromkeys(tokens) if token not in self.vocab]
            if strange:
                warn(f"line {number}: unknown in training: {', '.join(map(repr, strange[:10]))}")
            if number > 1:
                yield ""
            drawn = self._drawn(["\n", *tokens], request, number - 1)
            yield line + joined(drawn, self.settings.units, bool(tokens))

    def _drawn(self, prompt: list[str], request: Request, number: int) -> list[str]:
        """The tokens that follow; never an unknown one. Each line has its own generator."""
        generator = torch.Generator(self.device).manual_seed(request.seed + number)
        bias = self.model.bias
        kept = bias.detach()[0].clone()
        with torch.no_grad():
            bias[0] = -torch.inf
            try:
                drawn = self.model.sample(
                    torch.tensor(self.vocab(prompt), device=self.device),
                    request.tokens,
                    temperature=request.temperature,
                    top_k=None if request.top_k is None else min(request.top_k, len(bias)),
                    top_p=request.top_p,
                    generator=generator,
                )
            except ValueError as error:  # the request and the prompt are checked
                raise SettingsError(f"the network gives no probabilities: {error}") from error
            finally:
                bias[0] = kept
        return self.vocab.lookup_tokens(drawn.tolist())

    def details(self, path: str | Path) -> Iterator[str]:
        """For each line its perplexity, read by itself, its number of tokens, and the line."""
        yield "perplexity\ttokens\tline"
        lines, size = read_lines(path), self.settings.batch_size
        for start in range(0, len(lines), size):
            chunk = lines[start : start + size]
            for line, (nll, count) in zip(chunk, self._likelihoods(chunk), strict=True):
                yield (
                    f"{perplexity(nll / count):.4f}\t{count}\t{line}" if count else f"\t0\t{line}"
                )

    @torch.no_grad()
    def _likelihoods(self, lines: Iterable[str]) -> list[tuple[float, int]]:
        """The negative log-likelihood of each line with its end, and how many tokens count."""
        rows = [self.vocab(["\n", *tokens_of(line, self.settings.units)]) for line in lines]
        tokens, lengths = pad(rows)
        x, y = tokens[:, :-1].to(self.device), tokens[:, 1:]
        y = y.masked_fill(torch.arange(y.shape[1]) >= (lengths - 1)[:, None], NOT_COUNTED)
        if self.known.counts[0] == 0:
            y = y.masked_fill(y == 0, NOT_COUNTED)
        with evaluating(self.model):
            logits, _ = self.model(x, lengths=lengths - 1)
        nll: Tensor = F.cross_entropy(
            logits.float().cpu().transpose(1, 2), y, ignore_index=NOT_COUNTED, reduction="none"
        )
        return list(zip(nll.sum(1).tolist(), (y != NOT_COUNTED).sum(1).tolist(), strict=True))


def _numbers(nll: float) -> dict[str, float]:
    return {"perplexity": perplexity(nll), "loss": nll, "bits": bits(nll)}
