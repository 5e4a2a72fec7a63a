"""Study: one more step of wide layers after a past of S steps, and a matrix product by its rows.

The step is where attention and recurrence cross. The product is why a recurrence is slow: each of
its steps multiplies the same matrix by as few rows as the batch has. What else runs on the machine
only adds to a time, by jumps of many milliseconds: so the fastest call of a round counts.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch loads its thread pool

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from companion import Recurrence
from companion.attention import CausalAttention, rotated
from companion.bench import interleaved
from companion.look import write_study
from companion.reproduce import seed_all

ROUNDS, SECONDS, THREADS = range(5), 0.6, 1
E, HEADS, WINDOW = 1024, 8, 256
PASTS = (16, 64, 256, 1024, 4096, 16384)
ROWS = tuple(2**n for n in range(11))


class InPlace:
    """The step of a CausalAttention whose cache has room: nothing old is copied."""

    def __init__(self, layer: CausalAttention, past: int) -> None:
        self.layer, self.past = layer, past
        room = torch.randn(2, 1, HEADS, past + 1, layer.head_size)
        self.keys, self.values = room

    def step(self, x: Tensor) -> Tensor:
        layer, at = self.layer, torch.tensor([[self.past]])
        q, k, v = (
            w(x)[:, None].unflatten(2, (HEADS, -1)) for w in (layer.query, layer.key, layer.value)
        )
        q, k = rotated(q, at).transpose(1, 2), rotated(k, at)
        self.keys[:, :, self.past], self.values[:, :, self.past] = k[:, 0], v[:, 0]
        y = F.scaled_dot_product_attention(q, self.keys, self.values)
        return layer.output(y.transpose(1, 2).flatten(2))


def steps_after(past: int) -> dict[str, Callable[[], object]]:
    """One more step of each layer, after a past of so many."""
    x = torch.randn(1, E)
    candidates: dict[str, Callable[[], object]] = {}
    for name in ("gru", "lstm"):
        layer = Recurrence(name, E, E)
        state = layer.step(x, None)[1]
        candidates[name] = lambda layer=layer, state=state: layer.step(x, state)  # type: ignore[misc]
    for name, window in (("attention", None), ("window", WINDOW)):
        attention = CausalAttention(E, HEADS, window=window)
        kept = past if window is None else min(past, window - 1)
        keys, values = torch.randn(2, 1, kept, HEADS, attention.head_size)
        cache = type(attention.initial_state(1))(
            keys, values, torch.arange(past - kept, past)[None], torch.tensor([past])
        )
        candidates[name] = lambda a=attention, c=cache: a.step(x, c)  # type: ignore[misc]
    room = InPlace(CausalAttention(E, HEADS), past)
    candidates["in place"] = lambda: room.step(x)
    return candidates


def one_round(seed: int) -> dict[str, tuple[float, str, str]]:
    seed_all(seed)
    values = {}
    for past in PASTS:
        for name, times in interleaved(steps_after(past), SECONDS, 25).items():
            micro = min(times) * 1e6
            values[f"{name} {past}"] = (micro, "µs", f"{name}, a step after {past}")
    weight = torch.randn(3 * E, E)
    inputs = {rows: torch.randn(rows, E) for rows in ROWS}
    products: dict[str, Callable[[], object]] = {
        f"rows {rows}": lambda x=x: F.linear(x, weight)  # type: ignore[misc]
        for rows, x in inputs.items()
    }
    for name, times in interleaved(products, 2 * SECONDS, 7).items():
        work = 2 * int(name.split()[1]) * weight.numel()
        speed = work / min(times) / 1e9
        values[name] = (speed, "GFLOP/s", f"({name.split()[1]}, {E}) times ({E}, {3 * E})")
    reading = interleaved({"read": lambda: weight.sum()}, SECONDS)["read"]
    pace = 4 * weight.numel() / min(reading) / 1e9
    values["read"] = (pace, "GB/s", "reading the matrix and adding it up")
    return values


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(THREADS)
    rounds = [one_round(seed) for seed in ROUNDS]
    path = write_study(
        __file__,
        f"Layers of E = {E} features, B = 1, {HEADS} heads, float32, {THREADS} thread on the CPU: "
        f"fastest of the steps after a past of S steps, candidates taking turns for {SECONDS:g} "
        f"s (window: the last {WINDOW} steps; in place: a cache with room, nothing copied), and "
        "the speed of a product by its number of rows. One value a round; what stands under "
        "seeds are the rounds, whose numbers seed weights and inputs.",
        ROUNDS,
        {
            key: {"values": [r[key][0] for r in rounds], "unit": unit, "what": what}
            for key, (_, unit, what) in rounds[0].items()
        },
    )
    print(path.name)


if __name__ == "__main__":
    main()
