"""Study: the adding problem by cells of equal size, two layers each.

Two of fifty numbers are marked, and their sum is asked for: what is to be kept is decided by the
input, at any time. The layers are those of first-token recall, where the place decides.
"""

from __future__ import annotations

import torch
from other_recall import KEEP, VARIANTS, WEIGHTS, Reader, equal
from torch import Tensor, nn
from torch.nn import functional as F

from companion.data import adding
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
LENGTH, LAYERS, STEPS, BATCH, RATE, TESTED = 50, 2, 600, 64, 3e-3, 1000
MORE = 3000  # steps, where the question is what comes of five times as many
NAMES = ("rnn", "lstm", "gru", "indrnn", "qrnn", "sru_2017", "sru", "clockwork", "clockwork_32")
LONG = ("rnn", "clockwork", "clockwork_32")


def error(name: str, seed: int, steps: int = STEPS) -> float:
    """Mean squared error on new sequences; 1/6 for always answering 1."""
    architecture, options, _ = VARIANTS[name]
    if "bound" in options:
        options = {**options, "bound": 2 ** (1 / LENGTH)}
    seed_all(seed)
    model = Reader(equal(architecture, options, 2, LAYERS), 1)
    task, test = adding(steps * BATCH, LENGTH, seed=seed), adding(TESTED, LENGTH, seed=10_000)

    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
        x, y = batch
        return F.mse_loss(model(x).squeeze(1), y), len(y)

    batches = list(zip(task.x.split(BATCH), task.y.split(BATCH), strict=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    Trainer(model, objective, optimizer, clip_norm=1.0, progress=False).fit(batches)
    with torch.no_grad():
        return F.mse_loss(model.eval()(test.x).squeeze(1), test.y).item()


def one_seed(seed: int) -> dict[str, float]:
    found = {name: error(name, seed) for name in NAMES}
    return found | {f"{name}_long": error(name, seed, MORE) for name in LONG}


def describe(name: str) -> str:
    return f"mean squared error, {VARIANTS[name][2]}".replace("1/31", f"1/{LENGTH}")


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Adding two marked numbers of {LENGTH}: {LAYERS} recurrent layers of about {WEIGHTS} "
        f"weights together, {STEPS} Adam steps (long: {MORE}) at {RATE:g} on batches of {BATCH} "
        f"fresh sequences, gradient norm clipped at 1; gates that keep start at a bias of "
        f"{KEEP:g}; mean squared error over {TESTED} new sequences, 1/6 for always answering 1.",
        one_seed,
        SEEDS,
        {name: describe(name) for name in NAMES}
        | {f"{name}_long": f"{describe(name)}, {MORE} steps" for name in LONG},
    )
    print(path.name)
