"""Cells whose state is a matrix a head: what rows of different steps do to each other.

Such a cell says what happens *along* time, as :class:`companion.LinearCell` does, and has three
more operations to say it in. With those of :data:`MATRIX_STEP` what it says is one step, the
specification; with those of ``run/chunk.py`` it is blocks of matrix products.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from companion.cells.base import stored_weight
from companion.cells.linear import LinearCell, Time, _Step, full, widest
from companion.checks import check_size


class MatrixTime(Time, Protocol):
    """What :class:`companion.cells.linear.Time` has, and three operations on a state S.

    S is flat, (S, h·d_k·d_v): for each of h heads a matrix of d_k rows, one a key's entry. The
    outputs' dtype is what q, k, v and S are promoted to; sums, decays and exponentials are in
    float32 or better.
    """

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        state: Tensor,
        log_decay: Tensor | None = None,
        turn: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """:math:`S_t = R\\,\\mathrm{diag}(e^{g_t}) S_{t-1} + k_t v_t^\\top`, y_t = q_tᵀ S_t.

        Args:
            q, k: (N, h, d_k) for each row.
            v: (N, h, d_v) for each row.
            state: (S, h·d_k·d_v) what each sequence starts from.
            log_decay: g, of each head (N, h) or of each entry of its keys (N, h, d_k), at most 0;
                without N where it is fixed in time, as (h,); ``None``: 0.
            turn: (d_k / 2,) the angle by which R turns each pair of rows of S at each step, where
                the decay is that of a head; ``None``: R = 1.

        Returns:
            (N, h, d_v) every y, and (S, h·d_k·d_v) the last S of each sequence.
        """

    def delta(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        a: Tensor,
        b: Tensor,
        state: Tensor,
        log_decay: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """:math:`S_t = (\\mathrm{diag}(e^{g_t}) + a_t b_t^\\top) S_{t-1} + k_t v_t^\\top`.

        Args:
            q, k, v, state, log_decay: as of :meth:`attend`.
            a, b: (N, h, d_k) for each row.

        Returns:
            As :meth:`attend`.
        """

    def peak(self, a: Tensor, b: Tensor, first: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """:math:`m_t = \\max(a_t + m_{t-1}, b_t)`, elementwise: the running maximum of logarithms.

        Args:
            a, b: (N, K) for each row; a decay fixed in time is (K,).
            first: (S, K) what each sequence starts from; -∞ where nothing was before.

        Returns:
            (N, K) every m, (N, K) the rest :math:`a_t + m_{t-1} - m_t \\le 0`, which is the log
            decay of what was stabilized by :math:`m_{t-1}` and now is by :math:`m_t`, and (S, K)
            the last m of each sequence, in the dtype of ``first``.
        """


class _MatrixStep(_Step):
    """A single step: N = S rows, of which each is the whole of its sequence."""

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        state: Tensor,
        log_decay: Tensor | None = None,
        turn: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        check_heads("attend", state.shape[0], state, q, k, v, log_decay, turn)
        kind = widest(q.dtype, k.dtype, v.dtype, state.dtype)
        S, q, k, v = matrices(state, q, v), full(q), full(k), full(v)
        S = decayed(S, log_decay)
        if turn is not None:
            S = rotate(S.transpose(-1, -2), turn.to(S.dtype)).transpose(-1, -2)
        S = S + k.unsqueeze(-1) * v.unsqueeze(-2)
        y = (q.unsqueeze(-1) * S).sum(-2)
        return y.to(kind), S.flatten(1).to(kind, copy=True)

    def delta(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        a: Tensor,
        b: Tensor,
        state: Tensor,
        log_decay: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        check_heads("delta", state.shape[0], state, q, k, v, log_decay, None, a, b)
        kind = widest(q.dtype, k.dtype, v.dtype, a.dtype, b.dtype, state.dtype)
        S = matrices(state, q, v)
        q, k, v, a, b = full(q), full(k), full(v), full(a), full(b)
        read = (b.unsqueeze(-1) * S).sum(-2, keepdim=True)  # b_tᵀ S_{t-1}
        S = decayed(S, log_decay) + a.unsqueeze(-1) * read + k.unsqueeze(-1) * v.unsqueeze(-2)
        y = (q.unsqueeze(-1) * S).sum(-2)
        return y.to(kind), S.flatten(1).to(kind, copy=True)

    def peak(self, a: Tensor, b: Tensor, first: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # what is stored is what stabilizes: rounded at once where it is of half precision
        kept = full(a) + full(first)
        m = torch.maximum(kept, full(b)).to(first.dtype)
        return m, kept - full(m), m.clone()


MATRIX_STEP = _MatrixStep()


def matrices(state: Tensor, q: Tensor, v: Tensor) -> Tensor:
    """(S, h, d_k, d_v) of a flat state."""
    return full(state).unflatten(1, (q.shape[1], q.shape[2], v.shape[2]))


def decayed(S: Tensor, log_decay: Tensor | None) -> Tensor:
    """diag(e^g) S, the decay of each head or of each row."""
    if log_decay is None:
        return S
    g = full(log_decay)
    g = g.unsqueeze(0) if g.dim() == 1 else g
    return S * torch.exp(g).reshape(g.shape + (1,) * (4 - g.dim()))


def rotate(x: Tensor, angle: Tensor) -> Tensor:
    """Turn the pairs (x_0, x_1), (x_2, x_3), … of the last dimension: (..., d) by (..., d / 2)."""
    x0, x1 = x[..., ::2], x[..., 1::2]
    cos, sin = torch.cos(angle), torch.sin(angle)
    return torch.stack([x0 * cos - x1 * sin, x0 * sin + x1 * cos], -1).flatten(-2)


def check_heads(
    name: str,
    N: int,
    state: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    turn: Tensor | None,
    *others: Tensor,
) -> None:
    """Raise unless the rows fit each other and the state."""
    if q.dim() != 3 or v.dim() != 3 or q.shape[0] != N:
        got = f"{tuple(q.shape)} and {tuple(v.shape)}"
        raise ValueError(
            f"time.{name}: q, v: expected (N, h, d_k) and (N, h, d_v) with N = {N}, got {got}"
        )
    h, d_k, d_v = q.shape[1], q.shape[2], v.shape[2]
    for part, x, shape in (
        ("v", v, (N, h, d_v)),
        *((part, x, (N, h, d_k)) for part, x in zip("kab", (k, *others), strict=False)),
        ("state", state, (state.shape[0], h * d_k * d_v)),
    ):
        if x.shape != shape:
            raise ValueError(
                f"time.{name}: {part}: expected shape {tuple(shape)}, got {tuple(x.shape)}"
            )
    if log_decay is not None and log_decay.shape not in ((h,), (N, h), (N, h, d_k)):
        raise ValueError(
            f"time.{name}: log_decay: expected shape {(h,)}, {(N, h)} or {(N, h, d_k)}, "
            f"got {tuple(log_decay.shape)}"
        )
    if turn is not None:
        if turn.dim() != 1 or 2 * len(turn) != d_k:
            raise ValueError(
                f"time.{name}: turn: expected (d_k / 2,) with d_k = {d_k}, got {tuple(turn.shape)}"
            )
        if log_decay is not None and log_decay.dim() == 3:
            raise ValueError(f"time.{name}: turn: expected a decay that a whole head shares")


class MatrixCell(LinearCell):
    r"""The base of cells whose state holds a matrix for each head.

    A subclass writes :meth:`along` as that of :class:`companion.LinearCell`. Its ``time`` has, as
    well as ``scan`` and ``shift``,

    - ``time.attend(q, k, v, S, log_decay, turn)``, which gives every :math:`S_t^\top q_t` of
      :math:`S_t = R\,\mathrm{diag}(e^{g_t}) S_{t-1} + k_t v_t^\top` and the last S. The log
      decay g is of a head, of each entry of its keys, or ``None``; R turns pairs of rows by a
      fixed angle, or is ``None``;
    - ``time.delta(q, k, v, a, b, S, log_decay)``, the same of
      :math:`S_t = (\mathrm{diag}(e^{g_t}) + a_t b_t^\top) S_{t-1} + k_t v_t^\top`;
    - ``time.peak(a, b, m)``, which gives every :math:`m_t = \max(a_t + m_{t-1}, b_t)`, every
      :math:`a_t + m_{t-1} - m_t`, and the last m: the maximum that stabilizes exponential gates.

    Rows are (N, heads, features), S is flat, (S, heads·d_k·d_v). With one row a sequence this is
    a step; with many it runs in chunks of matrix products, the form ``"chunk"``.

    Example:
        A memory of outer products that fades by a tenth at each step:

        >>> import companion, math, torch
        >>> class Fading(MatrixCell):
        ...     def __init__(self, input_size, hidden_size, bias=True, **new):
        ...         super().__init__(input_size, hidden_size)
        ...         self.state_size = hidden_size**2
        ...         self.weight_ih = self.weight(3 * hidden_size, input_size, **new)
        ...         self.reset_parameters()
        ...     def prepare(self, x):
        ...         return torch.nn.functional.linear(x, self.weight_ih)
        ...     def along(self, u, S, time):
        ...         q, k, v = u.unsqueeze(1).chunk(3, -1)  # one head
        ...         y, S = time.attend(q, k, v, S, u.new_tensor([math.log(0.9)]))
        ...         return y.flatten(1), S
        >>> layer, x = companion.Recurrence(Fading, 3, 4), torch.randn(2, 7, 3)
        >>> torch.allclose(layer(x, form="chunk")[0], layer(x, form="loop")[0], atol=1e-6)
        True
    """

    recurrent_weights = ()  # none that a `recurrent_init` could fill

    def update(self, u_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step: :meth:`along` where every sequence has one row."""
        return self.along(u_t, state, MATRIX_STEP)

    def along(self, u: Tensor, state: Any, time: Any) -> tuple[Tensor, Any]:
        """What happens along time; see :class:`companion.LinearCell`."""
        raise NotImplementedError(f"{type(self).__name__} has no along")


def split_heads(u: Tensor, heads: int) -> Tensor:
    """(N, h·d) as (N, h, d)."""
    return u.unflatten(-1, (heads, u.shape[-1] // heads))


def head_size(name: str, size: int, heads: int) -> int:
    """Features of each head; raises unless the heads share ``size`` evenly."""
    check_size("heads", heads)
    if size % heads:
        raise ValueError(f"{name}: expected a multiple of heads = {heads}, got {size}")
    return size // heads


def normed(x: Tensor, eps: float, center: bool = False) -> Tensor:
    """x over its root mean square along the last dimension, in float32 or better."""
    y = full(x)
    if center:
        y = y - y.mean(-1, keepdim=True)
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)).to(x.dtype)


def unit(x: Tensor, eps: float = 1e-6) -> Tensor:
    """x over its length along the last dimension, in float32 or better."""
    y = full(x)
    return (y * torch.rsqrt(y.square().sum(-1, keepdim=True) + eps)).to(x.dtype)


def start_window(cell: Any) -> None:
    """The weights of :func:`convolve` as a convolution of torch starts them; no gradient."""
    bound = cell.window**-0.5
    for name in ("weight_conv", "bias_conv"):
        if getattr(cell, name, None) is not None:
            nn.init.uniform_(stored_weight(cell, name), -bound, bound)


def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None, past: Tensor, time: Time
) -> tuple[Tensor, Tensor]:
    r"""A causal window over each channel, :math:`\sum_j w_{k-j} \odot x_{t-j} + b`.

    Args:
        x: (N, K) rows.
        weight: (K, k), the last column for the present, as ``conv1d`` has it.
        bias: (K,) or ``None``.
        past: (S, (k − 1) K), the inputs before the first row, the latest first.
        time: how rows of different steps meet.

    Returns:
        (N, K), and what ``past`` is after the last row.
    """
    k = weight.shape[1]
    y, ends = x * weight[:, k - 1], []
    if bias is not None:
        y = y + bias
    for j, first in enumerate(past.chunk(k - 1, -1) if k > 1 else (), 1):
        x, end = time.shift(x, first)
        y = y + x * weight[:, k - 1 - j]
        ends.append(end)
    return y, torch.cat(ends, -1) if ends else past


def log_uniform(low: float, high: float, like: Tensor) -> Tensor:
    """softplus⁻¹ of numbers whose logarithms are even between ``low`` and ``high``."""
    dt = torch.empty_like(like).uniform_(math.log(low), math.log(high)).exp()
    return dt + torch.log(-torch.expm1(-dt))
