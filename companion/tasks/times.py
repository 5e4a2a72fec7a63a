"""Times in people's files: read, checked to be equally spaced, and carried on."""

from __future__ import annotations

import calendar
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from companion.tasks.files import FileError

__all__ = ["Times", "looks_like_time", "read_times"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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

        Raises:
            OverflowError: they are past the year 9999.

        Example:
            >>> Times(("2024-01-31", "2024-02-29"), (0, 1), "months", 1.0).after(2)
            ['2024-03-31', '2024-04-30']
        """
        last = self.texts[-1]
        if self.unit == "number":
            exact = Decimal(last), Decimal(repr(self.step))
            return [_digits(exact[0] + n * exact[1]) for n in range(1, count + 1)]
        begin = _moment(last)
        assert begin is not None
        try:
            if self.unit == "seconds":
                found = [begin + timedelta(seconds=n * self.step) for n in range(1, count + 1)]
            else:
                ends = all(_last_day(_moment(text)) for text in self.texts[-12:])
                found = [_months(begin, n * round(self.step), ends) for n in range(1, count + 1)]
        except (OverflowError, ValueError):
            raise OverflowError(f"{count} times after {last!r} are past the year 9999") from None
        return [_written(moment, last) for moment in found]


def read_times(
    path: str | Path, column: str, lines: Sequence[int], texts: Sequence[str], spaced: bool
) -> Times:
    """Read a column of times: ISO 8601, compact or not, or numbers.

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
    dates = len(texts) > 1 and all(map(_compact_date, texts))  # 20240301 alone may be a number
    moments = [_moment(text, dates) for text in texts]
    values: list[Any] = []  # exact: in microseconds, or as the decimals that are written
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
            values.append((plain - EPOCH) // timedelta(microseconds=1))
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
        values, unit = [12 * m.year + m.month for m in moments if m is not None], "months"
    scale = 10**6 if unit == "seconds" else 1
    steps = [float((b - a) / scale) for a, b in zip(values, values[1:], strict=False)]
    counts = Counter(float(f"{step:.9g}") for step in steps)
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


def looks_like_time(text: str) -> bool:
    """Whether a text that is no number may be a date or a time, however it is written.

    Example:
        >>> [looks_like_time(text) for text in ("03/01/2024", "14:30", "1 Mar 2024", "3,5", "n")]
        [True, True, True, False, False]
    """
    dated = r"\d{1,4}[-/.]\d{1,2}[-/.]\d|\d{4}-\d\d|\d{1,2}:\d\d|\d{8}T"
    named = r"\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b.*\d|\d.*\b[a-z]{3} \d"
    return bool(re.match(dated, text) or re.search(named, text.lower()))


def _number(text: str) -> Decimal | None:
    """A finite number, written as programs write it, with all of its digits."""
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        return None
    return Decimal(text) if math.isfinite(value) and abs(Decimal(text)) < 10**30 else None


def _digits(number: Decimal) -> str:
    """A number without zeros at its end."""
    text = f"{number.normalize():f}"
    return text if len(text) < 40 else str(number.normalize())


def _compact_date(text: str) -> bool:
    return bool(re.fullmatch(r"(19|20)\d{6}", text)) and _moment(text, True) is not None


def _moment(text: str, dates: bool = True) -> datetime | None:
    """A time in ISO 8601; ``dates``: 20240301 is one, too."""
    if not re.match(r"\d{4}-\d{2}|\d{8}T" + (r"|\d{8}$" if dates else ""), text):
        return None
    try:
        return datetime.fromisoformat(text + "-01" if len(text) == 7 else text)
    except ValueError:
        return None


def _monthly(values: Sequence[int], moments: Sequence[datetime | None]) -> bool:
    """Whether the times are months apart: of one day and hour, or all the last of their month."""
    days = {(m.day, m.timetz()) for m in moments if m is not None}
    least = min((b - a for a, b in zip(values, values[1:], strict=False)), default=0)
    return least >= 28 * 86400 * 10**6 and (len(days) == 1 or all(map(_last_day, moments)))


def _last_day(moment: datetime | None) -> bool:
    return moment is not None and moment.day == calendar.monthrange(moment.year, moment.month)[1]


def _months(moment: datetime, count: int, ends: bool) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 + count, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=last if ends else min(moment.day, last))


def _written(moment: datetime, like: str) -> str:
    """A time in the form of another: with as many fields, compact or not."""
    if len(like) == 7:
        return moment.isoformat()[:7]
    compact = "-" not in like[:8]
    day, clock = moment.date().isoformat(), like[8 if compact else 10 :]
    day = day.replace("-", "") if compact else day
    if not clock and moment.time() == time():
        return day
    found = re.match(r"[\d:]*", clock[1:])
    fields = len(found[0].replace(":", "")) // 2 if found else 0  # hours, minutes, seconds
    needed = 3 if moment.second or moment.microsecond else 2 if moment.minute else 1
    specs = ("minutes", "hours", "minutes", "auto")  # a date alone goes on with minutes
    text = moment.isoformat(timespec=specs[max(fields, needed) if fields else (needed == 3) * 3])
    text = text[10:].replace("+00:00", "Z") if like.endswith("Z") else text[10:]
    text = text.replace(":", "") if compact and ":" not in clock else text
    return day + (clock[:1] or "T") + text[1:]
