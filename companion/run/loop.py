"""The loop over time: the specification every other form is tested against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from companion.cells.base import Cell, State, flat_state, map_state


def loop(cell: Cell, x: Tensor, sizes: list[int], state: State) -> tuple[Tensor, State]:
    """Run ``update`` step by step over packed rows.

    Args:
        cell: the cell to run.
        x: packed input rows, (N, D) with N = sum(sizes).
        sizes: sequences alive at each step, never increasing.
        state: (S, ...) the state each sequence starts from, longest sequence first.

    Returns:
        Packed outputs (N, H), and the state (S, ...) each sequence ends with.
    """
    u = cell.prepare(x)
    outputs, state = chain(cell.update, list(u.split(sizes)), sizes, state)
    if not outputs:  # no step at all: no rows, yet part of the graph of every weight
        outputs.append(cell.update(u, _rows(state, 0, 0))[0])
    return torch.cat(outputs), state


def chain(
    advance: Callable[[Any, Any], tuple[Tensor, Any]],
    pieces: list[Any],
    sizes: list[int],
    state: State,
) -> tuple[list[Tensor], State]:
    """The outputs of ``advance(piece, state) -> (output, state)``, one piece after the other.

    Args:
        advance: what runs a piece of time.
        pieces: what it takes, in order of time.
        sizes: sequences alive in each piece, never increasing.
        state: (S, ...) the state each sequence starts from, longest sequence first.

    Returns:
        What each piece gave, and the state (S, ...) each sequence ends with.
    """
    outputs: list[Tensor] = []
    ended: list[State] = []  # shortest sequences first
    alive = flat_state(state)[0].shape[0]
    for piece, n in zip(pieces, sizes, strict=True):
        if n < alive:
            ended.append(_rows(state, n, alive))
            state, alive = _rows(state, 0, n), n
        y, state = advance(piece, state)
        outputs.append(y)
    if ended:
        state = cast(State, map_state(lambda *parts: torch.cat(parts), state, *reversed(ended)))
    return outputs, state


def as_stepped(
    cell: Cell, u: Tensor, state: State, y: Tensor, after: State
) -> tuple[Tensor, State]:
    """Outputs ``y`` and the state ``after``, in the dtypes in which the loop returns them.

    A step of no rows of ``u``, from the ``state`` that was given, tells which these are.
    """
    with torch.no_grad():
        y_0, s_0 = cell.update(u[:0], _rows(state, 0, 0))
    return y.to(y_0.dtype), cast(State, map_state(lambda s, t: s.to(t.dtype), after, s_0))


def _rows(state: State, start: int, end: int) -> State:
    return cast(State, map_state(lambda s: s[start:end], state))
