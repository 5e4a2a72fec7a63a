"""Cells whose recurrence is an elementwise multiply-add of the state: one method, any way to run.

Such a cell says what happens *along* time in terms of two operations, and never loops. With the
operations of :data:`STEP` what it says is one step; with those of ``run/sweep.py`` it is the whole
sequence at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from companion.cells.base import Cell, autocasting, flat_sizes

HALVES = (torch.float16, torch.bfloat16)  # too short for a running sum


class Time(Protocol):
    """The two things rows of different steps can do to each other, and a scan that is read.

    What they return shares no memory with what they were given, nor with each other; its dtype is
    what the arguments' are promoted to. Thus a float32 state stays float32 under autocast. Where
    all is float16 or bfloat16, multiply-adds are done in float32.
    """

    def shift(self, v: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """What each row's predecessor in its sequence had.

        Args:
            v: (N, K) a value for each row.
            first: (S, K) what the first step of each sequence finds.

        Returns:
            (N, K) the predecessors' values, and (S, K) what each sequence ends with.

        Raises:
            ValueError: if a shape does not fit.
        """

    def scan(self, a: Tensor, b: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
        """:math:`h_t = a_t \\odot h_{t-1} + b_t`, elementwise.

        Args:
            a: (N, K) for each row. A size may be 1, and a decay fixed in time is (K,).
            b: (N, K) for each row.
            h0: (S, K) what each sequence starts from.

        Returns:
            (N, K) every :math:`h_t`, and (S, K) the last of each sequence. The gradient may need
            :math:`h_t`: where one is wanted, autograd raises if it was changed in place.

        Raises:
            ValueError: if a shape does not fit.
        """

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
        """:func:`select` over rows: what a scan gives, read at once, so that none need be kept.

        Args:
            dt, x: (N, V) for each row.
            A: (V, n).
            B, C: (N, n) for each row.
            h0: (S, V·n) what each sequence starts from.
            exact: as of :func:`select`.

        Returns:
            (N, V) every :math:`h_t C_t`, and (S, V·n) the last :math:`h` of each sequence.
        """


def select(
    scan: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    x: Tensor,
    h0: Tensor,
    exact: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""The selective state space :math:`h_t = e^{\Delta_t A} \odot h_{t-1} + \bar B_t x_t`, read.

    Args:
        scan: what runs a recurrence (…, V, n), as :meth:`Time.scan` does.
        dt, x: (…, V), the step sizes and the inputs.
        A: (V, n).
        B, C: (…, n).
        h0: as ``scan`` takes it.
        exact: whether :math:`\bar B = (e^{\Delta A} - 1) A^{-1} B`; else it is :math:`\Delta B`.

    Returns:
        (…, V) every :math:`h_t C_t`, and the last h as ``scan`` gives it.
    """
    dt_A = dt.unsqueeze(-1) * A
    scale = torch.expm1(dt_A) / A if exact else dt.unsqueeze(-1)
    hs, end = scan(dt_A.exp(), scale * B.unsqueeze(-2) * x.unsqueeze(-1), h0)
    return (hs.view(dt_A.shape) * C.unsqueeze(-2)).sum(-1), end


class Selects:
    """The operation :meth:`Time.select` of what has a scan over rows."""

    def scan(self, a: Tensor, b: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

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
        def scan(a: Tensor, b: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            return self.scan(a.flatten(1), b.flatten(1), h)

        return select(scan, dt, A, B, C, x, h0, exact)


class _Step(Selects):
    """A single step: N = S rows, of which each is the whole of its sequence."""

    def shift(self, v: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        check_rows("shift: v", v, first.shape[0], first)
        v, first = promoted(v, first)
        return first.clone(), v.clone()

    def scan(self, a: Tensor, b: Tensor, h0: Tensor) -> tuple[Tensor, Tensor]:
        check_rows("scan: b", b, h0.shape[0], h0)
        shared(a, b)  # for its check alone: a product spreads a, and expand of complex numbers is
        a, b, h0 = promoted(a, b, h0)  # more than ONNX has
        if b.dtype in HALVES:
            h = (a.float() * h0.float() + b.float()).to(b.dtype)
        else:
            h = a * h0 + b
        return h, h.clone()


STEP = _Step()


def full(t: Tensor) -> Tensor:
    """The tensor in float32 or better, for gates, exponentials and running sums."""
    return t.float() if t.dtype in HALVES else t


def unrounded(like: Tensor) -> AbstractContextManager[Any]:
    """A context in which autocast does not round products of what is in float32."""
    if autocasting(like.device.type):
        return torch.autocast(like.device.type, enabled=False)
    return nullcontext()


def widest(first: torch.dtype, *others: torch.dtype) -> torch.dtype:
    """The dtype all of these are promoted to."""
    for dtype in others:
        if dtype != first:
            first = torch.promote_types(first, dtype)
    return first


def rounded(hs: Tensor, last: Tensor, u: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """What a scan with :func:`full` gates returned, in the dtype it has without.

    Near 1 a gate of bfloat16 is 1 or 0.996: it keeps for ever, or for some 256 steps.
    """
    dtype = widest(u.dtype, h.dtype)
    return hs.to(dtype), last.to(dtype)


def promoted(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in the one dtype that loses nothing of any."""
    dtypes = [x.dtype for x in tensors]
    if all(dtype == dtypes[0] for dtype in dtypes):
        return tensors
    wide = widest(*dtypes)
    return tuple(x.to(wide) for x in tensors)


def check_rows(name: str, x: Tensor, N: int, state: Tensor) -> None:
    """Raise unless ``x`` has N rows of the width of ``state`` (S, K)."""
    if state.dim() != 2 or x.dim() != 2 or x.shape[0] != N or x.shape[1] != state.shape[1]:
        raise ValueError(
            f"time.{name}: expected shape (N, K) with N = {N} and K as in the state (S, K), which "
            f"is {tuple(state.shape)}, got {tuple(x.shape)}"
        )


def shared(a: Tensor, b: Tensor) -> Tensor:
    """The factors (N, K) of the terms b (N, K), where a size of ``a`` is 1 or it has no rows."""
    if a.shape == b.shape:
        return a
    sizes = (1,) * (2 - a.dim()) + tuple(a.shape)
    if len(sizes) > 2 or any(n not in (1, m) for n, m in zip(sizes, b.shape, strict=True)):
        raise ValueError(
            f"time.scan: a: expected shape {tuple(b.shape)}, as b has, or with sizes of 1, or "
            f"({b.shape[1]},), got {tuple(a.shape)}"
        )
    return a.expand(b.shape)


class LinearCell(Cell):
    r"""The base of cells that are linear in their state, entry by entry.

    A subclass writes :meth:`along` in place of ``update``. Its only ways from one step to the next
    are two,

    - ``time.scan(a, b, h0)`` gives every :math:`h_t = a_t \odot h_{t-1} + b_t` and the last one,
      where :math:`a_t` and :math:`b_t` do not depend on :math:`h`;
    - ``time.shift(v, first)`` gives every :math:`v_{t-1}`, with ``first`` for :math:`v_0`, and
      the last :math:`v_T`.

    Nothing else waits: the same lines are one step, and all steps at once. Where each channel has
    many numbers of state, which are added up as soon as they are known, ``time.select`` scans and
    reads them and keeps none (see ``companion.cells.linear.select``). What all give is
    promoted: under autocast a float32 state stays float32, whatever v, a and b are.

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

    def held(self) -> int:
        """Numbers of state for each row of a block of steps: a scan gives all of them."""
        return sum(flat_sizes(self.state_size))

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
