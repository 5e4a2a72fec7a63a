"""Study: pairs of key and value to be recalled, by trained blocks of equal weights and state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion.look import run_study
from companion.models import Backbone
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
KEYS, VALUES, E, STEPS, BATCH, RATE, TESTED = 64, 16, 32, 300, 64, 5e-3, 1000
PAIRS = (4, 8, 16, 32, 64)
WEIGHTS = 12 * E * E  # of the block
WINDOW = E // 2  # steps whose keys and values are E x E numbers

# name: the word, options of its layer, what it is
MIXERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "softmax": ("attention", {}, "softmax attention"),
    "window": ("attention", {"window": WINDOW}, f"softmax attention to {WINDOW} steps"),
    "linear": ("linear_attention", {"heads": 1}, "linear attention"),
    "identity": (
        "linear_attention",
        {"heads": 1, "feature_map": "identity", "normalize": False},
        "linear attention without features and normalizer",
    ),
    "rwkv7": ("rwkv7", {"heads": 1}, "RWKV-7"),
}


class Reader(nn.Module):
    """One-hot pairs (B, T, KEYS + VALUES) -> scores of the values after the last step."""

    def __init__(self, word: str, options: dict[str, Any]) -> None:
        super().__init__()
        given: dict[str, Any] = {"heads": 1, "options": {word: options}}
        bare = sum(w.numel() for w in Backbone(E, E, [word], expand=0, **given).parameters())
        wide = round((WEIGHTS - bare - 3 * E) / (2 * E + 1))
        self.blocks = Backbone(KEYS + VALUES, E, [word], expand=wide / E, **given)
        self.out = nn.Linear(E, VALUES)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.blocks(x)[0][:, -1])


def examples(rows: int, n: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    """n pairs of different keys, then a key of one of them: (rows, n + 1, ...), and its value."""
    keys = torch.rand(rows, KEYS, generator=g).argsort(1)[:, :n]
    values = torch.randint(VALUES, (rows, n), generator=g)
    asked = torch.randint(n, (rows, 1), generator=g)
    x = torch.cat([F.one_hot(keys, KEYS), F.one_hot(values, VALUES)], -1)
    query = F.pad(F.one_hot(keys.gather(1, asked), KEYS), (0, VALUES))
    return torch.cat([x, query], 1).float(), values.gather(1, asked)[:, 0]


def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return F.cross_entropy(model(x), y), len(y)


def one_seed(seed: int) -> dict[str, float]:
    g, values = cpu_generator(seed), {}
    batches = [examples(BATCH, PAIRS[i % len(PAIRS)], g) for i in range(STEPS)]
    tests = {n: examples(TESTED, n, cpu_generator(10_000 + seed)) for n in PAIRS}
    for name, (word, options, _) in MIXERS.items():
        seed_all(seed)
        model = Reader(word, options)
        adam = torch.optim.Adam(model.parameters(), lr=RATE)
        Trainer(model, objective, adam, clip_norm=1.0, progress=False).fit(batches)
        model.eval()
        for n, (x, y) in tests.items():
            with torch.no_grad():
                values[f"{name}_{n}"] = (model(x).argmax(-1) == y).float().mean().item()
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Up to {PAIRS[-1]} pairs of {KEYS} keys and {VALUES} values, one pair a step, then a "
        f"key: share of right values in {TESTED} new sequences, 1/{VALUES} by chance. One block "
        f"of {WEIGHTS} weights, E = {E}, one head; {STEPS} Adam steps at {RATE:g} on batches of "
        f"{BATCH} fresh sequences, the numbers of pairs in turn, gradient norm clipped at 1.",
        one_seed,
        SEEDS,
        {
            f"{name}_{n}": f"right values, {n} pairs, {what}"
            for name, (_, _, what) in MIXERS.items()
            for n in PAIRS
        },
    )
    print(path.name)
