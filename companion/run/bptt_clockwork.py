"""The derived backward of the clockwork cell; see ``bptt.py`` for what a rule is.

It asks for one clock: sequences that all start at the same time of the cycle, as they do from the
initial state. Then which groups move is a matter of the step alone, and those that rest cost
nothing but a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from companion.cells.clockwork import ClockworkRNNCell
from companion.run.packed import add_last, last, previous
from companion.run.products import outer


def starts(cell: ClockworkRNNCell, state: Any) -> bool:
    """Whether all sequences start at one time of the cycle."""
    time = cell.whole(state[1]).remainder(cell.cycle)
    return len(time) > 0 and not time.is_meta and bool((time == time[0]).all())


def moving(cell: ClockworkRNNCell, start: Tensor, steps: int) -> list[list[slice]]:
    """For each step the ranges of units that move; neighboring groups make one range."""
    first, n = int(cell.whole(start[0])), cell.group_size
    cycle: list[list[slice]] = []
    for t in range(first, first + min(steps, cell.cycle)):
        ranges: list[slice] = []
        for i, period in enumerate(cell.periods):
            if t % period == 0:
                joins = ranges and ranges[-1].stop == i * n
                begin = ranges.pop().start if joins else i * n
                ranges.append(slice(begin, (i + 1) * n))
        cycle.append(ranges)
    return [cycle[t % cell.cycle] for t in range(steps)]


def whole_weight(cell: ClockworkRNNCell) -> Tensor:
    """The recurrent matrix (H, H), with zeros where no group hears a faster one."""
    H, n = cell.hidden_size, cell.group_size
    w = cell.hears(0).new_zeros(H, H)
    for i in range(len(cell.periods)):
        w[i * n : (i + 1) * n, i * n :] = cell.hears(i)
    return w


def lengths(sizes: list[int]) -> Tensor:
    """Steps of each sequence that has one, (S, 1), longest first."""
    n = torch.tensor([*sizes, 0], device="cpu")
    steps = torch.arange(1, len(n), device="cpu")
    return steps.repeat_interleave(n[:-1] - n[1:]).flip(0).unsqueeze(1)


def forward(cell: ClockworkRNNCell, u: Tensor, sizes: list[int], h0: Tensor, time: Tensor) -> Any:
    """Rows of the groups that move; the others are copied."""
    y, wt = u.new_empty(len(u), h0.shape[1]), whole_weight(cell).t().contiguous()
    ys, clock = y.split(sizes), moving(cell, time, len(sizes))
    steps = zip(u.split(sizes), previous(h0, ys, sizes), ys, clock, strict=True)
    for u_t, h, h_t, ranges in steps:
        h_t.copy_(h)
        for r in ranges:
            h_t[:, r] = torch.addmm(u_t[:, r], h, wt[:, r]).tanh_()
    after = time.clone()
    after[: sizes[0]] = torch.remainder(
        torch.round(time[: sizes[0]]) + (lengths(sizes) % cell.cycle).to(time), cell.cycle
    )
    return y, (last(h0, ys, sizes), after), ()


def backward(
    cell: ClockworkRNNCell,
    sizes: list[int],
    state: Sequence[Tensor],
    y: Tensor,
    tape: Sequence[Tensor],
    dy: Tensor,
    d_final: Sequence[Tensor],
) -> Any:
    """δ_t = (1 − h_t²) ⊙ δh_t where a group moves; elsewhere δh_t passes to δh_{t-1} unchanged."""
    (h0, time), w = state, whole_weight(cell)
    du, slope = torch.zeros_like(dy), 1 - y * y
    dh = dy.clone()
    dhs, ys, clock = dh.split(sizes), y.split(sizes), moving(cell, time, len(sizes))
    dh0, dus, pasts = add_last(dhs, d_final[0], sizes), du.split(sizes), previous(h0, ys, sizes)
    steps = zip(dhs, previous(dh0, dhs, sizes), dus, slope.split(sizes), clock, strict=True)
    for dh_t, before, du_t, slope_t, ranges in reversed(list(steps)):
        for r in ranges:
            torch.mul(dh_t[:, r], slope_t[:, r], out=du_t[:, r])
            before.addmm_(du_t[:, r], w[r])
            dh_t[:, r] = 0
        before += dh_t
    first, n, d_blocks = int(cell.whole(time[0])), cell.group_size, {}
    for i, period in enumerate(cell.periods):  # of the steps at which the group moves
        moves = slice(-first % period, None, period)
        deltas = [d[:, i * n : (i + 1) * n] for d in dus[moves]]
        heard = [h[:, i * n :] for h in pasts[moves]]
        d_blocks[f"weight_hh{i}"] = (
            outer(torch.cat(deltas), torch.cat(heard))
            if deltas
            else torch.zeros_like(cell.hears(i))
        )
    d_time = d_final[1].clone()
    d_time[: sizes[0]] = 0  # of sequences with a step: time goes its own way
    return du, (dh0, d_time), d_blocks
