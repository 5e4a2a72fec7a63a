"""Study: one linear recurrence by a loop, in chunks and as a tree, where few or many run at once.

What is kept are ratios of times that were measured side by side; the times themselves say more
about the machine than about the code.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

import statistics

import torch

from companion.bench import interleaved
from companion.look import run_study
from companion.reproduce import seed_all
from companion.run.scan import scan

ROUNDS, SECONDS = range(5), 0.6
THREADS = min(2, os.cpu_count() or 1)
SHAPES = {"few": (1, 16384, 16), "many": (64, 256, 256)}  # B, T, H


def ratios(shape: tuple[int, ...]) -> dict[str, float]:
    """Median time of a forward and a backward pass over that of the loop."""
    a, b = (torch.rand(shape, requires_grad=True) for _ in range(2))
    weight = torch.randn(shape)

    def step(form: str) -> None:
        scan(a, b, form=form)[0].backward(weight)
        a.grad = b.grad = None

    forms = {form: (lambda form=form: step(form)) for form in ("loop", "chunks", "tree")}
    middle = {f: statistics.median(t) for f, t in interleaved(forms, SECONDS).items()}
    return {form: middle[form] / middle["loop"] for form in ("chunks", "tree")}


def one_round(number: int) -> dict[str, float]:
    seed_all(number)
    found = {name: ratios(shape) for name, shape in SHAPES.items()}
    return {f"{form}_{name}": r for name, row in found.items() for form, r in row.items()}


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    path = run_study(
        __file__,
        f"A linear recurrence, forward and backward, on the CPU, {THREADS} threads, float32: "
        f"ratios of median times of forms that took turns for {SECONDS:g} s and at least 7 "
        f"times. One value a round; what stands under seeds are the rounds.",
        one_round,
        ROUNDS,
        {
            f"{form}_{name}": f"time of {form} over loop, B, T, H = {', '.join(map(str, shape))}"
            for name, shape in SHAPES.items()
            for form in ("chunks", "tree")
        },
    )
    print(path.name)
