"""Windows of a series for forecasting: what was known, and what came, with no leak between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from companion.checks import check_sizes
from companion.data.labelled import Split, check_training, checked_shares, part_sizes

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Scaler", "Windows", "split_by_time", "windows"]


def split_by_time(rows: int, valid: float = 0.1, test: float = 0.1, context: int = 0) -> Split:
    """Divide the rows of a series into three parts, one after another in time.

    Nothing is shuffled: a random division would put an hour's neighbors into another part, and
    what a network has seen would count as forecast.

    Args:
        rows: T, the number of rows; increasing in time.
        valid: share of the rows for validation.
        test: share of the rows for the test, the last ones. The first ones are for training.
        context: rows before the validation and before the test that their windows may look back
            on. They are known when the forecast is made. With ``context`` = the past of
            ``windows``, the first target of a part is its own first row, and no target is in two
            parts.

    Returns:
        Split(train, valid, test): three slices. Without context they are disjoint and cover all
        rows; round(T · valid) and round(T · test) rows are in the last two.

    Raises:
        TypeError: an argument is no number.
        ValueError: a share is negative, or they leave nothing for training; rows or context is
            negative.

    Example:
        >>> split_by_time(100, valid=0.2, test=0.1)
        Split(train=slice(0, 70, None), valid=slice(70, 90, None), test=slice(90, 100, None))
        >>> split_by_time(100, valid=0.2, test=0.1, context=24).test
        slice(66, 100, None)
    """
    checked_shares(valid, test)
    check_sizes(rows=(rows, 0), context=(context, 0))
    first, n_valid, _ = part_sizes(rows, valid, test)
    check_training(first, rows)
    second = first + n_valid
    return Split(
        slice(0, first),
        slice(max(first - context, 0), second),
        slice(max(second - context, 0), rows),
    )


@dataclass(frozen=True, eq=False)
class Scaler:
    r"""Columns brought to mean 0 and standard deviation 1, and back: :math:`(x - \mu) / \sigma`.

    Make it with ``Scaler.fit`` from the training part alone: a mean over all rows knows the
    future.

    Attributes:
        mean: (D,), of the columns.
        std: (D,), their standard deviations; 1 for a column whose values are all equal, or vary
            by less than the dtype holds.

    Example:
        >>> scaler = Scaler.fit(torch.tensor([[1.0, 5.0], [3.0, 5.0], [float("nan"), 5.0]]))
        >>> scaler.mean.tolist(), scaler.std.tolist()
        ([2.0, 5.0], [1.0, 1.0])
        >>> z = scaler.transform(torch.tensor([[4.0, 6.0]]))
        >>> z.tolist(), scaler.inverse(z).tolist()
        ([[2.0, 1.0]], [[4.0, 6.0]])
        >>> scaler.select(1).inverse(torch.zeros(2, 1)).tolist()  # of the second column alone
        [[5.0], [5.0]]
    """

    mean: Tensor
    std: Tensor

    @classmethod
    def fit(cls, series: Tensor) -> Scaler:
        """Take the mean and the standard deviation of each column.

        Args:
            series: floating point (T, D), the training part; NaN where nothing was measured.

        Returns:
            The scaler, in the dtype of the series. Sums are taken in float64, over the values
            that are no NaN, the deviation as that of a population (divided by their number).

        Raises:
            TypeError: the series is no floating-point tensor.
            ValueError: it is not of shape (T, D), or a column holds no value, or an infinite one.
        """
        # on the CPU, since not every device has float64
        wide = _checked_series(series).detach().to("cpu", torch.float64)
        known = ~wide.isnan()
        count = known.sum(0)
        low, high = (wide.where(known, end) for end in (torch.inf, -torch.inf))
        wide = wide.where(known, 0.0)
        for d in range(series.shape[1]):
            if not count[d]:
                raise ValueError(f"series: expected values in column {d}, got none but NaN")
            if wide[:, d].isinf().any():
                raise ValueError(f"series: expected finite values in column {d}, got an infinity")
        # in units of a power of 2, which changes no digit, no square becomes 0 or infinite
        exponents = wide.abs().amax(0).frexp().exponent.clamp(-1000, 1000).tolist()
        unit = torch.tensor([2.0**e for e in exponents], dtype=torch.float64, device="cpu")
        wide = wide / unit
        mean = wide.sum(0) / count
        std = ((wide - mean).where(known, 0.0).square().sum(0) / count).sqrt()
        std = (std * unit).to(series.dtype)
        # rounding gives equal values a deviation too, of about eps times their mean
        varies = (low.amin(0) < high.amax(0)) & (std > 0)
        return cls((mean * unit).to(series), std.where(varies, 1.0).to(series))

    def transform(self, x: Tensor) -> Tensor:
        """Scale values.

        Args:
            x: (..., D), in the units of the series.

        Returns:
            (..., D), of another tensor.

        Raises:
            TypeError: x is no tensor.
            ValueError: the last dimension is not D.
        """
        mean, std = self._like("x", x)
        return (x - mean) / std

    def inverse(self, z: Tensor) -> Tensor:
        """Undo ``transform``.

        Args:
            z: (..., D), scaled values, such as forecasts.

        Returns:
            (..., D), in the units of the series.

        Raises:
            TypeError: z is no tensor.
            ValueError: the last dimension is not D.
        """
        mean, std = self._like("z", z)
        return z * std + mean

    def select(self, *columns: int) -> Scaler:
        """The scaler of some of the columns, for a forecast that has only these.

        Args:
            columns: positions of n columns, in the order wanted.

        Returns:
            A scaler for (..., n).

        Raises:
            TypeError: a position is no int.
            IndexError: there is no such column.
        """
        for column in columns:
            if isinstance(column, bool) or not isinstance(column, int):
                raise TypeError(f"columns: expected ints, got {column!r}")
            if not 0 <= column < len(self.mean):
                raise IndexError(f"columns: expected 0 ... {len(self.mean) - 1}, got {column}")
        return Scaler(self.mean[list(columns)], self.std[list(columns)])

    def _like(self, name: str, x: Any) -> tuple[Tensor, Tensor]:
        """Mean and deviation on the device of ``x``."""
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}")
        if x.ndim == 0 or x.shape[-1] != len(self.mean):
            raise ValueError(
                f"{name}: expected {len(self.mean)} columns in the last dimension, "
                f"got shape {tuple(x.shape)}"
            )
        return self.mean.to(x.device), self.std.to(x.device)


@dataclass(frozen=True, eq=False, repr=False)
class Windows:
    """N windows of a series. Made by ``windows``.

    Attributes:
        past: (N, P, D), what is known; a view of the series where no window is left out.
        future: (N, F, D), the rows right after.
        starts: int64 (N,), the row of the series at which each window begins.
        left_out: int64 (M,), where the windows begin that were left out for a gap: a NaN in one of
            their rows, or a row missing between two of them.
    """

    past: Tensor
    future: Tensor
    starts: Tensor
    left_out: Tensor

    def __len__(self) -> int:
        return len(self.starts)

    def __repr__(self) -> str:
        p, f = self.past.shape[1], self.future.shape[1]
        return f"Windows({len(self)} of {p} + {f} rows, {len(self.left_out)} left out)"


def windows(
    series: Tensor,
    past: int,
    future: int,
    *,
    stride: int = 1,
    time: np.ndarray | Tensor | None = None,
) -> Windows:
    """Cut a series into windows of P known rows and the F rows that come right after.

    A window lies wholly inside ``series``. Give each part of ``split_by_time`` by itself, and no
    window of the training reaches into the validation. A window over a gap is left out, and
    counted, not filled in.

    Args:
        series: floating point (T, D), rows in the order of time; NaN where nothing was measured.
        past: P, rows that are known.
        future: F, rows to forecast.
        stride: rows from the start of one window to that of the next.
        time: T times of the rows, numbers or numpy datetime64, if some rows may be missing:
            neighbors that are further apart than the closest two have a gap between them.

    Returns:
        The windows, and where those begin that were left out. There are
        ⌊(T − P − F) / stride⌋ + 1 of both together, none if T < P + F.

    Raises:
        TypeError: the series is no floating-point tensor; past, future or stride is no int; time
            has no numbers and no datetime64.
        ValueError: the series is not of shape (T, D); past, future or stride is not positive;
            time has another length, or does not increase.

    Example:
        >>> series = torch.arange(6.0)[:, None]
        >>> series[5] = float("nan")
        >>> found = windows(series, past=2, future=1)
        >>> found, found.left_out.tolist()
        (Windows(3 of 2 + 1 rows, 1 left out), [3])
        >>> found.past[:, :, 0].tolist(), found.future[:, :, 0].tolist()
        ([[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]], [[2.0], [3.0], [4.0]])
    """
    _checked_series(series)
    check_sizes(past=(past, 1), future=(future, 1), stride=(stride, 1))
    rows, width = len(series), past + future
    starts = torch.arange(0, max(rows - width + 1, 0), stride, device=series.device)
    # faults[t]: gaps up to row t. A window has none if the count does not rise over it: of rows
    # that are NaN among all of its rows, of breaks before all but its first row
    missing = _summed(series.isnan().any(1))
    breaks = _summed(_breaks(time, rows).to(series.device))
    whole = missing[starts + width] == missing[starts]
    whole &= breaks[starts + width] == breaks[starts + 1]
    if rows < width:
        cut = series.new_empty(0, width, series.shape[1])
    else:
        cut = series.unfold(0, width, stride).transpose(1, 2)  # (N, P + F, D), a view
    if not whole.all():
        cut = cut[whole]
    return Windows(cut[:, :past], cut[:, past:], starts[whole], starts[~whole])


def _summed(flags: Tensor) -> Tensor:
    """(T + 1,): how many of the first t flags are set."""
    return torch.cat([flags.new_zeros(1, dtype=torch.int64), flags.cumsum(0)])


def _breaks(time: Any, rows: int) -> Tensor:
    """(T,): whether rows are missing right before each row."""
    flags = torch.zeros(rows, dtype=torch.bool, device="cpu")
    if time is None:
        return flags
    import numpy as np

    if isinstance(time, Tensor):
        time = time.detach().cpu()
        time = time.float() if time.dtype == torch.bfloat16 else time.numpy()  # numpy has none
    times = np.asarray(time)
    if times.dtype.kind not in "iufmM":
        raise TypeError(f"time: expected numbers or numpy datetime64, got dtype {times.dtype}")
    if times.shape != (rows,):
        raise ValueError(f"time: expected shape ({rows},) like the series, got {times.shape}")
    if rows < 2:
        return flags
    increases = times[1:] > times[:-1]  # a difference would not tell: it may wrap
    if not increases.all():
        t = int((~increases).argmax()) + 1
        raise ValueError(f"time: expected times that increase, got {times[t]} in row {t}")
    if times.dtype.kind == "f":  # 0.1, 0.2, 0.3 are not equally far apart
        steps = np.diff(times.astype(np.float64))
        flags[1:] = torch.from_numpy(steps > 1.5 * steps.min())
    else:  # as unsigned numbers of 64 bits the differences are right, also if they wrap
        steps = np.diff(times.astype(np.int64).astype(np.uint64))
        flags[1:] = torch.from_numpy(steps > steps.min())
    return flags


def _checked_series(series: Tensor) -> Tensor:
    if not isinstance(series, Tensor) or not series.is_floating_point():
        got = series.dtype if isinstance(series, Tensor) else type(series).__name__
        raise TypeError(f"series: expected a floating-point tensor of shape (T, D), got {got}")
    if series.ndim != 2:
        raise ValueError(f"series: expected shape (T, D), got {tuple(series.shape)}")
    return series
