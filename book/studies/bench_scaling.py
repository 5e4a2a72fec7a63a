"""Study: time, memory and state against the length of the sequence."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

import torch

from companion.bench import scaling
from companion.look import write_study

ROUNDS, SECONDS = range(5), 0.5
THREADS = 1

if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    path = write_study(
        __file__,
        f"One layer of {scaling.SIZE} features, B = 1, {THREADS} thread, float32, on the CPU: "
        f"median times of layers that took turns for {SECONDS:g} s, peak memory of a training "
        f"step as the allocator's log gives it, and the bytes of the state. One value a round; "
        f"what stands under seeds are the rounds, whose numbers seed weights and inputs.",
        ROUNDS,
        scaling.measure(SECONDS, len(ROUNDS), scaling.GRID),
    )
    print(path.name)
