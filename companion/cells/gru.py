"""The gated recurrent unit."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.cells.base import Cell, stored_weight
from companion.cells.initialize import Initializer, check_chrono, chrono_bias
from companion.checks import check_flag


class GRUCell(Cell):
    r"""The gated recurrent unit, a drop-in for ``torch.nn.GRUCell``.

    .. math::

        r_t &= \sigma(W_{ir} x_t + b_{ir} + W_{hr} h_{t-1} + b_{hr}) \\
        z_t &= \sigma(W_{iz} x_t + b_{iz} + W_{hz} h_{t-1} + b_{hz}) \\
        n_t &= \tanh(W_{in} x_t + b_{in} + r_t \odot (W_{hn} h_{t-1} + b_{hn})) \\
        h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1}

    With ``reset_after=False`` the reset gate acts before the product, as in Cho et al. (2014):
    :math:`n_t = \tanh(W_{in} x_t + b_{in} + W_{hn} (r_t \odot h_{t-1}) + b_{hn})`. The gates are
    stacked in torch's order r, z, n. Chung et al. (2014) write z for our 1 − z.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether the biases exist.
        device, dtype: of the weights.
        reset_after: ``True`` as torch and cuDNN have it, ``False`` as first published.
        chrono: the longest lag in steps that the update gate should remember at the start, more
            than 2: its bias, by which z keeps the state, is drawn as
            :math:`\log U(1, T_{max} - 1)` in ``bias_ih``, with 0 in ``bias_hh`` (Tallec and
            Ollivier 2018); ``None``: drawn as every weight.
        recurrent_init: how each gate's block of :math:`W_{hh}` starts; see
            :func:`companion.spectral_radius`.

    Raises:
        ValueError: if ``chrono`` is out of range, or there is no bias to set.

    Shapes:
        ``weight_ih`` (3H, D), ``weight_hh`` (3H, H), biases (3H,); input (B, D), state and output
        (B, H).

    Example:
        >>> import torch
        >>> GRUCell(3, 4)(torch.zeros(2, 3)).shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        reset_after: bool = True,
        chrono: float | None = None,
        recurrent_init: str | Initializer | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, recurrent_init=recurrent_init)
        check_flag("bias", bias)
        check_flag("reset_after", reset_after)
        if chrono is not None:
            check_chrono(chrono)
            if not bias:
                raise ValueError("chrono: expected None where there is no bias")
        self.bias, self.reset_after, self.chrono = bias, reset_after, chrono
        new, G = dict[str, Any](device=device, dtype=dtype), 3 * hidden_size
        self.weight_ih = self.weight(G, input_size, **new)
        self.weight_hh = self.weight(G, hidden_size, **new)
        self.bias_ih = self.weight(G, **new) if bias else None
        self.bias_hh = self.weight(G, **new) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As every cell; then the update gate's bias, if ``chrono`` asks for it."""
        super().reset_parameters()
        if self.chrono is not None and self.bias_ih is not None and self.bias_hh is not None:
            z = stored_weight(self, "bias_ih")[: self.hidden_size]
            with torch.no_grad():
                for name, b in (("bias_ih", chrono_bias(z, self.chrono)), ("bias_hh", 0)):
                    stored_weight(self, name)[self.hidden_size : 2 * self.hidden_size] = b

    def prepare(self, x: Tensor) -> Tensor:
        """W_ih x_t + b_ih, for all steps at once; b_hn must wait inside the reset gate."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def update(self, u_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """h_t = (1 − z_t) n_t + z_t h_{t-1}."""
        gates = self.reset_after_product if self.reset_after else self.reset_before
        z, n = gates(u_t, self.recurrent(h))
        h = (1 - z) * n + z * h
        return h, h

    def reset_after_product(self, u_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """z_t and n_t, the reset gate on W_hn h_{t-1} + b_hn."""
        u_r, u_z, u_n = u_t.chunk(3, -1)
        a_r, a_z, a_n = F.linear(h, self.weight_hh, self.bias_hh).chunk(3, -1)
        r, z = torch.sigmoid(u_r + a_r), torch.sigmoid(u_z + a_z)
        return z, torch.tanh(u_n + r * a_n)

    def reset_before(self, u_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """z_t and n_t, the reset gate on h_{t-1} itself."""
        H = self.hidden_size
        W_rz, W_n = self.weight_hh.split([2 * H, H])
        b_rz, b_n = (None, None) if self.bias_hh is None else self.bias_hh.split([2 * H, H])
        u_rz, u_n = u_t.split([2 * H, H], -1)
        r, z = torch.sigmoid(u_rz + F.linear(h, W_rz, b_rz)).chunk(2, -1)
        return z, torch.tanh(u_n + F.linear(r * h, W_n, b_n))
