"""The same at every step, a recurrence is a convolution: by the fast Fourier transform."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor

from companion.cells.base import Cell, State, flat_state, map_state
from companion.cells.linear import HALVES, full, unrounded
from companion.cells.state_space import TimeInvariantCell, Unrolled
from companion.run.loop import as_stepped, chain, loop
from companion.run.products import Products
from companion.run.tracing import hindered

__all__ = ["causal_convolution"]


def causal_convolution(kernel: Tensor, v: Tensor) -> Tensor:
    r"""Convolve along the last dimension, by FFT.

    .. math:: y_t = \sum_{j=0}^{t} k_j v_{t-j}, \qquad t = 0, \dots, T - 1

    In O(T log T) where the sum takes O(T²). Every output is a sum over all of the transform: its
    rounding error is relative to the largest output of the channel, not to its own size, and one
    NaN or infinity anywhere in a row is everywhere in it.

    Args:
        kernel: (K, T), real or complex.
        v: (S, K, T), of the same dtype.

    Returns:
        (S, K, T).

    Example:
        >>> k, v = torch.tensor([[1.0, 0.5, 0.25]]), torch.tensor([[[1.0, 0.0, 2.0]]])
        >>> causal_convolution(k, v).round(decimals=4)
        tensor([[[1.0000, 0.5000, 2.2500]]])
    """
    T = v.shape[-1]
    n = fast_length(2 * T - 1)  # so long that nothing comes round to the beginning
    if v.is_complex():
        return torch.fft.ifft(torch.fft.fft(kernel, n) * torch.fft.fft(v, n), n)[..., :T]
    return torch.fft.irfft(torch.fft.rfft(kernel, n) * torch.fft.rfft(v, n), n)[..., :T]


def fast_length(n: int) -> int:
    """The least length from n on of 1, 3 or 5 times a power of two, which transforms fast."""
    return min(m << max(0, (-(-n // m) - 1).bit_length()) for m in (1, 3, 5))


def refuses(cell: Cell, x: Tensor) -> str | None:
    """Why this form cannot honor a call, or ``None``."""
    if not isinstance(cell, TimeInvariantCell):
        return f"{type(cell).__name__} is not the same at every step, linear in state and input"
    return hindered(cell)


def suits(cell: Cell) -> bool:
    """Whether this form is the fastest that can run a cell it does not refuse."""
    return isinstance(cell, TimeInvariantCell) and cell.prefers_convolution


def conv(cell: Any, x: Tensor, sizes: list[int], state: State) -> tuple[Tensor, State]:
    """Run a time-invariant cell as a convolution; arguments and returns of :func:`loop`.

    Steps between which no sequence ends are convolved together, and the state is carried on:
    what the convolution misses is what the state gives, which is added.
    """
    if not sizes or not sizes[0]:
        return loop(cell, x, sizes, state)
    with Products():
        u = cell.prepare(x)
    runs = [(n, len(list(steps))) for n, steps in itertools.groupby(sizes)]
    unrolled: dict[int, Unrolled] = {}

    def advance(piece: tuple[Tensor, int, int], s: Tensor) -> tuple[Tensor, Tensor]:
        rows, S, T = piece
        with unrounded(rows):
            if T not in unrolled:
                unrolled[T] = cell.unrolled(T)
            what, v = unrolled[T], cell.enters(rows).unflatten(0, (T, S)).permute(1, 2, 0)
            c = causal_convolution(what.kernel, v) + what.response(s)
            y = cell.leaves(c.permute(2, 0, 1).flatten(0, 1), rows, full(rows).dtype)
            return y, what.final(v, s)

    rows = u.split([n * T for n, T in runs])
    pieces = [(piece, n, T) for piece, (n, T) in zip(rows, runs, strict=True)]
    # rounded at the end, not where a sequence happens to end
    outputs, after = chain(advance, pieces, [n for n, _ in runs], map_state(full, state))
    y = torch.cat(outputs)
    short = {u.dtype, *(s.dtype for s in flat_state(state))} & set(HALVES)
    return as_stepped(cell, u, state, y, after) if short else (y, after)
