"""Study: an RG-LRU and attention, one binding far away and six near ones."""

from __future__ import annotations

from typing import Any

import torch
from revival_plane import Reader, trained, weights
from torch import Tensor

from companion.look import run_study
from companion.reproduce import cpu_generator, deterministic, seed_all

SEEDS = range(5)
KEYS, VALUES, BETWEEN, NEAR, WINDOW = 16, 8, 14, 6, 13
E, WEIGHTS, STEPS, BATCH, TESTED = 16, 9000, 400, 32, 500

# name: words of the blocks, window, what it is
VARIANTS: dict[str, tuple[list[Any], int | None, str]] = {
    "rglru": (["rglru"] * 2, None, "RG-LRU, RG-LRU"),
    "local": (["attention"] * 2, WINDOW, "two blocks of local attention"),
    "rglru_local": (["rglru", "attention"], WINDOW, "RG-LRU, local attention"),
    "rglru_global": (["rglru", "attention"], None, "RG-LRU, global attention"),
}


def examples(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs (n, 1 + BETWEEN + 2 NEAR + 1, 2) and answers (n, NEAR + 1), the last the far one."""
    g = cpu_generator(seed)
    stream = torch.randint(1, KEYS, (n, BETWEEN), generator=g)  # key 0 comes only once
    near = torch.rand(n, KEYS - 1, generator=g).argsort(1)[:, :NEAR] + 1
    far = torch.zeros(n, 1, dtype=torch.long)
    values = torch.randint(VALUES, (n, 1 + BETWEEN + NEAR), generator=g)
    order = torch.rand(n, NEAR, generator=g).argsort(1)
    keys = torch.cat([far, stream, near, near.gather(1, order), far], 1)
    nothing = torch.full((n, NEAR + 1), VALUES)
    answers = torch.cat([values[:, -NEAR:].gather(1, order), values[:, :1]], 1)
    return torch.stack([keys, torch.cat([values, nothing], 1)], -1), answers


def reader(words: list[Any], window: int | None) -> Reader:
    """Two blocks; their feed-forward parts fill up to WEIGHTS."""
    columns = [KEYS, VALUES + 1]
    bare = weights(Reader(columns, VALUES, words, E, expand=0))
    units = round(((WEIGHTS - bare) / len(words) - 3 * E) / (2 * E + 1))
    return Reader(columns, VALUES, words, E, expand=units / E, window=window)


def one_seed(seed: int) -> dict[str, float]:
    found = {}
    x, y = examples(TESTED, 10_000)
    for name, (words, window, _) in VARIANTS.items():
        seed_all(seed)
        model = reader(words, window)
        trained(model, *examples(STEPS * BATCH, seed))
        with torch.no_grad():
            right = (model(x)[:, -NEAR - 1 :].argmax(-1) == y).float().mean(0)
        found[f"{name}_near"] = right[:NEAR].mean().item()
        found[f"{name}_far"] = right[NEAR].item()
    return found


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Recall of one binding {BETWEEN + 2 * NEAR + 1} steps back and of the last {NEAR}, of "
        f"{KEYS} keys and {VALUES} values (chance 1/{VALUES}): two blocks, E = {E}, about "
        f"{WEIGHTS} weights, local attention sees {WINDOW} steps; {STEPS} Adam steps at 0.005 on "
        f"batches of {BATCH} fresh sequences, gradient norm clipped at 1; {TESTED} new sequences.",
        one_seed,
        SEEDS,
        {
            f"{name}_{which}": f"share of the {which} bindings recalled, {what}"
            for name, (_, _, what) in VARIANTS.items()
            for which in ("near", "far")
        },
    )
    print(path.name)
