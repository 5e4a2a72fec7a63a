"""Study: the recognizers of spoken_digits.py, trained three times as long."""

from __future__ import annotations

import torch
from spoken_digits import (
    BATCH,
    NETWORKS,
    RATE,
    SEEDS,
    STEPS,
    TESTED,
    rate,
    said,
    scaled,
    strings,
    trained,
)

from companion.data import load
from companion.look import run_study
from companion.models import ctc_greedy
from companion.reproduce import deterministic


def one_seed(seed: int) -> dict[str, float]:
    """The seed draws the division of the recordings, the strings, and the start."""
    train, _, test = load("spoken-digits").split(seed=seed)
    scale = scaled(train, mel=False)
    frames, labels = strings(test, 300, TESTED, 1000 + seed)
    values = {}
    for name in ("both", "forward"):
        trainer = trained(train, scale, seed, 3 * STEPS, **NETWORKS[name][0])
        values[name] = rate(ctc_greedy(*said(trainer, scale(frames))), labels)
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        "Strings of spoken digits as in spoken_digits.py, LSTMs of about 25,000 weights, CTC, "
        f"{3 * STEPS} steps, Adam at {RATE:g}, batches of {BATCH}.",
        one_seed,
        SEEDS,
        {name: f"word error rate, greedy: {NETWORKS[name][1]}" for name in ("both", "forward")},
    )
    print(path.name)
