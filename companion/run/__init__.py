"""Every way to run a cell along time, written once for all cells that allow it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from companion.cells.base import Cell, State
from companion.run.loop import loop
from companion.run.plan import Plan, plan_packed, plan_ragged, plan_whole

__all__ = ["FORMS", "Plan", "loop", "plan_packed", "plan_ragged", "plan_whole", "run"]

Form = Callable[[Cell, Tensor, list[int], State], tuple[Tensor, State]]

# Fastest first.  The loop is the specification and can run any cell.
FORMS: dict[str, Form] = {"loop": loop}


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
        ValueError: if there is no such form.
    """
    if form is not None and form not in FORMS:
        raise ValueError(f"form: expected None or one of {sorted(FORMS)}, got {form!r}")
    return FORMS[form or "loop"](cell, x, sizes, state)
