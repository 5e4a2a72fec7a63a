"""Study: first-token recall by cells of equal size, in one layer and in two.

The question is what a cell must see in order to keep the first symbol and ignore the others. So
the layers differ in that and share the rest: weights in the recurrent layers, steps, batches.
(The readout comes on top; it is larger the more units the weights buy.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import first_token_recall
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
WEIGHTS = 4000  # in the recurrent layers, as nearly as a whole number of units allows
LAG, SYMBOLS, STEPS, BATCH, RATE, TESTED = 30, 4, 500, 64, 3e-3, 1000
MORE = 2500  # steps, where the question is what comes of five times as many
KEEP = 3.0  # bias of each gate that keeps: a share of 0.95 a step
GATES = {"lstm": 1, "gru": 1, "qrnn": 1, "sru": 0, "sru_2017": 0}  # its block in bias_ih

# name: architecture, options, what it is
VARIANTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "rnn": ("rnn", {"recurrent_init": "orthogonal"}, "vanilla RNN, orthogonal start"),
    "lstm": ("lstm", {}, "LSTM"),
    "gru": ("gru", {}, "GRU"),
    "indrnn": ("indrnn", {"bound": 2 ** (1 / 31)}, "IndRNN, |u| up to 2^(1/31)"),
    "indrnn_last": ("indrnn", {"bound": 2 ** (1 / 31)}, "IndRNN, last layer starts near 1"),
    "qrnn_1": ("qrnn", {"window": 1}, "QRNN, fo-pooling, window 1"),
    "qrnn": ("qrnn", {}, "QRNN, fo-pooling, window 2"),
    "sru_2017": ("sru_2017", {}, "SRU of 2017, gates of the input alone"),
    "sru": ("sru", {}, "SRU as published, gates see the state"),
    "clockwork": ("clockwork", {}, "clockwork, periods 1, 2, 4, 8"),
    "clockwork_32": ("clockwork", {"periods": (1, 2, 4, 8, 16, 32)}, "clockwork, up to 32"),
}
LONG = (("qrnn", 1), ("indrnn_last", 2))  # variant, layers


def size(layer: nn.Module) -> int:
    return sum(w.numel() for w in layer.parameters())


def equal(
    name: str,
    options: Mapping[str, Any],
    inputs: int,
    layers: int,
    weights: int = WEIGHTS,
    keep: bool = True,
) -> companion.Recurrence:
    """The layer whose number of weights comes nearest to the budget; ``keep``: see KEEP."""
    unit = len(options.get("periods", (1, 2, 4, 8))) if name == "clockwork" else 1

    def layer(units: int, **new: Any) -> companion.Recurrence:
        return companion.Recurrence(name, inputs, units * unit, layers, **options, **new)

    low, high = 1, 4096  # size grows with the number of units
    while high - low > 1:
        middle = (low + high) // 2
        too_many = size(layer(middle, device="meta")) > weights
        low, high = (low, middle) if too_many else (middle, high)
    best = min((low, high), key=lambda n: abs(size(layer(n, device="meta")) - weights))
    return keeping(layer(best), GATES.get(name) if keep else None)


def keeping(layer: companion.Recurrence, block: int | None) -> companion.Recurrence:
    """The layer with its keeping gates biased, if it has any."""
    if block is not None:
        own = slice(block * layer.hidden_size, (block + 1) * layer.hidden_size)
        with torch.no_grad():
            for name, w in layer.named_parameters():
                if name.startswith("bias"):  # bias_hh adds to bias_ih
                    w[own] = KEEP if name.startswith("bias_ih") else 0.0
    return layer


def near_one(layer: companion.Recurrence, bound: float) -> companion.Recurrence:
    """The IndRNN whose last layer starts from U(1/bound, bound), as the authors' code can."""
    with torch.no_grad():
        getattr(layer, f"weight_hh_l{layer.num_layers - 1}").uniform_(1 / bound, bound)
    return layer


class Reader(nn.Module):
    """Inputs → recurrent layers → scores from the last output."""

    def __init__(self, layer: companion.Recurrence, answers: int) -> None:
        super().__init__()
        self.rnn, self.out = layer, nn.Linear(layer.output_size, answers)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.rnn(x)[0][:, -1])


def recall(name: str, layers: int, seed: int, steps: int = STEPS) -> float:
    architecture, options, _ = VARIANTS[name]
    seed_all(seed)
    layer = equal(architecture, options, SYMBOLS, layers)
    if name == "indrnn_last":
        layer = near_one(layer, options["bound"])
    model = Reader(layer, SYMBOLS)
    task, test = (
        first_token_recall(n, LAG, SYMBOLS, seed=s)
        for n, s in ((steps * BATCH, seed), (TESTED, 10_000))
    )

    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
        x, y = batch
        return F.cross_entropy(model(F.one_hot(x, SYMBOLS).float()), y), len(y)

    batches = list(zip(task.x.split(BATCH), task.y.split(BATCH), strict=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    Trainer(model, objective, optimizer, clip_norm=1.0, progress=False).fit(batches)
    with torch.no_grad():
        scores = model.eval()(F.one_hot(test.x, SYMBOLS).float())
    return (scores.argmax(-1) == test.y).float().mean().item()


def one_seed(seed: int) -> dict[str, float]:
    found = {
        f"{name}_{layers}": recall(name, layers, seed) for name in VARIANTS for layers in (1, 2)
    }
    return found | {f"{name}_{n}_long": recall(name, n, seed, MORE) for name, n in LONG}


def describe(name: str, layers: int) -> str:
    return f"accuracy, {VARIANTS[name][2]}, {layers} layer{'s' * (layers > 1)}"


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"First-token recall at lag {LAG}, {SYMBOLS} symbols: recurrent layers of about {WEIGHTS} "
        f"weights, {STEPS} Adam steps (long: {MORE}) at {RATE:g} on batches of {BATCH} fresh "
        f"sequences, gradient norm clipped at 1; gates that keep start at a bias of {KEEP:g}; "
        f"accuracy over {TESTED} new sequences, chance 1/{SYMBOLS}.",
        one_seed,
        SEEDS,
        {f"{name}_{n}": describe(name, n) for name in VARIANTS for n in (1, 2)}
        | {f"{name}_{n}_long": f"{describe(name, n)}, {MORE} steps" for name, n in LONG},
    )
    print(path.name)
