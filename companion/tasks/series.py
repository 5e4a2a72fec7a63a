"""A series in a table: its numbers, its times, and the target in front."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from companion.tasks.files import FileError
from companion.tasks.known import check_finite
from companion.tasks.settings import SettingsError
from companion.tasks.tables import Table, check_columns, read_table
from companion.tasks.times import Times, looks_like_time, read_times

__all__ = ["TIME", "ForecastKnown", "Series", "read_series"]

TIME = "time"  # a column of this name has the times, unless another is named
MISSING = ("", "na", "n/a", "nan", "null", "none")


@dataclass(frozen=True, eq=False)
class Series:
    """Rows of a file: values float64 (T, D), the target first, and their times, if it has any."""

    columns: tuple[str, ...]
    values: Tensor
    times: Times | None
    path: str | Path = ""

    def part(self, rows: slice) -> Series:
        """Some of the rows."""
        times = None if self.times is None else self.times.part(rows)
        return Series(self.columns, self.values[rows], times, self.path)


@dataclass(frozen=True)
class ForecastKnown:
    """The columns, the target first, their scaling, the times' step, and how the file ended."""

    columns: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    unit: Literal["seconds", "months", "number"] | None
    step: float
    ending: str

    def __post_init__(self) -> None:
        """Raise ``SettingsError`` for what training cannot have found."""
        if not self.columns or not len(self.columns) == len(self.mean) == len(self.std):
            raise SettingsError(
                "columns, mean, std: expected columns, and a mean and a deviation for each, got "
                f"{len(self.columns)}, {len(self.mean)} and {len(self.std)}"
            )
        if len(set(self.columns)) < len(self.columns):
            twice = next(name for name in self.columns if self.columns.count(name) > 1)
            raise SettingsError(f"columns: expected each name once, got {twice!r:.60} twice")
        check_finite("mean", self.mean)
        check_finite("std", self.std, 0.0)
        check_finite("step", [self.step], -1.0 if self.unit is None else 0.0)


def read_series(path: str | Path, settings: Any, known: Any = None) -> Series:
    """Read a series from a table.

    Args:
        path: of the file.
        settings: those of the task; a column of times that they name must be there, ``time``
            itself need not.
        known: of a trained task: its columns, the step of its times, and how its file ended.

    Raises:
        FileError: the file, the line, the column and what is wrong.
    """
    s = settings
    named = s.columns if s.target is None else (s.target, *s.columns)
    asked = known.columns if known else named
    timed = s.time != TIME or (known is not None and known.unit is not None)
    wanted = tuple(dict.fromkeys((*asked, *([s.time] if timed else []))))
    table = read_table(path, wanted, s.separator, known.ending if known else None)
    header, rows = table.header, table.rows
    if s.time in header:
        check_columns(path, table, [s.time])
    columns = known.columns if known else _columns(path, table, s)
    hints = {name: _hint(name, name in asked, s.time in header) for name in columns}
    top, none = rows[0].line, ("", "")  # below a text is a single mistake, not a kind of column
    values = [
        [
            _value(path, line, name, row[name], s.missing, hints[name] if line == top else none)
            for name in columns
        ]
        for line, row in rows
    ]
    if known is None and not s.columns:
        _check_guesses(path, columns, values, s, s.time in header)
    times = None
    if s.time in header:
        texts = [row[s.time] for _, row in rows]
        lines = [row.line for row in rows]
        times = read_times(path, s.time, lines, texts, s.gaps == "leave-out")
        if known is not None and known.unit is not None:
            times = _fitting(path, times, s, known)
    return Series(columns, torch.tensor(values, dtype=torch.float64), times, path)


def _columns(path: str | Path, table: Table, s: Any) -> tuple[str, ...]:
    """The columns to read, the target first: those that are named, or all but the times."""
    names = [name for name in table.header if name != s.time]
    if not names:
        raise FileError(
            path, f"expected a column of values beside {s.time!r}, got none", table.line
        )
    if not s.columns:
        if "" in names:
            raise FileError(
                path,
                f"column {table.header.index('') + 1} has no name: give it one; or say --time '' "
                "if it holds the times, or name all the others with --columns",
                table.line,
            )
        check_columns(path, table, names)
    first = (s.columns or names)[0] if s.target is None else s.target
    return (first, *(name for name in (s.columns or names) if name != first))


def _check_guesses(
    path: str | Path,
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    s: Any,
    timed: bool,
) -> None:
    """Raise for a column that nobody named, and that looks like times or numbers of rows."""
    if len(columns) == 1 or len(values) < 3:
        return
    for n, name in enumerate(columns):
        if name == s.target or (timed and n):  # beside times, a column that rises may be read
            continue
        steps = [b[n] - a[n] for a, b in zip(values, values[1:], strict=False)]
        even = all(math.isclose(step, steps[0], rel_tol=1e-6) for step in steps)
        falls = all(step < 0 for step in steps)
        if (all(step > 0 for step in steps) or falls) and (n == 0 or even):
            word = shlex.quote(name)
            ways = [] if timed else [f"--time {word} if it holds the times"]
            if n == 0 and s.target is None:
                ways.append(
                    f"--target {word} if it is to be forecast, --target NAME if another is"
                )
            else:
                ways.append("--columns NAMES to say which others may be looked at")
            fault = (
                f"expected values, got numbers that {'fall' if falls else 'rise'} from row to "
                f"row, as times and numbers of rows do; say {', or '.join(ways)}"
            )
            raise FileError(path, fault, None, name)


def _fitting(path: str | Path, times: Times, s: Any, known: Any) -> Times:
    """The times, if they are as far apart as those of the training."""
    unit, step = times.unit, times.step
    numbers = unit == "number"
    if len(times.places) == 1 and numbers == (known.unit == "number"):
        return Times(times.texts, times.places, known.unit, known.step)
    same = unit == known.unit and math.isclose(step, known.step, rel_tol=1e-6)
    if s.gaps == "ignore":
        same = numbers == (known.unit == "number")
    if not same:
        raise FileError(
            path,
            f"expected rows {known.step:g} {known.unit} apart as in training, got {step:g} {unit}",
            None,
            s.time,
        )
    return times


def _hint(name: str, asked: bool, timed: bool) -> tuple[str, str]:
    """What to say of a text in this column: if it looks like a time, and if not."""
    other = "" if asked else "; if it is not to be looked at, name all others with --columns"
    word = shlex.quote(name)
    return (other if timed else f"; say --time {word} if the column holds the times"), other


def _value(
    path: str | Path, line: int, name: str, text: str, missing: str, hint: tuple[str, str]
) -> float:
    """A number of the file; NaN where there is none, if that is allowed."""
    text = text.strip()
    if text.lower() in MISSING:
        if missing == "error":
            raise FileError(
                path,
                f"expected a number, got {text!r}, a missing value; fill it in, or say --missing "
                "leave-out",
                line,
                name,
            )
        return float("nan")
    try:
        value = float("_" if "_" in text else text)
    except ValueError:
        fault = (
            f"expected a number such as 3.14, got {text!r:.40}" + hint[not looks_like_time(text)]
        )
        raise FileError(path, fault, line, name) from None
    if value in (float("inf"), float("-inf")) or value != value:
        raise FileError(path, f"expected a finite number, got {text!r:.40}", line, name)
    return value
