"""The layers that are linear in their state, against their own loop and other libraries."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from companion.bench import interleaved
from companion.bench.gated import train_step
from companion.bench.scaling import peak
from companion.checks import check_size
from companion.layers import Recurrence
from companion.reproduce import seed_all

# B, T, D
GRID = [(4, 512, 128), (4, 1024, 128), (4, 4096, 128)]
LAYERS = (
    "s4d lru mingru rglru mamba mamba2 retnet linear_attention deltanet mlstm rwkv4 rwkv7"
).split()
LEAST = 2  # turns; a loop takes seconds
SLOTS, HEADS = 16, 2  # what our layers have where nothing is said


def mambapy(D: int) -> nn.Module:
    """Mamba with the parallel scan of ``pip install mambapy``."""
    theirs = importlib.import_module("mambapy.mamba")
    return theirs.MambaBlock(theirs.MambaConfig(d_model=D, n_layers=1, d_state=SLOTS))


def transformers_mamba(D: int) -> nn.Module:
    """Mamba as ``pip install transformers`` runs it without kernels of its own."""
    theirs = importlib.import_module("transformers.models.mamba.modeling_mamba")
    return theirs.MambaMixer(theirs.MambaConfig(hidden_size=D, state_size=SLOTS), 0)


def transformers_mamba2(D: int) -> nn.Module:
    """Mamba-2, of the same library, in its chunks."""
    theirs = importlib.import_module("transformers.models.mamba2.modeling_mamba2")
    config = theirs.Mamba2Config(
        hidden_size=D, state_size=SLOTS, num_heads=HEADS, head_dim=2 * D // HEADS, n_groups=1
    )
    return theirs.Mamba2Mixer(config, 0)


def transformers_rwkv(D: int) -> nn.Module:
    """The time mixing of RWKV-4, of the same library, a loop."""
    theirs = importlib.import_module("transformers.models.rwkv.modeling_rwkv")
    config = theirs.RwkvConfig(hidden_size=D, attention_hidden_size=D, num_hidden_layers=2)
    return theirs.RwkvSelfAttention(config, 0)


# layer -> library -> its module of D features; equal in size to ours, not in the weights' values
PEERS: dict[str, dict[str, Callable[[int], nn.Module]]] = {
    "mamba": {"mambapy": mambapy, "transformers": transformers_mamba},
    "mamba2": {"transformers": transformers_mamba2},
    "rwkv4": {"transformers": transformers_rwkv},
}
# these index in their loops, so that the backward takes the square of T: minutes beyond
LONGEST = {("mamba", "transformers"): 512, ("rwkv4", "transformers"): 1024}


def candidates(name: str, B: int, T: int, D: int) -> dict[str, Callable[[], None]]:
    """One training step of our layer, of its loop, and of the peers that are installed."""
    x = torch.randn(B, T, D, requires_grad=True)
    layer = Recurrence(name, D, D)

    def step(module: nn.Module, run: Callable[[Tensor], Any]) -> Callable[[], None]:
        def first() -> Tensor:
            y = run(x)
            return y if isinstance(y, Tensor) else y[0]

        return lambda: train_step(module, x, first)

    found = {
        "ours": step(layer, layer),
        "loop": step(layer, lambda rows: layer(rows, form="loop")),
    }
    for library, make in PEERS.get(name, {}).items():
        if T > LONGEST.get((name, library), T):
            continue
        try:
            peer = make(D)
        except ImportError:
            continue
        found[library] = step(peer, peer)
    return found


def measure(seconds: float, rounds: int, grid: list[tuple[int, ...]]) -> dict[str, dict[str, Any]]:
    """Ratios of median times for every layer and shape, and peak memory, one value a round.

    Args:
        seconds: time for each round of each shape.
        rounds: independent rounds; the spread between them is the spread we state. The number of
            the round, from 0, seeds its weights and inputs.
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
    for name in LAYERS:
        least: dict[str, list[list[float]]] = {}
        for shape in grid:
            shown: dict[str, list[float]] = {}
            for number in range(rounds):
                seed_all(number)
                steps = candidates(name, *shape)
                times = interleaved(steps, seconds, LEAST)
                middle = {k: statistics.median(v) for k, v in times.items()}
                for way in steps:
                    if way != "ours":
                        shown.setdefault(f"{way} over ours", []).append(
                            middle[way] / middle["ours"]
                        )
                    if way != "loop":  # a graph of every step: a log too long to read
                        most = peak(steps[way]) / (shape[0] * shape[1]) / 1024
                        shown.setdefault(f"peak {way}", []).append(most)
            where = ",".join(map(str, shape))
            row = "  ".join(f"{k} {statistics.median(v):.2f}" for k, v in shown.items())
            print(f"{name} {where:>12}  {row}", flush=True)
            for label, values in shown.items():
                results[f"{name} {label} {where}"] = _entry(label, values, f"B,T,D = {where}")
                if not label.startswith("peak"):
                    least.setdefault(label, []).append(values)
        for label, rows in least.items():
            values = [min(one) for one in zip(*rows, strict=True)]  # all shapes of one round
            results[f"{name} {label} worst"] = _entry(label, values, "worst shape")
            print(f"{name} {label}: worst {statistics.median(values):.2f}")
    return results


def _entry(label: str, values: list[float], what: str) -> dict[str, Any]:
    if label.startswith("peak"):
        what = f"training step, peak memory a token, {label.removeprefix('peak ')}, {what}"
        return {"values": values, "unit": "KiB", "what": f"{what}, by round"}
    return {"values": values, "unit": "", "what": f"training step, {label}, {what}, by round"}
