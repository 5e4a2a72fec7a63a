"""The GRU and the LSTM with gates that do not see the state: minimal enough to run in parallel."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.cells.linear import LinearCell, Time, full, rounded
from companion.checks import check_flag


def positive_part(a: Tensor) -> Tensor:
    r"""The paper's g: a + 1/2 where a ≥ 0, else σ(a). Increasing, continuous, and positive."""
    return torch.where(a >= 0, a + 0.5, torch.sigmoid(a))


class _Minimal(LinearCell):
    """What both share: one product with the input."""

    recurrent_weights = ()  # none that a `recurrent_init` could fill
    blocks: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
        positive: bool,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_flag("positive", positive)
        self.bias, self.positive = bias, positive
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(self.blocks * hidden_size, input_size, **new)
        self.bias_ih = self.weight(self.blocks * hidden_size, **new) if bias else None

    def prepare(self, x: Tensor) -> Tensor:
        """W x_t + b, all blocks, for all steps at once."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def candidate(self, a: Tensor) -> Tensor:
        """What is written: the product itself, or g of it."""
        return positive_part(a) if self.positive else a


class MinGRUCell(_Minimal):
    r"""The minimal GRU: one gate, of the input alone.

    .. math::

        z_t &= \sigma(W_z x_t + b_z) \\
        n_t &= W_n x_t + b_n \\
        h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1}, \qquad y_t = h_t

    A GRU without its reset gate, without tanh, and without :math:`h_{t-1}` in what is left. The
    state is a linear recurrence, and all steps can run at once.

    With ``positive``, :math:`n_t = g(W_n x_t + b_n)`, where :math:`g(a) = a + \tfrac12` for
    :math:`a \ge 0` and :math:`\sigma(a)` below. Then no state is ever negative unless the first
    one was, and the recurrence can be written in logarithms. The paper needs that for its scan;
    ours divides by nothing and is exact without.

    Here z keeps, as in our GRU; the paper's z writes, :math:`h_t = (1 - z_t) \odot h_{t-1} +
    z_t \odot \tilde h_t`. Weights go over with the sign of the block of z changed.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether the biases exist.
        device, dtype: of the weights.
        positive: whether g acts on the candidate, as in the paper's log-space form.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (2H, D), the blocks of z and n, ``bias_ih`` (2H,); input (B, D), state and
        output h (B, H).

    Source:
        Feng et al. (2024), section 3 and, for g, the log-space form in an appendix. There a given
        first state passes g as well; here it enters as it is, so that a sequence may be cut
        anywhere.

    Example:
        >>> cell = MinGRUCell(3, 4)
        >>> cell(torch.zeros(2, 3)).shape
        torch.Size([2, 4])
    """

    blocks = 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        positive: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype, positive)
        self.reset_parameters()

    def along(self, u: Tensor, h: Tensor, time: Time) -> tuple[Tensor, Tensor]:
        """One gate, and the scan."""
        z, n = full(u).chunk(2, -1)
        z = torch.sigmoid(z)
        return rounded(*time.scan(z, (1 - z) * self.candidate(n), h), u, h)


class MinLSTMCell(_Minimal):
    r"""The minimal LSTM: two gates of the input alone, which share one between them.

    .. math::

        i_t &= \sigma(W_i x_t + b_i), \qquad f_t = \sigma(W_f x_t + b_f) \\
        i'_t &= \frac{i_t}{f_t + i_t}, \qquad f'_t = \frac{f_t}{f_t + i_t} \\
        h_t &= f'_t \odot h_{t-1} + i'_t \odot (W_g x_t + b_g), \qquad y_t = h_t

    An LSTM without its output gate, without tanh, and without :math:`h_{t-1}` in its gates; as
    the two gates add up to one, the size of the state does not depend on the length. The state is
    a linear recurrence, and all steps can run at once.

    The normalized gate is computed as :math:`f'_t = \sigma(\log f_t - \log i_t)`, which is
    defined also where both gates are so small that they are 0 in floating point.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether the biases exist.
        device, dtype: of the weights.
        positive: whether g acts on the candidate; see :class:`companion.MinGRUCell`.
        normalize: whether the gates share one between them; else they act as they are.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (3H, D), the blocks of i, f, g as in the LSTM, ``bias_ih`` (3H,); input
        (B, D), state and output h (B, H).

    Source:
        Feng et al. (2024), section 3 and, for g, the log-space form in an appendix.

    Example:
        >>> cell = MinLSTMCell(3, 4)
        >>> cell(torch.zeros(2, 3)).shape
        torch.Size([2, 4])
    """

    blocks = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        positive: bool = False,
        normalize: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype, positive)
        check_flag("normalize", normalize)
        self.normalize = normalize
        self.reset_parameters()

    def along(self, u: Tensor, h: Tensor, time: Time) -> tuple[Tensor, Tensor]:
        """Two gates, and the scan."""
        i, f, g = full(u).chunk(3, -1)
        if self.normalize:
            f = torch.sigmoid(F.logsigmoid(f) - F.logsigmoid(i))
            i = 1 - f
        else:
            i, f = torch.sigmoid(i), torch.sigmoid(f)
        return rounded(*time.scan(f, i * self.candidate(g), h), u, h)
