"""``python -m companion.bench TABLE``: measure and print a table of ratios."""

from __future__ import annotations

import argparse
import math
import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

import torch

from companion.bench import cells, gated, linear, scaling, scan, seq2seq, streaming

TABLES = {
    "cells": cells,
    "gated": gated,
    "linear": linear,
    "scaling": scaling,
    "scan": scan,
    "seq2seq": seq2seq,
    "streaming": streaming,
}
SMOKE: dict[str, list[tuple[int, ...]]] = {
    "cells": [(4, 9, 5, 8)],
    "gated": [(4, 9, 5, 6)],
    "linear": [(2, 9, 4)],
    "scaling": [(16,)],
    "scan": [(2, 70, 3)],
    "seq2seq": [(4, 9, 6)],
    "streaming": [(100,)],
}


def main(arguments: list[str] | None = None) -> int:
    """Run one table."""
    parser = argparse.ArgumentParser(prog="python -m companion.bench", description=__doc__)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--threads", type=_count, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=_seconds, default=1.0, help="a round of one shape")
    parser.add_argument("--rounds", type=_count, default=3)
    parser.add_argument("--smoke", action="store_true", help="smallest shape, one short round")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    table = TABLES[given.table]
    if given.smoke:
        given.seconds, given.rounds = 0.05, 1
    grid: list[tuple[int, ...]] = SMOKE[given.table] if given.smoke else table.GRID
    table.measure(given.seconds, given.rounds, grid)
    return 0


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"expected a finite number above 0, got {text!r}")
    return value


if __name__ == "__main__":
    raise SystemExit(main())
