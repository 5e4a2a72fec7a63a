"""Speed and memory as ratios, measured side by side in one run.

``python -m companion.bench gated`` prints a table; the study ``book/studies/bench_gated.py`` keeps
it as JSON for the book. A time is never asserted in a test: what counts is a ratio of two
candidates that ran interleaved on one machine.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping

from companion.checks import check_size

__all__ = ["interleaved"]


def interleaved(
    candidates: Mapping[str, Callable[[], object]], seconds: float = 2.0, least: int = 7
) -> dict[str, list[float]]:
    """Time several functions in turn, so that a slow moment of the machine meets all of them.

    Args:
        candidates: functions by name; each is called once unmeasured first.
        seconds: how long to go on, a finite number of at least 0.
        least: rounds to make at least, 1 or more.

    Returns:
        Seconds of each call, by name, one a round.

    Raises:
        TypeError: if ``least`` is no int.
        ValueError: if there is no candidate, or a number is out of range.

    Example:
        >>> times = interleaved({"a": lambda: None, "b": lambda: sum(range(100))}, seconds=0.01)
        >>> sorted(times), len(times["a"]) == len(times["b"]) >= 7
        (['a', 'b'], True)
    """
    if not candidates:
        raise ValueError("candidates: expected at least one function")
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"seconds: expected a finite number of at least 0, got {seconds}")
    check_size("least", least)
    for f in candidates.values():
        f()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    gc.collect()
    gc.disable()  # else one candidate pays for the garbage of all
    try:
        end = time.perf_counter() + seconds
        rounds = 0
        while rounds < least or time.perf_counter() < end:
            for name, f in candidates.items():
                start = time.perf_counter()
                f()
                times[name].append(time.perf_counter() - start)
            rounds += 1
    finally:
        gc.enable()
    return times
