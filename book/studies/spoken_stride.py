"""Study: a convolution before the recurrence, without a stride: a control."""

from __future__ import annotations

import torch
from spoken_digits import (
    BATCH,
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

# that of "halved" in spoken_digits.py, with stride 1: as many weights
SAME = {"hidden_size": 42, "convolutions": [(24, 5, 1)]}


def one_seed(seed: int) -> dict[str, float]:
    """The seed draws the division of the recordings, the strings, and the start."""
    train, _, test = load("spoken-digits").split(seed=seed)
    scale = scaled(train, mel=False)
    frames, labels = strings(test, 300, TESTED, 1000 + seed)
    trainer = trained(train, scale, seed, **SAME)
    return {"whole": rate(ctc_greedy(*said(trainer, scale(frames))), labels)}


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        "Strings of spoken digits as in spoken_digits.py, bidirectional LSTM behind a "
        f"convolution of stride 1, CTC, {STEPS} steps, Adam at {RATE:g}, batches of {BATCH}.",
        one_seed,
        SEEDS,
        {"whole": "word error rate, greedy: both directions, convolution of stride 1"},
    )
    print(path.name)
