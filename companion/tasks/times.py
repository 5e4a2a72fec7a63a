"""Times in people's files: read, checked to be equally spaced, and carried on."""

from __future__ import annotations

import calendar
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from companion.tasks.files import FileError

__all__ = ["Times", "read_times"]


@dataclass(frozen=True)
class Times:
    """Times that increase by a step, or by several where rows are missing.

    Attributes:
        texts: as they are written.
        places: of each row, in steps from the first on.
        unit: of a step: ``"seconds"``, ``"months"`` or ``"number"``.
        step: its length.
    """

    texts: tuple[str, ...]
    places: tuple[int, ...]
    unit: str
    step: float

    def part(self, rows: slice) -> Times:
        """Those of some rows."""
        return Times(self.texts[rows], self.places[rows], self.unit, self.step)

    def after(self, count: int) -> list[str]:
        """The next times, written as the last one is.

        Example:
            >>> Times(("2024-01-31", "2024-02-29"), (0, 1), "months", 1.0).after(2)
            ['2024-03-31', '2024-04-30']
        """
        last = self.texts[-1]
        if self.unit == "number":
            steps = [float(last) + n * self.step for n in range(1, count + 1)]
            return [f"{value:.15g}" for value in steps]  # all that a float surely has
        begin = _moment(last)
        assert begin is not None
        if self.unit == "seconds":
            found = [begin + timedelta(seconds=n * self.step) for n in range(1, count + 1)]
        else:
            ends = all(_last_day(_moment(text)) for text in self.texts[-12:])
            found = [_months(begin, n * round(self.step), ends) for n in range(1, count + 1)]
        return [_written(moment, last) for moment in found]


def read_times(
    path: str | Path, column: str, lines: Sequence[int], texts: Sequence[str], spaced: bool
) -> Times:
    """Read a column of times: ISO 8601, or numbers.

    Args:
        path: of the file, for messages.
        column: its name.
        lines: of the rows.
        texts: what the column holds.
        spaced: whether every distance must be a whole number of steps; the step is the most
            frequent distance, of equally frequent ones the shortest.

    Raises:
        FileError: a time that cannot be read, does not increase, or is amid a step.
    """
    texts = [text.strip() for text in texts]
    moments = [_moment(text) for text in texts]
    values: list[float] = []
    if moments[0] is None:
        for line, text in zip(lines, texts, strict=True):
            number = _number(text)
            if number is None:
                fault = (
                    "expected a time such as 2024-03-01 or 2024-03-01T14:00, or a number, "
                    f"got {text!r:.40}"
                )
                raise FileError(path, fault, line, column)
            values.append(number)
        unit = "number"
    else:
        zoned = moments[0].tzinfo is not None
        for line, text, moment in zip(lines, texts, moments, strict=True):
            if moment is None or (moment.tzinfo is not None) != zoned:
                raise FileError(
                    path, f"expected a time as in line {lines[0]}, got {text!r:.40}", line, column
                )
            plain = moment if zoned else moment.replace(tzinfo=UTC)
            values.append((plain - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        unit = "seconds"
    for n in range(1, len(values)):
        if not values[n] > values[n - 1]:
            raise FileError(
                path,
                f"expected a time after {texts[n - 1]!r} of the row before, got {texts[n]!r}; "
                "sort the rows, one for each time",
                lines[n],
                column,
            )
    if unit == "seconds" and _monthly(values, moments):
        values, unit = [12.0 * m.year + m.month for m in moments if m is not None], "months"
    steps = [b - a for a, b in zip(values, values[1:], strict=False)]
    counts = Counter(round(step, 9) for step in steps)
    step = min(counts, key=lambda size: (-counts[size], size)) if counts else 1.0
    places = [0]
    for n, size in enumerate(steps, 1):
        whole = round(size / step)
        if spaced and (whole < 1 or not math.isclose(size, whole * step, rel_tol=1e-6)):
            raise FileError(
                path,
                f"expected a whole number of steps of {step:g} {unit} after {texts[n - 1]!r}, got "
                f"{texts[n]!r}; bring the rows to equal distances, or say --gaps ignore",
                lines[n],
                column,
            )
        places.append(places[-1] + (whole if spaced else 1))
    return Times(tuple(texts), tuple(places), unit, step)


def _number(text: str) -> float | None:
    """A finite number, written as programs write it."""
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _moment(text: str) -> datetime | None:
    if not re.match(r"\d{4}-\d{2}", text):  # 20240301 may be a number
        return None
    try:
        return datetime.fromisoformat(text + "-01" if len(text) == 7 else text)
    except ValueError:
        return None


def _monthly(values: Sequence[float], moments: Sequence[datetime | None]) -> bool:
    """Whether the times are months apart: of one day and hour, or all the last of their month."""
    days = {(m.day, m.timetz()) for m in moments if m is not None}
    least = min((b - a for a, b in zip(values, values[1:], strict=False)), default=0.0)
    return least >= 28 * 86400 and (len(days) == 1 or all(map(_last_day, moments)))


def _last_day(moment: datetime | None) -> bool:
    return moment is not None and moment.day == calendar.monthrange(moment.year, moment.month)[1]


def _months(moment: datetime, count: int, ends: bool) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 + count, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=last if ends else min(moment.day, last))


def _written(moment: datetime, like: str) -> str:
    if len(like) == 7:
        return f"{moment:%Y-%m}"
    if len(like) == 10 and (moment.hour, moment.minute, moment.second) == (0, 0, 0):
        return f"{moment:%Y-%m-%d}"
    timespec: Any = "auto" if like.count(":") > 1 or moment.second else "minutes"
    text = moment.isoformat(" " if " " in like else "T", timespec)
    return text.replace("+00:00", "Z") if like.endswith("Z") else text
