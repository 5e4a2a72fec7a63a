"""Cells whose recurrence is an elementwise multiply-add of the state: one method, any way to run.

Such a cell says what happens *along* time in terms of two operations, and never loops. With the
operations of :data:`STEP` what it says is one step; with those of ``run/sweep.py`` it is the whole
sequence at once.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from companion.cells.base import Cell


class Time(Protocol):
    """The two things rows of different steps can do to each other."""

    def shift(self, v: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """What each row's predecessor in its sequence had.

        Args:
            v: (N, K) a value for each row.
            first: (S, K) what the first step of each sequence finds.

        Returns:
            (N, K) the predecessors' values, and (S, K) what each sequence ends with.
        """

    def scan(self, a: Tensor, b: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
        """:math:`h_t = a_t \\odot h_{t-1} + b_t`, elementwise.

        Args:
            a, b: (N, K) for each row.
            h0: (S, K) what each sequence starts from.

        Returns:
            (N, K) every :math:`h_t`, and (S, K) the last of each sequence.
        """


class _Step:
    """A single step: N = S rows, of which each is the whole of its sequence."""

    def shift(self, v: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        return first, v

    def scan(self, a: Tensor, b: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
        h = a * h0 + b
        return h, h


STEP = _Step()


class LinearCell(Cell):
    r"""The base of cells that are linear in their state, entry by entry.

    A subclass writes :meth:`along` in place of ``update``. Its only ways from one step to the next
    are two,

    - ``time.scan(a, b, h0)`` gives every :math:`h_t = a_t \odot h_{t-1} + b_t` and the last one,
      where :math:`a_t` and :math:`b_t` do not depend on :math:`h`;
    - ``time.shift(v, first)`` gives every :math:`v_{t-1}`, with ``first`` for :math:`v_0`, and
      the last :math:`v_T`.

    Nothing else waits: the same lines are one step, and all steps at once.

    Example:
        >>> import companion, torch
        >>> class Leaky(LinearCell):
        ...     def __init__(self, input_size, hidden_size, bias=True, **new):
        ...         super().__init__(input_size, hidden_size)
        ...         self.weight_ih = self.weight(hidden_size, input_size, **new)
        ...         self.reset_parameters()
        ...     def prepare(self, x):
        ...         return torch.nn.functional.linear(x, self.weight_ih)
        ...     def along(self, u, h, time):
        ...         return time.scan(torch.full_like(u, 0.9), 0.1 * u, h)
        >>> layer, x = companion.Recurrence(Leaky, 3, 4), torch.randn(2, 7, 3)
        >>> torch.allclose(layer(x, form="scan")[0], layer(x, form="loop")[0], atol=1e-6)
        True
    """

    zoned = 0  # the output is a function of the state, or the cell has a zoneout of its own

    def along(self, u: Tensor, state: Any, time: Time) -> tuple[Tensor, Any]:
        """What happens along time.

        Args:
            u: rows of ``prepare(x)``, (N, G).
            state: the state (S, ...) each sequence starts from.
            time: how rows of different steps meet.

        Returns:
            Outputs (N, H), and the state (S, ...) each sequence ends with.
        """
        raise NotImplementedError(f"{type(self).__name__} has no along")

    def update(self, u_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step: :meth:`along` where every sequence has one row."""
        return self.along(u_t, state, STEP)
