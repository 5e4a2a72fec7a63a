"""RWKV: a weighted mean of all values so far (v4), a delta rule with many decays (v7)."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.cells.base import stored_weight
from companion.cells.linear import full
from companion.cells.matrix import MatrixCell, head_size, normed, split_heads, unit
from companion.checks import check_flag, check_sizes

RATE = math.exp(-0.5)  # of v7: no decay is stronger than exp(−RATE) a step
EPSILON = 64e-5  # of the norm of v7


class RWKVCell(MatrixCell):
    r"""Time mixing of RWKV-4: each channel's mean of all values so far, keys being log weights.

    .. math::

        a_t &= W_a(\mu_a \odot x_t + (1 - \mu_a) \odot x_{t-1}) + b_a, \qquad a = k, v, r \\
        \mathrm{wkv}_t &= \frac{\sum_{j<t} e^{-(t-1-j) w + k_j} v_j + e^{u + k_t} v_t}
            {\sum_{j<t} e^{-(t-1-j) w + k_j} + e^{u + k_t}}, \qquad w = e^{\omega} \\
        y_t &= W_o(\sigma(r_t) \odot \mathrm{wkv}_t) + b_o

    Numerator and denominator are sums that decay by :math:`e^{-w}`; both are kept over
    :math:`e^{m_t}`, with the running maximum :math:`m_t = \max(m_{t-1} - w, k_t)`, so that no
    exponential overflows, whatever the keys. All is elementwise: a maximum and two sums wait.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether the biases exist; the author has none.
        device, dtype: of the weights.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (3H, D), the blocks of k, v, r, ``bias_ih`` (3H,), ``mix`` (3, D), which is
        μ, ``log_rate`` (H,), which is ω, ``bonus`` (H,), which is u, ``weight_ho`` (H, H),
        ``bias_ho`` (H,); input (B, D), output (B, H), state the quadruple of what the last input
        adds to the next a, (B, 3H), and numerator, denominator and maximum, each (B, H). Where the
        denominator is 0, nothing came yet, and the maximum counts as −∞.

    Source:
        Peng et al. (2023); the author's code (BlinkDL/RWKV-LM, RWKV-v4/src), whose starts of ω, u
        and μ are those of the first of many layers here. There D = H, and W_k, W_r and W_o start
        from 0.

    Example:
        >>> cell = RWKVCell(3, 4)
        >>> y, (last, num, den, peak) = cell.step(torch.zeros(2, 3), cell.initial_state(2))
        >>> y.shape, last.shape
        (torch.Size([2, 4]), torch.Size([2, 12]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        self.bias, H = bias, hidden_size
        self.state_size = (3 * H, H, H, H)
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(3 * H, input_size, **new)
        self.bias_ih = self.weight(3 * H, **new) if bias else None
        self.mix = self.weight(3, input_size, **new)
        self.log_rate = self.weight(H, **new)
        self.bonus = self.weight(H, **new)
        self.weight_ho = self.weight(H, H, **new)
        self.bias_ho = self.weight(H, **new) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As every cell; then rates from e^-5 to e^3, bonuses near log 0.3, mixes from 0 to 1."""
        super().reset_parameters()
        with torch.no_grad():
            rate, bonus, mix = (stored_weight(self, n) for n in ("log_rate", "bonus", "mix"))
            i = torch.arange(self.hidden_size, dtype=rate.dtype, device=rate.device)
            rate.copy_(-5 + 8 * (i / max(self.hidden_size - 1, 1)) ** 0.7)
            bonus.copy_(math.log(0.3) + 0.5 * ((i + 1) % 3 - 1))
            at = torch.arange(self.input_size, dtype=mix.dtype, device=mix.device)
            at = at / max(self.input_size, 1)
            mix.copy_(torch.stack([at, at, at.sqrt()]))

    def prepare(self, x: Tensor) -> Tensor:
        """What x_t adds to k, v, r now, and what it will add a step later."""
        return mixed(x, self.weight_ih, self.bias_ih, self.mix)

    def along(self, u: Tensor, state: Any, time: Any) -> tuple[Tensor, Any]:
        """The shift, the running maximum, two sums, their quotient with the present in it."""
        last, num, den, m = state
        now, later = u.chunk(2, -1)
        before, last = time.shift(later, last)
        k, v, r = (now + before).chunk(3, -1)
        k, rate = full(k), -torch.exp(full(self.log_rate).clamp(max=80))  # e^89 is no float32
        m = m.masked_fill(den == 0, -torch.inf)
        ms, kept, m_end = time.peak(rate, k, m)
        keep, write = kept.exp(), torch.exp(k - full(ms))
        nums, num_end = time.scan(keep, write * full(v), num)
        dens, den_end = time.scan(keep, write, den)
        past_num, _ = time.shift(nums, num)
        past_den, _ = time.shift(dens, den)
        past = full(time.shift(ms, m)[0])  # kept + m_t − rate has no digits where rate is large
        present = full(self.bonus) + k
        top = torch.maximum(past, present)
        old, new = torch.exp(past - top), torch.exp(present - top)
        wkv = (old * past_num + new * full(v)) / (old * past_den + new)
        y = F.linear(torch.sigmoid(r) * wkv.to(r.dtype), self.weight_ho, self.bias_ho)
        return y, (last, num_end.to(num.dtype), den_end.to(den.dtype), m_end)


class RWKV7Cell(MatrixCell):
    r"""Time mixing of RWKV-7: the delta rule with a decay and a rate for each channel.

    .. math::

        a_t &= W_a(\mu_a \odot x_t + (1 - \mu_a) \odot x_{t-1}), \qquad
        a = r, k, v, \omega, \alpha, \gamma \\
        w_t &= \exp(-e^{-1/2} \sigma(V_\omega \tanh \omega_t + b_\omega)), \quad
        \eta_t = \sigma(V_\alpha \alpha_t + b_\alpha), \quad g_t = V_\gamma \sigma(\gamma_t) \\
        \kappa_t &= \frac{\xi \odot k_t}{\|\xi \odot k_t\|}, \qquad
        k'_t = k_t \odot (1 + (\eta_t - 1) \odot \zeta) \\
        S_t &= \big(\mathrm{diag}(w_t) - (\eta_t \odot \kappa_t) \kappa_t^\top\big) S_{t-1}
            + k'_t v_t^\top \\
        y_t &= W_o\big(g_t \odot (\mathrm{norm}(S_t^\top r_t)
            + (r_t^\top (\rho \odot k'_t)) v_t)\big) + b_o

    for each head; norm is over a head's features, with weights and biases. What :math:`\kappa`
    reads is taken away, by a rate of its own for each channel, and new is what :math:`k'` writes.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`, a multiple of ``heads``.
        bias: whether the products with x and :math:`b_o` have biases; the author has none.
        device, dtype: of the weights.
        heads: number of heads; each has keys and values of d = H / heads features.
        rank: of the three low-rank products, R.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (3H + 3R, D), the blocks of r, k, v, ω, α, γ, ``bias_ih`` as long, ``mix``
        (6, D), which is μ; ``weight_decay``, ``weight_rate``, ``weight_gate`` (H, R), which are V,
        ``bias_decay``, ``bias_rate``, ``key_scale``, ``key_rate``, ``bonus``, ``gain`` and
        ``bias_norm`` (H,), which are b_ω, b_α, ξ, ζ, ρ and the norm's; ``weight_ho`` (H, H),
        ``bias_ho`` (H,); input (B, D), output (B, H), state the pair of S (B, H·d) and what the
        last input adds to the next a (B, 3H + 3R).

    Source:
        Peng et al. (2025); the author's code (BlinkDL/RWKV-LM, RWKV-v7/rwkv_v7_demo_rnn.py). A
        stack of layers there also mixes v with that of its first layer, which one layer cannot;
        starts are ours but for ξ, ζ and the norm.

    Example:
        >>> cell = RWKV7Cell(3, 4)
        >>> y, (S, last) = cell.step(torch.zeros(2, 3), cell.initial_state(2))
        >>> y.shape, S.shape, last.shape
        (torch.Size([2, 4]), torch.Size([2, 8]), torch.Size([2, 36]))
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
        rank: int = 8,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_sizes(rank=(rank, 1))
        H, d = hidden_size, head_size("hidden_size", hidden_size, heads)
        self.bias, self.heads, self.rank = bias, heads, rank
        self.blocks = [H, H, H, rank, rank, rank]
        self.state_size = (H * d, sum(self.blocks))
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(sum(self.blocks), input_size, **new)
        self.bias_ih = self.weight(sum(self.blocks), **new) if bias else None
        self.mix = self.weight(6, input_size, **new)
        self.weight_decay = self.weight(H, rank, **new)
        self.weight_rate = self.weight(H, rank, **new)
        self.weight_gate = self.weight(H, rank, **new)
        self.bias_decay = self.weight(H, **new)
        self.bias_rate = self.weight(H, **new)
        self.key_scale = self.weight(H, **new)
        self.key_rate = self.weight(H, **new)
        self.bonus = self.weight(H, **new)
        self.gain = self.weight(H, **new)
        self.bias_norm = self.weight(H, **new)
        self.weight_ho = self.weight(H, H, **new)
        self.bias_ho = self.weight(H, **new) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As every cell; then mixes from 0 to 1, rates of decay from slow to fast, norms of 1."""
        super().reset_parameters()
        with torch.no_grad():
            mix = stored_weight(self, "mix")
            at = torch.arange(self.input_size, dtype=mix.dtype, device=mix.device)
            mix.copy_((at / max(self.input_size, 1)).expand_as(mix))
            decay = stored_weight(self, "bias_decay")
            decay.copy_(torch.linspace(-6, 2, len(decay), dtype=decay.dtype, device=decay.device))
            for name, value in (
                ("key_scale", 0.85),
                ("key_rate", 1.0),
                ("gain", 1.0),
                ("bias_norm", 0.0),
                ("bias_rate", 0.0),
            ):
                stored_weight(self, name).fill_(value)

    def prepare(self, x: Tensor) -> Tensor:
        """What x_t adds to r, k, v, ω, α, γ now, and what it will add a step later."""
        return mixed(x, self.weight_ih, self.bias_ih, self.mix, self.blocks)

    def along(self, u: Tensor, state: Any, time: Any) -> tuple[Tensor, Any]:
        """The shift, the gates, the delta rule, norm, bonus and gate."""
        S, last = state
        now, later = u.chunk(2, -1)
        before, last = time.shift(later, last)
        r, k, v, decay, rate, gate = (now + before).split(self.blocks, -1)
        decay = F.linear(torch.tanh(decay), self.weight_decay)
        log_w = -RATE * torch.sigmoid(full(decay) + full(self.bias_decay))
        rate = torch.sigmoid(F.linear(rate, self.weight_rate) + self.bias_rate)
        gate = F.linear(torch.sigmoid(gate), self.weight_gate)
        kappa = unit(split_heads(k * self.key_scale, self.heads), 1e-12)
        k = k * (1 + (rate - 1) * self.key_rate)
        heads = [split_heads(part, self.heads) for part in (r, k, v, rate, log_w)]
        r, k, v, rate, log_w = heads
        y, S = time.delta(r, k, v, rate * kappa, -kappa, S, log_w)
        y = normed(y, EPSILON, center=True).flatten(1) * self.gain + self.bias_norm
        bonus = (r * k * split_heads(self.bonus, self.heads)).sum(-1, keepdim=True) * v
        y = (y + bonus.flatten(1)) * gate
        return F.linear(y, self.weight_ho, self.bias_ho), (S, last)


def mixed(
    x: Tensor, weight: Tensor, bias: Tensor | None, mix: Tensor, blocks: list[int] | None = None
) -> Tensor:
    """(…, 2G): blocks W_a(μ_a ⊙ x) + b_a for this step, then W_a((1 − μ_a) ⊙ x) for the next."""
    parts = weight.split(blocks or weight.shape[0] // len(mix))
    now = torch.cat([w * m for w, m in zip(parts, mix, strict=True)])
    return torch.cat([F.linear(x, now, bias), F.linear(x, weight - now)], -1)
