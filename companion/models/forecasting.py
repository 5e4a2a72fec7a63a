"""The next values of a series from its past ones, by any recurrence; quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import check_tensor
from companion.checks import check_flag, check_number, check_sizes
from companion.models.parts import Layers, layers, mean, valid_steps
from companion.models.pooling import pool_last
from companion.run.tracing import is_exported

__all__ = ["Forecaster", "forecasting_objective", "pinball_loss"]


@dataclass(frozen=True)
class Horizon:
    """What every forecaster ends with: F steps ahead, of one column, perhaps as Q quantiles.

    Args:
        steps: F.
        quantiles: Q levels between 0 and 1, increasing, kept as a tuple; none: one value a step.
        target: the column of the past that is forecast.
        relative: whether the network's output is the difference from the last known value.
        columns: D, of the past.
    """

    steps: int
    quantiles: Sequence[float]
    target: int
    relative: bool
    columns: int

    def __post_init__(self) -> None:
        check_sizes(horizon=(self.steps, 1), input_size=(self.columns, 1), target=(self.target, 0))
        check_flag("relative", self.relative)
        if self.target >= self.columns:
            raise ValueError(
                f"target: expected less than {self.columns} (input_size), got {self.target}"
            )
        object.__setattr__(self, "quantiles", checked_quantiles(self.quantiles))

    @property
    def size(self) -> int:
        """Numbers of one forecast, F·Q."""
        return self.steps * max(len(self.quantiles), 1)

    def shape(self, flat: Tensor, last: Tensor) -> Tensor:
        """(B, F·Q), and the last known rows (B, D), to (B, F) or (B, F, Q)."""
        if self.relative:
            flat = flat + last[:, self.target, None]
        return flat.unflatten(1, (self.steps, -1)) if self.quantiles else flat


class Forecaster(nn.Module):
    r"""A recurrence over the past, and from its last output all steps ahead at once.

    .. math::

        h_{1..P} = \mathrm{recurrence}(x_1, \dots, x_P), \qquad
        (\hat y_{P+1}, \dots, \hat y_{P+F}) = W h_P + b

    "Direct" multi-step: no forecast is read back as an input. Every forecaster of this package is
    called alike, ``model(past)``.

    Args:
        input_size: columns of the past, :math:`D`.
        horizon: steps ahead, :math:`F`.
        hidden_size: number of hidden units, :math:`H`.
        cell: name of an architecture, a subclass of :class:`companion.Cell`, or a list of such
            words: a :class:`Backbone`.
        num_layers: number of stacked layers.
        dropout: probability of dropping an output between layers while training.
        quantiles: Q levels between 0 and 1, increasing, to be trained with :func:`pinball_loss`;
            nothing keeps quantiles of close levels from crossing. Empty: one value a step.
        target: the column that is forecast.
        relative: whether the network's output is added to the last known value of the target: it
            then starts from persistence.
        device, dtype: of the weights.
        options: further keyword arguments of :class:`companion.Recurrence`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Example:
        >>> past = torch.randn(5, 24, 3)
        >>> Forecaster(3, 12, hidden_size=8)(past).shape
        torch.Size([5, 12])
        >>> Forecaster(3, 12, hidden_size=8, quantiles=(0.1, 0.5, 0.9))(past).shape
        torch.Size([5, 12, 3])
    """

    def __init__(
        self,
        input_size: int,
        horizon: int,
        hidden_size: int = 64,
        cell: Layers = "lstm",
        num_layers: int = 1,
        dropout: float = 0.0,
        *,
        quantiles: Sequence[float] = (),
        target: int = 0,
        relative: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.horizon = Horizon(horizon, quantiles, target, relative, input_size)
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.recurrence = layers(
            cell, input_size, hidden_size, num_layers, dropout=dropout, **new, **options
        )
        self.output = nn.Linear(self.recurrence.output_size, self.horizon.size, **new)

    def forward(self, past: Tensor, lengths: Tensor | Sequence[int] | None = None) -> Tensor:
        """The forecast.

        Args:
            past: (B, P, D), rows in the order of time.
            lengths: (B,) how many rows of each past are valid, at least 1; the rest is padding
                behind them. Default: all.

        Returns:
            (B, F), or (B, F, Q) with quantiles.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        """
        check_past(past, self.horizon.columns, next(self.parameters(), None))
        valid = valid_steps(lengths, past.shape[0], past.shape[1], past.device)
        if not is_exported() and len(past) and not bool(valid.any(1).all()):
            raise ValueError("lengths: expected at least 1 row of the past, got a length of 0")
        y, _ = self.recurrence(past, lengths=lengths)
        pooled = pool_last(y, valid, self.recurrence.directions)
        return self.horizon.shape(self.output(pooled), pool_last(past, valid))


def check_past(past: Any, columns: int, like: Tensor | None, steps: int | None = None) -> None:
    """Raise unless ``past`` is (B, P, D) with P ≥ 1, of the dtype and device of a weight."""
    check_tensor("past", past, like)
    wanted = "P" if steps is None else str(steps)
    fits = past.dim() == 3 and past.shape[2] == columns
    if not fits or (past.shape[1] < 1 if steps is None else past.shape[1] != steps):
        raise ValueError(
            f"past: expected shape (B, {wanted}, {columns}) with at least one row, "
            f"got {tuple(past.shape)}"
        )


def checked_quantiles(quantiles: Any) -> tuple[float, ...]:
    """The levels as a tuple; raise unless they lie between 0 and 1 and increase."""
    try:
        levels = tuple(quantiles)
    except TypeError:
        raise TypeError(
            f"quantiles: expected a sequence of levels, got {type(quantiles).__name__} "
            f"({quantiles!r})"
        ) from None
    for q in levels:
        check_number("quantiles", q)
    bounds = (0.0, *levels, 1.0)
    if levels and not all(a < b for a, b in zip(bounds, bounds[1:], strict=False)):
        raise ValueError(f"quantiles: expected levels between 0 and 1 that increase, got {levels}")
    return levels


def target_of(future: Any, horizon: Horizon) -> Tensor:
    """The target's column of a future (B, F, D) of all columns; one of it alone is (B, F)."""
    check_tensor("future", future, None)
    if future.dim() == 3:
        if future.shape[2] != horizon.columns:
            raise ValueError(
                f"future: expected shape (B, F), or (B, F, {horizon.columns}) of all columns, "
                f"got {tuple(future.shape)}"
            )
        return future[..., horizon.target]
    return future


def pinball_loss(forecast: Tensor, future: Tensor, quantiles: Sequence[float]) -> Tensor:
    r"""The loss that a quantile minimizes.

    .. math:: \rho_q(e) = \max(q\, e, (q - 1)\, e), \qquad e = y - \hat y_q

    A forecast that is too low costs q a unit, one that is too high 1 − q. For the median it is
    half the absolute error.

    Args:
        forecast: (..., Q), one for each level.
        future: (...), what came.
        quantiles: Q levels.

    Returns:
        The mean over everything, a scalar.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, or shapes or levels do not fit.

    Source:
        Koenker and Bassett (1978), "Regression quantiles".

    Example:
        >>> low_and_high = torch.tensor([[8.0, 12.0]])
        >>> pinball_loss(low_and_high, torch.tensor([10.0]), (0.25, 0.5)).item()  # (0.5 + 1) / 2
        0.75
    """
    levels = checked_quantiles(quantiles)
    if not levels:
        raise ValueError("quantiles: expected at least one level, got none")
    check_tensor("forecast", forecast, None)
    check_tensor("future", future, None)
    if forecast.shape != (*future.shape, len(levels)):
        raise ValueError(
            f"forecast: expected shape {(*future.shape, len(levels))}, the future's and one "
            f"for each quantile, got {tuple(forecast.shape)}"
        )
    q = forecast.new_tensor(levels)
    error = future[..., None] - forecast
    return mean(torch.maximum(q * error, (q - 1) * error))


def forecasting_objective(
    model: nn.Module, batch: tuple[Tensor, Tensor]
) -> tuple[Tensor, int, dict[str, Tensor]]:
    """What :class:`companion.train.Trainer` minimizes for a forecaster.

    The mean squared error, or, of a model with quantiles, the pinball loss.

    Args:
        model: a forecaster of this package.
        batch: past (B, P, D), and future (B, F) of the target, or (B, F, D) of all columns.

    Returns:
        The mean, 0 of no window; the number B of windows; and the mean absolute error, ``"mae"``
        (of the level nearest the median).

    Example:
        >>> model = Forecaster(1, 2, hidden_size=4)
        >>> batch = torch.ones(3, 5, 1), torch.ones(3, 2)
        >>> _, windows, metrics = forecasting_objective(model, batch)
        >>> windows, list(metrics)
        (3, ['mae'])
    """
    past, future = batch
    horizon = model.horizon
    assert isinstance(horizon, Horizon)
    future = target_of(future, horizon)
    forecast = model(past)
    if forecast.shape[:2] != future.shape:
        raise ValueError(
            f"future: expected shape {tuple(forecast.shape[:2])}, got {tuple(future.shape)}"
        )
    if horizon.quantiles:
        loss = pinball_loss(forecast, future, horizon.quantiles)
        levels = horizon.quantiles
        forecast = forecast[..., min(range(len(levels)), key=lambda k: abs(levels[k] - 0.5))]
    else:
        loss = F.mse_loss(forecast, future) if len(past) else forecast.sum()
    return loss, len(past), {"mae": mean((forecast.detach() - future).abs())}
