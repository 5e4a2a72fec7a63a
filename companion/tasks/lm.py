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
from companion.data.streaming import StreamBatch, Streams, stream_batches
from companion.data.vocabulary import build_vocab_from_iterator
from companion.models.language_model import LanguageModel
from companion.models.likelihood import UNKNOWN as NOT_COUNTED
from companion.models.likelihood import bits, language_model_objective
from companion.models.sampling import check_sampling, evaluating
from companion.reproduce import check_seed
from companion.tasks.files import read_lines, read_text
from companion.tasks.inputs import input_lines
from companion.tasks.settings import Settings, SettingsError
from companion.tasks.task import UNKNOWN, Parts, Request, Task, vocabulary
from companion.train.metrics import perplexity
from companion.train.processes import Alone

__all__ = ["LanguageModelling"]

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
files of their own. The report compares the network with the frequencies of the tokens.
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


class Pieces:
    """The pieces of a process's streams; what is unknown and was not seen counts for nothing."""

    def __init__(self, streams: Streams, masked: bool) -> None:
        self.streams, self.masked = streams, masked

    def __len__(self) -> int:
        return len(self.streams)

    def __iter__(self) -> Iterator[StreamBatch]:
        return map(self._piece, self.streams)

    def _piece(self, batch: StreamBatch) -> StreamBatch:
        if not self.masked:
            return batch
        return batch._replace(y=batch.y.masked_fill(batch.y == 0, NOT_COUNTED))


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
        if len(known.tokens) != len(known.counts):
            raise SettingsError("expected a count for each token")
        self.vocab = vocabulary(known.tokens)
        super().__init__(settings, known, device)

    @classmethod
    def read(cls, path: str | Path, settings: Any, known: Any = None) -> list[str]:
        """Read a text as its tokens."""
        return tokens_of(read_text(path), settings.units)

    @classmethod
    def divide(cls, whole: list[str], settings: Any) -> Parts:
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
                    f"a text of {len(whole)} {settings.units} is too short to be divided; give "
                    "more of it, or --valid-share 0 --test-share 0"
                )
        return Parts(parts[0], parts[1] or None, parts[2] or None)

    @classmethod
    def learn(cls, train: list[str], settings: Any) -> LanguageModelKnown:
        """Count the tokens."""
        vocab = build_vocab_from_iterator(
            [train],
            min_freq=settings.min_count,
            specials=[UNKNOWN],
            max_tokens=max(settings.max_tokens, 2),
        )
        seen, tokens = Counter(train), vocab.get_itos()
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
            raise SettingsError(f"expected a text of at least 2 tokens, got {len(rows)}")
        whole = stream_batches(self.vocab(rows), size, s.steps)
        mine = Streams(whole.streams[group.rank :: group.world], s.steps, None)
        return Pieces(mine, masked=self.known.counts[0] == 0)

    def objective(self, model: Any, *batch: Any) -> tuple[Any, ...]:
        """The negative log-likelihood a token."""
        return language_model_objective(model, *batch)

    def describe(self, parts: Parts) -> str:
        """How much there is."""
        return f"{len(self.known.tokens)} different {self.settings.units}; length: " + ", ".join(
            f"{len(p or ()):,} {n}" for n, p in parts._asdict().items()
        )

    @torch.no_grad()
    def measure(self, rows: list[str]) -> dict[str, float]:
        """Perplexity, nats and bits a token, and the share of tokens that are unknown."""
        total, count, unknown, places, state = 0.0, 0, 0, 0, None
        with evaluating(self.model):
            for x, y, _ in self.batches(rows, shuffle=False, group=Alone(self.device)):
                unknown, places = unknown + int((y <= 0).sum()), places + y.numel()
                piece = StreamBatch(x.to(self.device), y.to(self.device), None)
                nll, tokens, state = self.objective(self.model, piece, state)
                total, count = total + nll.item() * tokens, count + tokens
        return _numbers(total / max(count, 1)) | {"unknown": unknown / places}

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
            raise SettingsError(str(error)) from error
        if request.tokens < 0:
            raise SettingsError(f"tokens: expected at least 0, got {request.tokens}")
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
                    top_k=request.top_k,
                    top_p=request.top_p,
                    generator=generator,
                )
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


def tokens_of(text: str, units: str, ended: bool = True) -> list[str]:
    r"""Cut a text into tokens; the end of a line is one.

    Args:
        text: one line or several.
        units: ``"words"`` or ``"characters"``.
        ended: whether the last line has an end, also where the text does not show it.

    Example:
        >>> tokens_of("a  bee\nsea", "words"), tokens_of("ab", "characters", ended=False)
        (['a', 'bee', '\n', 'sea', '\n'], ['a', 'b'])
    """
    if ended and not text.endswith("\n"):
        text += "\n"
    if units == "characters":
        return list(text)
    lines = text.split("\n")
    found = [token for line in lines[:-1] for token in (*line.split(), "\n")]
    return found + lines[-1].split()


def joined(tokens: Iterable[str], units: str, amid: bool) -> str:
    r"""Tokens as a text; ``amid``: it goes on in a line that has words already.

    Example:
        >>> joined(["bee", "\n", "sea"], "words", amid=True)
        ' bee\nsea'
    """
    if units == "characters":
        return "".join(tokens)
    text = ""
    for token in tokens:
        text += " " + token if amid and token != "\n" else token
        amid = token != "\n"
    return text


def _numbers(nll: float) -> dict[str, float]:
    return {"perplexity": perplexity(nll), "loss": nll, "bits": bits(nll)}
