"""A series in a table: its numbers, its times, and the target in front."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from companion.tasks.files import FileError, read_table
from companion.tasks.times import Times, read_times

__all__ = ["TIME", "Series", "read_series"]

TIME = "time"  # a column of this name has the times, unless another is named
MISSING = ("", "na", "n/a", "nan", "null", "none")


@dataclass(frozen=True, eq=False)
class Series:
    """Rows of a file: values float64 (T, D), the target first, and their times, if it has any."""

    columns: tuple[str, ...]
    values: Tensor
    times: Times | None

    def part(self, rows: slice) -> Series:
        """Some of the rows."""
        times = None if self.times is None else self.times.part(rows)
        return Series(self.columns, self.values[rows], times)


def read_series(path: str | Path, settings: Any, known: Any = None) -> Series:
    """Read a series from a table.

    Args:
        path: of the file.
        settings: those of the task; a column of times that they name must be there, ``time``
            itself need not.
        known: of a trained task: its columns, and the step of its times.

    Raises:
        FileError: the file, the line, the column and what is wrong.
    """
    s = settings
    asked = known.columns if known else (*filter(None, [s.target]), *s.columns)
    timed = s.time != TIME or (known is not None and known.unit is not None)
    header, rows = read_table(path, (*asked, *([s.time] if timed else [])), s.separator)
    names = [name for name in header if name != s.time]
    if not names:
        raise FileError(path, f"expected a column of values beside {s.time!r}, got none", 1)
    first = s.target or (s.columns or names)[0]
    rest = [name for name in (s.columns or names) if name != first]
    columns = known.columns if known else (first, *rest)
    lines = [row.line for row in rows]
    values = [
        [_value(path, line, name, row[name], s.missing) for name in columns] for line, row in rows
    ]
    times = None
    if s.time in header:
        texts = [row[s.time] for _, row in rows]
        times = read_times(path, s.time, lines, texts, s.gaps == "leave-out")
        if (
            known is not None
            and len(rows) > 1
            and (times.unit, times.step)
            != (
                known.unit,
                known.step,
            )
        ):
            raise FileError(
                path,
                f"expected rows {known.step:g} {known.unit} apart as in training, got "
                f"{times.step:g} {times.unit}",
                None,
                s.time,
            )
    return Series(columns, torch.tensor(values, dtype=torch.float64), times)


def _value(path: str | Path, line: int, name: str, text: str, missing: str) -> float:
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
        fault = f"expected a number such as 3.14, got {text!r:.40}"
        raise FileError(path, fault, line, name) from None
    if value in (float("inf"), float("-inf")) or value != value:
        raise FileError(path, f"expected a finite number, got {text!r:.40}", line, name)
    return value
