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
from typing import Any, cast

import torch
from torch import Tensor

from companion.cells.base import State, map_state
from companion.run.tracing import is_exported

CPU = torch.device("cpu")  # plans are made there, whatever the default device is


@dataclass(frozen=True)
class Plan:
    """How the rows of a batch are run. S sequences, N packed rows, T steps, B batch rows.

    Args:
        sizes: how many sequences are alive at each step.
        index: (N,) the row of the flattened (T, B) input each packed row comes from; ``None``: the
            input's rows as they are.
        flip: (N,) the packed row at the mirrored step of the same sequence; ``None``: all
            sequences have the same length, or no direction asks for it.
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


def plan_packed(batch_sizes: Tensor, device: torch.device, mirrored: bool = True) -> Plan:
    """The rows of a PackedSequence, which are in our order already."""
    sizes = batch_sizes
    if not mirrored or len(sizes) == 0:
        return Plan(sizes.tolist())
    later = torch.cat([sizes[1:], sizes.new_zeros(1)])
    ended = (sizes - later).flip(0)  # sequences of length T, T − 1, …, 1
    steps = torch.arange(len(sizes), 0, -1, device=CPU)
    seq, step, first = _positions(sizes)
    lengths = steps.repeat_interleave(ended)
    return Plan(sizes.tolist(), flip=(first[lengths[seq] - 1 - step] + seq).to(device))


def plan_ragged(
    T: int,
    B: int,
    lengths: Tensor | None,
    reset: Tensor | None,
    device: torch.device,
    mirrored: bool = True,
) -> Plan:
    """Rows that end early or are cut by resets.

    Args:
        T: steps of the padded input.
        B: rows of the batch.
        lengths: (B,) valid steps of each row, on the CPU; ``None``: all T.
        reset: (B, T) bool, on the CPU: the state becomes the initial one before this step;
            ``None``: never.
        device: where the index tensors go.
        mirrored: whether :meth:`Plan.mirror` will be asked for.

    Returns:
        The plan, in time and memory proportional to the number of rows.
    """
    if T == 0:
        return plan_whole(0, B)
    if is_exported():
        raise ValueError(
            "lengths, reset: expected None under torch.export, which knows no values by which to "
            "sort rows; companion.export.to_onnx(..., lengths=True) leaves lengths open"
        )
    if lengths is None:
        lengths = torch.full((B,), T, device=CPU)
    cut = torch.zeros(B, T, dtype=torch.bool, device=CPU)
    if reset is not None:
        cut = reset & (torch.arange(T, device=CPU) < lengths[:, None])
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

    steps = int(size[0]) if len(size) else 0
    sizes = len(size) - torch.bincount(size, minlength=steps + 1).cumsum(0)[:steps]
    seq, step, first = _positions(sizes)
    index = (start[seq] + step) * B + row[seq]
    flip = first[size[seq] - 1 - step] + seq if mirrored else None
    # the forward direction starts in a row's first sequence, the backward one in its last
    enters = (is_first & first_kept[row], is_last)
    leaves = tuple(_which(of, row, B) for of in (is_last, is_first))
    return Plan(
        sizes.tolist(),
        index.to(device),
        None if flip is None else flip.to(device),
        row.to(device),
        tuple(e.to(device) for e in enters),
        tuple(x.to(device) for x in leaves),
    )


def _positions(sizes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N,) sequence and (N,) step of each packed row; (T + 1,) the row at which a step begins."""
    first = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    step = torch.arange(len(sizes), device=CPU).repeat_interleave(sizes)
    return torch.arange(len(step), device=CPU) - first[step], step, first


def _which(mask: Tensor, row: Tensor, B: int) -> Tensor:
    """For each batch row the sequence that ``mask`` marks (exactly one a row)."""
    where = mask.nonzero().squeeze(1)
    return torch.empty(B, dtype=torch.long, device=CPU).index_copy(0, row[where], where)


def check_lengths(lengths: Any, B: int, T: int, batched: bool) -> Tensor | None:
    """The lengths as (B,) on the CPU."""
    if lengths is None:
        return None
    if not batched and isinstance(lengths, int) and not isinstance(lengths, bool):
        lengths = [lengths]
    try:
        n = lengths if isinstance(lengths, Tensor) else torch.as_tensor(lengths, device="cpu")
    except (TypeError, ValueError, RuntimeError) as e:
        raise TypeError(f"lengths: expected {B} integers, got {lengths!r}") from e
    if n.is_meta:
        raise ValueError("lengths: expected their values, got a tensor on meta, which has none")
    if isinstance(lengths, list | tuple) and any(isinstance(v, bool) for v in lengths):
        raise TypeError(f"lengths: expected {B} integers, got {lengths!r}")
    if n.numel() == 0 and not isinstance(lengths, Tensor):
        n = n.long()  # an empty list
    if n.dtype.is_floating_point or n.dtype.is_complex or n.dtype == torch.bool:
        raise TypeError(f"lengths: expected integers, got {n.dtype}")
    if not batched and n.dim() == 0:
        n = n.unsqueeze(0)
    if n.shape != (B,):
        raise ValueError(f"lengths: expected shape ({B},), one for each row, got {tuple(n.shape)}")
    if is_exported():
        return n.long()
    n = n.detach().cpu().long()
    if B and not (0 <= int(n.min()) and int(n.max()) <= T):
        raise ValueError(
            f"lengths: expected values from 0 to {T}, the number of steps, got {n.tolist()}"
        )
    return n


def check_reset(reset: Any, B: int, T: int, batched: bool, time: int) -> Tensor | None:
    """The resets as (B, T) on the CPU."""
    if reset is None:
        return None
    if not isinstance(reset, Tensor) or reset.dtype != torch.bool:
        got = reset.dtype if isinstance(reset, Tensor) else type(reset).__name__
        raise TypeError(f"reset: expected a tensor of dtype torch.bool, got {got}")
    if reset.is_meta:
        raise ValueError("reset: expected its values, got a tensor on meta, which has none")
    shape = (T,) if not batched else (B, T) if time else (T, B)
    if reset.shape != shape:
        raise ValueError(
            f"reset: expected shape {shape}, batch and time laid out as in the input, "
            f"got {tuple(reset.shape)}"
        )
    reset = reset.detach().cpu()
    return reset.unsqueeze(0) if not batched else reset if time else reset.t()
