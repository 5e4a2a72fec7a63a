"""State spaces whose step size, reading and writing depend on the input: Mamba and Mamba-2."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import stored_weight
from companion.cells.linear import LinearCell, Time, full
from companion.cells.matrix import (
    MatrixCell,
    convolve,
    head_size,
    log_uniform,
    normed,
    split_heads,
    start_window,
)
from companion.checks import check_flag, check_sizes

STEP_SIZES = (1e-3, 1e-1)  # the authors' range of Δ at the start
EPSILON = 1e-5
DISCRETIZATIONS = ("euler", "zoh")


class MambaCell(LinearCell):
    r"""The selective state space of Mamba, with its convolution, gate and projections.

    .. math::

        (x'_t, z_t) &= W x_t + b, \qquad
        u_t = \mathrm{silu}\Big(\sum_{j=0}^{k-1} w_{k-j} \odot x'_{t-j} + b_c\Big) \\
        (\delta_t, B_t, C_t) &= W_x u_t, \qquad
        \Delta_t = \mathrm{softplus}(W_\Delta \delta_t + b_\Delta) \\
        h_t &= e^{\Delta_t A} \odot h_{t-1} + \bar B_t u_t, \qquad A = -e^{a} \\
        y_t &= W_o\big((h_t C_t + D \odot u_t) \odot \mathrm{silu}(z_t)\big) + b_o

    for V channels, each with N numbers of state: :math:`h` and :math:`a` are (V, N), and products
    of vectors of V and N are outer. What waits is a multiply-add for each number.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether :math:`b, b_o` exist; the authors have none.
        device, dtype: of the weights.
        expand: channels, V = ``expand`` · H.
        slots: numbers of state for each channel, N (the authors' ``d_state``).
        window: inputs the convolution sees, k.
        rank: of :math:`W_\Delta`; ``None``: H / 16, rounded up.
        discretization: of B, ``"euler"``, :math:`\bar B = \Delta B`, as in the authors' code, or
            ``"zoh"``, :math:`\bar B = (e^{\Delta A} - 1) A^{-1} B`, as in the paper; A is held,
            :math:`e^{\Delta A}`, in both.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (2V, D), ``bias_ih`` (2V,), ``weight_conv`` (V, k), ``bias_conv`` (V,),
        ``weight_x`` (rank + 2N, V), ``weight_dt`` (V, rank), ``bias_dt`` (V,), ``log_a`` (V, N),
        which is a, ``skip`` (V,), which is D, ``weight_ho`` (H, V), ``bias_ho`` (H,); input
        (B, D), output (B, H), state the pair of h (B, V·N) and the window's past (B, (k − 1) V).

    Source:
        Gu and Dao (2023), and the authors' code (state-spaces/mamba), from which the starts of Δ,
        A and D are.

    Example:
        >>> cell = MambaCell(3, 4)
        >>> y, (h, past) = cell.step(torch.zeros(2, 3), cell.initial_state(2))
        >>> y.shape, h.shape, past.shape
        (torch.Size([2, 4]), torch.Size([2, 128]), torch.Size([2, 24]))
    """

    recurrent_weights = ()  # none that a `recurrent_init` could fill

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        expand: int = 2,
        slots: int = 16,
        window: int = 4,
        rank: int | None = None,
        discretization: str = "euler",
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_sizes(expand=(expand, 1), slots=(slots, 1), window=(window, 1))
        if rank is not None:
            check_sizes(rank=(rank, 1))
        if not isinstance(discretization, str) or discretization not in DISCRETIZATIONS:
            raise ValueError(
                f"discretization: expected one of {sorted(DISCRETIZATIONS)}, "
                f"got {discretization!r}"
            )
        self.bias, self.expand, self.slots, self.window = bias, expand, slots, window
        self.rank, self.discretization = rank, discretization
        H, V = hidden_size, expand * hidden_size
        self.width, self.low = V, rank or math.ceil(H / 16)
        self.state_size = (V * slots, (window - 1) * V)
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(2 * V, input_size, **new)
        self.bias_ih = self.weight(2 * V, **new) if bias else None
        self.weight_conv = self.weight(V, window, **new)
        self.bias_conv = self.weight(V, **new)
        self.weight_x = self.weight(self.low + 2 * slots, V, **new)
        self.weight_dt = self.weight(V, self.low, **new)
        self.bias_dt = self.weight(V, **new)
        self.log_a = self.weight(V, slots, **new)
        self.skip = self.weight(V, **new)
        self.weight_ho = self.weight(H, V, **new)
        self.bias_ho = self.weight(H, **new) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As every cell; then A = −1, …, −N, Δ from 0.001 to 0.1 where nothing comes, D = 1."""
        super().reset_parameters()
        with torch.no_grad():
            _start_window(self)
            a = stored_weight(self, "log_a")
            a.copy_(torch.arange(1, self.slots + 1, dtype=a.dtype, device=a.device).log())
            nn.init.uniform_(stored_weight(self, "weight_dt"), -(self.low**-0.5), self.low**-0.5)

    def held(self) -> int:
        """What is read of the states; with ``"zoh"`` a scan gives them all."""
        return super().held() if self.discretization == "zoh" else self.width

    def prepare(self, x: Tensor) -> Tensor:
        """Channels and gates, for all steps at once."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def along(self, u: Tensor, state: Any, time: Time) -> tuple[Tensor, Any]:
        """The window, what it selects, one scan that is read, the gate."""
        h, past = state
        x, z = u.chunk(2, -1)
        x, past = convolve(x, self.weight_conv, self.bias_conv, past, time)
        x = F.silu(x)
        low, B, C = F.linear(x, self.weight_x).split([self.low, self.slots, self.slots], -1)
        dt = F.softplus(full(F.linear(low, self.weight_dt)) + full(self.bias_dt))
        # neither no decay at all nor an infinite one: 0 / 0 in "zoh", or 0 · ∞ where dt is 0
        A = -torch.exp(full(self.log_a).clamp(-57.0, 57.0))
        exact = self.discretization == "zoh"
        y, end = time.select(dt, A, full(B), full(C), full(x), full(h), exact)
        y = y.to(x.dtype)
        y = (y + self.skip * x) * F.silu(z)
        return F.linear(y, self.weight_ho, self.bias_ho), (end.to(h.dtype), past)


class Mamba2Cell(MatrixCell):
    r"""The state space of Mamba-2: one decay for each head, a matrix for its state.

    .. math::

        (z_t, x'_t, B'_t, C'_t, \delta_t) &= W x_t + b, \qquad
        (u_t, B_t, C_t) = \mathrm{silu}(\mathrm{window}(x'_t, B'_t, C'_t)) \\
        S_t &= e^{\Delta_t A} S_{t-1} + \Delta_t B_t u_t^\top, \qquad
        \Delta_t = \mathrm{softplus}(\delta_t + b_\Delta), \quad A = -e^a \\
        r_t &= S_t^\top C_t + D u_t \\
        y_t &= W_o\big(g \odot \mathrm{rms}(r_t \odot \mathrm{silu}(z_t))\big) + b_o

    for each head with its own :math:`\Delta, A, D` and its part of u; B and C are shared. With one
    number for a decay this is linear attention with queries C and keys ΔB.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether :math:`b, b_o` exist; the authors have none.
        device, dtype: of the weights.
        heads: number of heads, h.
        expand: channels, V = ``expand`` · H; a head has V / h (the authors' ``headdim``).
        slots: rows of each head's state, N (the authors' ``d_state``, 128 there).
        window: inputs the convolution sees, k.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (2V + 2N + h, D), ``bias_ih`` as long, ``weight_conv`` (V + 2N, k),
        ``bias_conv`` (V + 2N,), ``bias_dt``, ``log_a`` and ``skip`` (h,), which are b_Δ, a and D,
        ``gain`` (V,), which is g, ``weight_ho`` (H, V), ``bias_ho`` (H,); input (B, D), output
        (B, H), state the pair of S (B, N·V) and the window's past (B, (k − 1)(V + 2N)).

    Source:
        Dao and Gu (2024), and the authors' code (state-spaces/mamba), from which the norm after
        the gate and the starts of Δ, A and D are; one group of B and C.

    Example:
        >>> cell = Mamba2Cell(3, 4)
        >>> y, (S, past) = cell.step(torch.zeros(2, 3), cell.initial_state(2))
        >>> y.shape, S.shape, past.shape
        (torch.Size([2, 4]), torch.Size([2, 128]), torch.Size([2, 120]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        heads: int = 2,
        expand: int = 2,
        slots: int = 16,
        window: int = 4,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_sizes(expand=(expand, 1), slots=(slots, 1), window=(window, 1))
        H, V, K = hidden_size, expand * hidden_size, expand * hidden_size + 2 * slots
        head_size("expand * hidden_size", V, heads)
        self.bias, self.heads, self.expand, self.slots = bias, heads, expand, slots
        self.window, self.width = window, V
        self.state_size = (slots * V, (window - 1) * K)
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(V + K + heads, input_size, **new)
        self.bias_ih = self.weight(V + K + heads, **new) if bias else None
        self.weight_conv = self.weight(K, window, **new)
        self.bias_conv = self.weight(K, **new)
        self.bias_dt = self.weight(heads, **new)
        self.log_a = self.weight(heads, **new)
        self.skip = self.weight(heads, **new)
        self.gain = self.weight(V, **new)
        self.weight_ho = self.weight(H, V, **new)
        self.bias_ho = self.weight(H, **new) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As every cell; then A from −16 to −1, Δ from 0.001 to 0.1 where nothing comes, D = 1."""
        super().reset_parameters()
        with torch.no_grad():
            _start_window(self)
            a = stored_weight(self, "log_a")
            a.uniform_(1, 16).log_()
            stored_weight(self, "gain").fill_(1)

    def prepare(self, x: Tensor) -> Tensor:
        """Gates, channels, keys, queries and step sizes, for all steps at once."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def along(self, u: Tensor, state: Any, time: Any) -> tuple[Tensor, Any]:
        """The window, the chunks' recurrence, the gate and its norm."""
        S, past = state
        V, N, h = self.width, self.slots, self.heads
        z, x, dt = u.split([V, V + 2 * N, h], -1)
        x, past = convolve(x, self.weight_conv, self.bias_conv, past, time)
        x, B, C = F.silu(x).split([V, N, N], -1)
        dt = F.softplus(full(dt) + full(self.bias_dt))
        keys = (full(B).unsqueeze(1) * dt.unsqueeze(-1)).to(B.dtype)
        v = split_heads(x, h)
        queries = C.unsqueeze(1).expand(-1, h, -1)
        r, S = time.attend(queries, keys, v, S, -dt * torch.exp(full(self.log_a)))
        r = (r + self.skip.unsqueeze(-1) * v).flatten(1)
        y = normed(r * F.silu(z), EPSILON) * self.gain
        return F.linear(y, self.weight_ho, self.bias_ho), (S, past)


def _start_window(cell: Any) -> None:
    """What both share: the window's weights, the step sizes, the skip."""
    start_window(cell)
    dt = stored_weight(cell, "bias_dt")
    dt.copy_(log_uniform(*STEP_SIZES, dt))
    stored_weight(cell, "skip").fill_(1)
