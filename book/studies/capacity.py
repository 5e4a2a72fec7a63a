"""Study: copying after ten times the training, to tell what training reached from what fits.

``recall`` stops at 500 steps, where few hidden units keep a few symbols only. This study takes two
of its cases as they are, with 5000 steps.
"""

from __future__ import annotations

import torch
from recall import BATCH, COPY_RATE, COPY_SYMBOLS, TESTED, copied

from companion.look import run_study
from companion.reproduce import deterministic

SEEDS = range(5)
STEPS = 5000
CASES = ((4, 8), (8, 16))  # length of the word, hidden units


def one_seed(seed: int) -> dict[str, float]:
    return {
        f"copy_{length}_{hidden}": copied(hidden, length, seed, STEPS) for length, hidden in CASES
    }


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Vanilla RNN, copying as in the study recall, with {STEPS} Adam steps in place of 500: "
        f"batches of {BATCH} fresh sequences of {COPY_SYMBOLS} symbols, tanh, orthogonal start, "
        f"rate {COPY_RATE:g}, gradient norm clipped at 1. Accuracy over {TESTED} new sequences; "
        f"chance is 1/{COPY_SYMBOLS}.",
        one_seed,
        SEEDS,
        {
            f"copy_{length}_{hidden}": f"accuracy of {length} symbols copied with {hidden} units"
            for length, hidden in CASES
        },
    )
    print(path.name)
