"""Two long series that statsmodels carries: carbon dioxide by the week, sunspots by the year."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from companion.data.entry import not_installed

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Series", "load_co2", "load_sunspots"]


class Series(NamedTuple):
    """Values along time.

    Attributes:
        time: of each value, ``datetime64[D]`` (T,), increasing.
        values: float64 (T, 1); NaN where nothing was measured.
        unit: of the values.
    """

    time: np.ndarray
    values: Tensor
    unit: str


def load_co2() -> Series:
    """Read the weekly means of carbon dioxide at Mauna Loa, March 1958 to December 2001.

    Returns:
        2,284 weeks in parts per million; 59 of them are NaN.

    Raises:
        ImportError: statsmodels is not installed.
    """
    values = _statsmodels("co2").load_pandas().data["co2"]
    return _series(values.index.to_numpy(), values, "ppm")


def load_sunspots() -> Series:
    """Read the yearly means of the number of sunspots, 1700 to 2008.

    Returns:
        309 years, dated to their first day.

    Raises:
        ImportError: statsmodels is not installed.
    """
    table = _statsmodels("sunspots").load_pandas().data
    years = [f"{int(year)}-01-01" for year in table["YEAR"]]
    return _series(years, table["SUNACTIVITY"], "sunspots")


def _series(time: Any, values: Any, unit: str) -> Series:
    import numpy as np

    found = torch.tensor(values.to_numpy(), dtype=torch.float64, device="cpu")
    return Series(np.asarray(time, dtype="datetime64[D]"), found[:, None], unit)


def _statsmodels(name: str) -> Any:
    try:
        from statsmodels import datasets
    except ImportError as error:
        raise not_installed(name, "statsmodels") from error
    return getattr(datasets, name)
