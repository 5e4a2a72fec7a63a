"""Files as people write them, small enough to train on in a second."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta
from pathlib import Path

# a word decides the label, whatever the others are
GOOD, BAD = ("lovely", "great", "fine"), ("awful", "poor", "dull")


def reviews(path: Path, rows: int = 60) -> Path:
    chance = random.Random(0)
    lines = ["text,label"]
    for n in range(rows):
        word = chance.choice((GOOD, BAD)[n % 2])
        lines.append(f'"the {chance.choice(("day", "book"))}, it was {word}",{"+-"[n % 2]}')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def sentences(path: Path, count: int = 60) -> Path:
    """``light`` is a noun after ``the`` and a verb after ``we``: its neighbor tells."""
    chance = random.Random(0)
    lines = []
    for _ in range(count):
        if chance.random() < 0.5:
            lines += ["the\tDET", "light\tNOUN", "goes\tVERB", ""]
        else:
            lines += ["we\tPRON", "light\tVERB", "fires\tNOUN", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def numerals(path: Path, rows: int = 240) -> Path:
    """Digits and their names, in the same order."""
    chance = random.Random(0)
    names = {"1": "one", "2": "two", "3": "three"}
    lines = ["source,target"]
    for _ in range(rows):
        digits = [chance.choice("123") for _ in range(chance.randint(1, 4))]
        lines.append(f"{' '.join(digits)},{' '.join(names[digit] for digit in digits)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def story(path: Path, lines: int = 150) -> Path:
    path.write_text("the cat sat on the mat\n" * lines, encoding="utf-8")
    return path


def hours(path: Path, rows: int = 400) -> Path:
    """A sine of 24 hours: the last value again is far off, the next one follows from two."""
    begin = datetime(2024, 1, 1)
    lines = ["time,load"]
    for n in range(rows):
        moment = (begin + timedelta(hours=n)).isoformat(timespec="minutes")
        lines.append(f"{moment},{10 + 3 * math.sin(n * math.tau / 24):.4f}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
