"""``companion train forecast``: a series up to now in, its next values out."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from companion.data.windowing import Scaler, Windows, split_by_time, windows
from companion.models.baselines import SeasonalNaive
from companion.models.forecasting import (
    Forecaster,
    checked_quantiles,
    forecasting_objective,
    pinball_loss,
)
from companion.models.sampling import evaluating
from companion.tasks.files import FileError
from companion.tasks.series import TIME, Series, read_series
from companion.tasks.settings import Settings, SettingsError
from companion.tasks.task import Parts, Request, RowBatches, Task
from companion.train.processes import Alone

__all__ = ["Forecast"]

EXAMPLE = """\
FILE is CSV with a header, a row for each time, the oldest first; a column of times (ISO 8601, or
numbers) need not be there:

  time,load,temperature
  2024-03-01T00:00,412.5,3.1
  2024-03-01T01:00,398.0,2.8

examples:
  python -m companion train forecast hourly.csv --target load --past 72 --horizon 24 --season 24
  python -m companion evaluate runs/hourly-forecast later.csv
  python -m companion predict runs/hourly-forecast hourly.csv --output next.csv

The last tenth of the rows is for the test, the tenth before it for validation: no window reaches
into what comes later, and the scaling is that of the training rows. The report compares the
network with the last value again, and, if --season is given, with the value a season ago.
"""


@dataclass(frozen=True)
class ForecastSettings(Settings):
    """What ``train forecast`` can be told."""

    target: str | None = None
    """Name of the column to forecast; otherwise the first one that is not the time."""

    columns: tuple[str, ...] = ()
    """Further columns that the network may look at; otherwise all that are not the time."""

    time: str = TIME
    """Name of the column with the times; it need not be there."""

    separator: str | None = None
    """Between the columns; otherwise a tab in .tsv files, a comma in others."""

    past: int = 48
    """Rows that a forecast is made from."""

    horizon: int = 12
    """Rows that are forecast."""

    season: int = 1
    """Rows after which the series is expected to repeat, for the report: 24 for hours of a day."""

    quantiles: tuple[float, ...] = (0.1, 0.5, 0.9)
    """Levels that are forecast; none: the mean alone."""

    missing: Literal["error", "leave-out"] = "error"
    """What to do about empty values: leave-out drops every window with one."""

    gaps: Literal["leave-out", "ignore"] = "leave-out"
    """What to do about times without a row: leave-out drops every window over one."""

    hidden_size: int = 64
    """Hidden units of each layer."""

    dropout: float = 0.0
    """Probability of dropping an output between layers while training; needs --num-layers 2."""

    def __post_init__(self) -> None:
        """Raise ``SettingsError`` for what has no meaning."""
        super().__post_init__()
        try:
            checked_quantiles(self.quantiles)
        except (TypeError, ValueError) as error:
            raise SettingsError(f"--{error}") from None
        if self.season > self.past:
            raise SettingsError(
                f"--season: expected at most --past, {self.past}, got {self.season}"
            )

    def sizes(self) -> tuple[str, ...]:
        """The settings that are numbers of at least 1."""
        return (*super().sizes(), "past", "horizon", "season")


@dataclass(frozen=True)
class ForecastKnown:
    """The columns, the target first, their scaling, and the step of the times."""

    columns: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    unit: str | None
    step: float


class Forecast(Task):
    """A series and its next values."""

    name: ClassVar[str] = "forecast"
    summary: ClassVar[str] = "the next values of a series, with quantiles"
    example: ClassVar[str] = EXAMPLE
    Settings: ClassVar[type[Settings]] = ForecastSettings
    Known: ClassVar[type[Any]] = ForecastKnown
    metric: ClassVar[str] = "mae"
    largest: ClassVar[bool] = False

    def __init__(self, settings: Any, known: Any, device: Any = None) -> None:
        if not known.columns or not len(known.columns) == len(known.mean) == len(known.std):
            raise SettingsError("expected columns, and a mean and a deviation for each")
        kind = torch.float64
        self.scaler = Scaler(
            torch.tensor(known.mean, dtype=kind), torch.tensor(known.std, dtype=kind)
        )
        super().__init__(settings, known, device)

    @classmethod
    def read(cls, path: str | Path, settings: Any, known: Any = None) -> Series:
        """Read a series."""
        return read_series(path, settings, known)

    @classmethod
    def divide(cls, whole: Series, settings: Any) -> Parts:
        """Divide by time; validation and test may look back on rows before their own."""
        valid = 0.0 if settings.valid_file else settings.valid_share
        test = 0.0 if settings.test_file else settings.test_share
        try:
            cut = split_by_time(len(whole.values), valid, test, context=settings.past)
        except ValueError as error:
            raise SettingsError(str(error)) from error
        parts = Parts(
            whole.part(cut.train),
            whole.part(cut.valid) if valid else None,
            whole.part(cut.test) if test else None,
        )
        for name, part in parts._asdict().items():
            if part is not None and not len(cls.windows(part, settings)):
                raise SettingsError(
                    f"a series of {len(whole.values)} rows has no whole window of --past "
                    f"{settings.past} and --horizon {settings.horizon} rows for {name} "
                    f"({len(part.values)} rows, gaps aside); take a shorter --past or --horizon, "
                    "or other shares"
                )
        return parts

    @classmethod
    def windows(cls, series: Series, settings: Any) -> Windows:
        """The windows of a part."""
        times = series.times
        places = None
        if times is not None and settings.gaps == "leave-out" and len(times.places) > 1:
            places = torch.tensor(times.places)
        return windows(series.values, settings.past, settings.horizon, time=places)

    @classmethod
    def learn(cls, train: Series, settings: Any) -> ForecastKnown:
        """The scaling."""
        try:
            scaler = Scaler.fit(train.values)
        except ValueError as error:
            raise SettingsError(f"the training rows cannot be scaled: {error}") from error
        times = train.times
        return ForecastKnown(
            train.columns,
            tuple(scaler.mean.tolist()),
            tuple(scaler.std.tolist()),
            None if times is None else times.unit,
            0.0 if times is None else float(times.step),
        )

    def make_model(self, device: Any) -> Forecaster:
        """A recurrence over the past, which starts from the last value."""
        s = self.settings
        return Forecaster(
            len(self.known.columns),
            s.horizon,
            s.hidden_size,
            s.cell,
            s.num_layers,
            s.dropout,
            quantiles=s.quantiles,
            relative=True,
            device=device,
        )

    def batches(self, rows: Series, *, shuffle: bool, group: Alone) -> RowBatches:
        """Windows."""
        found = self._windows(rows)
        past = self.scaler.transform(found.past).float()
        future = self.scaler.transform(found.future).float()[..., 0]

        def collate(indices: list[int]) -> tuple[Tensor, Tensor]:
            return past[indices], future[indices]

        s, n = self.settings, len(found)
        steps = [1] * n  # all windows are equally long
        return RowBatches(range(n), steps, s.batch_size, shuffle, s.seed, collate, group.world)

    def _windows(self, rows: Series) -> Windows:
        found = self.windows(rows, self.settings)
        if not len(found):
            s = self.settings
            raise SettingsError(
                f"{len(rows.values)} rows have no whole window of --past {s.past} and --horizon "
                f"{s.horizon} rows, gaps aside"
            )
        return found

    def objective(self, model: Any, *batch: Any) -> tuple[Any, ...]:
        """The pinball loss, or without quantiles the squared error."""
        loss, count, _ = forecasting_objective(model, batch[0])  # its mae is that of scaled values
        return loss, count

    def describe(self, parts: Parts) -> str:
        """How much there is."""
        found = {
            n: self.windows(p, self.settings) for n, p in parts._asdict().items() if p is not None
        }
        out = sum(len(w.left_out) for w in found.values())
        return (
            f"{self.known.columns[0]} from {', '.join(self.known.columns)}; windows: "
            + ", ".join(f"{len(w)} {n}" for n, w in found.items())
            + (f"; {out} left out for gaps" if out else "")
        )

    @torch.no_grad()
    def forecasts(self, past: Tensor) -> Tensor:
        """Forecasts (N, F, Q) in the units of the file, from windows (N, P, D) of it.

        Quantiles that cross are put into order.
        """
        found, size = [], max(self.settings.batch_size, 1)
        with evaluating(self.model):
            for chunk in past.split(size):
                x = self.scaler.transform(chunk).float().to(self.device)
                found.append(self.model(x).double().cpu())
        z = torch.cat(found)
        z = z.sort(-1).values if self.settings.quantiles else z[..., None]
        return self.scaler.select(0).inverse(z[..., None])[..., 0]

    def measure(self, rows: Series) -> dict[str, float]:
        """Mean absolute and root mean squared error of the middle, and what the quantiles hold."""
        found, levels = self._windows(rows), self.settings.quantiles
        forecast, future = self.forecasts(found.past), found.future[..., 0]
        middle = min(range(len(levels)), key=lambda k: abs(levels[k] - 0.5)) if levels else 0
        numbers = _errors(forecast[..., middle], future)
        if levels:
            numbers["pinball"] = float(pinball_loss(forecast, future, levels))
        if len(levels) > 1:
            inside = (forecast[..., 0] <= future) & (future <= forecast[..., -1])
            numbers[f"in {levels[0]:g}-{levels[-1]:g}"] = float(inside.double().mean())
        return numbers

    def baselines(self, rows: Series) -> dict[str, dict[str, float]]:
        """The last value again, and the value of a season ago."""
        found, s = self._windows(rows), self.settings
        names = {"the last value": 1} | (
            {f"{s.season} rows ago": s.season} if s.season > 1 else {}
        )
        return {
            name: _errors(
                SeasonalNaive(s.horizon, season, len(self.known.columns))(found.past),
                found.future[..., 0],
            )
            for name, season in names.items()
        }

    def predict(
        self, path: str | Path, request: Request, warn: Callable[[str], None]
    ) -> Iterator[str]:
        """CSV: a time, or the number of the step, and the quantiles of the target."""
        series, s = self.read(path, self.settings, self.known), self.settings
        P = s.past
        if len(series.values) < P:
            raise FileError(path, f"expected at least --past {P} rows, got {len(series.values)}")
        past, times = series.values[-P:], series.times
        if past.isnan().any():
            raise FileError(path, f"expected no missing value in the last {P} rows, got one")
        steps = [str(n) for n in range(1, s.horizon + 1)]
        if times is not None:
            if times.places[-1] - times.places[-P] != P - 1:
                raise FileError(path, f"expected no missing time in the last {P} rows, got one")
            steps = times.after(s.horizon)
        target = self.known.columns[0]
        names = [f"{target}_q{q:g}" for q in s.quantiles] or [target]
        yield _row([s.time if times is not None else "step", *names])
        for step, row in zip(steps, self.forecasts(past[None])[0].tolist(), strict=True):
            yield _row([step, *(f"{value:.9g}" for value in row)])


def _errors(forecast: Tensor, future: Tensor) -> dict[str, float]:
    error = forecast - future
    return {"mae": float(error.abs().mean()), "rmse": float(error.square().mean().sqrt())}


def _row(fields: list[str]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="").writerow(fields)
    return stream.getvalue()
