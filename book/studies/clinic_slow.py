"""Study: four reasons for slow steps, as ratios of times on one machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import companion
from companion.look import run_study
from companion.reproduce import deterministic, seed_all

SEEDS = range(5)


def seconds(call: Callable[[], Any]) -> float:
    """Shortest processor time of seven calls, after one that is not counted."""
    call()
    best = float("inf")
    for _ in range(7):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def step(layer: companion.Recurrence, x: torch.Tensor, form: str | None = None) -> None:
    """Forwards, and backwards from the last output."""
    y, _ = layer(x, form=form)
    torch.autograd.grad(y[:, -1].sum(), list(layer.parameters()))


def one_seed(seed: int) -> dict[str, float]:
    seed_all(seed)
    lstm = companion.Recurrence("lstm", 8, 48)
    x = torch.randn(32, 100, 8)
    layer = seconds(lambda: step(lstm, x))
    loop = seconds(lambda: step(lstm, x, "loop"))
    few = seconds(lambda: step(lstm, x[:1]))
    long = seconds(lambda: step(lstm, x.repeat(1, 4, 1)))
    fading = companion.Recurrence("rnn", 8, 64, recurrent_init=companion.spectral_radius(0.8))
    quiet = 0.1 * torch.randn(16, 1600, 8)
    tiny = torch.full((512, 512), 1e-41)  # below 1.2e-38 a float32 loses digits
    half = torch.full((512, 512), 0.5)
    times: dict[bool, list[float]] = {}
    for flush in (False, True):
        torch.set_flush_denormal(flush)
        calls = [lambda: step(fading, quiet), lambda: tiny @ half, lambda: tiny * half]
        times[flush] = [seconds(call) for call in calls]
    torch.set_flush_denormal(False)
    run, product, entries = (a / b for a, b in zip(times[False], times[True], strict=True))
    return {
        "loop": loop / layer,
        "row": few * 32 / layer,
        "long": long / layer,
        "denormal": run,
        "denormal_product": product,
        "denormal_entries": entries,
    }


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    run_study(
        __file__,
        "Forward and backward pass of an LSTM (8 inputs, 48 units, 32 rows, 100 steps) and of a "
        "vanilla network (64 units, spectral radius 0.8, 16 rows, 1600 steps); ratios of the "
        "shortest of seven processor times.",
        one_seed,
        SEEDS,
        {
            "loop": ("a Python loop over time against the derived layer", "times"),
            "row": ("32 batches of one row against one of 32", "times"),
            "long": ("400 steps against 100", "times"),
            "denormal": ("vanishing gradient, denormal against flushed to 0", "times"),
            "denormal_product": ("a matrix product of nothing else, the same", "times"),
            "denormal_entries": ("a product of entries, the same", "times"),
        },
    )
