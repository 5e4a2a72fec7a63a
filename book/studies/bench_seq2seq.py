"""Study: teacher forcing as one call over time, against loops of single steps.

What is kept are ratios of times that were measured side by side; the times themselves say more
about the machine than about the code.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

import torch

from companion.bench import seq2seq
from companion.look import write_study

ROUNDS, SECONDS = range(5), 0.2
THREADS = min(2, os.cpu_count() or 1)

if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    path = write_study(
        __file__,
        f"Decoders over a known target, forward and backward, and forward alone, on the CPU, "
        f"{THREADS} threads, float32, {seq2seq.VOCAB:,} target tokens: one call against the "
        f"loop of a tutorial (torch.nn, a token at a time, results by index), calls with one "
        f"token, and steps. Ratios of median times of candidates that took turns for "
        f"{SECONDS:g} s and at least {seq2seq.LEAST} times. One value a round; what stands "
        f"under seeds are the rounds, whose numbers seed weights and inputs.",
        ROUNDS,
        seq2seq.measure(SECONDS, len(ROUNDS), seq2seq.GRID),
    )
    print(path.name)
