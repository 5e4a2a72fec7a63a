"""Long short-term memory."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import Cell, stored_weight
from companion.cells.initialize import Initializer, check_chrono, chrono_bias
from companion.checks import check_flag, check_number, check_size


class LSTMCell(Cell):
    r"""Long short-term memory, a drop-in for ``torch.nn.LSTMCell``.

    .. math::

        (a^i, a^f, a^g, a^o) &= W_{ih} x_t + b_{ih} + W_{hh} h_{t-1} + b_{hh} \\
        i_t = \sigma(a^i), \quad f_t &= \sigma(a^f), \quad
        g_t = \tanh(a^g), \quad o_t = \sigma(a^o) \\
        c_t &= f_t \odot c_{t-1} + i_t \odot g_t \\
        h_t &= o_t \odot \tanh(c_t)

    The gates are stacked in torch's order i, f, g, o. Options, each of which changes one equation:

    - ``proj_size``: :math:`h_t = W_{hr} (o_t \odot \tanh c_t)` (Sak et al. 2014);
    - ``peephole``: :math:`a^i, a^f` gain :math:`p^i \odot c_{t-1}, p^f \odot c_{t-1}`, and
      :math:`a^o` gains :math:`p^o \odot c_t` (Gers and Schmidhuber 2000);
    - ``coupled``: :math:`i_t = 1 - f_t`, with weights for f, g, o alone (Greff et al. 2017);
    - ``forget_gate=False``: :math:`f_t = 1`, with weights for i, g, o alone (Hochreiter and
      Schmidhuber 1997);
    - ``layer_norm``: both products and, before its tanh, :math:`c_t` are normalized (Ba et al.
      2016).

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether :math:`b_{ih}` and :math:`b_{hh}` exist.
        device, dtype: of the weights.
        proj_size: size P of a projected output; 0: none.
        peephole, coupled, layer_norm, forget_gate: the options above.
        forget_bias: start value of the forget gate's bias, set in ``bias_ih`` alone, with that of
            ``bias_hh`` 0, so that their sum is this value; ``None``: drawn as every weight.
        chrono: the longest lag in steps that the gates should remember at the start, more than 2:
            the forget gate's bias is drawn as :math:`\log U(1, T_{max} - 1)`, so that its memory
            lasts 1 to T steps, and the input gate's is its negative (Tallec and Ollivier 2018);
            those of ``bias_hh`` are 0. ``None``: drawn as every weight.
        recurrent_init: how each gate's block of :math:`W_{hh}` starts; see
            :func:`companion.spectral_radius`.

    Raises:
        ValueError: if options exclude each other.

    Shapes:
        with G = 4, or 3 if ``coupled`` or without forget gate, and P = ``proj_size`` or H:
        ``weight_ih`` (GH, D), ``weight_hh`` (GH, P), biases (GH,), ``weight_hr`` (P, H),
        ``weight_ch`` (number of sigmoid gates, H); input (B, D), state h (B, P) and c (B, H),
        output h.

    Example:
        >>> import torch
        >>> cell = LSTMCell(3, 4)
        >>> h, c = cell(torch.zeros(2, 3))
        >>> h, c = cell(torch.zeros(2, 3), (h, c))
        >>> h.shape, c.shape
        (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        proj_size: int = 0,
        peephole: bool = False,
        coupled: bool = False,
        layer_norm: bool = False,
        forget_gate: bool = True,
        forget_bias: float | None = None,
        chrono: float | None = None,
        recurrent_init: str | Initializer | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, recurrent_init=recurrent_init)
        check_size("proj_size", proj_size, 0)
        flags = {"bias": bias, "peephole": peephole, "coupled": coupled}
        for name, flag in {**flags, "layer_norm": layer_norm, "forget_gate": forget_gate}.items():
            check_flag(name, flag)
        if proj_size >= hidden_size:
            raise ValueError(f"proj_size: expected less than {hidden_size}, got {proj_size}")
        if coupled and not forget_gate:
            raise ValueError(
                "coupled: expected False where forget_gate is False: i = 1 - f needs f"
            )
        if forget_bias is not None:
            check_number("forget_bias", forget_bias)
        if forget_bias is not None and not (forget_gate and bias):
            raise ValueError("forget_bias: expected None where there is no forget gate or no bias")
        if chrono is not None:
            check_chrono(chrono)
            if forget_bias is not None or not (forget_gate and bias):
                raise ValueError(
                    "chrono: expected None where forget_bias is given, or where there is no "
                    "forget gate or no bias"
                )
        self.chrono = chrono
        self.bias, self.proj_size, self.peephole, self.coupled = bias, proj_size, peephole, coupled
        self.layer_norm, self.forget_gate, self.forget_bias = layer_norm, forget_gate, forget_bias
        self.output_size = proj_size or hidden_size
        self.state_size = (self.output_size, hidden_size)
        # names of the blocks in order
        self.gates = "fgo" if coupled else "ifgo" if forget_gate else "igo"
        new, G = dict[str, Any](device=device, dtype=dtype), len(self.gates) * hidden_size
        self.weight_ih = self.weight(G, input_size, **new)
        self.weight_hh = self.weight(G, self.output_size, **new)
        self.bias_ih = self.weight(G, **new) if bias else None
        self.bias_hh = self.weight(G, **new) if bias else None
        if proj_size:
            self.weight_hr = self.weight(proj_size, hidden_size, **new)
        if peephole:
            self.weight_ch = self.weight(len(self.gates) - 1, hidden_size, **new)
        if layer_norm:
            self.norm_ih = self.weight(G, **new)
            self.norm_hh = self.weight(G, **new)
            self.norm_c = self.weight(2, hidden_size, **new)  # gain and bias
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As every cell; then the forget gate's bias, and normalization as the identity."""
        super().reset_parameters()
        with torch.no_grad():
            if self.forget_bias is not None:
                self.set_bias("f", self.forget_bias)
            if self.chrono is not None:
                f = chrono_bias(stored_weight(self, "bias_ih")[: self.hidden_size], self.chrono)
                self.set_bias("f", f)
                if "i" in self.gates:
                    self.set_bias("i", -f)
            if self.layer_norm:
                for name in ("norm_ih", "norm_hh"):
                    nn.init.ones_(stored_weight(self, name))
                norm_c = stored_weight(self, "norm_c")
                norm_c[0], norm_c[1] = 1, 0

    def set_bias(self, gate: str, value: Tensor | float) -> None:
        """Let one gate's bias start at this value: ``bias_ih`` alone, with 0 in ``bias_hh``."""
        at = self.gates.index(gate) * self.hidden_size
        for name, b in (("bias_ih", value), ("bias_hh", 0)):
            stored_weight(self, name)[at : at + self.hidden_size] = b

    def prepare(self, x: Tensor) -> Tensor:
        """W_ih x_t + b_ih + b_hh, normalized if so asked, for all steps at once."""
        bias = None
        if self.bias_ih is not None and self.bias_hh is not None:
            bias = self.bias_ih + self.bias_hh
        if self.layer_norm:
            return normalize(F.linear(x, self.weight_ih), self.norm_ih, bias)
        return F.linear(x, self.weight_ih, bias)

    def update(self, u_t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        """One step; what an option changes is a small function of its own."""
        h, c = state
        a = u_t + self.recur(h)
        *a_if, a_g, a_o = a.chunk(len(self.gates), -1)
        i, f = self.input_and_forget(a_if, c)
        c = f * c + i * torch.tanh(a_g)
        h = self.output(a_o, c)
        return h, (h, c)

    def recur(self, h: Tensor) -> Tensor:
        """W_hh h_{t-1}, normalized if so asked."""
        a = F.linear(self.recurrent(h), self.weight_hh)
        return normalize(a, self.norm_hh) if self.layer_norm else a

    def input_and_forget(self, a: list[Tensor], c: Tensor) -> tuple[Tensor, Tensor | float]:
        """The two gates that see c_{t-1} through peepholes."""
        if self.peephole:
            a = [a_k + p * c for a_k, p in zip(a, self.weight_ch, strict=False)]
        if self.coupled:
            f = torch.sigmoid(a[0])
            return 1 - f, f
        if not self.forget_gate:
            return torch.sigmoid(a[0]), 1.0
        return torch.sigmoid(a[0]), torch.sigmoid(a[1])

    def output(self, a_o: Tensor, c: Tensor) -> Tensor:
        """h_t; the output gate's peephole sees c_t."""
        o = torch.sigmoid(a_o + self.weight_ch[-1] * c if self.peephole else a_o)
        h = o * torch.tanh(normalize(c, *self.norm_c) if self.layer_norm else c)
        return F.linear(h, self.weight_hr) if self.proj_size else h


def normalize(a: Tensor, gain: Tensor, bias: Tensor | None = None) -> Tensor:
    """Layer normalization over the last dimension."""
    return F.layer_norm(a, a.shape[-1:], gain, bias)
