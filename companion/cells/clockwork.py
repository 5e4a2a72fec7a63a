"""The clockwork network: groups of units that move at their own pace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.cells.base import Cell
from companion.checks import check_flag


class ClockworkRNNCell(Cell):
    r"""The clockwork cell: group i moves when its period divides the time.

    .. math::

        h^i_t = \begin{cases}
            \tanh\big(W^i x_t + b^i + \sum_{j \ge i} U^{ij} h^j_{t-1}\big)
                & \text{if } t \bmod T_i = 0 \\
            h^i_{t-1} & \text{otherwise,}
        \end{cases}
        \qquad T_1 < T_2 < \dots < T_g, \quad t = 0, 1, \dots

    The units are split into g groups of equal size. A group hears itself and the slower ones, so
    that the recurrent matrix is block-upper-triangular; its blocks alone are stored. While a group
    rests its state is kept, and the gradient passes it unchanged: a path of length
    :math:`T / T_i`.

    The time is part of the state, counted modulo the least common multiple of the periods: a
    sequence that is cut, reset or streamed keeps its clock.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`, a multiple of the number of periods.
        bias: whether :math:`b` exists.
        device, dtype: of the weights.
        periods: :math:`T_1, \dots, T_g`, increasing. The paper takes powers of two.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range; or, at a step,
            if the state's dtype cannot count the time.

    Shapes:
        ``weight_ih`` (H, D); ``weight_hh0``, ``weight_hh1``, … one for each group i of n units,
        (n, H − i n); ``bias_ih`` (H,); input (B, D), output h (B, H), state the pair of h and the
        time (B, 1), which counts as the whole number nearest to it.

    Source:
        Koutník et al. (2014). We count time from 0, at which every group moves.

    Example:
        >>> cell = ClockworkRNNCell(3, 4, periods=(1, 3))
        >>> h, time = cell.initial_state(2)
        >>> for _ in range(5):
        ...     y, (h, time) = cell.step(torch.ones(2, 3), (h, time))
        >>> time.tolist()  # 5 modulo 3
        [[2.0], [2.0]]
    """

    recurrent_weights = ()  # none that a `recurrent_init` could fill

    zoned = 1  # h, never the time

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        periods: Sequence[int] = (1, 2, 4, 8),
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        if dtype is not None and dtype.is_complex:
            raise ValueError(
                f"dtype: expected a real one, since the state has a clock, got {dtype}"
            )
        self.periods = check_periods(periods)
        g = len(self.periods)
        if hidden_size % g:
            raise ValueError(
                f"hidden_size: expected a multiple of {g}, the number of periods, "
                f"got {hidden_size}"
            )
        self.bias, self.group_size, self.cycle = bias, hidden_size // g, math.lcm(*self.periods)
        self.state_size = (hidden_size, 1)
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(hidden_size, input_size, **new)
        for i in range(g):
            heard = hidden_size - i * self.group_size
            self.register_parameter(f"weight_hh{i}", self.weight(self.group_size, heard, **new))
        self.bias_ih = self.weight(hidden_size, **new) if bias else None
        self.reset_parameters()

    def prepare(self, x: Tensor) -> Tensor:
        """W x_t + b, for all steps at once, whether a group will move or not."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def update(self, u_t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        """One step; each row has its own clock."""
        h, time = state
        time, n, groups = self.whole(time), self.group_size, []
        seen = self.recurrent(h)
        for i, period in enumerate(self.periods):
            u, own = u_t[..., i * n : (i + 1) * n], h[..., i * n : (i + 1) * n]
            moved = torch.tanh(u + F.linear(seen[..., i * n :], self.hears(i)))
            groups.append(torch.where(torch.remainder(time, period) == 0, moved, own))
        h = torch.cat(groups, -1)
        return h, (h, torch.remainder(time + 1, self.cycle))

    def hears(self, i: int) -> Tensor:
        """The weights with which group i hears itself and the slower groups."""
        return getattr(self, f"weight_hh{i}")

    def whole(self, time: Tensor) -> Tensor:
        """The time as a whole number, if its dtype can count to the end of a cycle."""
        most = 2 / torch.finfo(time.dtype).eps  # the last number all below which are exact
        if self.cycle > most:
            raise ValueError(
                f"periods: expected a least common multiple of at most {most:.0f}, to which "
                f"{time.dtype} counts without a gap, got {self.cycle} of {self.periods}"
            )
        return torch.round(time)


def check_periods(periods: Any) -> tuple[int, ...]:
    """The periods as a tuple; raise unless they are whole numbers from 1 that increase."""
    if not isinstance(periods, tuple | list) or not all(
        isinstance(p, int) and not isinstance(p, bool) for p in periods
    ):
        raise TypeError(f"periods: expected a list of whole numbers, got {periods!r}")
    below = (0, *periods)
    if not periods or any(p >= q for p, q in zip(below, periods, strict=False)):
        raise ValueError(
            f"periods: expected increasing numbers from 1, one for each group, got {periods!r}"
        )
    return tuple(periods)
