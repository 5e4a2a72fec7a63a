"""Study: what noise on the recurrent path does to a memory of thirty steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F
from train_dropout import FreshCell, FreshHidden, FreshUpdate
from train_starts import (
    BATCH,
    HIDDEN,
    LAG,
    RATE,
    STEPS,
    SYMBOLS,
    TESTED,
    Reader,
    accuracy,
    trained,
)

import companion
from companion.data import first_token_recall
from companion.look import run_study
from companion.reproduce import deterministic, seed_all

SEEDS = range(5)


def layer(cell: Any = "lstm", **noise: float) -> companion.Recurrence:
    return companion.Recurrence(cell, SYMBOLS, HIDDEN, forget_bias=3.0, **noise)


VARIANTS: dict[str, tuple[Callable[[], companion.Recurrence], str]] = {
    "none": (layer, "no noise"),
    "fresh_cell": (lambda: layer(FreshCell), "fresh masks of 0.3 on c"),
    "fresh_hidden": (lambda: layer(FreshHidden), "fresh masks of 0.3 where W_hh reads h"),
    "fresh_update": (lambda: layer(FreshUpdate), "fresh masks of 0.3 on what is written"),
    "locked": (lambda: layer(recurrent_dropout=0.3), "locked masks of 0.3 on h"),
    "zoneout": (lambda: layer(zoneout=0.3), "zoneout of 0.3"),
    "weight_drop": (lambda: companion.weight_drop(layer(), 0.5), "half of W_hh dropped"),
}


def recall(variant: str, seed: int) -> float:
    seed_all(seed)
    model = Reader(VARIANTS[variant][0](), SYMBOLS)  # type: ignore[arg-type]
    task, test = (
        first_token_recall(n, LAG, SYMBOLS, seed=s)
        for n, s in ((STEPS * BATCH, seed), (TESTED, 10_000))
    )
    x = F.one_hot(task.x, SYMBOLS).float()
    trained(model, list(zip(x.split(BATCH), task.y.split(BATCH), strict=True)))
    return accuracy(model, (F.one_hot(test.x, SYMBOLS).float(),), test.y)


def one_seed(seed: int) -> dict[str, float]:
    return {variant: recall(variant, seed) for variant in VARIANTS}


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"LSTM, forget bias 3, H = {HIDDEN}, the first of {SYMBOLS} symbols at lag {LAG}: "
        f"{STEPS} Adam steps at {RATE:g} on batches of {BATCH} fresh sequences with noise, "
        f"gradient norm clipped at 1; accuracy over {TESTED} new ones without, chance "
        f"1/{SYMBOLS}.",
        one_seed,
        SEEDS,
        {name: f"accuracy, {what}" for name, (_, what) in VARIANTS.items()},
    )
    print(path.name)
