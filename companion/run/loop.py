"""The loop over time: the specification every other form is tested against."""

from __future__ import annotations

from typing import cast

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
    outputs: list[Tensor] = []
    ended: list[State] = []  # shortest sequences first
    alive = len(flat_state(state)[0])
    for u_t, n in zip(u.split(sizes), sizes, strict=True):
        if n < alive:
            ended.append(_rows(state, n, alive))
            state, alive = _rows(state, 0, n), n
        y_t, state = cell.update(u_t, state)
        outputs.append(y_t)
    if ended:
        state = cast(State, map_state(lambda *parts: torch.cat(parts), state, *reversed(ended)))
    if not outputs:  # no step at all: no rows, yet part of the graph of every weight
        outputs.append(cell.update(u, _rows(state, 0, 0))[0])
    return torch.cat(outputs), state


def _rows(state: State, start: int, end: int) -> State:
    return cast(State, map_state(lambda s: s[start:end], state))
