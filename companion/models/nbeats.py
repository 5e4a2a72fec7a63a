"""A forecaster without time in it: a stack of fully connected blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.checks import check_sizes
from companion.models.forecasting import Horizon, check_past

__all__ = ["NBEATS"]


class GenericBlock(nn.Module):
    """ReLU layers, and from the last of them a backcast and a forecast."""

    def __init__(self, window: int, size: int, width: int, layers: int, **new: Any) -> None:
        super().__init__()
        widths = [window] + [width] * layers
        self.layers = nn.ModuleList(
            nn.Linear(i, o, **new) for i, o in zip(widths, widths[1:], strict=False)
        )
        self.backcast = nn.Linear(width, window, **new)
        self.forecast = nn.Linear(width, size, **new)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A window (B, window) to its backcast (B, window) and forecast (B, size)."""
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.backcast(x), self.forecast(x)


class NBEATS(nn.Module):
    r"""N-BEATS with generic blocks: each explains a part of the past and passes the rest on.

    .. math::

        (\hat x_\ell, \hat y_\ell) = \mathrm{block}_\ell(x_\ell), \qquad
        x_{\ell+1} = x_\ell - \hat x_\ell, \qquad
        \hat y = \sum_\ell \hat y_\ell

    The paper is about one series; with several columns the window is all of its P·D numbers in
    one vector. To a layer its entries have no order: nothing says which are neighbors.

    Args:
        input_size: columns of the past, :math:`D`.
        past: rows of the past, :math:`P`.
        horizon: steps ahead, :math:`F`.
        blocks: number of blocks.
        width: units of each layer.
        layers: layers with ReLU in each block.
        quantiles, target, relative: as of :class:`Forecaster`.
        device, dtype: of the weights.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Source:
        Oreshkin et al. (2020), equations 1 and section 3.2 (doubly residual stacking), generic
        architecture. Theirs has two linear maps one behind the other at the end of a block; as in
        the authors' code they are one here.

    Example:
        >>> NBEATS(3, 24, 12, blocks=2, width=16)(torch.randn(5, 24, 3)).shape
        torch.Size([5, 12])
    """

    def __init__(
        self,
        input_size: int,
        past: int,
        horizon: int,
        blocks: int = 4,
        width: int = 128,
        layers: int = 4,
        *,
        quantiles: Sequence[float] = (),
        target: int = 0,
        relative: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(past=(past, 1), blocks=(blocks, 1), width=(width, 1), layers=(layers, 1))
        self.horizon = Horizon(horizon, quantiles, target, relative, input_size)
        self.past = past
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.blocks = nn.ModuleList(
            GenericBlock(past * input_size, self.horizon.size, width, layers, **new)
            for _ in range(blocks)
        )

    def parts(self, past: Tensor) -> tuple[Tensor, Tensor]:
        """What each block adds (blocks, B, F·Q), and what remains of the past (B, P·D)."""
        own = next(self.parameters())
        check_past(past, self.horizon.columns, own, self.past)
        x, forecasts = past.flatten(1), []
        for block in self.blocks:
            backcast, forecast = block(x)
            x = x - backcast
            forecasts.append(forecast)
        return torch.stack(forecasts), x

    def forward(self, past: Tensor) -> Tensor:
        """The forecast: past (B, P, D) to (B, F), or (B, F, Q) with quantiles.

        Raises:
            TypeError, ValueError: if the past has the wrong type, shape, dtype or device.
        """
        return self.horizon.shape(self.parts(past)[0].sum(0), past[:, -1])
