"""Study: a million steps, one at a time: what is held, and what a step takes."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

import torch

from companion.bench import streaming
from companion.look import write_study

ROUNDS, SECONDS = range(1), 1.0
THREADS = 1

if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    (steps,) = streaming.GRID[0]
    path = write_study(
        __file__,
        f"One layer of {streaming.SIZE} features, B = 1, {THREADS} thread, float32, on the CPU, "
        f"{steps:,} steps by `step` (some layers fewer): at each tenth of the way the bytes that "
        f"the state keeps alive, how much the process has grown since the first step, the mean "
        f"time of a step in this tenth, and the median time of twenty steps from here over that "
        f"of twenty from the initial state, in turn for {SECONDS:g} s. One round, whose number "
        f"seeds weights and inputs.",
        ROUNDS,
        streaming.measure(SECONDS, len(ROUNDS), streaming.GRID),
    )
    print(path.name)
