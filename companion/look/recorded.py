"""`recorded`: a chapter reads the numbers of a study, with spread, seeds and stamp."""

from __future__ import annotations

import datetime
import json
import math
import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from companion.look.studies import check_result, check_seeds

__all__ = ["Recorded", "recorded"]


@dataclass(frozen=True)
class Recorded:
    """The values of one key of a study, one a seed.

    Example:
        >>> r = Recorded("toy/x", (1.0, 2.0, 3.0), (0, 1, 2), "2026-01-31", "a CPU, 1 thread")
        >>> r.mean, r.std, r.min, r.max
        (2.0, 1.0, 1.0, 3.0)
        >>> print(r.line())
        toy/x = 2.00 ± 1.00 (3 seeds, 1.00 to 3.00; recorded 2026-01-31, a CPU, 1 thread)
    """

    name: str
    values: tuple[float, ...]
    seeds: tuple[int, ...]
    date: str
    machine: str
    unit: str = ""
    what: str = ""

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def std(self) -> float:
        """Sample standard deviation over the seeds (0 for one seed)."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def min(self) -> float:
        """Smallest value."""
        return min(self.values)

    @property
    def max(self) -> float:
        """Largest value."""
        return max(self.values)

    def line(self) -> str:
        """Return the one line that :func:`recorded` prints."""
        places = _places(self.std, self.values)
        unit = f" {self.unit}" if self.unit else ""
        mean, std, low, high = (
            f"{v:.{places}f}" for v in (self.mean, self.std, self.min, self.max)
        )
        stamp = f"recorded {self.date}, {self.machine}"
        if len(self.values) == 1:
            return f"{self.name} = {mean}{unit} (1 seed; {stamp})"
        count = len(self.values)
        return f"{self.name} = {mean} ± {std}{unit} ({count} seeds, {low} to {high}; {stamp})"

    def _ipython_display_(self) -> None:
        """Show nothing: `recorded` has printed the line already."""


def recorded(name: str, *, show: bool = True) -> Recorded:
    """Read the values of ``"study/key"`` from ``book/studies/study.json`` and print them.

    The folder is ``COMPANION_STUDIES`` if set, else ``book/studies`` of the working directory or
    the nearest directory above it.

    Args:
        name: study and key, for example ``"surnames/accuracy"``.
        show: print the line; ``False`` for values that only go into a figure.

    Returns:
        the values with ``mean``, ``std``, ``min``, ``max``, ``seeds``.

    Raises:
        ValueError: if ``name`` has another form, or the JSON is malformed or holds a NaN.
        KeyError: if the study has no such key; the message lists its keys.
        FileNotFoundError: if there is no such study; the message lists those there are.

    Example:
        >>> import os, tempfile
        >>> from companion.look.studies import write_study
        >>> os.environ["COMPANION_STUDIES"] = folder = tempfile.mkdtemp()
        >>> results = {"x": {"values": [1.0, 2.0, 3.0]}}
        >>> _ = write_study(f"{folder}/toy.py", "A toy.", [0, 1, 2], results)
        >>> r = recorded("toy/x")
        toy/x = 2.00 ± 1.00 (3 seeds, 1.00 to 3.00; recorded ...)
        >>> r.mean, r.values
        (2.0, (1.0, 2.0, 3.0))
        >>> del os.environ["COMPANION_STUDIES"]
    """
    if not isinstance(name, str) or name.count("/") != 1 or not all(name.split("/")):
        raise ValueError(f'name must be "study/key", got {name!r}')
    study, key = name.split("/")
    record = _load(study)
    if key not in record["results"]:
        keys = ", ".join(sorted(record["results"]))
        raise KeyError(f"study {study} has no key {key!r}; it has {keys}")
    result = check_result(name, record["results"][key], len(record["seeds"]))
    host = record["machine"]
    place = host["cpu"] if host["device"] == "cpu" else host["device"]
    threads = f"{host['threads']} thread{'' if host['threads'] == 1 else 's'}"
    found = Recorded(
        name=name,
        values=tuple(float(value) for value in result["values"]),
        seeds=tuple(record["seeds"]),
        date=record["recorded"],
        machine=f"{place}, {threads}",
        unit=result["unit"],
        what=result["what"],
    )
    try:
        line = found.line()
    except OverflowError as error:
        path = _folder() / f"{study}.json"
        raise ValueError(f"{path}: the values of {key} are too large to average") from error
    if show:
        print(line)
    return found


def _folder() -> Path:
    given = os.environ.get("COMPANION_STUDIES")
    if given:
        if not Path(given).is_dir():
            raise FileNotFoundError(f"COMPANION_STUDIES is no directory: {given}")
        return Path(given)
    here = Path.cwd()
    for above in (here, *here.parents):
        if (above / "book" / "studies").is_dir():
            return above / "book" / "studies"
    raise FileNotFoundError(
        f"no book/studies in {here} or above; run inside the repository or set COMPANION_STUDIES"
    )


def _load(study: str) -> dict[str, Any]:
    folder = _folder()
    path = folder / f"{study}.json"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.json"))) or "none"
        raise FileNotFoundError(f"no study {study!r} in {folder}; there are: {known}")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict):
            raise TypeError(f"expected an object, got {type(record).__name__}")
        _check(record)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"no field {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{path} is malformed ({reason}); run its script again: python {path.stem}.py"
        ) from error
    return record


def _check(record: dict[str, Any]) -> None:
    datetime.date.fromisoformat(record["recorded"])
    host = record["machine"]
    if not isinstance(host, dict):
        raise TypeError(f"machine must be an object, got {host!r:.60}")
    for field, kind in {"cpu": str, "device": str, "threads": int}.items():
        if not isinstance(host[field], kind) or isinstance(host[field], bool):
            raise TypeError(f"machine.{field} must be {kind.__name__}, got {host[field]!r}")
    if not isinstance(record["seeds"], list) or not isinstance(record["results"], dict):
        raise TypeError("seeds must be a list and results an object")
    check_seeds(record["seeds"])
    for key, result in record["results"].items():
        check_result(key, result, len(record["seeds"]))


def _places(std: float, values: tuple[float, ...]) -> int:
    """Return the decimals to print: three digits of the largest value, and the spread's first."""
    scale = max(abs(value) for value in values)
    if scale == 0:
        return 1
    places = 2 - math.floor(math.log10(scale))
    if std > 1e-12 * scale:  # else rounding of equal values
        places = max(places, -math.floor(math.log10(std)))
    return max(0, places)
