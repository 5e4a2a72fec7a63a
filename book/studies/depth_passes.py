"""Study: deep stacks over several passes: when they begin to learn, and whether they overfit more.

The stacks and the task are those of the study ``depth``: about as many weights at every depth.
"""

from __future__ import annotations

import torch
from depth import TESTED, measures, trained
from tagging import held, learn, passages

from companion.look import run_study
from companion.reproduce import deterministic

SEEDS = range(5)
LONG = ((1, False), (4, False), (4, True))  # depth, links: two passes over all passages
FEW, PASSES = 640, 9  # nine passes over few passages are about as many steps as one over all
DEPTHS = (1, 2, 4, 8)


def one_seed(seed: int) -> dict[str, float]:
    x, y = passages(learn)
    test = [part[:TESTED] for part in passages(held)]
    values = {}
    for depth, links in LONG:
        key = f"long_{depth}{'_links' if links else ''}"
        values[key] = measures(trained(depth, links, x, y, seed, passes=2), *test)[0]
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:FEW]
    for depth in DEPTHS:
        model = trained(depth, depth > 1, x[rows], y[rows], seed, PASSES)
        values[f"few_{depth}"] = measures(model, *test)[0]
        values[f"few_{depth}_seen"] = measures(model, x[rows], y[rows])[0]
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys = {}
    for depth, links in LONG:
        name, what = f"long_{depth}", f"{depth} layers"
        if links:
            name, what = f"{name}_links", f"{what}, residual links"
        keys[name] = f"accuracy of the label after two passes, {what}"
    for depth in DEPTHS:
        keys[f"few_{depth}"] = f"accuracy on unseen passages, {FEW} seen, {depth} layers"
        keys[f"few_{depth}_seen"] = f"accuracy on the {FEW} passages seen, {depth} layers"
    path = run_study(
        __file__,
        f"Stacks of the study depth, as many weights at every depth. long: two passes over all "
        f"passages. few: {PASSES} passes over {FEW} of them, residual links above the lowest "
        f"layer, accuracy there and on the first {TESTED} passages of the newest addresses.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
