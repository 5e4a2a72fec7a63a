"""A training step of cells without a twin in torch.nn: the fastest form against the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from companion.bench.gated import compare, train_step
from companion.layers import Recurrence

# B, T, D, H
GRID = [
    (32, 50, 64, 64),
    (32, 100, 128, 128),
    (64, 100, 256, 256),
    (1, 500, 128, 128),
]
# those of the chapter on other recurrences, of which each waits for its loop for a minute or less
LAYERS = (
    "lstm_1997 lstm_peephole lstm_coupled lstm_layer_norm gru_reset_before indrnn "
    "qrnn qrnn_f qrnn_ifo sru sru_2017 clockwork"
).split()
RATIOS = {"loop over ours": ("loop", "ours")}


def candidates(name: str, B: int, T: int, D: int, H: int) -> dict[str, Callable[[], None]]:
    """One training step in the form that is picked, and in the loop, one step after the other."""
    layer = Recurrence(name, D, H, batch_first=False)
    x = torch.randn(T, B, D, requires_grad=True)
    return {
        "ours": lambda: train_step(layer, x, lambda: layer(x)[0]),
        "loop": lambda: train_step(layer, x, lambda: layer(x, form="loop")[0]),
    }


def measure(seconds: float, rounds: int, grid: list[tuple[int, ...]]) -> dict[str, dict[str, Any]]:
    """As :func:`companion.bench.gated.measure`, for these cells."""
    return compare(LAYERS, candidates, RATIOS, seconds, rounds, grid)
