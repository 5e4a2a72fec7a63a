"""A forecaster by attention, which has to be told the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from companion.cells.noise import check_probability
from companion.checks import check_flag, check_sizes
from companion.models.forecasting import Horizon, check_past

__all__ = ["TransformerForecaster", "sinusoids"]


def sinusoids(steps: int, size: int) -> Tensor:
    r"""Positions as sines and cosines of geometrically spaced frequencies.

    .. math::

        p_{t, 2i} = \sin(t / 10000^{2i / d}), \qquad p_{t, 2i + 1} = \cos(t / 10000^{2i / d})

    Args:
        steps: T; the first step is t = 0.
        size: :math:`d`.

    Returns:
        float64 (T, d).

    Source:
        Vaswani et al. (2017), section 3.5.

    Example:
        >>> sinusoids(2, 2)
        tensor([[0.0000, 1.0000],
                [0.8415, 0.5403]], dtype=torch.float64)
    """
    check_sizes(steps=(steps, 0), size=(size, 1))
    new: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}  # not every device has it
    even = torch.arange(0, size, 2, **new)
    angle = torch.arange(steps, **new)[:, None] * 10000.0 ** (-even / size)
    return torch.stack([angle.sin(), angle.cos()], 2).flatten(1)[:, :size]


class TransformerForecaster(nn.Module):
    """A Transformer encoder over the past, read at its last step.

    Attention weighs the steps by what they hold, not by where they stand. Without positions the
    forecast is the same for any order of the steps before the last.

    Args:
        input_size: columns of the past, :math:`D`.
        horizon: steps ahead, :math:`F`.
        hidden_size: width of the encoder, a multiple of ``heads``.
        heads: of the attention.
        num_layers: number of layers, each with its normalization before attention and before the
            feed-forward part, which is 4 times as wide.
        dropout: rate in all places of ``torch.nn.TransformerEncoderLayer``.
        positions: whether :func:`sinusoids` are added to the input.
        quantiles, target, relative: as of :class:`Forecaster`.
        device, dtype: of the weights.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Source:
        Vaswani et al. (2017), the encoder; normalization in front as in Xiong et al. (2020).

    Example:
        >>> model = TransformerForecaster(3, 12, hidden_size=16, heads=2, num_layers=1)
        >>> model(torch.randn(5, 24, 3)).shape
        torch.Size([5, 12])
    """

    def __init__(
        self,
        input_size: int,
        horizon: int,
        hidden_size: int = 64,
        heads: int = 4,
        num_layers: int = 2,
        dropout: float = 0.0,
        *,
        positions: bool = True,
        quantiles: Sequence[float] = (),
        target: int = 0,
        relative: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(hidden_size=(hidden_size, 1), heads=(heads, 1), num_layers=(num_layers, 1))
        check_probability("dropout", dropout)
        check_flag("positions", positions)
        if hidden_size % heads:
            raise ValueError(
                f"hidden_size: expected a multiple of {heads} heads, got {hidden_size}"
            )
        self.horizon = Horizon(horizon, quantiles, target, relative, input_size)
        self.positions, self.hidden_size = positions, hidden_size
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.input = nn.Linear(input_size, hidden_size, **new)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                hidden_size,
                heads,
                4 * hidden_size,
                dropout,
                activation="gelu",
                batch_first=True,
                norm_first=True,
                **new,
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(hidden_size, **new)
        self.output = nn.Linear(hidden_size, self.horizon.size, **new)

    def features(self, past: Tensor) -> Tensor:
        """The outputs of the encoder at every step, (B, P, D) to (B, P, hidden_size)."""
        check_past(past, self.horizon.columns, self.output.weight)
        x = self.input(past)
        if self.positions:
            x = x + sinusoids(past.shape[1], self.hidden_size).to(x)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def forward(self, past: Tensor) -> Tensor:
        """The forecast: past (B, P, D) to (B, F), or (B, F, Q) with quantiles.

        Raises:
            TypeError, ValueError: if the past has the wrong type, shape, dtype or device.
        """
        return self.horizon.shape(self.output(self.features(past)[:, -1]), past[:, -1])
