"""The quasi-recurrent network: convolutions over the input, and a pooling that alone recurs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.cells.base import check_size
from companion.cells.linear import LinearCell, Time, full, rounded
from companion.cells.noise import check_probability
from companion.checks import check_flag

# the gates of each pooling in the order of their blocks, after the candidate z
POOLING = {"f": "f", "fo": "fo", "ifo": "foi"}


class QRNNCell(LinearCell):
    r"""The quasi-recurrent cell: gates from a window of inputs, and pooling.

    .. math::

        z_t &= \tanh\Big(\sum_{j=0}^{k-1} W^z_j x_{t-j} + b^z\Big) \\
        f_t &= \sigma\Big(\sum_{j=0}^{k-1} W^f_j x_{t-j} + b^f\Big),
        \quad o_t, i_t \text{ likewise} \\
        c_t &= f_t \odot c_{t-1} + (1 - f_t) \odot z_t \\
        h_t &= o_t \odot c_t

    The window is a masked convolution: inputs before the first step count as zero. ``pooling``
    says which gates exist: with ``"f"``, :math:`h_t = c_t`; with ``"ifo"``,
    :math:`c_t = f_t \odot c_{t-1} + i_t \odot z_t`. No gate sees the state: what waits is one
    multiply-add for each unit.

    The cell is its own memory of the window: the state holds, besides c, the part of the next
    k − 1 sums that is known already, so that a sequence may be cut anywhere.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether the biases exist.
        device, dtype: of the weights.
        window: number of inputs each gate sees, :math:`k`.
        pooling: ``"f"``, ``"fo"`` or ``"ifo"``.
        pool_zoneout: probability p that a unit keeps its state, drawn anew at each step while
            training: :math:`f_t = 1 - m_t \odot (1 - \tilde f_t)` with :math:`m_t \sim B(1 - p)`,
            dropout without its rescaling. In evaluation :math:`m_t` is replaced by its mean
            1 − p, as in the authors' code.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        with G = 2, 3 or 4 blocks z, f, o, i: ``weight_ih`` (kGH, D), the block of rows j for the
        input j steps ago, ``bias_ih`` (GH,); input (B, D), output h (B, H), state c (B, H), or
        with a window the pair of c and the sums (B, (k − 1)GH).

    Source:
        Bradbury et al. (2017), section 2, and the authors' code (salesforce/pytorch-qrnn), which
        has f- and fo-pooling with a window of 1 or 2.

    Example:
        >>> cell = QRNNCell(3, 4)
        >>> h, (c, sums) = cell.step(torch.ones(2, 3), cell.initial_state(2))
        >>> h.shape, sums.shape
        (torch.Size([2, 4]), torch.Size([2, 12]))
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
        window: int = 2,
        pooling: str = "fo",
        pool_zoneout: float = 0.0,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_size("window", window)
        if not isinstance(pooling, str) or pooling not in POOLING:
            raise ValueError(f"pooling: expected one of {sorted(POOLING)}, got {pooling!r}")
        self.bias, self.window, self.pooling = bias, window, pooling
        self.pool_zoneout = check_probability("pool_zoneout", pool_zoneout)
        G = (1 + len(POOLING[pooling])) * hidden_size
        self.state_size = hidden_size if window == 1 else (hidden_size, (window - 1) * G)
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(window * G, input_size, **new)
        self.bias_ih = self.weight(G, **new) if bias else None
        self.reset_parameters()

    def prepare(self, x: Tensor) -> Tensor:
        """W_j x_t for every lag j, the biases in lag 0; and what zoneout draws."""
        bias: Tensor | None = self.bias_ih
        if bias is not None:
            bias = F.pad(bias, (0, (self.window - 1) * len(bias)))
        u = F.linear(x, self.weight_ih, bias)
        if self.pool_zoneout and self.training:
            keeps = torch.empty_like(u[..., : self.hidden_size])
            return torch.cat([u, keeps.bernoulli_(1 - self.pool_zoneout)], -1)
        return u

    def along(self, u: Tensor, state: Any, time: Time) -> tuple[Tensor, Any]:
        """The gates of the window, and the pooling."""
        c, sums = state if self.window > 1 else (state, None)
        moves: Tensor | float = 1 - self.pool_zoneout
        if self.pool_zoneout and self.training:
            u, moves = u.split([u.shape[-1] - self.hidden_size, self.hidden_size], -1)
        a, sums = self.convolve(u, sums, time)
        z, f, *rest = full(a).chunk(1 + len(POOLING[self.pooling]), -1)
        f, o_i = torch.sigmoid(f), [torch.sigmoid(g) for g in rest]
        if self.pool_zoneout:
            f = 1 - moves * (1 - f)
        write = o_i[1] if self.pooling == "ifo" else 1 - f
        cs, last = time.scan(f, write * torch.tanh(z), c)
        h, c = rounded(o_i[0] * cs if o_i else cs, last, a, c)
        return h, (c if sums is None else (c, sums))

    def convolve(self, u: Tensor, sums: Any, time: Time) -> tuple[Tensor, Any]:
        """Σ_j W_j x_{t-j}: each lag's products join what the lags beyond it summed a step ago."""
        a, *lags = u.chunk(self.window, -1)
        known, ends = None, []
        firsts = sums.chunk(self.window - 1, -1) if lags else ()
        for lag, first in reversed(list(zip(lags, firsts, strict=True))):
            known, end = time.shift(lag if known is None else lag + known, first)
            ends.append(end)
        return (a if known is None else a + known), (torch.cat(ends[::-1], -1) if ends else None)
