"""Study: what a vanilla RNN can be trained to remember, by initialization, lag and hidden units.

First-token recall asks for one symbol after a lag; copying asks for several symbols at once. The
first is limited by the way of the gradient, the second by the size of the state.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import Task, copying, first_token_recall
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(6)
STEPS, BATCH, TESTED = 500, 64, 1000
SYMBOLS, HIDDEN, RATE = 4, 64, 1e-3  # recall
LAGS = (10, 30, 100)
INITS = {
    "default": "torch's uniform start",
    "gaussian": "Gaussian start of spectral radius 1",
    "orthogonal": "orthogonal start",
    "identity": "ReLU, identity start",
}
COPY_SYMBOLS, COPY_RATE = 8, 3e-3
COPY_LENGTHS, COPY_HIDDEN = (4, 8, 16), (4, 8, 16, 32)


class Reader(nn.Module):
    """Symbols → one-hot → state → scores of the answer at every step."""

    def __init__(self, symbols: int, answers: int, hidden: int, init: str) -> None:
        super().__init__()
        starts = {"default": None, "gaussian": companion.spectral_radius(1.0)}
        self.symbols = symbols
        self.rnn = companion.RNN(
            symbols,
            hidden,
            batch_first=True,
            nonlinearity="relu" if init == "identity" else "tanh",
            recurrent_init=starts.get(init, init),
        )
        if init == "identity":  # Le, Jaitly and Hinton (2015)
            nn.init.zeros_(self.rnn.bias_ih_l0)
            nn.init.zeros_(self.rnn.bias_hh_l0)
            nn.init.normal_(self.rnn.weight_ih_l0, std=1e-3)
        self.score = nn.Linear(hidden, answers)

    def forward(self, x: Tensor) -> Tensor:
        h, _ = self.rnn(F.one_hot(x, self.symbols).to(self.score.weight.dtype))
        return self.score(h)  # (B, T, answers)


def trained(model: Reader, task: Task, answers: int, rate: float) -> Reader:
    """Train on the last ``answers`` steps, each example seen once."""

    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
        x, y = batch
        return F.cross_entropy(model(x)[:, -answers:].flatten(0, 1), y.flatten()), y.numel()

    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    batches = list(zip(task.x.split(BATCH), task.y.split(BATCH), strict=True))
    Trainer(model, objective, optimizer, clip_norm=1.0, progress=False).fit(batches)
    return model.eval()


@torch.no_grad()
def accuracy(model: Reader, task: Task, answers: int) -> float:
    y = task.y.view(len(task.y), -1)
    return (model(task.x)[:, -answers:].argmax(-1) == y).float().mean().item()


def recall(init: str, lag: int, seed: int, marked: bool = False) -> float:
    """Return the accuracy; ``marked``: the symbols in between have an alphabet of their own."""

    def task(n: int, seed: int) -> Task:
        drawn = first_token_recall(n, lag, SYMBOLS, seed=seed)
        if marked:
            drawn.x[:, 1:] += SYMBOLS
        return drawn

    seed_all(seed)
    model = Reader(2 * SYMBOLS if marked else SYMBOLS, SYMBOLS, HIDDEN, init)
    trained(model, task(STEPS * BATCH, seed), 1, RATE)
    return accuracy(model, task(TESTED, 10_000), 1)


def copied(hidden: int, length: int, seed: int, steps: int = STEPS) -> float:
    def task(n: int, seed: int) -> Task:
        drawn = copying(n, COPY_SYMBOLS, length, delay=1, seed=seed)
        return drawn._replace(y=drawn.y[:, -length:] - 1)

    seed_all(seed)
    model = Reader(COPY_SYMBOLS + 2, COPY_SYMBOLS, hidden, "orthogonal")
    trained(model, task(steps * BATCH, seed), length, COPY_RATE)
    return accuracy(model, task(TESTED, 10_000), length)


def one_seed(seed: int) -> dict[str, float]:
    values = {f"{init}_{lag}": recall(init, lag, seed) for init in INITS for lag in LAGS}
    values["identity_100_marked"] = recall("identity", 100, seed, marked=True)
    for length in COPY_LENGTHS:
        for hidden in COPY_HIDDEN:
            values[f"copy_{length}_{hidden}"] = copied(hidden, length, seed)
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys: dict[str, str | tuple[str, str]] = {
        f"{init}_{lag}": f"accuracy of the first of {lag + 1} symbols, {what}"
        for init, what in INITS.items()
        for lag in LAGS
    }
    keys["identity_100_marked"] = (
        "accuracy of the first of 101 symbols, ReLU, identity start, "
        "the others from an alphabet of their own"
    )
    keys |= {
        f"copy_{length}_{hidden}": f"accuracy of {length} symbols copied with {hidden} units"
        for length in COPY_LENGTHS
        for hidden in COPY_HIDDEN
    }
    path = run_study(
        __file__,
        f"Vanilla RNN, {STEPS} Adam steps on batches of {BATCH} fresh sequences, gradient norm "
        f"clipped at 1. Recall: first of {SYMBOLS} symbols at a lag, H = {HIDDEN}, rate {RATE:g}, "
        f"by initialization. Copying: {COPY_SYMBOLS} symbols, tanh, orthogonal start, rate "
        f"{COPY_RATE:g}, by length and H. Accuracy over {TESTED} new sequences; chance is "
        f"1/{SYMBOLS} and 1/{COPY_SYMBOLS}.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
