"""Forecasts that a network has to beat: the last season again, and a linear map of the window."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from companion.checks import check_number, check_size
from companion.models.forecasting import Horizon, check_past, target_of

__all__ = ["LinearForecaster", "SeasonalNaive"]


class SeasonalNaive(nn.Module):
    r"""The value of one season ago; with a season of 1, the last value: persistence.

    .. math:: \hat y_{P+h} = y_{P + h - m \lceil h / m \rceil}, \qquad h = 1, \dots, F

    Args:
        horizon: steps ahead, :math:`F`.
        season: its length in steps, :math:`m`.
        input_size: columns of the past, :math:`D`.
        target: the column that is forecast.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Source:
        Hyndman and Athanasopoulos (2021), "Forecasting: principles and practice", section 5.2.

    Example:
        >>> past = torch.tensor([[[1.0], [2.0], [3.0], [4.0]]])
        >>> SeasonalNaive(horizon=5, season=3)(past).tolist(), SeasonalNaive(2)(past).tolist()
        ([[2.0, 3.0, 4.0, 2.0, 3.0]], [[4.0, 4.0]])
    """

    def __init__(
        self, horizon: int, season: int = 1, input_size: int = 1, target: int = 0
    ) -> None:
        super().__init__()
        check_size("season", season)
        self.horizon = Horizon(horizon, (), target, False, input_size)
        self.season = season

    def forward(self, past: Tensor) -> Tensor:
        """The forecast: past (B, P, D) to (B, F).

        Raises:
            TypeError, ValueError: if the past has the wrong type or shape, or is shorter than a
                season.
        """
        check_past(past, self.horizon.columns, None)
        if past.shape[1] < self.season:
            raise ValueError(
                f"past: expected at least {self.season} rows, one season, got {past.shape[1]}"
            )
        last = past[:, past.shape[1] - self.season :, self.horizon.target]
        return last[:, torch.arange(self.horizon.steps, device=past.device) % self.season]


class LinearForecaster(nn.Module):
    r"""Each step ahead a linear map of the window, fitted in closed form.

    .. math::

        \hat y = W x + b, \qquad
        (W, b) = \arg\min \sum_n \lVert y_n - W x_n - b \rVert^2 + \lambda \lVert W \rVert^2

    with :math:`x \in \mathbb{R}^{P \cdot D}` the window as one vector. The best known linear
    forecaster, DLinear, adds two such maps, of a moving average of the window and of the rest;
    the sum is again one linear map of the window, so that both can give the same forecasts.
    Until it is fitted, W and b are 0; they are parameters and can be trained on.

    Args:
        input_size: columns of the past, :math:`D`.
        past: rows of the past, :math:`P`.
        horizon: steps ahead, :math:`F`.
        ridge: :math:`\lambda`; with 0 the solution of least norm.
        target: the column that is forecast.
        relative: whether window and forecast are differences from the last known row, as in
            NLinear: then a series that is shifted gives the forecast shifted.
        device, dtype: of the weights.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Source:
        Zeng et al. (2023), "Are Transformers effective for time series forecasting?", for DLinear
        and NLinear.

    Example:
        >>> series = torch.arange(20.0)
        >>> windows = series.unfold(0, 4, 1)  # 3 known values and the one after them
        >>> model = LinearForecaster(1, 3, 1).fit(windows[:, :3, None], windows[:, 3:])
        >>> round(model(torch.tensor([[[97.0], [98.0], [99.0]]])).item(), 3)
        100.0
    """

    def __init__(
        self,
        input_size: int,
        past: int,
        horizon: int,
        ridge: float = 0.0,
        *,
        target: int = 0,
        relative: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size("past", past)
        check_number("ridge", ridge)
        if ridge < 0:
            raise ValueError(f"ridge: expected at least 0, got {ridge}")
        self.horizon = Horizon(horizon, (), target, relative, input_size)
        self.past, self.ridge = past, float(ridge)
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.zeros(horizon, past * input_size, **new))
        self.bias = nn.Parameter(torch.zeros(horizon, **new))

    @torch.no_grad()
    def fit(self, past: Tensor, future: Tensor) -> LinearForecaster:
        """Set the weights to the solution, computed in float64 on the CPU.

        Args:
            past: (N, P, D), the windows of the training part.
            future: (N, F) of the target, or (N, F, D) of all columns.

        Returns:
            The model itself.

        Raises:
            TypeError, ValueError: if an argument is no tensor, the shapes do not fit, there is no
                window, or a value is not finite.
        """
        self._check(past)
        target, steps = self.horizon.target, self.horizon.steps
        future = target_of(future, self.horizon)
        if future.shape != (len(past), steps) or not len(past):
            raise ValueError(
                f"future: expected shape ({max(len(past), 1)}, {steps}), a row for each window, "
                f"got {tuple(future.shape)}"
            )
        for name, values in (("past", past), ("future", future)):
            if not bool(values.isfinite().all()):
                raise ValueError(f"{name}: expected finite values, got NaN or an infinity")
        x, y = self._window(past).cpu().double(), future.cpu().double()
        if self.horizon.relative:
            y = y - past[:, -1, target, None].cpu().double()
        mean_x, mean_y = x.mean(0), y.mean(0)
        x, y = x - mean_x, y - mean_y  # the intercept is not penalized
        if self.ridge:  # as rows: x^T x + ridge is never formed, which would square the condition
            eye = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
            x = torch.cat([x, self.ridge**0.5 * eye])
            y = torch.cat([y, y.new_zeros(x.shape[1], steps)])
        weight = torch.linalg.lstsq(x, y, driver="gelsd").solution.T
        self.weight.copy_(weight)
        self.bias.copy_(mean_y - weight @ mean_x)
        return self

    def forward(self, past: Tensor) -> Tensor:
        """The forecast: past (B, P, D) to (B, F).

        Raises:
            TypeError, ValueError: if the past has the wrong type, shape, dtype or device.
        """
        self._check(past)
        flat = self._window(past) @ self.weight.T + self.bias
        return self.horizon.shape(flat, past[:, -1])

    def _check(self, past: Tensor) -> None:
        check_past(past, self.horizon.columns, self.weight, self.past)

    def _window(self, past: Tensor) -> Tensor:
        return ((past - past[:, -1:]) if self.horizon.relative else past).flatten(1)
