"""Lengths and resets become separate packed sequences: no cell ever sees padding or a mask.

Each row of a batch is cut at its resets into separate sequences. All sequences are sorted, longest
first, and laid out step by step ("packed", as in ``torch.nn.utils.rnn.PackedSequence``): first the
first element of each, then the second element of those that have one, and so on. Step ``t`` then
runs the ``sizes[t]`` sequences still alive, which are the first ones.

    row 0:  a b c            sizes   3 3 1
    row 1:  d e | f          packed  a d f  b e  c      (the bar is a reset before f)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from companion.cells.base import State, map_state


@dataclass(frozen=True)
class Plan:
    """How the rows of a batch are run. S sequences, N packed rows, T steps, B batch rows.

    Args:
        sizes: how many sequences are alive at each step.
        index: (N,) the row of the flattened (T, B) input each packed row comes from; ``None``: the
            input's rows as they are.
        flip: (N,) the packed row at the mirrored step of the same sequence; ``None``: all
            sequences have the same length.
        owner: (S,) the batch row each sequence belongs to; ``None``: sequence b is batch row b.
        enters: for each direction (S,), whether a sequence starts from the given state; the others
            start from the initial one.
        leaves: for each direction (B,), the sequence whose final state is the row's.
    """

    sizes: list[int]
    index: Tensor | None = None
    flip: Tensor | None = None
    owner: Tensor | None = None
    enters: tuple[Tensor, ...] = ()
    leaves: tuple[Tensor, ...] = ()

    def mirror(self, x: Tensor) -> Tensor:
        """Packed rows (N, ...) with every sequence in reverse order of time."""
        if self.flip is not None:
            return x[self.flip]
        if not self.sizes:
            return x
        return x.view(len(self.sizes), self.sizes[0], *x.shape[1:]).flip(0).view(x.shape)

    def start(self, state: State, initial: State, direction: int) -> State:
        """The state (S, ...) each sequence starts from, of the given (B, ...) and the initial."""
        if self.owner is None:
            return state
        given, owner = self.enters[direction].unsqueeze(1), self.owner
        return cast(
            State,
            map_state(lambda s, i: torch.where(given, s[owner], i[owner]), state, initial),
        )

    def finish(self, state: State, direction: int) -> State:
        """The final state (B, ...) of each batch row, of those (S, ...) of the sequences."""
        if self.owner is None:
            return state
        leaves = self.leaves[direction]
        return cast(State, map_state(lambda s: s[leaves], state))


def plan_whole(T: int, B: int) -> Plan:
    """Every row is one sequence of T steps."""
    return Plan([B] * T)


def plan_packed(batch_sizes: Tensor, device: torch.device) -> Plan:
    """The rows of a PackedSequence, which are in our order already."""
    sizes, T = batch_sizes, len(batch_sizes)
    lengths = (sizes[:, None] > torch.arange(int(sizes[0]) if T else 0)).sum(0)
    return Plan(sizes.tolist(), flip=_flip(lengths, sizes).to(device))


def plan_ragged(
    T: int, B: int, lengths: Tensor | None, reset: Tensor | None, device: torch.device
) -> Plan:
    """Rows that end early or are cut by resets.

    Args:
        T: steps of the padded input.
        B: rows of the batch.
        lengths: (B,) valid steps of each row, on the CPU; ``None``: all T.
        reset: (B, T) bool, on the CPU: the state becomes the initial one before this step;
            ``None``: never.
        device: where the index tensors go.

    Returns:
        The plan.
    """
    if T == 0:
        return plan_whole(0, B)
    lengths = torch.full((B,), T) if lengths is None else lengths
    cut = torch.zeros(B, T, dtype=torch.bool) if reset is None else reset & _before(lengths, T)
    first_kept = ~cut[:, 0]  # a row that is reset before its first step ignores the given state
    cut[:, 0] = True  # every row begins a sequence, even one of length 0
    row, start = cut.nonzero().unbind(1)
    is_last = torch.ones_like(row, dtype=torch.bool)
    is_last[:-1] = row[1:] != row[:-1]
    is_first = start == 0
    size = torch.where(is_last, lengths[row], start.roll(-1)) - start

    order = torch.argsort(size, descending=True, stable=True)
    row, start, size = row[order], start[order], size[order]
    is_first, is_last = is_first[order], is_last[order]

    step = torch.arange(int(size.max()) if len(size) else 0)[:, None]
    alive = step < size  # (steps, S)
    sizes = alive.sum(1)
    index = ((start + step) * B + row)[alive]
    # the forward direction starts in a row's first sequence, the backward one in its last
    enters = (is_first & first_kept[row], is_last)
    leaves = tuple(_positions(of, row, B) for of in (is_last, is_first))
    return Plan(
        sizes.tolist(),
        index.to(device),
        _flip(size, sizes).to(device),
        row.to(device),
        tuple(e.to(device) for e in enters),
        tuple(x.to(device) for x in leaves),
    )


def _before(lengths: Tensor, T: int) -> Tensor:
    return torch.arange(T) < lengths[:, None]


def _positions(mask: Tensor, row: Tensor, B: int) -> Tensor:
    """For each batch row the sequence that ``mask`` marks (exactly one a row)."""
    where = mask.nonzero().squeeze(1)
    return torch.empty(B, dtype=torch.long).index_copy(0, row[where], where)


def _flip(size: Tensor, sizes: Tensor) -> Tensor:
    """(N,) where the mirrored step of the same sequence lies; ``size`` (S,) longest first."""
    step = torch.arange(len(sizes))[:, None]
    first = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])  # packed row at which a step begins
    mirrored = first[(size - 1 - step).clamp(min=0)] + torch.arange(len(size))
    return mirrored[step < size]
