"""The linear recurrence against a plain loop, a parallel scan, and the speed of copying."""

from __future__ import annotations

import importlib
import random
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import companion
from companion.bench import interleaved
from companion.checks import check_size
from companion.reproduce import seed_all

# B, T, D
GRID = [
    (4, 512, 128),
    (1, 4096, 64),
    (1, 65536, 16),
    (32, 512, 512),
    (8, 2048, 1024),
]
FORMS = ["loop", "chunks", "tree"]
LEAST = 3  # turns; the slowest candidate takes seconds
PASSES = 8  # over one operand that no program avoids: forward 3, backward 5


def unbind(a: Tensor, b: Tensor) -> Tensor:
    """The loop four lines long, as autograd runs it: (B, T, D) -> (B, T, D)."""
    h, states = torch.zeros_like(b[:, 0]), []
    for a_t, b_t in zip(a.unbind(1), b.unbind(1), strict=True):
        h = a_t * h + b_t
        states.append(h)
    return torch.stack(states, 1)


def pscan() -> Callable[[Tensor, Tensor], Tensor] | None:
    """The parallel scan of mambapy (``pip install mambapy``), where it is installed."""
    try:
        run = importlib.import_module("mambapy.pscan").pscan
    except ImportError:
        return None
    return lambda a, b: run(a.unsqueeze(-1), b.unsqueeze(-1)).squeeze(-1)


def runs() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """Every way to run the recurrence: (B, T, D), (B, T, D) -> (B, T, D)."""

    def ours(form: str | None) -> Callable[[Tensor, Tensor], Tensor]:
        return lambda a, b: companion.scan(a, b, form=form)[0]

    found = {"ours": ours(None), "unbind": unbind, **{form: ours(form) for form in FORMS}}
    if (peer := pscan()) is not None:
        found["pscan"] = peer
    return found


def candidates(B: int, T: int, D: int) -> dict[str, Callable[[], object]]:
    """Forward and backward of each way, and one copy of an operand."""
    a = torch.rand(B, T, D, requires_grad=True)
    b, weight = torch.randn(B, T, D, requires_grad=True), torch.randn(B, T, D)
    target = torch.empty_like(weight)

    def step(run: Callable[[Tensor, Tensor], Tensor]) -> None:
        run(a, b).backward(weight)
        a.grad = b.grad = None

    steps = {name: partial(step, run) for name, run in runs().items()}
    return {"copy": lambda: target.copy_(weight), **steps}


def ratios(middle: dict[str, float]) -> dict[str, float]:
    """What the table shows, from the median time of each candidate."""
    ours = middle["ours"]
    peers = [name for name in ("pscan", "unbind") if name in middle]
    shown = {f"{name} over ours": middle[name] / ours for name in (*peers, *FORMS)}
    shown["better peer over ours"] = min(middle[name] for name in peers) / ours
    shown[f"ours over {PASSES} copies"] = ours / (PASSES * middle["copy"])
    return shown


def measure(seconds: float, rounds: int, grid: list[tuple[int, ...]]) -> dict[str, dict[str, Any]]:
    """Ratios of medians for every shape, one value a round.

    Args:
        seconds: time for each round of each shape.
        rounds: independent rounds; the spread between them is the spread we state. The number of
            the round, from 0, seeds its inputs and the order of the candidates.
        grid: shapes (B, T, D).

    Returns:
        ``{key: {"values", "unit", "what"}}`` as :func:`companion.look.write_study` takes it.

    Raises:
        TypeError, ValueError: if there is no round, no shape, or no time.
    """
    check_size("rounds", rounds)
    if not grid:
        raise ValueError("grid: expected at least one shape (B, T, D)")
    results: dict[str, dict[str, Any]] = {}
    columns: dict[str, list[list[float]]] = {}
    for shape in grid:
        shown: dict[str, list[float]] = {}
        for number in range(rounds):
            seed_all(number)
            steps = list(candidates(*shape).items())
            random.shuffle(steps)  # what ran before leaves its memory and caches behind
            times = interleaved(dict(steps), seconds, LEAST)
            for label, ratio in ratios(
                {k: statistics.median(v) for k, v in times.items()}
            ).items():
                shown.setdefault(label, []).append(ratio)
        where = ",".join(map(str, shape))
        row = "  ".join(f"{k} {statistics.median(v):.2f}" for k, v in shown.items())
        print(f"scan {where:>14}  {row}", flush=True)
        for label, values in shown.items():
            columns.setdefault(label, []).append(values)
            results[f"{label} {where}"] = _entry(values, f"{label}, B,T,D = {where}")
    for label, rows in columns.items():
        rounds_ = list(zip(*rows, strict=True))  # all shapes of one round
        worst = max if label.endswith("copies") else min
        middles = [statistics.median(one) for one in rounds_]
        worsts = [worst(one) for one in rounds_]
        results[f"{label} median"] = _entry(middles, f"{label}, median over shapes")
        results[f"{label} worst"] = _entry(worsts, f"{label}, worst shape")
        print(
            f"{label}: median {statistics.median(middles):.2f}, "
            f"worst {statistics.median(worsts):.2f}"
        )
    return results


def _entry(values: list[float], what: str) -> dict[str, Any]:
    return {"values": values, "unit": "", "what": f"forward and backward, {what}, by round"}
