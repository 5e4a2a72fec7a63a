"""S4D: a state space model whose matrix is diagonal."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import stored_weight
from companion.cells.linear import LinearCell, Time, full, widest
from companion.cells.state_space import (
    DISCRETIZATIONS,
    Diagonal,
    TimeInvariantCell,
    Unrolled,
    check_real,
    complex_of,
    normal_plus_low_rank,
    pairs_of,
    rate,
)
from companion.checks import check_flag, check_number, check_size


def legs(order: int) -> Tensor:
    """ω_n of the normal part of HiPPO-LegS, computed."""
    return normal_plus_low_rank(order)[0].imag


def lin(order: int) -> Tensor:
    """ω_n = π n, the limit of HiPPO-FouT."""
    return math.pi * torch.arange(order // 2, dtype=torch.float64, device="cpu")


def inv(order: int) -> Tensor:
    """ω_n = (N / π) (N / (2n + 1) − 1), close to those of LegS."""
    n = torch.arange(order // 2, dtype=torch.float64, device="cpu")
    return order / math.pi * (order / (2 * n + 1) - 1)


FREQUENCIES = {"legs": legs, "lin": lin, "inv": inv}


class S4DCell(TimeInvariantCell, LinearCell):
    r"""The diagonal state space cell: each feature drives N damped oscillators of its own.

    .. math::

        h'(t) &= A h(t) + B v(t), \qquad A = \mathrm{diag}(-\exp a + i \omega), \quad B = 1 \\
        h_t &= \bar A h_{t-1} + \bar B v_t, \qquad
        c_t = 2\, \mathrm{Re} \sum_{n=1}^{N/2} C_n h_{t,n} \\
        y_t &= c_t + D v_t

    for each of H features :math:`v` on its own, :math:`v_t = x_t` where D = H, else
    :math:`v_t = W x_t + b`. Oscillators come in conjugate pairs, of which one is computed: N real
    numbers of state a feature. The step :math:`\Delta = \exp(\log \Delta)` is learned, and the
    continuous system is made discrete, with a zero-order hold or bilinearly,

    .. math::

        \bar A = e^{\Delta A}, \; \bar B = \frac{e^{\Delta A} - 1}{A} \qquad \text{or} \qquad
        \bar A = \frac{1 + \Delta A / 2}{1 - \Delta A / 2}, \;
        \bar B = \frac{\Delta}{1 - \Delta A / 2} .

    The same at every step, it is a recurrence, a scan and a convolution with the kernel
    :math:`k_j = 2\, \mathrm{Re} \sum_n C_n \bar A_n^j \bar B_n`; the last is what runs unless
    another form is asked for. Its rounding error is relative to the largest output of the
    sequence, and one NaN or infinity in it is in every output, of earlier steps as well; of
    ``form="scan"`` and ``"loop"`` neither is true. Features meet, and anything is nonlinear, only
    between layers.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of features, :math:`H`.
        bias: whether :math:`b` exists, where D ≠ H.
        device, dtype: of the weights.
        order: :math:`N`, even.
        frequencies: how :math:`\omega` starts: ``"lin"``, :math:`\omega_n = \pi n`; ``"inv"``,
            :math:`\frac{N}{\pi} \big(\frac{N}{2n+1} - 1\big)`; ``"legs"``, the eigenvalues of the
            normal part of HiPPO-LegS. The damping starts at :math:`\tfrac12` in all of them.
        discretization: ``"zoh"`` or ``"bilinear"``.
        dt_min, dt_max: :math:`\Delta` starts log-uniform between these; the memory of a feature is
            of the order of :math:`1 / \Delta` steps.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``log_dt`` (H,); ``log_decay``, which is a, and ``frequency``, which is ω, (H, N/2); ``C``
        (H, N), pairs of real and imaginary part; ``D`` (H,); where D ≠ H, ``weight_ih`` (H, D)
        and ``bias_ih`` (H,); input (B, D), output (B, H), state (B, HN), pairs as well.

    Source:
        Gu, Gupta, Goel and Ré (2022), "On the parameterization and initialization of diagonal
        state space models"; start and B = 1 from the authors' code
        (state-spaces/s4, models/s4/s4d.py), in which C absorbs B, and Δ and A learn without weight
        decay and, on request, at a rate of their own.

    Example:
        >>> cell = S4DCell(4, 4, order=8)
        >>> y, h = cell.step(torch.zeros(2, 4), cell.initial_state(2))
        >>> y.shape, h.shape
        (torch.Size([2, 4]), torch.Size([2, 32]))
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
        order: int = 64,
        frequencies: str = "lin",
        discretization: str = "zoh",
        dt_min: float = 0.001,
        dt_max: float = 0.1,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_real(dtype)
        check_order(order)
        check_steps(dt_min, dt_max)
        for name, value, known in (
            ("frequencies", frequencies, FREQUENCIES),
            ("discretization", discretization, DISCRETIZATIONS),
        ):
            if not isinstance(value, str) or value not in known:
                raise ValueError(f"{name}: expected one of {sorted(known)}, got {value!r}")
        self.bias, self.order, self.frequencies = bias, order, frequencies
        self.discretization, self.dt_min, self.dt_max = discretization, dt_min, dt_max
        projects = input_size != hidden_size
        self.state_size = hidden_size * order
        H, n, new = hidden_size, order // 2, dict[str, Any](device=device, dtype=dtype)
        self.log_dt = self.weight(H, **new)
        self.log_decay = self.weight(H, n, **new)
        self.frequency = self.weight(H, n, **new)
        self.C = self.weight(H, order, **new)
        self.D = self.weight(H, **new)
        self.weight_ih = self.weight(H, input_size, **new) if projects else None
        self.bias_ih = self.weight(H, **new) if projects and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Δ log-uniform, damping ½, ω as asked for, C complex Gaussian, D Gaussian."""
        super().reset_parameters()  # of the projection
        with torch.no_grad():
            stored_weight(self, "log_dt").uniform_(math.log(self.dt_min), math.log(self.dt_max))
            stored_weight(self, "log_decay").fill_(math.log(0.5))
            stored_weight(self, "frequency").copy_(FREQUENCIES[self.frequencies](self.order))
            nn.init.normal_(stored_weight(self, "C"), std=math.sqrt(0.5))
            nn.init.normal_(stored_weight(self, "D"))

    def prepare(self, x: Tensor) -> Tensor:
        """v_t, for all steps at once."""
        return x if self.weight_ih is None else F.linear(x, self.weight_ih, self.bias_ih)

    def discrete(self) -> tuple[Tensor, Tensor]:
        """Ā and B̄, (H, N/2) each."""
        A = torch.complex(-rate(self.log_decay), full(self.frequency))
        return DISCRETIZATIONS[self.discretization](A, rate(self.log_dt).unsqueeze(-1))

    def along(self, u: Tensor, h: Tensor, time: Time) -> tuple[Tensor, Tensor]:
        """One scan of all oscillators of all features."""
        a, b = self.discrete()
        v = self.enters(u)
        hs, last = time.scan(a.flatten(), (b * v.unsqueeze(-1)).flatten(-2), complex_of(h))
        c = 2 * (complex_of(self.C) * hs.unflatten(-1, a.shape)).real.sum(-1)
        dtype = widest(u.dtype, h.dtype)
        return self.leaves(c, u, dtype), pairs_of(last).to(dtype)

    def enters(self, u: Tensor) -> Tensor:
        """v itself."""
        return full(u)

    def unrolled(self, T: int) -> Unrolled:
        """Each feature is a channel of N/2 modes."""
        return Diagonal(*self.discrete(), complex_of(self.C), T)

    def leaves(self, c: Tensor, u: Tensor, dtype: Any) -> Tensor:
        """c + D v."""
        return (c + full(self.D) * full(u)).to(dtype)


def check_order(order: Any) -> None:
    """Raise unless this is an even int of at least 2."""
    check_size("order", order, 2)
    if order % 2:
        raise ValueError(f"order: expected an even number, of conjugate pairs, got {order}")


def check_steps(dt_min: Any, dt_max: Any) -> None:
    """Raise unless these are numbers above 0, the first not above the second."""
    check_number("dt_min", dt_min)
    check_number("dt_max", dt_max)
    if not 0 < dt_min <= dt_max:
        raise ValueError(f"dt_min, dt_max: expected 0 < dt_min <= dt_max, got {dt_min}, {dt_max}")
