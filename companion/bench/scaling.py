"""Time and memory against the length of the sequence: recurrences and attention side by side.

For each length T: one training step of a layer (forward, and backward of every output), the memory
it takes at its highest, the time of one more step after T, and what the state holds by then.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from companion.attention import CausalAttention, MultiHeadAttention
from companion.bench import interleaved
from companion.bench.gated import train_step
from companion.checks import check_size
from companion.layers import Recurrence
from companion.reproduce import seed_all
from companion.train.truncated import tensors_in

# T
GRID = [(256,), (1024,), (4096,), (16384,)]
SIZE, HEADS = 128, 4
SCORES = "attention, scores kept"
LAYERS = [
    "rnn",
    "lstm",
    "gru",
    "sru",
    "qrnn",
    "s4d",
    "mamba",
    "retnet",
    "rwkv7",
    "attention",
    SCORES,
]
LONGEST = {SCORES: 4096}  # its memory grows with the square


class Scores(nn.Module):
    """The same attention as its equation reads: a (T, T) matrix of weights for each head."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(size, heads, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """(B, T, E) -> (B, T, E)."""
        B, T, _ = x.shape
        before = torch.ones(T, T, dtype=torch.bool, device=x.device).tril().expand(B, T, T)
        return self.attention(x, x, before).context, None


def make(name: str) -> nn.Module:
    """A layer by its word, from SIZE features to SIZE features."""
    if name == SCORES:
        return Scores(SIZE, HEADS)
    if name == "attention":
        return CausalAttention(SIZE, HEADS)
    return Recurrence(name, SIZE, SIZE)


def peak(f: Callable[[], object]) -> int:
    """The most bytes on the CPU that a second call holds at once, beyond those before it."""
    f()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
        f()
    events = trace.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    live = most = 0
    for _, change in changes:
        live += change
        most = max(most, live)
    return most


def measure(seconds: float, rounds: int, grid: list[tuple[int, ...]]) -> dict[str, dict[str, Any]]:
    """Every layer at every length, one value a round.

    Args:
        seconds: time for each round of each length, of the training steps and again of the steps.
        rounds: independent rounds; the number of the round, from 0, seeds weights and inputs.
        grid: lengths (T,).

    Returns:
        ``{key: {"values", "unit", "what"}}`` as :func:`companion.look.write_study` takes it.

    Raises:
        TypeError, ValueError: if there is no round, no length, or no time.
    """
    check_size("rounds", rounds)
    if not grid:
        raise ValueError("grid: expected at least one length (T,)")
    results: dict[str, dict[str, Any]] = {}
    for number in range(rounds):
        for (T,) in grid:
            seed_all(number)
            for key, value, unit, what in _at(T, seconds):
                entry = results.setdefault(key, {"values": [], "unit": unit, "what": what})
                entry["values"].append(value)
    for key, entry in results.items():
        middle = statistics.median(entry["values"])
        print(f"{key:>36}  {middle:12.3f} {entry['unit']}", flush=True)
    return results


def _at(T: int, seconds: float) -> list[tuple[str, float, str, str]]:
    """Key, value, unit and meaning of all that is measured at one length."""
    layers = {name: make(name) for name in LAYERS if T <= LONGEST.get(name, T)}
    x = torch.randn(1, T, SIZE, requires_grad=True)
    training: dict[str, Callable[[], None]] = {
        name: (lambda layer=layer: train_step(layer, x, lambda: layer(x)[0]))  # type: ignore[misc]
        for name, layer in layers.items()
    }
    rows = []
    for name, times in interleaved(training, seconds, 3).items():
        each = statistics.median(times) / T * 1e6
        rows.append((f"{name} train {T}", each, "µs", f"training step a token, T = {T}"))
        most = peak(training[name]) / T / 1024
        rows.append((f"{name} peak {T}", most, "KiB", f"peak memory a token, T = {T}"))
    steps: dict[str, Callable[[], object]] = {}
    with torch.no_grad():
        for name, layer in layers.items():
            state = layer(x)[1]
            if state is None:
                continue
            steps[name] = lambda layer=layer, state=state: layer.step(x[:, 0], state)  # type: ignore[misc]
            held = sum(s.numel() * s.element_size() for s in tensors_in(state)) / 1024
            rows.append((f"{name} state {T}", held, "KiB", f"the state after T = {T} steps"))
        for name, times in interleaved(steps, seconds, 21).items():
            each = statistics.median(times) * 1e6
            rows.append((f"{name} step {T}", each, "µs", f"one more step after T = {T}"))
    return rows
