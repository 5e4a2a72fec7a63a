"""What each step of a packed tensor starts from, and what each sequence ends with."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def previous(first: Tensor, pieces: Sequence[Tensor], sizes: list[int]) -> list[Tensor]:
    """What each step starts from: ``first`` (S, H), then what the step before gave."""
    before = [first, *pieces[:-1]]
    if first.shape[0] == sizes[-1]:
        return before
    return [s if s.shape[0] == n else s[:n] for s, n in zip(before, sizes, strict=True)]


def before(first: Tensor, rows: Tensor, sizes: list[int], out: Tensor | None = None) -> Tensor:
    """(N, H): what every step starts from, for all steps at once; ``rows`` is what they gave.

    Where a buffer is at hand (``out``), filling it costs less than the pages of a new one.
    """
    n = sizes[0]
    if n == sizes[-1]:
        parts = [first[:n], rows[: len(rows) - n]]
    else:
        parts = previous(first, rows.split(sizes), sizes)
    return torch.cat(parts) if out is None else torch.cat(parts, out=out)


def alive(rows: Tensor, sizes: list[int]) -> list[Tensor]:
    """Those of the rows (S, ...) that each step runs, as views."""
    if rows.shape[0] == sizes[-1]:
        return [rows] * len(sizes)
    return [rows[:n] for n in sizes]


def last(first: Tensor, pieces: Sequence[Tensor], sizes: list[int]) -> Tensor:
    """(S, H): what each sequence has at its own last step; ``first`` where it has no step."""
    if first.shape[0] == sizes[-1]:
        return pieces[-1]
    ends = [*sizes[1:], 0]
    parts = [p[n:] for p, n in zip(reversed(pieces), reversed(ends), strict=True)]
    return torch.cat([*parts, first[sizes[0] :]])


def add_last(pieces: Sequence[Tensor], d_last: Tensor, sizes: list[int]) -> Tensor:
    """Add the final state's gradient at each sequence's last step, in place.

    Returns:
        (S, H) what flows to the first state at once: of sequences without a step.
    """
    for piece, n in zip(pieces, [*sizes[1:], 0], strict=True):
        if n < piece.shape[0]:
            piece[n:] += d_last[n : piece.shape[0]]
    rest = torch.zeros_like(d_last)
    rest[sizes[0] :] = d_last[sizes[0] :]
    return rest
