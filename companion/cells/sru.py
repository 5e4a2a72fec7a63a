"""The simple recurrent unit, as published and as first proposed."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import Cell, stored_weight
from companion.cells.linear import LinearCell, Time, full, rounded
from companion.checks import check_flag

NONLINEARITIES = {"identity": lambda c: c, "tanh": torch.tanh}


class _SRU(Cell):
    """What both forms share: weights, the products with the input, the output."""

    recurrent_weights = ()  # none that a `recurrent_init` could fill

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        nonlinearity: str = "identity",
        rescale: bool = True,
        highway_bias: float = 0.0,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        if not isinstance(nonlinearity, str) or nonlinearity not in NONLINEARITIES:
            raise ValueError(
                f"nonlinearity: expected one of {sorted(NONLINEARITIES)}, got {nonlinearity!r}"
            )
        check_flag("rescale", rescale)
        if isinstance(highway_bias, bool) or not isinstance(highway_bias, int | float):
            raise TypeError(f"highway_bias: expected a number, got {type(highway_bias).__name__}")
        if not abs(highway_bias) <= 80:
            raise ValueError(f"highway_bias: expected a number from -80 to 80, got {highway_bias}")
        if highway_bias and not bias:
            raise ValueError("highway_bias: expected 0 where there is no bias")
        self.bias, self.nonlinearity, self.rescale = bias, nonlinearity, rescale
        self.highway_bias = float(highway_bias)
        self.alpha = math.sqrt(1 + 2 * math.exp(highway_bias)) if rescale else 1.0
        self.projects = input_size != hidden_size  # the highway has weights of its own
        new = dict[str, Any](device=device, dtype=dtype)
        self.weight_ih = self.weight((4 if self.projects else 3) * hidden_size, input_size, **new)
        self.bias_ih = self.weight(2 * hidden_size, **new) if bias else None

    def reset_parameters(self) -> None:
        """As the authors start: entries of variance 1/D, the highway scaled, its bias set."""
        H, bound = self.hidden_size, math.sqrt(3 / max(self.input_size, 1))
        with torch.no_grad():
            w = stored_weight(self, "weight_ih")
            nn.init.uniform_(w, -bound, bound)
            w[3 * H :] *= self.alpha
            if self.bias_ih is not None:
                b = stored_weight(self, "bias_ih")
                b[:H], b[H:] = 0, self.highway_bias

    def prepare(self, x: Tensor) -> Tensor:
        """Candidate, both gates and the highway, for all steps at once."""
        bias: Tensor | None = self.bias_ih
        if bias is not None:
            bias = F.pad(bias, (self.hidden_size, self.hidden_size if self.projects else 0))
        u = F.linear(x, self.weight_ih, bias)
        return u if self.projects else torch.cat([u, self.alpha * x], -1)

    def highway(self, r: Tensor, c: Tensor, skip: Tensor) -> Tensor:
        """h_t = r_t ⊙ g(c_t) + (1 − r_t) ⊙ skip_t."""
        return r * NONLINEARITIES[self.nonlinearity](c) + (1 - r) * skip


class SRUCell(_SRU):
    r"""The simple recurrent unit as published: gates that see the state, entry by entry.

    .. math::

        f_t &= \sigma(W_f x_t + v_f \odot c_{t-1} + b_f) \\
        c_t &= f_t \odot c_{t-1} + (1 - f_t) \odot W x_t \\
        r_t &= \sigma(W_r x_t + v_r \odot c_{t-1} + b_r) \\
        h_t &= r_t \odot g(c_t) + (1 - r_t) \odot \alpha x_t

    Every product with a matrix is with the input. What waits is elementwise, but not linear in
    :math:`c`, because :math:`f_t` sees it: a loop of cheap steps. The output h is not the state.

    Where D ≠ H, a fourth block of weights stands in the place of :math:`\alpha x_t`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether :math:`b_f, b_r` exist.
        device, dtype: of the weights.
        nonlinearity: :math:`g`, ``"identity"`` as published, or ``"tanh"``.
        rescale: whether :math:`\alpha = \sqrt{1 + 2 \exp(b)}`, with b the ``highway_bias``, which
            keeps the variance through a stack of layers at the start; else 1.
        highway_bias: start value of :math:`b_r`; below 0 the highway is wide open.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``weight_ih`` (3H, D), the blocks of candidate, f, r, and (4H, D) with that of the highway
        where D ≠ H; ``weight_ch`` (2, H), which is :math:`v_f, v_r`; ``bias_ih`` (2H,); input
        (B, D), state c and output h (B, H).

    Source:
        Lei et al. (2018), and the authors' code (asappresearch/sru), which our start follows.

    Example:
        >>> cell = SRUCell(3, 4)
        >>> h, c = cell.step(torch.zeros(2, 3), cell.initial_state(2))
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
        nonlinearity: str = "identity",
        rescale: bool = True,
        highway_bias: float = 0.0,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            bias,
            device,
            dtype,
            nonlinearity=nonlinearity,
            rescale=rescale,
            highway_bias=highway_bias,
        )
        self.weight_ch = self.weight(2, hidden_size, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As both forms; then gates whose two terms have variance 1/2 each."""
        super().reset_parameters()
        H = self.hidden_size
        with torch.no_grad():
            stored_weight(self, "weight_ih")[H : 3 * H] *= math.sqrt(0.5)
            nn.init.uniform_(stored_weight(self, "weight_ch"), -math.sqrt(1.5), math.sqrt(1.5))

    zoned = 0  # the output is not the state

    def update(self, u_t: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """One step; both gates see c_{t-1}."""
        candidate, u_f, u_r, skip = u_t.chunk(4, -1)
        v_f, v_r = self.weight_ch
        f, r = torch.sigmoid(u_f + v_f * c), torch.sigmoid(u_r + v_r * c)
        c = f * c + (1 - f) * candidate
        return self.highway(r, c, skip), c


class SRU2017Cell(_SRU, LinearCell):
    r"""The simple recurrent unit as first proposed: gates of the input alone.

    .. math::

        f_t &= \sigma(W_f x_t + b_f), \qquad r_t = \sigma(W_r x_t + b_r) \\
        c_t &= f_t \odot c_{t-1} + (1 - f_t) \odot W x_t \\
        h_t &= r_t \odot g(c_t) + (1 - r_t) \odot \alpha x_t

    No gate sees the state, so that c is a linear recurrence and all steps can run at once. In the
    published form (:class:`companion.SRUCell`) the gates see :math:`c_{t-1}`, at the price of a
    loop.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        bias: whether :math:`b_f, b_r` exist.
        device, dtype: of the weights.
        nonlinearity, rescale, highway_bias: as of :class:`companion.SRUCell`; what was first
            proposed knows no scaling, ``rescale=False``.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        as of :class:`companion.SRUCell`, without ``weight_ch``.

    Source:
        Lei et al., arXiv:1709.02755, first version (2017); its equations as the authors' code has
        them (asappresearch/sru, ``v1=True``).

    Example:
        >>> cell = SRU2017Cell(3, 4, nonlinearity="tanh", rescale=False)
        >>> cell.step(torch.zeros(2, 3), cell.initial_state(2))[0].shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        nonlinearity: str = "identity",
        rescale: bool = True,
        highway_bias: float = 0.0,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            bias,
            device,
            dtype,
            nonlinearity=nonlinearity,
            rescale=rescale,
            highway_bias=highway_bias,
        )
        self.reset_parameters()

    def along(self, u: Tensor, c: Tensor, time: Time) -> tuple[Tensor, Tensor]:
        """Gates, one scan, output."""
        candidate, f, r, skip = full(u).chunk(4, -1)
        f, r = torch.sigmoid(f), torch.sigmoid(r)
        cs, last = time.scan(f, (1 - f) * candidate, c)
        return rounded(self.highway(r, cs, skip), last, u, c)
