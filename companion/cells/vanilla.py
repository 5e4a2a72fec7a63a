"""The vanilla (Elman) recurrent cell."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.cells.base import Cell
from companion.cells.initialize import Initializer
from companion.checks import check_flag

NONLINEARITIES = {"tanh": torch.tanh, "relu": torch.relu}


class RNNCell(Cell):
    r"""The vanilla recurrent cell, a drop-in for ``torch.nn.RNNCell``.

    .. math:: h_t = \phi(W_{ih} x_t + b_{ih} + W_{hh} h_{t-1} + b_{hh}), \qquad y_t = h_t

    The product with :math:`h_{t-1}` must wait for the previous step; the rest does not.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether :math:`b_{ih}` and :math:`b_{hh}` exist. Their sum is what counts; torch,
            cuDNN and we keep two.
        nonlinearity: :math:`\phi`, ``"tanh"`` or ``"relu"``.
        device, dtype: of the weights.
        recurrent_init: how :math:`W_{hh}` starts; see :func:`companion.spectral_radius`.

    Raises:
        ValueError: if ``nonlinearity`` is neither of the two.

    Shapes:
        ``weight_ih`` (H, D), ``weight_hh`` (H, H), ``bias_ih`` and ``bias_hh`` (H,);
        input (B, D) or (D,), state and output (B, H) or (H,).

    Source:
        Elman (1990); the equation in torch's form.

    Example:
        >>> import torch
        >>> cell = RNNCell(input_size=3, hidden_size=4)
        >>> h = torch.zeros(2, 4)
        >>> for x_t in torch.ones(5, 2, 3):
        ...     h = cell(x_t, h)
        >>> h.shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        recurrent_init: str | Initializer | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, recurrent_init=recurrent_init)
        check_flag("bias", bias)
        if not isinstance(nonlinearity, str) or nonlinearity not in NONLINEARITIES:
            raise ValueError(
                f"nonlinearity: expected one of {sorted(NONLINEARITIES)}, got {nonlinearity!r}"
            )
        self.bias, self.nonlinearity = bias, nonlinearity
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(hidden_size, input_size, **new)
        self.weight_hh = self.weight(hidden_size, hidden_size, **new)
        self.bias_ih = self.weight(hidden_size, **new) if bias else None
        self.bias_hh = self.weight(hidden_size, **new) if bias else None
        self.reset_parameters()

    def prepare(self, x: Tensor) -> Tensor:
        """W_ih x_t + b_ih + b_hh, for all steps at once."""
        if self.bias_ih is None or self.bias_hh is None:
            return F.linear(x, self.weight_ih)
        return F.linear(x, self.weight_ih, self.bias_ih + self.bias_hh)

    def update(self, u_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """h_t = φ(u_t + W_hh h_{t-1})."""
        phi = NONLINEARITIES[self.nonlinearity]
        h = phi(u_t + F.linear(self.recurrent(h), self.weight_hh))
        return h, h
