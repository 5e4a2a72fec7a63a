"""Writing with a sequence-to-sequence model, as a prediction asks for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from companion.data.batching import pad
from companion.models.generation import Translation, beam_search, generate
from companion.models.seq2seq import Seq2Seq
from companion.tasks.settings import SettingsError
from companion.tasks.task import Request, RowBatches

__all__ = ["Beams", "collate", "write"]

WIDEST = 1000  # a beam that keeps whatever there is grows with every token, until memory is full


class Beams(NamedTuple):
    """How to search: with a beam of 1 the likeliest token is taken each time."""

    beam: int = 1
    n_best: int = 1
    length_penalty: float = 0.6

    @classmethod
    def of(cls, request: Request) -> Beams:
        """What is asked for.

        Raises:
            SettingsError: it has no meaning.
        """
        for name, value in (("--beam", request.beam), ("--n-best", request.n_best)):
            if value < 1:
                raise SettingsError(f"{name}: expected at least 1, got {value}")
        if request.beam > WIDEST:
            raise SettingsError(f"--beam: expected at most {WIDEST}, got {request.beam}")
        if request.n_best > request.beam:
            raise SettingsError(
                f"--n-best: expected at most --beam, {request.beam}, got {request.n_best}"
            )
        penalty = request.length_penalty
        if penalty is None:
            return cls(request.beam, request.n_best)
        if not 0 <= penalty < math.inf:
            raise SettingsError(f"--length-penalty: expected at least 0, got {penalty}")
        if request.beam == 1:
            raise SettingsError("--length-penalty: expected --beam above 1 with it, got 1")
        return cls(request.beam, request.n_best, penalty)


def write(
    model: Seq2Seq, sources: Sequence[list[int]], most: int, batch_size: int, beams: Beams
) -> list[list[Translation]]:
    """What becomes of each source, best first; never BOS, and never an unknown token.

    Args:
        model: whose token 0 is the unknown one.
        sources: their tokens.
        most: tokens to write at most, EOS among them.
        batch_size: sources at once; of wide beams fewer, as each has that many rows.
        beams: how to search.
    """
    found: list[list[Translation]] = [[] for _ in sources]
    rows = [(tokens, [n]) for n, tokens in enumerate(sources)]
    device = model.decoder.output.bias.device
    lengths = [len(tokens) for tokens in sources]
    size = min(batch_size, max(1, 16 * batch_size // beams.beam))
    with _never(model, [0, model.bos]):
        for tokens, valid, which, _ in RowBatches(rows, lengths, size, False, 0, collate):
            told = (model, tokens.to(device), valid, most)
            if beams.beam == 1:
                answers = [[one] for one in generate(*told)]
            else:
                answers = beam_search(*told, **beams._asdict())
            for n, answer in zip(which[:, 0].tolist(), answers, strict=True):
                found[n] = answer
    return found


@contextmanager
def _never(model: Seq2Seq, tokens: list[int]) -> Iterator[None]:
    """Within the context these tokens have probability 0."""
    bias = model.decoder.output.bias
    with torch.no_grad():
        kept = bias[tokens]
        bias[tokens] = -torch.inf
        try:
            yield
        finally:
            bias[tokens] = kept


def collate(rows: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sources (B, S), their lengths, targets (B, n), theirs; of no rows, tensors of none."""
    found: list[Tensor] = []
    for side in (0, 1):
        tokens, lengths = pad([torch.tensor(r[side], dtype=torch.int64) for r in rows] or [[]])
        found += [tokens[: len(rows)].long(), lengths[: len(rows)]]
    source, source_lengths, target, target_lengths = found
    return source, source_lengths, target, target_lengths
