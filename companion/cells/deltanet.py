"""The delta rule: what a key holds already is taken away before the new value is written."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.cells.base import stored_weight
from companion.cells.linear import full
from companion.cells.matrix import (
    MatrixCell,
    convolve,
    head_size,
    log_uniform,
    normed,
    split_heads,
    start_window,
    unit,
)
from companion.checks import check_flag, check_sizes

STEP_SIZES = (1e-3, 1e-1)  # of the decay at the start, as in Mamba-2
EPSILON = 1e-5


class DeltaNetCell(MatrixCell):
    r"""The delta rule, with a decay and an output gate as options.

    .. math::

        q_t, k_t, v_t &= \mathrm{silu}(\mathrm{window}(W_{q,k,v}\, x_t)), \qquad
        q_t \leftarrow \frac{q_t}{\|q_t\| \sqrt{d}}, \quad k_t \leftarrow \frac{k_t}{\|k_t\|} \\
        \beta_t &= \sigma(W_\beta x_t), \qquad
        S_t = \alpha_t (I - \beta_t k_t k_t^\top) S_{t-1} + \beta_t k_t v_t^\top \\
        y_t &= W_o\, (g \odot \mathrm{rms}(S_t^\top q_t)) + b_o

    for each head. The new state is one step of gradient descent, of size :math:`\beta_t`, on
    :math:`\tfrac12 \|S^\top k_t - v_t\|^2` from :math:`\alpha_t S_{t-1}`. Without ``gated``,
    :math:`\alpha = 1`; with it :math:`\alpha_t = \exp(-e^a\, \mathrm{softplus}(W_\alpha x_t +
    b_\alpha))`, and :math:`\mathrm{silu}(W_g x_t)` multiplies what is given to :math:`W_o`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`, a multiple of ``heads``.
        bias: whether the projections have biases; the authors have none.
        device, dtype: of the weights.
        heads: number of heads, h; each has queries and keys of d = H / h features.
        expand: values have V = ``expand`` · H features.
        window: inputs the convolution of q, k, v sees, k; 1: there is none.
        gated: whether there are a decay and an output gate (Gated DeltaNet).
        negative_eigenvalues: whether β is doubled, so that the eigenvalue 1 − β of the transition
            reaches from −1 to 1, and the state may change its sign.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (2H + V + h, D), the blocks of q, k, v, β, and with ``gated`` (2H + 2V + 2h,
        D), those of α and of the gate after them; ``bias_ih`` as long; ``weight_conv``
        (2H + V, k); ``log_a``, ``bias_dt`` (h,), which are a and b_α; ``gain`` (V / h,), which
        is g, the same for all heads; ``weight_ho`` (H, V), ``bias_ho`` (H,); input (B, D), output
        (B, H), state the pair of S (B, d·V) and the window's past (B, (k − 1)(2H + V)).

    Source:
        Schlag et al. (2021); Yang, Wang, Zhang et al. (2024) for the chunks; Yang, Kautz and
        Hatamizadeh (2025) for the decay; Grazzi et al. (2025) for negative eigenvalues; the
        authors' code (fla-org/flash-linear-attention), which scales q by 1/√d and adds 1e-6 to
        squared lengths.

    Example:
        >>> cell = DeltaNetCell(3, 4)
        >>> y, (S, past) = cell.step(torch.zeros(2, 3), cell.initial_state(2))
        >>> y.shape, S.shape, past.shape
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
        expand: int = 1,
        window: int = 4,
        gated: bool = False,
        negative_eigenvalues: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_sizes(expand=(expand, 1), window=(window, 1))
        check_flag("gated", gated)
        check_flag("negative_eigenvalues", negative_eigenvalues)
        H, V, d = hidden_size, expand * hidden_size, head_size("hidden_size", hidden_size, heads)
        self.bias, self.heads, self.expand, self.window = bias, heads, expand, window
        self.gated, self.negative_eigenvalues = gated, negative_eigenvalues
        self.blocks = [2 * H + V, heads, *([heads, V] if gated else [])]
        self.state_size = (d * V, (window - 1) * (2 * H + V))
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight(sum(self.blocks), input_size, **new)
        self.bias_ih = self.weight(sum(self.blocks), **new) if bias else None
        self.weight_conv = self.weight(2 * H + V, window, **new) if window > 1 else None
        self.log_a = self.weight(heads, **new) if gated else None
        self.bias_dt = self.weight(heads, **new) if gated else None
        self.gain = self.weight(V // heads, **new)
        self.weight_ho = self.weight(H, V, **new)
        self.bias_ho = self.weight(H, **new) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As every cell; then the window as a convolution's, the decay as in Mamba-2, g = 1."""
        super().reset_parameters()
        with torch.no_grad():
            stored_weight(self, "gain").fill_(1)
            if self.window > 1:
                start_window(self)
            if self.gated:
                stored_weight(self, "log_a").uniform_(1, 16).log_()
                dt = stored_weight(self, "bias_dt")
                dt.copy_(log_uniform(*STEP_SIZES, dt))

    def prepare(self, x: Tensor) -> Tensor:
        """Queries, keys, values and gates, for all steps at once."""
        return F.linear(x, self.weight_ih, self.bias_ih)

    def along(self, u: Tensor, state: Any, time: Any) -> tuple[Tensor, Any]:
        """The window, the delta rule, norm and gate."""
        S, past = state
        H, h = self.hidden_size, self.heads
        x, beta, *gates = u.split(self.blocks, -1)
        if self.weight_conv is not None:
            x, past = convolve(x, self.weight_conv, None, past, time)
        q, k, v = F.silu(x).split([H, H, self.expand * H], -1)
        q, k, v = (split_heads(part, h) for part in (q, k, v))
        q, k = unit(q) * (H // h) ** -0.5, unit(k)
        beta = torch.sigmoid(beta).unsqueeze(-1)
        if self.negative_eigenvalues:
            beta = 2 * beta
        if self.log_a is not None and self.bias_dt is not None:
            rate = F.softplus(full(gates[0]) + full(self.bias_dt))
            g = -torch.exp(full(self.log_a)) * rate
            faded = (g.exp().unsqueeze(-1) * full(k)).to(k.dtype)
        else:
            g, faded = None, k
        r, S = time.delta(q, beta * k, v, -beta * k, faded, S, g)
        r = (normed(r, EPSILON) * self.gain).flatten(1)
        if self.gated:
            r = r * F.silu(gates[1])
        return F.linear(r, self.weight_ho, self.bias_ho), (S, past)
