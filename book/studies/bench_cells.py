"""Study: a training step of every cell without a twin in torch.nn, against its own loop.

What is kept are ratios of times that were measured side by side; the times themselves say more
about the machine than about the code.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

import torch

from companion.bench import cells
from companion.look import write_study

ROUNDS, SECONDS = range(5), 0.4
THREADS = 1  # most of the time goes into starting operators, one after the other

if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    path = write_study(
        __file__,
        f"Training steps (forward, and backward of every output) of {', '.join(cells.LAYERS)} on "
        f"the CPU, {THREADS} thread, float32: the loop over the form that is picked, as ratios "
        f"of median times of candidates that took turns for {SECONDS:g} s and at least 7 times. "
        f"One value a round; what stands under seeds are the rounds, whose numbers seed weights "
        f"and inputs.",
        ROUNDS,
        cells.measure(SECONDS, len(ROUNDS), cells.GRID),
    )
    print(path.name)
