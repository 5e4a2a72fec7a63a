"""Many steps of a linear recurrence at once: shifts and scans over packed rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from companion.cells.base import Cell, State, flat_state, map_state
from companion.cells.linear import HALVES, LinearCell, Selects, check_rows, full, shared, widest
from companion.run.loop import as_stepped, chain, loop
from companion.run.products import Products
from companion.run.scan import scan_steps
from companion.run.selective import Selective, suits
from companion.run.tracing import hindered

# numbers of prepare(x), or of states, in one block of steps, on a CPU. Smaller blocks lose time to
# operators' own overhead, larger ones to memory, which each would fetch anew: both measured
BLOCK = 2**20


class Packed(Selects):
    """Time as packed rows have it (see ``plan.py``); scans run on a dense (T, S, K).

    A padded row has a = 1 and b = 0: it hands on what it gets, so that the last row of a dense
    column is the final state of its sequence, however short.

    Where the state is of half precision, ``half``, it is given and returned in float32: between
    two blocks nothing is rounded, whereas rows look as if it were ``half``.
    """

    def __init__(
        self, sizes: list[int], device: torch.device, half: torch.dtype | None = None
    ) -> None:
        self.T, self.S, self.whole = len(sizes), sizes[0], sizes[-1] == sizes[0]
        self.N, self.half, self.sizes, self.device = sum(sizes), half, sizes, device
        if self.whole:
            return
        n = torch.tensor(sizes, device="cpu")
        first = n.cumsum(0) - n  # the row at which a step begins
        step = torch.arange(self.T, device="cpu").repeat_interleave(n)
        column = torch.arange(len(step), device="cpu") - first[step]
        steps = torch.bincount(column)
        self.where = (step * self.S + column).to(device)  # the dense row of each packed row
        self.before = (first[step - 1] + column)[self.S :].to(device)
        self.last = (first[steps - 1] + torch.arange(self.S, device="cpu")).to(device)

    def shift(self, v: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        check_rows("shift: v", v, self.N, first)
        first_rows = first.to(self.seen(first))
        if self.whole:
            before, last = v.split([len(v) - self.S, self.S])  # back, two slices would be padded
            last = last.clone()
        else:
            before, last = v[self.before], v[self.last]
        return torch.cat([first_rows, before]), last.to(widest(v.dtype, first.dtype))

    def scan(self, a: Tensor, b: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
        check_rows("scan: b", b, self.N, h0)
        a = shared(a, b)
        h, last = scan_steps(self.dense(a, 1.0), self.dense(b, 0.0), h0)
        return self.rows(h).to(widest(a.dtype, b.dtype, self.seen(h0))), last

    def select(
        self,
        dt: Tensor,
        A: Tensor,
        B: Tensor,
        C: Tensor,
        x: Tensor,
        h0: Tensor,
        exact: bool = False,
    ) -> tuple[Tensor, Tensor]:
        if exact or not suits(dt, A, B, C, x, h0):
            return super().select(dt, A, B, C, x, h0, exact)
        # a padded row has dt = 0: it hands on what it gets
        steps = [A if t is A else self.dense(t, 0.0) for t in (dt, A, B, C, x)]
        y, h = Selective.apply(*steps, h0.unflatten(1, A.shape))
        return self.rows(y), h.flatten(1)

    @staticmethod
    def held(cell: Any) -> int:
        """Numbers for each row beside those of ``prepare``, in a linear cell's block of steps."""
        return int(cell.held())

    def seen(self, s: Tensor) -> torch.dtype:
        """What a state is between two steps of a block."""
        return s.dtype if self.half is None or s.dtype != torch.float32 else self.half

    def dense(self, v: Tensor, padding: float) -> Tensor:
        """(T, S, K) of packed rows (N, K)."""
        if not self.whole:
            blank = v.new_full((self.T * self.S, v.shape[1]), padding)
            v = blank.index_copy(0, self.where, v)
        return v.view(self.T, self.S, v.shape[1])

    def rows(self, v: Tensor) -> Tensor:
        """(N, ...) packed rows of a dense (T, S, ...)."""
        v = v.flatten(0, 1)
        return v if self.whole else v[self.where]


def blocks(sizes: list[int], width: int, most: float) -> list[list[int]]:
    """The steps in blocks of at most ``most`` numbers, ``width`` a row.

    A block also ends where half of its sequences have ended: less than half of it is padding.
    """
    cut: list[list[int]] = []
    for n in sizes:
        if not cut or 2 * n < cut[-1][0] or cut[-1][0] * (len(cut[-1]) + 1) * width > most:
            cut.append([])
        cut[-1].append(n)
    return cut


def refuses(cell: Cell, x: Tensor) -> str | None:
    """Why this form cannot honor a call, or ``None``."""
    if not isinstance(cell, LinearCell) or type(cell).update is not LinearCell.update:
        return f"{type(cell).__name__} is not linear in its state, entry by entry"
    return hindered(cell)


def sweep(
    cell: Any, x: Tensor, sizes: list[int], state: State, time: type[Packed] = Packed
) -> tuple[Tensor, State]:
    """Run a linear cell block by block of steps; arguments and returns of :func:`loop`.

    ``time`` has the operations over many rows that the cell asks for.
    """
    if not sizes or not sizes[0]:
        return loop(cell, x, sizes, state)
    nothing = cell.prepare(x[:0])  # with a graph: autocast may keep a cast (pytorch#112583)
    width = max(nothing.shape[1], time.held(cell), 1)
    cut = blocks(sizes, width, BLOCK if x.device.type == "cpu" else float("inf"))
    rows = x.split([sum(block) for block in cut])
    dtypes = {s.dtype for s in flat_state(state)}
    short = not dtypes.isdisjoint(HALVES)
    half = dtypes.pop() if short and len(dtypes) == 1 else None

    def advance(piece: tuple[Tensor, list[int]], s: State) -> tuple[Tensor, State]:
        with Products():  # here, as what all steps need would be fetched anew from memory
            u = cell.prepare(piece[0])
        y, s = cell.along(u, s, time(piece[1], x.device, half))
        return y, s

    outputs, after = chain(
        advance,
        list(zip(rows, cut, strict=True)),
        [block[0] for block in cut],
        map_state(full, state),  # rounded at the end, not where a block happens to end
    )
    y = torch.cat(outputs)
    return as_stepped(cell, nothing, state, y, after) if short else (y, after)
