"""``python -m companion.bench TABLE``: print a table of ratios; ``--write`` keeps it as JSON."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

import torch

from companion.bench import gated
from companion.look import write_study

TABLES = {"gated": gated}


def main(arguments: list[str] | None = None) -> int:
    """Run one table."""
    parser = argparse.ArgumentParser(prog="python -m companion.bench", description=__doc__)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=1.0, help="a round of one shape")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="smallest shape, one short round")
    parser.add_argument("--write", metavar="FOLDER", help="keep bench_TABLE.json in this folder")
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    table = TABLES[given.table]
    if given.smoke:
        given.seconds, given.rounds = 0.05, 1
    grid = [(4, 9, 5, 6)] if given.smoke else table.GRID
    results = table.measure(given.seconds, given.rounds, grid)
    if given.write:
        script = Path(given.write) / f"bench_{given.table}.py"
        said = (table.__doc__ or "").splitlines()[0]
        print(write_study(script, said, list(range(given.rounds)), results))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
