"""Every way to run a cell along time, written once for all cells that allow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from companion.cells.base import Cell, State
from companion.run import bptt as _bptt
from companion.run import chunk as _chunk
from companion.run import conv as _conv
from companion.run import sweep as _sweep
from companion.run.loop import loop
from companion.run.plan import Plan, plan_packed, plan_ragged, plan_whole

__all__ = ["FORMS", "Plan", "loop", "plan_packed", "plan_ragged", "plan_whole", "run"]


class Form(NamedTuple):
    """One way to run a cell: the function, why it refuses a call (``None``: it does not), and
    whether it is worth picking for a cell that it can run."""

    run: Callable[[Cell, Tensor, list[int], State], tuple[Tensor, State]]
    refuses: Callable[[Cell, Tensor], str | None]
    suits: Callable[[Cell], bool] = lambda cell: True


# Fastest first.  The loop is the specification and can run any cell.
FORMS: dict[str, Form] = {
    "conv": Form(_conv.conv, _conv.refuses, _conv.suits),
    "scan": Form(_sweep.sweep, _sweep.refuses),
    "chunk": Form(_chunk.chunked, _chunk.refuses),
    "bptt": Form(_bptt.bptt, _bptt.refuses),
    "loop": Form(loop, lambda cell, x: None),
}


def run(
    cell: Cell, x: Tensor, sizes: list[int], state: State, form: str | None = None
) -> tuple[Tensor, State]:
    """Run a cell over packed rows in the fastest form that allows it, or in the named one.

    Args:
        cell: the cell to run.
        x: packed input rows, (N, D).
        sizes: sequences alive at each step, never increasing.
        state: (S, ...) the state each sequence starts from.
        form: a key of ``FORMS``; ``None`` picks.

    Returns:
        Packed outputs (N, H), and the state (S, ...) each sequence ends with.

    Raises:
        ValueError: if there is no such form, or it cannot honor this call.
    """
    if form is None:
        form = next(n for n, f in FORMS.items() if f.suits(cell) and f.refuses(cell, x) is None)
    elif not isinstance(form, str) or form not in FORMS:
        raise ValueError(f"form: expected None or one of {sorted(FORMS)}, got {form!r}")
    elif reason := FORMS[form].refuses(cell, x):
        raise ValueError(f"form: {form!r} cannot run this: {reason}")
    return FORMS[form].run(cell, x, sizes, state)
