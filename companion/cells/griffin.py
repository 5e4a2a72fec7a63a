"""Griffin: a linear recurrence whose decay depends on the input, and the block around it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import stored_weight
from companion.cells.linear import LinearCell, Time, full, rounded
from companion.cells.matrix import convolve, head_size, start_window
from companion.cells.state_space import check_real
from companion.checks import check_flag, check_size, check_sizes

C = 8.0  # the power to which the decay is raised where the recurrence gate is open


class RGLRUCell(LinearCell):
    r"""The real-gated linear recurrent unit: a decay for each unit, raised to a gated power.

    .. math::

        r_t &= \sigma(W_a v_t + b_a), \qquad i_t = \sigma(W_x v_t + b_x) \\
        a_t &= a^{c\, r_t}, \qquad a = \sigma(\Lambda), \quad c = 8 \\
        h_t &= a_t \odot h_{t-1} + \sqrt{1 - a_t^2} \odot (i_t \odot v_t), \qquad y_t = h_t

    with :math:`v_t = x_t` where D = H, else :math:`v_t = W x_t + b`. No gate sees the state: all
    steps can run at once. Where the recurrence gate :math:`r_t` is near 0 the state is kept and
    the input ignored; the root keeps the size of the state, if :math:`r_t` does not depend on the
    size of the input, and otherwise roughly.

    The decay is computed as :math:`\log a_t = -c\, r_t\, \mathrm{softplus}(-\Lambda)`, and
    :math:`1 - a_t^2` from it without a subtraction, in float32 or better: near 1 nothing is lost.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether the biases exist.
        device, dtype: of the weights.
        heads: number of equal blocks on the diagonal of :math:`W_a` and :math:`W_x`, which are 0
            elsewhere. With 1 both are full.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``decay``, which is Λ, (H,); ``weight_gates`` (2H, H / ``heads``), the blocks of r and i,
        in each of which rows k read the k-th part of v; ``bias_gates`` (2H,); where D ≠ H,
        ``weight_ih`` (H, D) and ``bias_ih`` (H,); input (B, D), state and output h (B, H).

    Source:
        De et al. (2024), section 2.4, whose start we follow: :math:`a^c` uniform between 0.9 and
        0.999, gates after LeCun. The authors' code (google-deepmind/recurrentgemma) differs in
        three points: it draws a itself on that ring, uniform in area, so that :math:`a^c` is from
        0.43 on; it leaves out the root at the first step of a document; and it stores −Λ. Its
        ``heads`` are those of the attention.

    Example:
        >>> cell = RGLRUCell(4, 4, heads=2)
        >>> cell(torch.zeros(2, 4)).shape
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
        heads: int = 1,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_real(dtype)
        check_size("heads", heads)
        if hidden_size % heads:
            raise ValueError(
                f"hidden_size: expected a multiple of {heads}, the number of heads, "
                f"got {hidden_size}"
            )
        self.bias, self.heads = bias, heads
        projects = input_size != hidden_size
        H, new = hidden_size, dict[str, Any](device=device, dtype=dtype)
        self.decay = self.weight(H, **new)
        self.weight_gates = self.weight(2 * H, H // heads, **new)
        self.bias_gates = self.weight(2 * H, **new) if bias else None
        self.weight_ih = self.weight(H, input_size, **new) if projects else None
        self.bias_ih = self.weight(H, **new) if projects and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """a^c uniform from 0.9 to 0.999; gates Gaussian, of variance 1 / inputs, biases 0."""
        super().reset_parameters()  # of the projection
        with torch.no_grad():
            _start_recurrence(self)

    def prepare(self, x: Tensor) -> Tensor:
        """Both gates before their sigmoid, and v_t, for all steps at once."""
        v = x if self.weight_ih is None else F.linear(x, self.weight_ih, self.bias_ih)
        return torch.cat([_gates(v, self.weight_gates, self.bias_gates, self.heads), v], -1)

    def along(self, u: Tensor, h: Tensor, time: Time) -> tuple[Tensor, Tensor]:
        """The decay of each step, and the scan."""
        gates, v = u.split([2 * self.hidden_size, self.hidden_size], -1)
        return _recur(gates, v, self.decay, h, time)


class GriffinCell(LinearCell):
    r"""The recurrent block of Griffin: a window and the RG-LRU, and a branch that gates them.

    .. math::

        (g_t, x'_t) &= W x_t + b, \qquad
        v_t = \sum_{j=0}^{k-1} w_{k-j} \odot x'_{t-j} + b_c \\
        r_t &= \sigma(W_a v_t + b_a), \qquad i_t = \sigma(W_x v_t + b_x) \\
        h_t &= a_t \odot h_{t-1} + \sqrt{1 - a_t^2} \odot (i_t \odot v_t), \qquad
        a_t = \sigma(\Lambda)^{8 r_t} \\
        y_t &= W_o(\mathrm{gelu}(g_t) \odot h_t) + b_o

    The recurrence is that of :class:`companion.RGLRUCell`, on V channels. Two such blocks and one
    of attention to a window, over and over, are the mixers of Griffin: with
    :class:`companion.models.Backbone`, ``["griffin", "griffin", "attention"]`` and
    ``options={"attention": {"kv_heads": 1, "window": 1024}}``. Such blocks alone are Hawk.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether the biases exist.
        device, dtype: of the weights.
        width: channels, V; ``None``: H. The authors take about 4 H / 3.
        heads: number of equal blocks on the diagonal of :math:`W_a` and :math:`W_x`; it divides V.
        window: inputs the convolution sees, k.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (2V, D), the blocks of g and x', ``bias_ih`` (2V,), ``weight_conv`` (V, k),
        ``bias_conv`` (V,), ``decay``, which is Λ, (V,), ``weight_gates`` (2V, V / ``heads``) and
        ``bias_gates`` (2V,) as in the RG-LRU, ``weight_ho`` (H, V), ``bias_ho`` (H,); input
        (B, D), output (B, H), state the pair of h (B, V) and the window's past (B, (k − 1) V).

    Source:
        De et al. (2024), section 2 and figure 2. The authors' code
        (google-deepmind/recurrentgemma) approximates GeLU by a tanh, and differs in what
        :class:`companion.RGLRUCell` names.

    Example:
        >>> cell = GriffinCell(3, 4, heads=2)
        >>> y, (h, past) = cell.step(torch.zeros(2, 3), cell.initial_state(2))
        >>> y.shape, h.shape, past.shape
        (torch.Size([2, 4]), torch.Size([2, 4]), torch.Size([2, 12]))
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
        width: int | None = None,
        heads: int = 1,
        window: int = 4,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_real(dtype)
        V = hidden_size if width is None else width
        check_sizes(width=(V, 1), window=(window, 1))
        d = head_size("hidden_size" if width is None else "width", V, heads)
        self.bias, self.width, self.heads, self.window = bias, width, heads, window
        self.state_size = (V, (window - 1) * V)
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(2 * V, input_size, **new)
        self.bias_ih = self.weight(2 * V, **new) if bias else None
        self.weight_conv = self.weight(V, window, **new)
        self.bias_conv = self.weight(V, **new) if bias else None
        self.decay = self.weight(V, **new)
        self.weight_gates = self.weight(2 * V, d, **new)
        self.bias_gates = self.weight(2 * V, **new) if bias else None
        self.weight_ho = self.weight(hidden_size, V, **new)
        self.bias_ho = self.weight(hidden_size, **new) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As every cell; then the window as a convolution's, the recurrence as of the RG-LRU."""
        super().reset_parameters()
        with torch.no_grad():
            start_window(self)
            _start_recurrence(self)

    def prepare(self, x: Tensor) -> Tensor:
        """The branch that gates, and the channels, for all steps at once."""
        g, x = F.linear(x, self.weight_ih, self.bias_ih).chunk(2, -1)
        return torch.cat([F.gelu(g), x], -1)

    def along(self, u: Tensor, state: Any, time: Time) -> tuple[Tensor, Any]:
        """The window, the scan, the gate."""
        h, past = state
        g, x = u.chunk(2, -1)
        v, past = convolve(x, self.weight_conv, self.bias_conv, past, time)
        gates = _gates(v, self.weight_gates, self.bias_gates, self.heads)
        hs, h = _recur(gates, v, self.decay, h, time)
        return F.linear(g * hs.to(g.dtype), self.weight_ho, self.bias_ho), (h, past)


def _gates(v: Tensor, weight: Tensor, bias: Tensor | None, heads: int) -> Tensor:
    """(…, 2V) both gates before their sigmoid, each of blocks on a diagonal."""
    if heads == 1:
        return F.linear(v, weight, bias)
    blocks = weight.unflatten(0, (2, heads, -1))
    gates = torch.einsum("ghij,...hj->...ghi", blocks, v.unflatten(-1, (heads, -1))).flatten(-3)
    return gates if bias is None else gates + bias


def _recur(
    gates: Tensor, v: Tensor, decay: Tensor, h: Tensor, time: Time
) -> tuple[Tensor, Tensor]:
    """The decay of each step, and the scan."""
    r, i = full(gates).chunk(2, -1)
    log_a = -C * torch.sigmoid(r) * F.softplus(-full(decay))
    # where a gate is 0, the slope of a root at 0 would be infinite
    kept = torch.clamp(-torch.expm1(2 * log_a), min=torch.finfo(log_a.dtype).tiny)
    enters = torch.sqrt(kept) * torch.sigmoid(i) * full(v)
    return rounded(*time.scan(torch.exp(log_a), enters, h), v, h)


def _start_recurrence(cell: Any) -> None:
    """a^c uniform from 0.9 to 0.999; gates Gaussian, of variance 1 / inputs, biases 0."""
    decay, gates = stored_weight(cell, "decay"), stored_weight(cell, "weight_gates")
    log_a = full(torch.empty_like(decay)).uniform_(0.9, 0.999).log() / C
    decay.copy_(log_a - torch.log(-torch.expm1(log_a)))  # the logit of a
    nn.init.normal_(gates, std=gates.shape[1] ** -0.5)
    if cell.bias:
        stored_weight(cell, "bias_gates").zero_()
