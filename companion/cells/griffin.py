"""The real-gated linear recurrent unit of Griffin: how much is kept depends on the input."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import stored_weight
from companion.cells.linear import LinearCell, Time, full, rounded
from companion.cells.state_space import check_real
from companion.checks import check_flag, check_size


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
    c = 8.0

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
            decay, gates = stored_weight(self, "decay"), stored_weight(self, "weight_gates")
            log_a = full(torch.empty_like(decay)).uniform_(0.9, 0.999).log() / self.c
            decay.copy_(log_a - torch.log(-torch.expm1(log_a)))  # the logit of a
            nn.init.normal_(gates, std=math.sqrt(self.heads / self.hidden_size))
            if self.bias:
                stored_weight(self, "bias_gates").zero_()

    def prepare(self, x: Tensor) -> Tensor:
        """Both gates before their sigmoid, and v_t, for all steps at once."""
        v = x if self.weight_ih is None else F.linear(x, self.weight_ih, self.bias_ih)
        if self.heads == 1:
            gates = F.linear(v, self.weight_gates, self.bias_gates)
        else:
            blocks = self.weight_gates.unflatten(0, (2, self.heads, -1))
            parts = v.unflatten(-1, (self.heads, -1))
            gates = torch.einsum("ghij,...hj->...ghi", blocks, parts).flatten(-3)
            gates = gates if self.bias_gates is None else gates + self.bias_gates
        return torch.cat([gates, v], -1)

    def along(self, u: Tensor, h: Tensor, time: Time) -> tuple[Tensor, Tensor]:
        """The decay of each step, and the scan."""
        r, i, v = full(u).chunk(3, -1)
        log_a = -self.c * torch.sigmoid(r) * F.softplus(-full(self.decay))
        # where a gate is 0, the slope of a root at 0 would be infinite
        kept = torch.clamp(-torch.expm1(2 * log_a), min=torch.finfo(log_a.dtype).tiny)
        enters = torch.sqrt(kept) * torch.sigmoid(i) * v
        return rounded(*time.scan(torch.exp(log_a), enters, h), u, h)
