"""Measurements along a time axis: what the forecasting chapters load by name."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from companion.checks import check_size
from companion.data.labelled import FILES

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Weather", "load_weather"]

UNITS = {
    "temp": "°F",
    "dewp": "°F",
    "humid": "%",
    "wind_dir": "°",
    "wind_speed": "mph",
    "wind_gust": "mph",
    "precip": "in",
    "pressure": "mbar",
    "visib": "mi",
}


@dataclass(frozen=True, eq=False, repr=False)
class Weather:
    """Hourly weather at John F. Kennedy Airport, New York, in 2013.

    Nothing is filled in: an hour without a record has no row, a value that was not measured is
    NaN. ``stretches`` finds the hours in between.

    Attributes:
        time: numpy datetime64[h] (T,), the hour in UTC, increasing. New York is 5 hours behind
            it in winter and 4 in summer.
        values: float32 (T, D), NaN where nothing was measured.
        columns: the D names: temperature, dew point, relative humidity, direction, speed and
            gusts of the wind, precipitation, pressure at sea level, visibility.
        units: from each name to its unit.

    Example:
        >>> from companion.data import load
        >>> weather = load("weather")
        >>> weather
        Weather(8706 hours, columns: temp, dewp, humid, wind_dir, wind_speed, wind_gust,
                precip, pressure, visib)
        >>> first = weather.stretches("temp", "humid", at_least=168)[0]
        >>> str(weather.time[first.start]), weather.select("temp", "humid")[first].shape
        ('2013-01-01T18', torch.Size([1211, 2]))
    """

    time: np.ndarray
    values: Tensor
    columns: tuple[str, ...]
    units: dict[str, str]

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Weather({len(self)} hours, columns: {', '.join(self.columns)})"

    def select(self, *names: str) -> Tensor:
        """The columns of these names, in this order.

        Args:
            names: of n columns; without any, all of them.

        Returns:
            float32 (T, n), in the units of ``units``.

        Raises:
            ValueError: there is no such column.
        """
        for name in names:
            if name not in self.columns:
                raise ValueError(f"names: expected some of {self.columns}, got {name!r}")
        return self.values[:, [self.columns.index(name) for name in names or self.columns]]

    def stretches(self, *names: str, at_least: int = 1) -> list[slice]:
        """Runs of consecutive hours at which all of these columns were measured.

        Args:
            names: of the columns; without any, all of them.
            at_least: leave out what is shorter than this number of hours.

        Returns:
            Slices of the rows, in the order of time and as long as can be. Between the rows of one
            slice no hour is missing.

        Raises:
            TypeError: at_least is no int.
            ValueError: there is no such column, or at_least is not positive.
        """
        import numpy as np

        check_size("at_least", at_least)
        measured = ~self.select(*names).isnan().any(1).numpy()  # (T,)
        # does a row go on from the one above it? The first has none above
        follows = np.diff(self.time, prepend=self.time[:1]) == np.timedelta64(1, "h")
        goes_on = follows & measured & np.roll(measured, 1)
        starts = np.flatnonzero(measured & ~goes_on)
        stops = np.flatnonzero(measured & ~np.append(goes_on[1:], False)) + 1
        pairs = zip(starts.tolist(), stops.tolist(), strict=True)
        return [slice(start, stop) for start, stop in pairs if stop - start >= at_least]


def load_weather() -> Weather:
    """Read the vendored weather: 8,706 hours, 9 columns."""
    import numpy as np

    with gzip.open(FILES / "weather" / "weather.csv.gz", "rt", encoding="utf-8") as file:
        # one line a column, see SOURCE
        lines = {name: line for name, *line in (row.rstrip("\n").split(",") for row in file)}
    hours = [text.removesuffix("Z") for text in lines.pop("time_hour")]  # numpy takes no zone
    rows = [[float("nan" if v == "NA" else v) for v in line] for line in lines.values()]
    return Weather(
        time=np.array(hours, dtype="datetime64[h]"),
        values=torch.tensor(rows, dtype=torch.float32, device="cpu").T.contiguous(),
        columns=tuple(lines),
        units={name: UNITS[name] for name in lines},
    )
