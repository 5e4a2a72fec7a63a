"""Noise on the recurrent path: units that keep their state, weights that are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import Cell, State, flat_sizes, flat_state


def check_probability(name: str, value: Any) -> float:
    """``value`` as a float; raise unless it is a number between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}: expected a number, got {type(value).__name__}")
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a probability between 0 and 1, got {value}")
    return float(value)


def zoneout_rates(zoneout: float | Sequence[float], cell: Cell) -> tuple[float, ...]:
    """One rate for each tensor of the cell's state; none at all where every rate is 0."""
    count = len(flat_sizes(cell.state_size)) if cell.zoned is None else cell.zoned
    if isinstance(zoneout, tuple | list):
        if len(zoneout) != count:
            raise ValueError(
                f"zoneout: expected a number or {count} of them, one for each tensor of the "
                f"state that units may keep, got {len(zoneout)}"
            )
        rates = tuple(check_probability(f"zoneout[{k}]", p) for k, p in enumerate(zoneout))
    else:
        rates = (check_probability("zoneout", zoneout),) * count
        if zoneout and not count:
            raise ValueError(
                f"zoneout: expected 0 for {type(cell).__name__}, whose output is not its state"
            )
    return rates if any(rates) else ()


class Zoneout:
    r"""A cell under zoneout: while training, each unit keeps its state with probability p.

    .. math:: s_t = m_t \odot s_{t-1} + (1 - m_t) \odot \tilde s_t, \qquad m_t \sim B(p)

    where :math:`\tilde s_t` is the state of the cell's own update. In evaluation :math:`m_t` is
    replaced by its mean p. Unlike dropout's zeros, what is kept carries memory and gradient over
    the step (Krueger et al. 2017).

    Args:
        cell: a bound cell whose output is the (first) tensor of its state.
        rates: p for each tensor of the state that takes part.
    """

    def __init__(self, cell: Cell, rates: tuple[float, ...]) -> None:
        self.cell, self.rates = cell, rates
        self.prepare = cell.prepare

    def update(self, u_t: Tensor, state: Any) -> tuple[Tensor, State]:
        """The cell's update, and then what the units keep of the state before."""
        y, new = self.cell.update(u_t, state)
        parts = list(flat_state(new))
        if y is not parts[0]:
            raise ValueError(
                "zoneout: expected a cell whose output is its (first) state, which "
                f"{type(self.cell).__name__}.update does not return"
            )
        for k, (p, before) in enumerate(zip(self.rates, flat_state(state), strict=False)):
            parts[k] = self.mix(p, before, parts[k])
        return parts[0], (tuple(parts) if isinstance(new, tuple) else parts[0])

    def mix(self, p: float, before: Tensor, after: Tensor) -> Tensor:
        """What p of the units keep."""
        if not self.cell.training:
            return p * before + (1 - p) * after
        return torch.where(torch.rand_like(after) < p, before.to(after.dtype), after)


class WeightDrop(nn.Module):
    """A parametrization: entries of a weight are dropped while training, anew at each reading.

    Args:
        p: probability of dropping an entry.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = check_probability("p", p)

    def forward(self, w: Tensor) -> Tensor:
        """The weight with entries dropped and the others scaled by 1 / (1 − p)."""
        return F.dropout(w, self.p, self.training)

    def extra_repr(self) -> str:
        """The rate."""
        return f"p={self.p}"
