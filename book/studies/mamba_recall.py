"""Study: how many pairs a Mamba can recall, by the numbers of its state, beside attention.

Each of the first steps shows a key and its value, all keys different; then all keys are asked,
in another order. One block each, without a window, since a key and its value come together. The
wider the state of a channel, the fewer the channels: all models have about as many weights.
"""

from __future__ import annotations

from typing import Any

import torch
from mamba_selection import count
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.look import run_study
from companion.models import Backbone
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
WEIGHTS = 10000
PAIRS, KEYS, VALUES = 16, 32, 8
SLOTS = (1, 4, 16)
STEPS, BATCH, RATE, TESTED = 300, 32, 1e-2, 200


class Reader(nn.Module):
    """Keys and values (B, T) -> scores of the values (B, T, values)."""

    def __init__(self, word: str, width: int, slots: int = 0) -> None:
        super().__init__()
        self.key = nn.Embedding(KEYS, width)
        self.value = nn.Embedding(VALUES + 1, width)  # the last: asked for
        given: dict[str, Any] = {"mamba": {"slots": slots, "window": 1}}
        options = given if word == "mamba" else {}
        expand = 4 if word == "attention" else 0
        self.body = Backbone(width, width, [word], expand=expand, heads=2, options=options)
        self.out = nn.Linear(width, VALUES)

    def forward(self, keys: Tensor, values: Tensor) -> Tensor:
        return self.out(self.body(self.key(keys) + self.value(values))[0])


def equal(word: str, slots: int = 0) -> int:
    """The width whose model comes nearest to the budget."""
    widths = range(8, 96, 4 if word == "attention" else 1)
    return min(widths, key=lambda n: abs(count(Reader(word, n, slots)) - WEIGHTS))


def examples(n: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values (n, 2 PAIRS), and the answers (n, PAIRS) of the second half."""
    g = cpu_generator(seed)
    keys = torch.rand(n, KEYS, generator=g).argsort(1)[:, :PAIRS]
    values = torch.randint(VALUES, (n, PAIRS), generator=g)
    order = torch.rand(n, PAIRS, generator=g).argsort(1)
    asked = torch.cat([keys, keys.gather(1, order)], 1)
    shown = torch.cat([values, torch.full_like(values, VALUES)], 1)
    return asked, shown, values.gather(1, order)


def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
    keys, values, answers = batch
    scores = model(keys, values)[:, PAIRS:]
    return F.cross_entropy(scores.flatten(0, 1), answers.flatten()), len(keys)


def accuracy(word: str, slots: int, seed: int) -> tuple[float, int]:
    """Share of the values right, and the number of weights."""
    width = equal(word, slots)
    seed_all(seed)
    model = Reader(word, width, slots)
    batches = list(zip(*(v.split(BATCH) for v in examples(STEPS * BATCH, seed)), strict=True))
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    Trainer(model, objective, adam, clip_norm=1.0, progress=False).fit(batches)
    keys, values, answers = examples(TESTED, 10_000)
    with torch.no_grad():
        right = model.eval()(keys, values)[:, PAIRS:].argmax(-1) == answers
    return right.float().mean().item(), count(model)


def state(slots: int) -> int:
    """Numbers of state of the Mamba."""
    return companion.MambaCell(1, equal("mamba", slots), slots=slots).state_size[0]


def one_seed(seed: int) -> dict[str, float]:
    values: dict[str, float] = {}
    for slots in (*SLOTS, 0):
        word, name = ("mamba", f"mamba_{slots}") if slots else ("attention", "attention")
        values[name], values[f"weights_{name}"] = accuracy(word, slots, seed)
    return values


DESCRIPTION = (
    f"Recall {PAIRS} pairs of {KEYS} keys and {VALUES} values: one block, about {WEIGHTS} weights "
    f"in all, {STEPS} Adam steps at {RATE:g} on batches of {BATCH} fresh sequences, gradient norm "
    f"clipped at 1; share of the values right over {TESTED} new sequences, 1/{VALUES} by chance."
)
WHAT = {f"mamba_{s}": f"Mamba, {s} slots, {state(s)} numbers" for s in SLOTS}
WHAT["attention"] = "attention"
MEASURED = {name: f"values right, {what}" for name, what in WHAT.items()} | {
    f"weights_{name}": f"weights, {what}" for name, what in WHAT.items()
}

if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(__file__, DESCRIPTION, one_seed, SEEDS, MEASURED)
    print(path.name)
