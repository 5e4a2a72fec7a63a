"""Study: a training step of the package's layers against torch.nn's and against a plain loop.

What is kept are ratios of times that were measured side by side; the times themselves say more
about the machine than about the code.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

import torch

from companion.bench import gated
from companion.look import write_study

ROUNDS, SECONDS = range(5), 1.0
THREADS = min(2, os.cpu_count() or 1)

if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    path = write_study(
        __file__,
        f"Training steps (forward, and backward of every output) of {', '.join(gated.LAYERS)} on "
        f"the CPU, {THREADS} threads, float32: ratios of median times of candidates that took "
        f"turns for {SECONDS:g} s and at least 7 times. One value a round; what stands under "
        f"seeds are the rounds, whose numbers seed weights and inputs.",
        ROUNDS,
        gated.measure(SECONDS, len(ROUNDS), gated.GRID),
    )
    print(path.name)
