"""Study: what came after the mark? Asked at the length of training, and at longer ones.

A mark stands once among random symbols and again at the end; the answer is the symbol that came
after the first. Two blocks each, widths chosen so that all models have about as many weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from mamba_selection import choosing, count
from torch import Tensor, nn
from torch.nn import functional as F

from companion.look import run_study
from companion.models import Backbone
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
WEIGHTS = 6000
T, SYMBOLS = 32, 8
ASKED = (32, 256)
STEPS, BATCH, RATE, TESTED = 400, 32, 1e-2, 200

# name: the mixer, options of the backbone, what it is
VARIANTS: dict[str, tuple[Callable[[], Any], dict[str, Any], str]] = {
    "all": (lambda: choosing("dBC", 4), {}, "Mamba, Δ, B and C of the input"),
    "none": (lambda: choosing("", 4), {}, "Mamba, Δ, B and C constants"),
    "no_window": (lambda: choosing("dBC", 1), {}, "Mamba, Δ, B and C of the input, no window"),
    "gru": (lambda: "gru", {}, "GRU"),
    "attention": (lambda: "attention", {"heads": 2}, "attention, positions as rotations"),
    "attention_more": (
        lambda: "attention",
        {"heads": 2},
        "attention, 1200 steps at 0.003, positions as rotations",
    ),
}
TRAINED = {"attention_more": (1200, 3e-3)}  # steps and rate, where they are others


class Reader(nn.Module):
    """(B, T) symbols -> (B, symbols) scores after the last, by two blocks."""

    def __init__(self, word: Any, width: int, options: dict[str, Any]) -> None:
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS + 1, width)
        expand = 4 if word == "attention" else 0
        self.body = Backbone(width, width, [word] * 2, expand=expand, **options)
        self.out = nn.Linear(width, SYMBOLS)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.body(self.embed(x))[0][:, -1])


def equal(word: Any, options: dict[str, Any]) -> int:
    """The width whose model comes nearest to the budget."""
    widths = range(8, 64, 4 if word == "attention" else 1)
    return min(widths, key=lambda n: abs(count(Reader(word, n, options)) - WEIGHTS))


def induction(n: int, T: int, seed: int) -> tuple[Tensor, Tensor]:
    """Symbols (n, T), of which the mark is the highest, and answers (n,)."""
    g, rows = cpu_generator(seed), torch.arange(n)
    x = torch.randint(SYMBOLS, (n, T), generator=g)
    place = torch.randint(T - 2, (n,), generator=g)
    x[rows, place] = SYMBOLS
    x[:, -1] = SYMBOLS
    return x, x[rows, place + 1]


def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return F.cross_entropy(model(x), y), len(y)


def one_seed(seed: int) -> dict[str, float]:
    values: dict[str, float] = {}
    for name, (make, options, _) in VARIANTS.items():
        steps, rate = TRAINED.get(name, (STEPS, RATE))
        x, y = induction(steps * BATCH, T, seed)
        batches = list(zip(x.split(BATCH), y.split(BATCH), strict=True))
        word = make()
        width = equal(word, options)
        seed_all(seed)
        model = Reader(word, width, options)
        values[f"weights_{name}"] = count(model)
        adam = torch.optim.Adam(model.parameters(), lr=rate)
        Trainer(model, objective, adam, clip_norm=1.0, progress=False).fit(batches)
        model.eval()
        for asked in ASKED:
            test, answer = induction(TESTED, asked, 10_000)
            with torch.no_grad():
                right = model(test).argmax(-1) == answer
            values[f"{name}_{asked}"] = right.float().mean().item()
    return values


DESCRIPTION = (
    f"Say which of {SYMBOLS} symbols came after the mark: two blocks, about {WEIGHTS} weights in "
    f"all, {STEPS} Adam steps at {RATE:g} (where nothing else is said) on batches of {BATCH} "
    f"fresh sequences of {T} steps, gradient norm clipped at 1; accuracy over {TESTED} new "
    f"sequences of each length, 1/{SYMBOLS} by chance."
)
KEYS = {
    f"{name}_{asked}": f"accuracy at {asked} steps, {what}"
    for name, (_, _, what) in VARIANTS.items()
    for asked in ASKED
} | {f"weights_{name}": f"weights, {what}" for name, (_, _, what) in VARIANTS.items()}

if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(__file__, DESCRIPTION, one_seed, SEEDS, KEYS)
    print(path.name)
