"""Study: how deep a stack pays, plain and with residual links, at equal weights and steps.

The task is to restore case and punctuation, as in the study ``tagging``.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from tagging import EMBEDDING, STOP, f1, held, labels, learn, objective, passages, vocab
from torch import Tensor, nn

from companion import Recurrence
from companion.data import batches
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
DEPTHS, WEIGHTS = (1, 2, 4, 8), 66_560  # what one layer of 64 units a direction has
BATCH, RATE = 32, 1e-2
TESTED = 400  # the first of the held-out passages, 2012 to 2014: not the test of tagging


def units(depth: int) -> int:
    """H at which a stack of bidirectional LSTMs has about ``WEIGHTS`` weights.

    The lowest layer has 8H(E + H + 2), each other one 8H(3H + 2).
    """
    square, linear = 8 + 24 * (depth - 1), 8 * (EMBEDDING + 2) + 16 * (depth - 1)
    return round((math.sqrt(linear**2 + 4 * square * WEIGHTS) - linear) / (2 * square))


class Stack(nn.Module):
    """Words → layers → scores; with links, a layer adds to what it reads, but for the lowest."""

    def __init__(self, depth: int, links: bool) -> None:
        super().__init__()
        self.links, width = links, 2 * units(depth)
        sizes = [EMBEDDING] + [width] * depth
        self.words = nn.Embedding(len(vocab), EMBEDDING)
        self.layers = nn.ModuleList(
            Recurrence("lstm", below, width // 2, bidirectional=True, forget_bias=1.0)
            for below, _ in pairwise(sizes)
        )
        self.scores = nn.Linear(width, len(labels))

    def forward(self, x: Tensor) -> Tensor:
        e = self.words(x)
        for k, layer in enumerate(self.layers):
            y = layer(e)[0]
            e = e + y if self.links and k else y
        return self.scores(e)


def trained(depth: int, links: bool, x: Tensor, y: Tensor, seed: int, passes: int = 1) -> Stack:
    seed_all(seed)
    model = Stack(depth, links)
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    trainer = Trainer(model, objective, adam, clip_norm=1.0, progress=False)
    trainer.fit(batches(x, y, batch_size=BATCH, shuffle=True, seed=seed), epochs=passes)
    return model.eval()


@torch.no_grad()
def measures(model: Stack, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Accuracy of the label, and F1 of full stops."""
    guess = model(x).argmax(-1)
    return (guess == y).float().mean().item(), f1(STOP[guess], STOP[y])


def one_seed(seed: int) -> dict[str, float]:
    x, y = passages(learn)
    test = [part[:TESTED] for part in passages(held)]
    values = {"silent": (test[1] == labels["lower"]).float().mean().item()}
    for depth in DEPTHS:
        for links in (False, True)[:depth]:
            key = f"{depth}_links" if links else f"{depth}"
            model = trained(depth, links, x, y, seed)
            values[key], values[f"{key}_stop"] = measures(model, *test)
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys = {"silent": "accuracy of lower case without a mark, always"}
    for depth in DEPTHS:
        for links in (False, True)[:depth]:
            key, what = f"{depth}", f"{depth} layers of {2 * units(depth)} units"
            if links:
                key, what = f"{depth}_links", f"{what}, residual links"
            keys[key] = f"accuracy of the label, {what}"
            keys[f"{key}_stop"] = f"F1 of full stops, {what}"
    path = run_study(
        __file__,
        f"Stacks of bidirectional LSTMs with about {WEIGHTS} weights each, at depths "
        f"{DEPTHS}, one pass over the passages of the study tagging in batches of {BATCH}, Adam "
        f"at {RATE:g}; test on the first {TESTED} passages of the newest addresses.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
