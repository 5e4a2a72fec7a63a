"""Study: recall of the first symbol by blocks around a GRU and around attention.

Trained at one lag and asked at others; with positions as rotations, and with none.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion import Recurrence
from companion.data import first_token_recall
from companion.look import run_study
from companion.models import Backbone
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
LAG, SYMBOLS, E, STEPS, BATCH, RATE, TESTED = 30, 4, 32, 300, 64, 3e-3, 500
ASKED = (10, 30, 60, 120, 240)
PLAIN: dict[str, Any] = {"options": {"attention": {"rotary": False}}}

# name: words, options, what it is; a block has 12 E^2 weights in its matrices
VARIANTS: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "gru_1": (["gru"], {"expand": 3}, "GRU, 1 block"),
    "gru_2": (["gru"] * 2, {"expand": 3}, "GRU, 2 blocks"),
    "rotary_1": (["attention"], {}, "attention, rotated, 1 block"),
    "rotary_2": (["attention"] * 2, {}, "attention, rotated, 2 blocks"),
    "plain_1": (["attention"], PLAIN, "attention, no positions, 1 block"),
    "plain_2": (["attention"] * 2, PLAIN, "attention, no positions, 2 blocks"),
    "alone": ([], {}, "GRU, no block around it"),
}


class Reader(nn.Module):
    """Symbols → blocks, or a GRU alone → scores from the last output."""

    def __init__(self, words: list[str], options: dict[str, Any]) -> None:
        super().__init__()
        if words:
            self.blocks: nn.Module = Backbone(SYMBOLS, E, words, **options)
        else:
            self.blocks = Recurrence("gru", SYMBOLS, E, batch_first=True)
        self.out = nn.Linear(E, SYMBOLS)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.blocks(F.one_hot(x, SYMBOLS).float())[0][:, -1])


def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return F.cross_entropy(model(x), y), len(y)


def one_seed(seed: int) -> dict[str, float]:
    values = {}
    task = first_token_recall(STEPS * BATCH, LAG, SYMBOLS, seed=seed)
    batches = list(zip(task.x.split(BATCH), task.y.split(BATCH), strict=True))
    tests = {lag: first_token_recall(TESTED, lag, SYMBOLS, seed=10_000) for lag in ASKED}
    for name, (words, options, _) in VARIANTS.items():
        seed_all(seed)
        model = Reader(words, options)
        adam = torch.optim.Adam(model.parameters(), lr=RATE)
        Trainer(model, objective, adam, clip_norm=1.0, progress=False).fit(batches)
        model.eval()
        for lag, test in tests.items():
            with torch.no_grad():
                right = model(test.x).argmax(-1) == test.y
            values[f"{name}_{lag}"] = right.float().mean().item()
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"First-token recall of {SYMBOLS} symbols, trained at lag {LAG}: E = {E}, {STEPS} Adam "
        f"steps at {RATE:g} on batches of {BATCH} fresh sequences, gradient norm clipped at 1; "
        f"accuracy over {TESTED} new sequences at each lag, chance 1/{SYMBOLS}.",
        one_seed,
        SEEDS,
        {
            f"{name}_{lag}": f"accuracy at lag {lag}, {what}"
            for name, (_, _, what) in VARIANTS.items()
            for lag in ASKED
        },
    )
    print(path.name)
