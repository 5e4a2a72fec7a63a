"""A stream of a million steps: what the state holds, and what a step takes, from first to last.

Each layer reads one sequence by ``step``. At each tenth of the way: the bytes its state keeps
alive, what the process holds, the mean time of a step in this tenth, and the time of a step that
goes on from here over that of a step from the initial state, the two in turn.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from companion.attention import CausalAttention
from companion.bench import interleaved
from companion.checks import check_size
from companion.layers import Recurrence
from companion.reproduce import seed_all
from companion.train.truncated import tensors_in

# steps
GRID = [(1_000_000,)]
SIZE, HEADS, WINDOW = 32, 4, 256
WINDOWED = f"attention, window {WINDOW}"
LAYERS = ["rnn", "lstm", "gru", "sru", "s4d", "mamba", "retnet", "rwkv7", WINDOWED, "attention"]
# what need not go the whole way, to save time; the full cache is copied at each step
LONGEST = {"sru": 100_000, "s4d": 100_000}
LONGEST |= {"rwkv7": 20_000, WINDOWED: 20_000, "attention": 10_000}
TENTHS = 10
INPUTS = 1000  # different ones; then they come again
STATM = Path("/proc/self/statm")


def make(name: str) -> Any:
    """A layer by its word, from SIZE features to SIZE features."""
    if name in ("attention", WINDOWED):
        return CausalAttention(SIZE, HEADS, window=WINDOW if name == WINDOWED else None)
    return Recurrence(name, SIZE, SIZE)


def held(state: Any) -> int:
    """The bytes that a state keeps alive: of whole storages, of which a tensor may show a part."""
    storages = {s.data_ptr(): s.nbytes() for s in map(Tensor.untyped_storage, tensors_in(state))}
    return sum(storages.values())


def resident() -> int | None:
    """The bytes of memory this process holds, or None where the system does not tell."""
    if not STATM.is_file():
        return None
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(seconds: float, rounds: int, grid: list[tuple[int, ...]]) -> dict[str, dict[str, Any]]:
    """Every layer along every stream, one value a round.

    Args:
        seconds: time at each tenth for the steps that take turns.
        rounds: independent rounds; the number of the round, from 0, seeds weights and inputs.
        grid: lengths (steps,) of the stream; a layer in LONGEST stops there.

    Returns:
        ``{key: {"values", "unit", "what"}}`` as :func:`companion.look.write_study` takes it.

    Raises:
        TypeError, ValueError: if there is no round, no length, a stream of less than ten steps, or
            no time.
    """
    check_size("rounds", rounds)
    if not grid:
        raise ValueError("grid: expected at least one length (steps,)")
    for (steps,) in grid:
        check_size("steps", steps, TENTHS)
    results: dict[str, dict[str, Any]] = {}
    for number in range(rounds):
        for (steps,) in grid:
            for name in LAYERS:
                seed_all(number)
                rows = _stream(name, min(steps, LONGEST.get(name, steps)), seconds)
                for key, value, unit, what in rows:
                    entry = results.setdefault(key, {"values": [], "unit": unit, "what": what})
                    entry["values"].append(value)
                    print(f"{key:>40}  {value:12.3f} {unit}", flush=True)
    return results


@torch.no_grad()
def _stream(name: str, steps: int, seconds: float) -> list[tuple[str, float, str, str]]:
    """Key, value, unit and meaning of all that is measured along one stream."""
    layer = make(name).eval()
    x = torch.randn(INPUTS, 1, SIZE)
    start = layer.initial_state(1)
    state, before = start, resident()
    rows = [(f"{name} steps", float(steps), "", "length of the stream")]
    for tenth in range(TENTHS):
        first, last = tenth * steps // TENTHS, (tenth + 1) * steps // TENTHS
        begin = time.perf_counter()
        for t in range(first, last):
            _, state = layer.step(x[t % INPUTS], state)
        each = (time.perf_counter() - begin) / (last - first) * 1e6
        rows.append((f"{name} state {last}", held(state) / 1024, "KiB", f"after {last} steps"))
        now = resident()
        if now is not None and before is not None:
            grown = (now - before) / 1024
            rows.append((f"{name} process {last}", grown, "KiB", f"grown after {last} steps"))
        rows.append((f"{name} step {last}", each, "µs", f"a step, of those up to {last}"))
        both = interleaved(
            {"here": _few(layer, x, state), "start": _few(layer, x, start)}, seconds, 7
        )
        ratio = statistics.median(both["here"]) / statistics.median(both["start"])
        what = f"a step after {last} steps over one at the start, in turn"
        rows.append((f"{name} ratio {last}", ratio, "", what))
    return rows


def _few(layer: nn.Module, x: Tensor, state: Any) -> Callable[[], None]:
    """A function that takes twenty steps from a state, and forgets them."""

    def steps() -> None:
        s = state
        for x_t in x[:20]:
            _, s = layer.step(x_t, s)  # type: ignore[operator]

    return steps
