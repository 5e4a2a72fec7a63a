"""Study: the layers linear in their state, against their own loop and against other libraries.

What is kept are ratios of times that were measured side by side; the times themselves say more
about the machine than about the code. A peer is measured where it is installed (``pip install
mambapy transformers``).
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

import torch

from companion.bench import linear
from companion.look import write_study

ROUNDS, SECONDS, THREADS = range(5), 0.3, 1

if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    path = write_study(
        __file__,
        f"A training step of one layer on the CPU, {THREADS} thread, float32: ratios of median "
        f"times of candidates that took turns for {SECONDS:g} s and at least {linear.LEAST} "
        f"times, and peak memory as the allocator's log gives it. One value a round; what stands "
        f"under seeds are the rounds, whose numbers seed weights and inputs.",
        ROUNDS,
        linear.measure(SECONDS, len(ROUNDS), linear.GRID),
    )
    print(path.name)
