"""``companion train forecast``: a series up to now in, its next values out."""

from __future__ import annotations

import csv
import io
import math
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
from companion.tasks.files import FileError, ending_of, source_name
from companion.tasks.series import TIME, ForecastKnown, Series, read_series
from companion.tasks.settings import Settings, SettingsError, as_option, check_separator
from companion.tasks.task import Parts, Request, RowBatches, Task
from companion.train.processes import Alone

__all__ = ["Forecast"]

EXAMPLE = """\
FILE is CSV with a header, a row for each time, the oldest first; a column of times (ISO 8601, or
numbers) need not be there, and is named by --time if it is not called time. FILE may be -, the
standard input:

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
    """What to do about times without a row: leave-out drops every window over one; with ignore
    the rows are as good as equally spaced, and the usual distance goes on in a forecast."""

    hidden_size: int = 64
    """Hidden units of each layer."""

    dropout: float = 0.0
    """Probability of dropping an output between layers while training; needs --num-layers 2."""

    def __post_init__(self) -> None:
        """Raise ``SettingsError`` for what has no meaning."""
        super().__post_init__()
        check_separator(self.separator)
        try:
            checked_quantiles(self.quantiles)
        except (TypeError, ValueError) as error:
            raise SettingsError(as_option(error, self)) from None
        for name in self.columns:
            if self.columns.count(name) > 1:
                raise SettingsError(f"--columns: expected each name once, got {name!r} twice")
        if self.time in (self.target, *self.columns):
            where = "--target" if self.time == self.target else "--columns"
            raise SettingsError(f"{where}: expected other columns than {self.time!r}, of --time")
        if self.season > self.past:
            raise SettingsError(
                f"--season: expected at most --past, {self.past}, got {self.season}"
            )

    def sizes(self) -> tuple[str, ...]:
        """The settings that are numbers of at least 1."""
        return (*super().sizes(), "past", "horizon", "season")


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
        rows, where = len(whole.values), source_name(whole.path)
        try:
            cut = split_by_time(rows, valid, test, context=settings.past)
        except ValueError:
            raise SettingsError(
                f"{where}: --valid-share and --test-share leave none of {rows} rows to train on"
            ) from None
        parts = Parts(
            whole.part(cut.train),
            whole.part(cut.valid) if valid else None,
            whole.part(cut.test) if test else None,
        )
        for name, part in parts._asdict().items():
            if part is not None and not len(cls.windows(part, settings)):
                raise SettingsError(
                    f"{where}: a series of {rows} rows has no whole window of --past "
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
        for n, column in enumerate(train.columns):
            if train.values[:, n].isnan().all():
                fault = f"expected a value in the first {len(train.values)} rows, got none"
                raise FileError(train.path, fault, None, column)
        scaler, times = Scaler.fit(train.values), train.times
        return ForecastKnown(
            train.columns,
            tuple(scaler.mean.tolist()),
            tuple(scaler.std.tolist()),
            None if times is None else times.unit,  # type: ignore[arg-type]
            0.0 if times is None else float(times.step),
            ending_of(train.path),
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
        starts, s = self._windows(rows).starts, self.settings
        series = self.scaler.transform(rows.values).float()
        width = torch.arange(s.past + s.horizon)

        def collate(indices: list[int]) -> tuple[Tensor, Tensor]:
            cut = series[starts[indices][:, None] + width]  # the windows of one batch alone
            return cut[:, : s.past], cut[:, s.past :, 0]

        n = len(starts)
        steps = [1] * n  # all windows are equally long
        return RowBatches(range(n), steps, s.batch_size, shuffle, s.seed, collate, group.world)

    def _windows(self, rows: Series) -> Windows:
        found = self.windows(rows, self.settings)
        if not len(found):
            s = self.settings
            raise SettingsError(
                f"{source_name(rows.path)}: {len(rows.values)} rows have no whole window of "
                f"--past {s.past} and --horizon {s.horizon} rows, gaps aside"
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
            try:
                steps = times.after(s.horizon)
            except OverflowError as error:
                raise FileError(path, str(error), None, s.time) from None
        target = self.known.columns[0]
        names = [f"{target}_q{q:g}" for q in s.quantiles] or [target]
        yield _row([s.time if times is not None else "step", *names])
        # nine digits of what varies: before them stand those of a mean that is far from 0
        far = abs(self.known.mean[0]) / self.known.std[0]
        digits = 9 + math.ceil(min(math.log10(max(far, 1.0)), 8.0))
        for step, row in zip(steps, self.forecasts(past[None])[0].tolist(), strict=True):
            yield _row([step, *(f"{value:.{digits}g}" for value in row)])


def _errors(forecast: Tensor, future: Tensor) -> dict[str, float]:
    error = forecast - future
    return {"mae": float(error.abs().mean()), "rmse": float(error.square().mean().sqrt())}


def _row(fields: list[str]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="").writerow(fields)
    return stream.getvalue()
