"""Study: time against length: a state space layer in three forms, and three ways to a kernel."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

import companion
from companion.look import run_study
from companion.reproduce import deterministic, seed_all

ROUNDS, TURNS = range(5), 5
LENGTHS, LONG_LOOP = (64, 256, 1024, 4096), 1024
FEATURES, ORDER = 32, 64
KERNELS = (256, 1024, 4096)
CHANNELS = 4


def one_by_one(cell: companion.S4Cell, T: int) -> Tensor:
    """The kernel as it is defined: c h for h = b, A b, A (A b), …"""
    A, b = cell.discrete()
    c, k = cell.seen(), []
    for _ in range(T):
        k.append((c * b).sum(-1))
        b = (A @ b.unsqueeze(-1)).squeeze(-1)
    return torch.stack(k, -1)


def medians(ways: dict[str, Callable[[], object]], seed: int) -> dict[str, float]:
    """Milliseconds; the ways take turns, in an order drawn anew each turn."""
    order, taken = random.Random(seed), {name: [] for name in ways}
    for turn in range(TURNS + 1):
        for name in order.sample(sorted(ways), len(ways)):
            start = time.perf_counter()
            ways[name]()
            if turn:
                taken[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in taken.items()}


def one_round(seed: int) -> dict[str, float]:
    seed_all(seed)
    found = {}
    layer = companion.S4D(FEATURES, FEATURES, order=ORDER)
    for T in LENGTHS:
        x = torch.randn(1, T, FEATURES)

        def step(form: str, x: Tensor = x) -> None:
            layer(x, form=form)[0].sum().backward()

        forms = ["conv", "scan", "loop"] if T <= LONG_LOOP else ["conv", "scan"]
        taken = medians({form: lambda form=form: step(form) for form in forms}, seed)
        found |= {f"{form}_{T}": ms for form, ms in taken.items()}
    cell = companion.S4Cell(CHANNELS, CHANNELS, order=ORDER)
    with torch.no_grad():
        for T in KERNELS:
            ways = {
                "one": lambda T=T: one_by_one(cell, T),
                "doubling": lambda T=T: cell.unrolled(T).kernel,
                "cauchy": lambda T=T: cell.generated_kernel(T),
            }
            found |= {f"{way}_{T}": ms for way, ms in medians(ways, seed).items()}
    return found


def keys() -> dict[str, tuple[str, str]]:
    found = {}
    for form in ("conv", "scan", "loop"):
        for T in LENGTHS:
            if form != "loop" or T <= LONG_LOOP:
                found[f"{form}_{T}"] = (f"S4D as {form}, {T} steps, forward and backward", "ms")
    for way, what in (("one", "product by product"), ("doubling", "by doubling and blocks"),
                      ("cauchy", "by Cauchy products")):  # fmt: skip
        for T in KERNELS:
            found[f"{way}_{T}"] = (f"kernel of S4 of {T} steps, {what}", "ms")
    return found


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"S4D, {FEATURES} features, {ORDER} numbers of state each, one sequence, forward and "
        f"backward; S4's kernel, {CHANNELS} features of {ORDER} numbers, forward; float32, one "
        f"thread, medians of {TURNS} turns. What stands under seeds are rounds.",
        one_round,
        ROUNDS,
        keys(),
    )
    print(path.name)
