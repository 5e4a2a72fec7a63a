"""Study: one linear recurrence by a loop, in chunks and as a tree, where few or many run at once.

On one thread, so that no form has more hands than another: what is left is the price of a call.
And in CPU time: by the clock on the wall a loop of half a second meets every other program of the
machine, and chunks of some milliseconds hardly one.
What is kept are ratios of times that were measured side by side; the times themselves say more
about the machine than about the code.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

import statistics
import time
from collections.abc import Callable, Mapping

import torch

from companion.look import run_study
from companion.reproduce import seed_all
from companion.run.scan import scan

ROUNDS, SECONDS, LEAST = range(5), 0.6, 5
THREADS = 1
SHAPES = {"few": (1, 16384, 16), "short": (1, 256, 16), "many": (64, 256, 256)}  # B, T, H
WIDER = {1024: (1, 256, 1024), 16384: (64, 256, 256)}  # numbers a step; "short" has 16


def run(shape: tuple[int, ...], form: str) -> Callable[[], None]:
    """A forward and a backward pass."""
    a, b = (torch.rand(shape, requires_grad=True) for _ in range(2))
    weight = torch.randn(shape)

    def step() -> None:
        scan(a, b, form=form)[0].backward(weight)
        a.grad = b.grad = None

    return step


def medians(candidates: Mapping[str, Callable[[], None]]) -> dict[str, float]:
    """Median CPU time of each, in turn."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for f in candidates.values():
        f()
    begin = time.process_time()
    while time.process_time() - begin < SECONDS or min(map(len, times.values())) < LEAST:
        for name, f in candidates.items():
            start = time.process_time()
            f()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def over_loop(shape: tuple[int, ...]) -> dict[str, float]:
    """Median time of a form over that of the loop."""
    forms = {form: run(shape, form) for form in ("loop", "chunks", "tree")}
    middle = medians(forms)
    return {form: middle[form] / middle["loop"] for form in ("chunks", "tree")}


def over_narrow() -> dict[str, float]:
    """Median time of the loop over that of a loop as long whose steps have 16 numbers."""
    loops = {str(n): run(shape, "loop") for n, shape in {16: SHAPES["short"], **WIDER}.items()}
    middle = medians(loops)
    return {f"step_{n}": middle[str(n)] / middle["16"] for n in WIDER}


def one_round(number: int) -> dict[str, float]:
    seed_all(number)
    found = {name: over_loop(shape) for name, shape in SHAPES.items()}
    rows = {f"{form}_{name}": r for name, row in found.items() for form, r in row.items()}
    return rows | over_narrow()


if __name__ == "__main__":
    torch.set_num_threads(THREADS)
    path = run_study(
        __file__,
        f"A linear recurrence, forward and backward, on the CPU, {THREADS} thread, float32: "
        f"ratios of median CPU times of forms that took turns for {SECONDS:g} s and at "
        f"least {LEAST} times. One value a round; what stands under seeds are the rounds.",
        one_round,
        ROUNDS,
        {
            f"{form}_{name}": f"time of {form} over loop, B, T, H = {', '.join(map(str, shape))}"
            for name, shape in SHAPES.items()
            for form in ("chunks", "tree")
        }
        | {f"step_{n}": f"a loop of steps of {n} numbers over one of steps of 16" for n in WIDER},
    )
    print(path.name)
