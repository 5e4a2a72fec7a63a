"""Writing without a target: greedy, by chance, and by beam search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from companion.checks import check_generator, check_number, check_size, check_sizes
from companion.models.decoder import Written
from companion.models.sampling import (
    check_logits,
    check_sampling,
    evaluating,
    next_token_probabilities,
    wide,
)
from companion.models.seq2seq import Seq2Seq

__all__ = ["Translation", "beam_search", "generate"]


class Translation(NamedTuple):
    """What a model wrote for one source.

    Attributes:
        tokens: without BOS and EOS.
        log_prob: log-probability of the tokens, and of EOS if it is finished.
        score: what a beam search ranks by; else the log-probability.
        finished: whether the model ended it; else it met the maximum length.
        weights: of attention, (steps, S), one row for each token and for EOS; or None.
    """

    tokens: list[int]
    log_prob: float
    score: float
    finished: bool
    weights: Tensor | None


@torch.no_grad()
def generate(
    model: Seq2Seq,
    source: Tensor,
    lengths: Tensor | Sequence[int] | None = None,
    max_length: int = 100,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> list[Translation]:
    """Write one token after another; each is the likeliest, or drawn.

    A row that has written EOS is left alone; what a row writes does not depend on the others
    (if tokens are drawn, on how many there are).

    Args:
        model: in evaluation mode while it writes, then in its own again.
        source: integers (B, S).
        lengths: (B,); default: all.
        max_length: steps at most, EOS included.
        temperature, top_k, top_p: of :func:`next_token_probabilities`; at temperature 0 the
            likeliest token is taken ("greedy").
        generator: draws, on the device of the model; default: torch's own.

    Returns:
        B translations.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape or values.

    Example:
        >>> from companion.models import Decoder, Encoder
        >>> model = Seq2Seq(Encoder(9, 4, 4, bidirectional=False), Decoder(9, 4, 4), bos=0, eos=1)
        >>> with torch.no_grad():
        ...     model.decoder.output.bias[1] = 99  # EOS at once
        >>> generate(model, torch.full((1, 3), 5))[0].tokens
        []
    """
    check_size("max_length", max_length)
    check_sampling(temperature, top_k, top_p)
    check_generator(generator)
    with evaluating(model):
        written = model.begin(source, lengths)
        B = len(written.encoded.memory)
        rows = torch.arange(B, device=source.device)
        token = torch.full_like(rows, model.bos)
        tokens: list[list[int]] = [[] for _ in range(B)]
        log_probs, looks = [0.0] * B, [list[Tensor]() for _ in range(B)]
        finished = [False] * B
        for _ in range(max_length):
            if not len(rows):
                break
            logits, weights, written = model.decoder.step(token, written)
            p = next_token_probabilities(logits, temperature, top_k, top_p)
            token = (
                torch.multinomial(p, 1, generator=generator)[:, 0] if temperature else p.argmax(-1)
            )
            gained = logits.log_softmax(-1).gather(1, token[:, None])[:, 0].tolist()
            for n, (row, y) in enumerate(zip(rows.tolist(), token.tolist(), strict=True)):
                log_probs[row] += gained[n]
                if weights is not None:
                    looks[row].append(weights[n])
                if y == model.eos:
                    finished[row] = True
                else:
                    tokens[row].append(y)
            going = (token != model.eos).nonzero()[:, 0]
            if len(going) < len(rows):
                rows, token, written = rows[going], token[going], written.select(going)
    return [
        Translation(t, lp, lp, f, torch.stack(w) if w else None)
        for t, lp, f, w in zip(tokens, log_probs, finished, looks, strict=True)
    ]


class _Beam(NamedTuple):
    """A hypothesis that goes on."""

    tokens: tuple[int, ...]
    log_prob: float
    looks: tuple[Tensor, ...]


@torch.no_grad()
def beam_search(
    model: Seq2Seq,
    source: Tensor,
    lengths: Tensor | Sequence[int] | None = None,
    max_length: int = 100,
    *,
    beam: int = 4,
    length_penalty: float = 0.0,
    coverage_penalty: float = 0.0,
    n_best: int = 1,
) -> list[list[Translation]]:
    r"""Keep the best unfinished hypotheses of every length, and rank those that end.

    .. math::

        \text{score}(y) = \frac{\log p(y \mid x)}{((5 + |y|) / 6)^a}
        + b \sum_s \log \min\Bigl( \sum_t \alpha_{ts},\, 1 \Bigr)

    with :math:`|y|` counting EOS, over the valid steps s of the source. A row stops when no
    unfinished hypothesis can still beat the worst of the ``n_best`` that are finished: its
    log-probability can only fall and its length not pass the maximum, so that its score stays
    below :math:`\log p / ((5 + L) / 6)^a`. Stopping at the first that ends, or when ``beam``
    have ended, would be too early.

    Args:
        model: in evaluation mode while it writes, then in its own again.
        source: integers (B, S).
        lengths: (B,); default: all.
        max_length: :math:`L`, steps at most, EOS included.
        beam: hypotheses that go on at each length.
        length_penalty: a; 0 ranks by log-probability, which favors short ones.
        coverage_penalty: b; only with attention.
        n_best: how many to return for each source.

    Returns:
        for each source its translations, best first, finished ones before those that met the
        maximum length; there may be fewer than ``n_best``.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape or values.

    Source:
        Wu et al. (2016), section 7, with :math:`\alpha` and :math:`\beta` for a and b.

    Example:
        >>> from companion.models import Decoder, Encoder
        >>> model = Seq2Seq(Encoder(9, 4, 4, bidirectional=False), Decoder(3, 4, 4), bos=0, eos=1)
        >>> found = beam_search(model, torch.full((1, 3), 5), max_length=2, beam=9, n_best=9)[0]
        >>> [t.tokens for t in found if t.finished] in ([[], [0], [2]], [[], [2], [0]])
        True
    """
    check_sizes(max_length=(max_length, 1), beam=(beam, 1), n_best=(n_best, 1))
    for name, value in (
        ("length_penalty", length_penalty),
        ("coverage_penalty", coverage_penalty),
    ):
        check_number(name, value)
        if value < 0:
            raise ValueError(f"{name}: expected at least 0, got {value}")
    if coverage_penalty and not hasattr(model.decoder, "attention"):
        raise ValueError("coverage_penalty: expected 0 for a decoder without attention")

    rank = _Rank(length_penalty, coverage_penalty, max_length, n_best)
    with evaluating(model):
        written = model.begin(source, lengths)
        valid = written.encoded.valid
        going = {row: [_Beam((), 0.0, ())] for row in range(len(valid))}
        ended: dict[int, list[Translation]] = {row: [] for row in going}
        for _ in range(max_length):
            if not going:
                break
            written, log_p, weights = _advance(model, going, written)
            first, kept = 0, []
            for row, beams in list(going.items()):
                mine = slice(first, first + len(beams))
                looks = [()] * len(beams) if weights is None else [(w,) for w in weights[mine]]
                total = log_p[mine] + log_p.new_tensor([[b.log_prob] for b in beams])
                for b, look, end in zip(beams, looks, total[:, model.eos].tolist(), strict=True):
                    if end > -math.inf:
                        done = _Beam(b.tokens, end, (*b.looks, *look))
                        ended[row].append(rank.translation(done, True, valid[row]))
                ended[row] = rank.best(ended[row])
                total[:, model.eos] = -torch.inf  # those that end have ended
                top, place = total.flatten().topk(min(beam, total.numel()))
                longer, parents = [], []
                for log_prob, index in zip(top.tolist(), place.tolist(), strict=True):
                    k, y = divmod(index, total.shape[1])
                    if log_prob > -math.inf:
                        b = beams[k]
                        longer.append(_Beam((*b.tokens, y), log_prob, (*b.looks, *looks[k])))
                        parents.append(first + k)
                first += len(beams)
                if longer and not rank.settled(ended[row], longer[0]):
                    going[row] = longer
                    kept += parents
                else:
                    del going[row]
            written = written.select(torch.tensor(kept, dtype=torch.int64, device=valid.device))
        for row, beams in going.items():
            unfinished = [rank.translation(b, False, valid[row]) for b in beams]
            ended[row] = (ended[row] + rank.best(unfinished))[:n_best]
    return list(ended.values())


class _Rank(NamedTuple):
    """How hypotheses compare, and when a row is done."""

    length_penalty: float
    coverage_penalty: float
    max_length: int
    n_best: int

    def normal(self, n: int) -> float:
        """The divisor of a log-probability at length n."""
        return ((5 + n) / 6) ** self.length_penalty

    def translation(self, beam: _Beam, finished: bool, valid: Tensor) -> Translation:
        """A hypothesis with its score."""
        weights = torch.stack(beam.looks) if beam.looks else None
        score = beam.log_prob / self.normal(len(beam.tokens) + finished)
        if self.coverage_penalty and weights is not None:
            covered = weights[:, valid].sum(0).clamp(torch.finfo(weights.dtype).tiny, 1)
            score += self.coverage_penalty * float(covered.log().sum())
        return Translation(list(beam.tokens), beam.log_prob, score, finished, weights)

    def best(self, found: list[Translation]) -> list[Translation]:
        """The best of them, in order."""
        return sorted(found, key=lambda t: -t.score)[: self.n_best]

    def settled(self, finished: list[Translation], likeliest: _Beam) -> bool:
        """Whether enough are finished, and none that goes on can pass the worst of them."""
        most = likeliest.log_prob / self.normal(self.max_length)
        return len(finished) == self.n_best and finished[-1].score >= most


def _advance(
    model: Seq2Seq, going: dict[int, list[_Beam]], written: Written
) -> tuple[Written, Tensor, Tensor | None]:
    """One step of all hypotheses of all rows: log-probabilities (N, V) and weights (N, S)."""
    last = [b.tokens[-1] if b.tokens else model.bos for beams in going.values() for b in beams]
    device = written.encoded.valid.device
    logits, weights, written = model.decoder.step(torch.tensor(last, device=device), written)
    check_logits(logits)
    return written, wide(logits).log_softmax(-1), weights
