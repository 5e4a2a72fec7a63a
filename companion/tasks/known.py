"""What training learns beside weights; and checks of what a run's file says: by key, what came."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from companion.tasks.settings import SettingsError

__all__ = ["check_counts", "check_finite", "check_labels", "most_frequent"]

MANY = 2**53  # up to here a float64 holds every whole number


def check_labels(key: str, labels: Sequence[str]) -> None:
    """Raise ``SettingsError`` unless the labels differ and each fits into a column.

    Example:
        >>> check_labels("labels", ("good", "bad\\tday"))
        Traceback (most recent call last):
        companion.tasks.settings.SettingsError: labels: expected names without tabs ...
    """
    for label in labels:
        if not label.strip() or any(mark in label for mark in "\t\n\r"):
            raise SettingsError(
                f"{key}: expected names without tabs and ends of line, got {label!r:.60}"
            )
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise SettingsError(f"{key}: expected each name once, got {twice!r:.60} twice")


def check_counts(key: str, counts: Sequence[int], least: int = 1) -> None:
    """Raise ``SettingsError`` unless all counts are at least so large, and can be counted to."""
    for count in counts:
        if not least <= count <= MANY:
            shown = f"{count:.60g}" if abs(count) <= MANY else "one that is far too large"
            raise SettingsError(f"{key}: expected counts of at least {least}, got {shown}")


def check_finite(key: str, numbers: Sequence[float], above: float = -math.inf) -> None:
    """Raise ``SettingsError`` unless all numbers are finite and above a bound."""
    for number in numbers:
        if not above < number < math.inf:
            what = "finite numbers" if above == -math.inf else f"finite numbers above {above:g}"
            raise SettingsError(f"{key}: expected {what}, got {number}")


def most_frequent(counts: Counter[str]) -> str:
    """The most frequent; of equals the first in the order of the characters' numbers.

    Example:
        >>> most_frequent(Counter("bonobo")), most_frequent(Counter("baab"))
        ('o', 'a')
    """
    return min(counts, key=lambda text: (-counts[text], text))
