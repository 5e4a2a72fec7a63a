"""The independently recurrent network: each unit remembers itself alone."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import Cell, stored_weight
from companion.checks import check_flag

NONLINEARITIES = {"relu": torch.relu, "tanh": torch.tanh, "identity": lambda a: a}


class IndRNNCell(Cell):
    r"""The independently recurrent cell: a vector in place of the recurrent matrix.

    .. math:: h_t = \phi(W x_t + b + u \odot h_{t-1}), \qquad y_t = h_t

    A unit sees no other unit's past, only its own; units meet where layers are stacked. Over
    :math:`k` steps the gradient of a unit is :math:`u^k \prod \phi'`, so that the size of
    :math:`u` alone decides about growth and decay.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether :math:`b` exists.
        device, dtype: of the weights.
        nonlinearity: :math:`\phi`, ``"relu"``, ``"tanh"`` or ``"identity"``.
        bound: keeps :math:`|u|` at or below this number; ``None``: does not. The paper's choice
            for sequences of T steps is ``2 ** (1 / T)``, with which no gradient grows beyond
            twofold. What is stored may leave the bound and is projected onto it where it is read;
            the gradient is that of the projected value, so that no weight gets stuck outside. The
            authors' training scripts, as an option, project what is stored at each step.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (H, D), ``weight_hh`` (H,), which is u and starts from U(0, ``bound`` or 1),
        ``bias_ih`` (H,); input (B, D), state and output (B, H).

    Source:
        Li et al. (2018), equations 2 and 3 and section 3.1; the start of u from the authors' code
        (Sunnydreamrain/IndRNN_pytorch), which draws that of the last layer from
        :math:`U(\gamma^{-1/T}, \gamma^{1/T})` in action recognition; γ, an option, is 5 there.

    Example:
        >>> cell = IndRNNCell(3, 4, bound=2 ** (1 / 100))
        >>> cell(torch.zeros(2, 3)).shape
        torch.Size([2, 4])
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
        nonlinearity: str = "relu",
        bound: float | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        if not isinstance(nonlinearity, str) or nonlinearity not in NONLINEARITIES:
            raise ValueError(
                f"nonlinearity: expected one of {sorted(NONLINEARITIES)}, got {nonlinearity!r}"
            )
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | float)):
            raise TypeError(f"bound: expected a number or None, got {type(bound).__name__}")
        if bound is not None and not (math.isfinite(bound) and bound > 0):
            raise ValueError(f"bound: expected a finite number above 0, got {bound}")
        self.bias, self.nonlinearity, self.bound = bias, nonlinearity, bound
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(hidden_size, input_size, **new)
        self.weight_hh = self.weight(hidden_size, **new)
        self.bias_ih = self.weight(hidden_size, **new) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As every cell; then u from U(0, ``bound`` or 1)."""
        super().reset_parameters()
        nn.init.uniform_(stored_weight(self, "weight_hh"), 0, self.bound or 1)

    def prepare(self, x: Tensor) -> Tensor:
        """W x_t + b, for all steps at once."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def update(self, u_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """h_t = φ(u_t + u ⊙ h_{t-1})."""
        h = NONLINEARITIES[self.nonlinearity](u_t + self.bounded() * self.recurrent(h))
        return h, h

    def bounded(self) -> Tensor:
        """u within the bound, with the gradient of what is stored passed on as it comes."""
        u = self.weight_hh
        if self.bound is None:
            return u
        return u.detach().clamp(-self.bound, self.bound) + (u - u.detach())
