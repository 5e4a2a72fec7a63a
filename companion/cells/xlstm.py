"""The xLSTM: exponential gates, with a matrix for memory (mLSTM) or with mixing units (sLSTM)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import Cell, stored_weight
from companion.cells.linear import full
from companion.cells.matrix import MatrixCell, head_size, split_heads
from companion.checks import check_flag

FORGET = {"sigmoid": F.logsigmoid, "exp": lambda a: a}  # log f of the pre-activation
EPSILON = 1e-6  # as in the authors' code, added to what the mLSTM divides by


def _check_forget(forget: str) -> None:
    if not isinstance(forget, str) or forget not in FORGET:
        raise ValueError(f"forget: expected one of {sorted(FORGET)}, got {forget!r}")


class MLSTMCell(MatrixCell):
    r"""The mLSTM: a matrix for memory, a scalar exponential input gate for each head.

    .. math::

        m_t &= \max(\log f_t + m_{t-1}, \tilde i_t), \qquad
        i'_t = e^{\tilde i_t - m_t}, \quad f'_t = e^{\log f_t + m_{t-1} - m_t} \\
        C_t &= f'_t C_{t-1} + i'_t k_t v_t^\top, \qquad n_t = f'_t n_{t-1} + i'_t k_t \\
        h_t &= o_t \odot \frac{C_t^\top q_t}{\max(|n_t^\top q_t|, e^{-m_t})}

    with :math:`q_t = W_q x_t + b_q, k_t = (W_k x_t + b_k) / \sqrt d, v_t = W_v x_t + b_v,
    o_t = \sigma(W_o x_t + b_o), \tilde i_t = w_i^\top x_t + b_i`, and :math:`f_t` the sigmoid or
    exponential of :math:`w_f^\top x_t + b_f`. The stabilizer m, a running maximum, cancels: h is
    what the gates :math:`f_t` and :math:`i_t = e^{\tilde i_t}` give, and no exponential overflows.
    No gate sees the state, hence all steps run at once.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`, a multiple of ``heads``.
        bias: whether the biases exist.
        device, dtype: of the weights.
        heads: number of heads; each has keys and values of d = H / heads features.
        forget: ``"sigmoid"`` or ``"exp"``.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (4H + 2 heads, D), the blocks of q, k, v, o, i, f, ``bias_ih`` as long; input
        (B, D), output h (B, H), state the triple of C (B, H·d), n (B, H) and m (B, heads).

    Source:
        Beck et al. (2024); the authors' code (NX-AI/xlstm), which scales b_k too, adds 1e-6 to
        the divisor and starts b_f evenly from 3 to 6. There the gates read q, k and v, and a norm
        follows; here the gates read x, as in the paper.

    Example:
        >>> cell = MLSTMCell(3, 4)
        >>> h, (C, n, m) = cell.step(torch.zeros(2, 3), cell.initial_state(2))
        >>> h.shape, C.shape, n.shape, m.shape
        (torch.Size([2, 4]), torch.Size([2, 8]), torch.Size([2, 4]), torch.Size([2, 2]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        heads: int = 2,
        forget: str = "sigmoid",
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        _check_forget(forget)
        H, d = hidden_size, head_size("hidden_size", hidden_size, heads)
        self.bias, self.heads, self.forget = bias, heads, forget
        self.state_size = (H * d, H, heads)
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(4 * H + 2 * heads, input_size, **new)
        self.bias_ih = self.weight(4 * H + 2 * heads, **new) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As every cell; then the biases of f from 3 to 6, those of i near 0."""
        super().reset_parameters()
        if self.bias_ih is not None:
            with torch.no_grad():
                b = stored_weight(self, "bias_ih")[4 * self.hidden_size :]
                b[: self.heads].normal_(0, 0.1)
                b[self.heads :] = _spread(b, self.heads)

    def prepare(self, x: Tensor) -> Tensor:
        """All products with the input, for all steps at once."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def along(self, u: Tensor, state: Any, time: Any) -> tuple[Tensor, Any]:
        """The stabilizer, the sums it stabilizes, their quotient, the output gate."""
        C, n, m = state
        H, h = self.hidden_size, self.heads
        d = H // h
        q, k, v, o, i, f = u.split([H, H, H, H, h, h], -1)
        q, k, v = split_heads(q, h), split_heads(k, h) * d**-0.5, split_heads(v, h)
        i, log_f = full(i), FORGET[self.forget](full(f))
        ms, kept, m_end = time.peak(log_f, i, m)
        k = (torch.exp(i - full(ms)).unsqueeze(-1) * full(k)).to(k.dtype)
        y, C = time.attend(q, k, v, C, kept)
        keeps = kept.exp().repeat_interleave(d, -1)
        ns, n_end = time.scan(keeps, k.flatten(1), n)
        weight = (full(q) * split_heads(ns, h)).sum(-1, keepdim=True).abs()
        # where m < 0, both times e^m: e^−m would overflow
        m_t = full(ms).unsqueeze(-1)
        size, floor = torch.exp(m_t.clamp(max=0)), torch.exp(-m_t.clamp(min=0))
        y = size * full(y) / (torch.maximum(size * weight, floor) + EPSILON * size)
        y = torch.sigmoid(o) * y.to(u.dtype).flatten(1)
        return y, (C, n_end.to(n.dtype), m_end)


class SLSTMCell(Cell):
    r"""The sLSTM: exponential gates that see the units of their head a step ago.

    .. math::

        \tilde z_t, \tilde i_t, \tilde f_t, \tilde o_t &= W x_t + R h_{t-1} + b \\
        m_t &= \max(\log f_t + m_{t-1}, \tilde i_t), \qquad
        i'_t = e^{\tilde i_t - m_t}, \quad f'_t = e^{\log f_t + m_{t-1} - m_t} \\
        c_t &= f'_t \odot c_{t-1} + i'_t \odot \tanh(\tilde z_t), \qquad
        n_t = f'_t \odot n_{t-1} + i'_t \\
        h_t &= \sigma(\tilde o_t) \odot c_t / n_t

    where :math:`f_t` is the sigmoid or exponential of :math:`\tilde f_t` and R has a block for
    each head: units mix within a head, never across. The stabilizer m cancels in :math:`c_t /
    n_t`, the weighted mean of all :math:`\tanh \tilde z`; where nothing was written yet, n = 0,
    the step before counts as :math:`m = -\infty`. R is why all must wait: a loop.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`, a multiple of ``heads``.
        bias: whether the biases exist.
        device, dtype: of the weights.
        heads: number of heads; each mixes d = H / heads units.
        forget: ``"sigmoid"`` or ``"exp"``.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (4H, D), the blocks of z, i, f, o, ``weight_hh`` (4H, d), each row for the
        units of its own head, ``bias_ih`` (4H,); input (B, D), output h (B, H), state the
        quadruple of h, c, n and m, each (B, H).

    Source:
        Beck et al. (2024); the authors' code (NX-AI/xlstm), whose first step takes no maximum.
        Biases of f start evenly from 3 to 6, as there in the mLSTM.

    Example:
        >>> cell = SLSTMCell(3, 4)
        >>> h, (_, c, n, m) = cell.step(torch.zeros(2, 3), cell.initial_state(2))
        >>> n  # after one step the mean of one
        tensor([[1., 1., 1., 1.],
                [1., 1., 1., 1.]], grad_fn=<AddBackward0>)
    """

    recurrent_weights = ()  # blocks of heads, none of them (H, H)
    zoned = 1  # h; c, n and m belong together

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        heads: int = 2,
        forget: str = "sigmoid",
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        _check_forget(forget)
        H, d = hidden_size, head_size("hidden_size", hidden_size, heads)
        self.bias, self.heads, self.forget = bias, heads, forget
        self.state_size = (H, H, H, H)
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(4 * H, input_size, **new)
        self.weight_hh = self.weight(4 * H, d, **new)
        self.bias_ih = self.weight(4 * H, **new) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As every cell; then the biases of f from 3 to 6, those of i near 0."""
        super().reset_parameters()
        if self.bias_ih is not None:
            with torch.no_grad():
                H, b = self.hidden_size, stored_weight(self, "bias_ih")
                nn.init.normal_(b[H : 2 * H], 0, 0.1)
                b[2 * H : 3 * H] = _spread(b, H)

    def prepare(self, x: Tensor) -> Tensor:
        """All products with the input, for all steps at once."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def update(self, u_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step; all gates see the units of their head."""
        h, c, n, m = state
        z, i, f, o = (u_t + self.mix(self.recurrent(h))).chunk(4, -1)
        i, log_f = full(i), FORGET[self.forget](full(f))
        kept = log_f + full(m).masked_fill(n == 0, -torch.inf)
        m = torch.maximum(kept, i).to(m.dtype)  # what is stored is what stabilizes
        keep, write = torch.exp(kept - full(m)), torch.exp(i - full(m))
        c_t = keep * full(c) + write * full(torch.tanh(z))
        n_t = keep * full(n) + write
        y = (torch.sigmoid(o) * (c_t / n_t)).to(h.dtype)
        return y, (y, c_t.to(c.dtype), n_t.to(n.dtype), m)

    def mix(self, h: Tensor) -> Tensor:
        """R h (B, 4H): each row of R times the units of its head."""
        d = self.hidden_size // self.heads
        R = self.weight_hh.view(4, self.heads, d, d)
        return torch.einsum("nhe,ghde->nghd", split_heads(h, self.heads), R).flatten(1)


def _spread(like: Tensor, count: int) -> Tensor:
    """Numbers even from 3 to 6."""
    return torch.linspace(3, 6, count, dtype=like.dtype, device=like.device)
