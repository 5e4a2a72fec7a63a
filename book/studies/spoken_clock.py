"""Study: what knowing the clock adds to knowing that four digits were said."""

from __future__ import annotations

import torch
from spoken_digits import (
    BATCH,
    BEAM,
    NETWORKS,
    RATE,
    SEEDS,
    STEPS,
    TIMES,
    WEIGHT,
    clock,
    rate,
    said,
    scaled,
    spell,
    trained,
)

from companion.data import load
from companion.look import run_study
from companion.models import ctc_beam_search
from companion.reproduce import deterministic

# a language model; the names of the best answer of any length and of the best of four digits
SEARCHES = ((None, "beam", "four"), (clock, "free", "model"))


def one_seed(seed: int) -> dict[str, float]:
    """The seed draws the division of the recordings, the strings, and the start."""
    train, _, test = load("spoken-digits").split(seed=seed)
    scale = scaled(train, mel=False)
    draw = torch.Generator().manual_seed(seed)
    times = [TIMES[i] for i in torch.randint(len(TIMES), (200,), generator=draw)]
    frames, labels = spell(test, times, seed)
    values = {}
    for name in ("both", "forward"):
        trainer = trained(train, scale, seed, **NETWORKS[name][0])
        log_probs, count = said(trainer, scale(frames))
        rows = list(zip(log_probs, count.tolist(), strict=True))
        for scorer, free, four in SEARCHES:
            found = [ctc_beam_search(p[:n], BEAM, scorer=scorer, weight=WEIGHT) for p, n in rows]
            best = [hs[0].labels for hs in found]
            whole = [[h.labels for h in hs if len(h.labels) == 4] for hs in found]
            values[f"{name}_{free}"] = rate(best, labels)
            chosen = [(ys or [y])[0] for ys, y in zip(whole, best, strict=True)]
            values[f"{name}_{four}"] = rate(chosen, labels)
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        "200 times of day, spoken digits joined as in spoken_digits.py, the same networks, "
        f"{STEPS} steps, Adam at {RATE:g}, batches of {BATCH}, a beam of {BEAM}.",
        one_seed,
        SEEDS,
        {
            f"{name}_{way}": f"word error rate on times of day, {NETWORKS[name][1]}, {what}"
            for name in ("both", "forward")
            for way, what in (
                ("beam", "any length"),
                ("four", "four digits only"),
                ("free", "with the clock, any length"),
                ("model", "with the clock, four digits only"),
            )
        },
    )
    print(path.name)
