"""The linear recurrent unit: complex numbers that turn and shrink, and nothing else that waits."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import stored_weight
from companion.cells.linear import LinearCell, Time, full, widest
from companion.cells.state_space import (
    Modes,
    TimeInvariantCell,
    Unrolled,
    check_real,
    complex_of,
    pairs_of,
    rate,
)
from companion.checks import check_flag, check_number, check_size


class LRUCell(TimeInvariantCell, LinearCell):
    r"""The linear recurrent unit: a diagonal recurrence of complex numbers.

    .. math::

        \lambda &= \exp(-\exp \nu + i \exp \theta), \qquad \gamma = \exp(\log \gamma) \\
        h_t &= \lambda \odot h_{t-1} + \gamma \odot (B x_t), \qquad h_t \in \mathbb{C}^N \\
        y_t &= \mathrm{Re}(C h_t) + D \odot x_t

    Each unit is a number in the complex plane that is turned by :math:`\exp \theta` and shrunk by
    :math:`|\lambda| < 1`, whatever the weights are. At the start the :math:`\lambda` are uniform
    on the ring from ``r_min`` to ``r_max`` (in area), and :math:`\gamma = \sqrt{1 -
    |\lambda|^2}`, with which white noise at the input gives states of one size, however long the
    memory. There is no nonlinearity: it stands between the layers.

    Where D ≠ H, a matrix stands in the place of the vector :math:`D`.

    The state is complex, but real to the outside, real and imaginary part side by side: it has
    the dtype of the weights, as every state of ours, and weights stay real, so that every
    optimizer, file format and cast knows what to do with them.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of outputs, :math:`H`.
        bias: taken because every cell takes it; the equations have none.
        device, dtype: of the weights.
        order: number of complex units, :math:`N`; ``None``: H.
        r_min, r_max: the ring on which :math:`\lambda` starts, within the unit circle.
        max_phase: angles start in (0, ``max_phase``); a small one favors slow oscillations.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``nu_log``, ``theta_log``, ``gamma_log`` (N,); ``weight_ih`` (2N, D), which is B, and
        ``weight_ho`` (H, 2N), which is C: rows 2k, 2k+1 of the first are Re and Im of row k of B,
        columns 2k, 2k+1 of the second Re and −Im of column k of C; ``weight_skip`` (H,), or (H, D)
        where D ≠ H; input (B, D), output (B, H), state (B, 2N).

    Source:
        Orvieto et al. (2023), and the code of appendix A, which our start follows.

    Example:
        >>> cell = LRUCell(3, 4, order=8, r_min=0.9, r_max=0.999)
        >>> y, h = cell.step(torch.zeros(2, 3), cell.initial_state(2))
        >>> y.shape, h.shape
        (torch.Size([2, 4]), torch.Size([2, 16]))
    """

    recurrent_weights = ()  # none that a `recurrent_init` could fill
    prefers_convolution = False  # it has a kernel for every mode

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        order: int | None = None,
        r_min: float = 0.0,
        r_max: float = 1.0,
        max_phase: float = 2 * math.pi,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_real(dtype)
        if order is not None:
            check_size("order", order)
        for name, value in (("r_min", r_min), ("r_max", r_max), ("max_phase", max_phase)):
            check_number(name, value)
        if not 0 <= r_min < r_max <= 1:
            raise ValueError(
                f"r_min, r_max: expected 0 <= r_min < r_max <= 1, got {r_min}, {r_max}"
            )
        if not max_phase > 0:
            raise ValueError(f"max_phase: expected a number above 0, got {max_phase}")
        self.bias, self.order = bias, order
        self.r_min, self.r_max, self.max_phase = r_min, r_max, max_phase
        self.units = hidden_size if order is None else order
        self.projects = input_size != hidden_size  # the skip is a matrix
        self.state_size = 2 * self.units
        new = dict[str, Any](device=device, dtype=dtype)
        self.nu_log = self.weight(self.units, **new)
        self.theta_log = self.weight(self.units, **new)
        self.gamma_log = self.weight(self.units, **new)
        self.weight_ih = self.weight(2 * self.units, input_size, **new)
        self.weight_ho = self.weight(hidden_size, 2 * self.units, **new)
        skip = (hidden_size, input_size) if self.projects else (hidden_size,)
        self.weight_skip = self.weight(*skip, **new)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """λ on its ring, γ to match; B, C and D Gaussian, of variances 1/(2D), 1/N, 1 (1/D)."""
        nu, theta, gamma, B, C, D = (stored_weight(self, n) for n in self.weight_names())
        with torch.no_grad():
            draw = full(torch.empty_like(nu))
            # uniform in area; never on the rim, where ν would be infinite. What is missing to 1
            # is added up by itself: of a ring that is narrow and near 1 a difference leaves none
            inside = draw.uniform_(1e-6, 1 - 1e-6)
            area = self.r_max**2 - self.r_min**2
            square = self.r_min**2 + area * inside  # |λ|²
            rest = (1 - self.r_max**2) + area * (1 - inside)
            log_square = torch.where(rest < 0.5, torch.log1p(-rest), torch.log(square))
            nu.copy_(torch.log(-0.5 * log_square))
            gamma.copy_(0.5 * torch.log(rest))
            theta.copy_(torch.log(draw.uniform_(1e-6, 1).mul(self.max_phase)))
            nn.init.normal_(B, std=1 / math.sqrt(2 * max(self.input_size, 1)))
            nn.init.normal_(C, std=1 / math.sqrt(self.units))
            nn.init.normal_(D, std=1 / math.sqrt(max(self.input_size, 1)) if self.projects else 1)

    def prepare(self, x: Tensor) -> Tensor:
        """B x_t and the skip, for all steps at once."""
        D = self.weight_skip
        skip = F.linear(x, D) if self.projects else D * x
        return torch.cat([F.linear(x, self.weight_ih), skip], -1)

    def factors(self) -> Tensor:
        """λ."""
        return torch.exp(torch.complex(-rate(self.nu_log), rate(self.theta_log)))

    def along(self, u: Tensor, h: Tensor, time: Time) -> tuple[Tensor, Tensor]:
        """One scan of complex numbers."""
        hs, last = time.scan(self.factors(), self.enters(u), complex_of(h))
        dtype = widest(u.dtype, h.dtype)
        return self.leaves(hs, u, dtype), pairs_of(last).to(dtype)

    def enters(self, u: Tensor) -> Tensor:
        """γ ⊙ B x."""
        return torch.exp(full(self.gamma_log)) * complex_of(u[..., : self.state_size])

    def unrolled(self, T: int) -> Unrolled:
        """Each complex unit is a channel."""
        return Modes(self.factors(), T)

    def leaves(self, c: Tensor, u: Tensor, dtype: Any) -> Tensor:
        """Re(C h) + D x."""
        h = pairs_of(c)
        return (F.linear(h, self.weight_ho.to(h.dtype)) + u[..., self.state_size :]).to(dtype)
