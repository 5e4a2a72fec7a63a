"""Retention: linear attention with a fixed decay for each head and a turn for each step."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.cells.linear import widest
from companion.cells.matrix import MatrixCell, head_size, normed, split_heads
from companion.checks import check_flag, check_size

NORMS = ("group", "rms")
EPSILON = 1e-5


class RetNetCell(MatrixCell):
    r"""Multi-scale retention, the recurrence of the retentive network.

    .. math::

        S_t &= \gamma\, R_{-\theta} S_{t-1} + k_t v_t^\top, \qquad
        k_t = W_k x_t / \sqrt{d}, \quad v_t = W_v x_t \\
        r_t &= S_t^\top q_t, \qquad q_t = W_q x_t \\
        y_t &= W_o\big(\mathrm{swish}(W_g x_t) \odot \mathrm{norm}(r_t)\big)

    for each head, with the decay :math:`\gamma = 1 - 2^{-5-h}` of head h = 0, 1, … and the norm
    over each head's features. :math:`R_{-\theta}` turns the i-th pair of rows of S by
    :math:`-\theta_i`: the same as to turn query and key by their position (xPos), without a
    position to keep. At once, :math:`r_n = \sum_{m \le n} \gamma^{n-m}
    (q_n^\top R_{-(n-m)\theta} k_m) v_m`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`; ``heads`` times an even number.
        bias: whether the biases exist; the authors have none.
        device, dtype: of the weights.
        heads: number of heads, h; each has queries and keys of d = H / h features.
        expand: values, gate and norm have ``expand`` times H features.
        norm: ``"group"``, without mean and over the deviation, as in the paper, or ``"rms"``, over
            the root mean square, as in the authors' code; both without weights, our ε is 1e-5.
        normalize_score: whether retention is divided as the paper says, by :math:`\sqrt{s_t}` with
            :math:`s_t = \sum_{m \le t} \gamma^{t-m}` and by the larger of 1 and the size of the
            sum of the scores that are left. ``norm`` undoes both, but for its ε. The authors' code
            does not follow the gradient through the score.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        with V = ``expand`` · H: ``weight_ih`` (2H + 2V, D), the blocks of q, k, v, g, ``bias_ih``
        (2H + 2V,), ``weight_ho`` (H, V), ``bias_ho`` (H,); input (B, D), output (B, H), state S
        (B, d·V), with ``normalize_score`` the triple of S, the sum of keys (B, H) and s (B, h).

    Source:
        Sun et al. (2023), section 2, and the authors' code (microsoft/torchscale), which the
        angles follow:
        :math:`\theta_i = 10000^{-i / (d/2 - 1)}`, i = 0, …, d/2 − 1.

    Example:
        >>> cell = RetNetCell(3, 4)
        >>> y, S = cell.step(torch.zeros(2, 3), cell.initial_state(2))
        >>> y.shape, S.shape
        (torch.Size([2, 4]), torch.Size([2, 16]))
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
        expand: int = 2,
        norm: str = "group",
        normalize_score: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_size("expand", expand)
        check_flag("normalize_score", normalize_score)
        if norm not in NORMS:
            raise ValueError(f"norm: expected one of {sorted(NORMS)}, got {norm!r}")
        H, V, d = hidden_size, expand * hidden_size, head_size("hidden_size", hidden_size, heads)
        if d % 2:
            raise ValueError(
                f"hidden_size: expected an even number for each of {heads} heads, whose features "
                f"turn in pairs, got {hidden_size}"
            )
        self.bias, self.heads, self.expand = bias, heads, expand
        self.norm, self.normalize_score = norm, normalize_score
        self.state_size = (d * V, H, heads) if normalize_score else d * V
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(2 * (H + V), input_size, **new)
        self.bias_ih = self.weight(2 * (H + V), **new) if bias else None
        self.weight_ho = self.weight(H, V, **new)
        self.bias_ho = self.weight(H, **new) if bias else None
        self.reset_parameters()

    def log_decays(self, like: Tensor) -> Tensor:
        """(h,) the logarithms of γ, in float32 or better: in bfloat16 most would be 0."""
        kind = widest(torch.float32, like.dtype)
        h = torch.arange(self.heads, dtype=kind, device=like.device)
        return torch.log1p(-torch.exp2(-5 - h))

    def angles(self, like: Tensor) -> Tensor:
        """(d / 2,) the angle by which each pair turns at each step."""
        kind = widest(torch.float32, like.dtype)
        pairs = self.hidden_size // self.heads // 2
        return 10000 ** -torch.linspace(0, 1, pairs, dtype=kind, device=like.device)

    def prepare(self, x: Tensor) -> Tensor:
        """Queries, scaled keys, values and gates, for all steps at once."""
        H, V = self.hidden_size, self.expand * self.hidden_size
        u = F.linear(x, self.weight_ih, self.bias_ih)
        q, k, v, g = u.split([H, H, V, V], -1)
        return torch.cat([q, k * (H // self.heads) ** -0.5, v, F.silu(g)], -1)

    def along(self, u: Tensor, state: Any, time: Any) -> tuple[Tensor, Any]:
        """Retention, its norms, the gate."""
        H, V = self.hidden_size, self.expand * self.hidden_size
        q, k, v, g = u.split([H, H, V, V], -1)
        q, k, v = (split_heads(part, self.heads) for part in (q, k, v))
        decay, turn = self.log_decays(u), -self.angles(u)
        if self.normalize_score:
            r, state = self.scored(q, k, v, state, time)
        else:
            r, state = time.attend(q, k, v, state, decay, turn)
        r = normed(r, EPSILON, center=self.norm == "group").flatten(1)
        return F.linear(g * r, self.weight_ho, self.bias_ho), state

    def scored(self, q: Tensor, k: Tensor, v: Tensor, state: Any, time: Any) -> tuple[Tensor, Any]:
        """Retention over the paper's two normalizations: keys are summed up as values of 1."""
        S, keys, s = state
        decay, turn = self.log_decays(q), -self.angles(q)
        r, S = time.attend(q, k, v, S, decay, turn)
        scores, keys = time.attend(q, k, torch.ones_like(k[..., :1]), keys, decay, turn)
        ss, s_end = time.scan(decay.exp(), torch.ones_like(k[..., 0]), s)
        root = ss.sqrt().unsqueeze(-1)
        r = r / root / (scores / root).abs().clamp(min=1)
        return r.to(q.dtype), (S, keys, s_end.to(s.dtype))
