"""Linear attention: a softmax replaced by a product of features, and attention is a recurrence."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.cells.matrix import MatrixCell, head_size, split_heads
from companion.checks import check_flag

FEATURES = {"elu": lambda a: F.elu(a) + 1, "relu": torch.relu, "identity": lambda a: a}
EPSILON = 1e-6  # as in the authors' code, added to the sum of weights


class LinearAttentionCell(MatrixCell):
    r"""Causal attention whose weights are products of features, as a recurrence.

    .. math::

        q_t = \phi(W_q x_t + b_q), \qquad k_t &= \phi(W_k x_t + b_k), \qquad
        v_t = W_v x_t + b_v \\
        S_t &= S_{t-1} + k_t v_t^\top, \qquad z_t = z_{t-1} + k_t \\
        y_t &= W_o \frac{S_t^\top q_t}{z_t^\top q_t + \epsilon} + b_o

    for each head, whose outputs are joined before :math:`W_o`. The state S sums up all keys and
    values, so that a step costs the same after any number of steps; all steps at once are the
    products :math:`(q_i^\top k_j)_{j \le i}` with v, as attention without a softmax.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`, a multiple of ``heads``.
        bias: whether the biases exist.
        device, dtype: of the weights.
        heads: number of heads, h; each has keys and values of d = H / h features.
        feature_map: :math:`\phi`, ``"elu"`` for elu(a) + 1, which keeps weights above 0,
            ``"relu"`` or ``"identity"``.
        normalize: whether outputs are divided by the sum of their weights; without it there is
            no z.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (3H, D), the blocks of q, k, v, ``bias_ih`` (3H,), ``weight_ho`` (H, H),
        ``bias_ho`` (H,); input (B, D), output (B, H), state the pair of S (B, H·d) and z (B, H),
        without ``normalize`` S alone.

    Source:
        Katharopoulos et al. (2020), and the authors' code (idiap/fast-transformers), which has ε.

    Example:
        >>> cell = LinearAttentionCell(3, 4)
        >>> y, (S, z) = cell.step(torch.zeros(2, 3), cell.initial_state(2))
        >>> y.shape, S.shape, z.shape
        (torch.Size([2, 4]), torch.Size([2, 8]), torch.Size([2, 4]))
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
        feature_map: str = "elu",
        normalize: bool = True,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_flag("normalize", normalize)
        if not isinstance(feature_map, str) or feature_map not in FEATURES:
            raise ValueError(
                f"feature_map: expected one of {sorted(FEATURES)}, got {feature_map!r}"
            )
        H, d = hidden_size, head_size("hidden_size", hidden_size, heads)
        self.bias, self.heads = bias, heads
        self.feature_map, self.normalize = feature_map, normalize
        self.state_size = (H * d, H) if normalize else H * d
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(3 * H, input_size, **new)
        self.bias_ih = self.weight(3 * H, **new) if bias else None
        self.weight_ho = self.weight(H, H, **new)
        self.bias_ho = self.weight(H, **new) if bias else None
        self.reset_parameters()

    def prepare(self, x: Tensor) -> Tensor:
        """Queries, keys and values, for all steps at once."""
        q, k, v = F.linear(x, self.weight_ih, self.bias_ih).chunk(3, -1)
        phi = FEATURES[self.feature_map]
        return torch.cat([phi(q), phi(k), v], -1)

    def along(self, u: Tensor, state: Any, time: Any) -> tuple[Tensor, Any]:
        """Sums of outer products and of keys, and their quotient."""
        S, z = state if self.normalize else (state, None)
        flat = u.chunk(3, -1)
        q, k, v = (split_heads(part, self.heads) for part in flat)
        y, S = time.attend(q, k, v, S)
        if self.normalize:
            zs, z = time.scan(u.new_ones(1), flat[1], z)
            weights = (q * split_heads(zs, self.heads)).sum(-1, keepdim=True)
            y = y / (weights + EPSILON)
        y = F.linear(y.flatten(1), self.weight_ho, self.bias_ho)
        return y, ((S, z) if self.normalize else S)
