"""Study: the linear recurrence against a plain loop, a parallel scan, and the speed of copying.

What is kept are ratios of times that were measured side by side; the times themselves say more
about the machine than about the code. The peer is measured where it is installed (``pip install
mambapy``).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

import torch

from companion.bench import scan
from companion.look import write_study

ROUNDS, SECONDS = range(5), 1.0
THREADS = min(2, os.cpu_count() or 1)

if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    path = write_study(
        __file__,
        f"Forward and backward of h_t = a_t h_(t-1) + b_t on the CPU, {THREADS} threads, float32: "
        f"ratios of median times of candidates that took turns for {SECONDS:g} s and at least "
        f"{scan.LEAST} times, in an order drawn anew each round. One value a round; what stands "
        f"under seeds are the rounds, whose numbers seed the inputs and the order.",
        ROUNDS,
        scan.measure(SECONDS, len(ROUNDS), scan.GRID),
    )
    print(path.name)
