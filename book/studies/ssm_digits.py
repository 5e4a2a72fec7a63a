"""Study: digits read pixel by pixel, and read again at another sampling rate."""

from __future__ import annotations

import math
import sys

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import batches, load
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
EPOCHS, MORE, BATCH = 12, 36, 64
STARTS = ("lin", "legs")
RATES = {"s4d": 3e-2, "gru": 3e-2}  # the better of 1e-2 and 3e-2 by validation, seed 100
WIDTH = {"s4d": 32, "gru": 21}  # about 4,500 weights each


class Block(nn.Module):
    """y = x + W gelu(S4D(x)): features meet, and anything is nonlinear, between the layers."""

    def __init__(self, width: int, start: str) -> None:
        super().__init__()
        self.s4d = companion.S4D(width, width, order=16, frequencies=start)
        self.mix = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.mix(F.gelu(self.s4d(x)[0]))


class Reader(nn.Module):
    """(B, T, 1) -> scores of ten digits, from the mean over time."""

    def __init__(self, kind: str, start: str = "lin") -> None:
        super().__init__()
        width = WIDTH[kind]
        if kind == "s4d":
            blocks = [Block(width, start) for _ in range(2)]
            self.body: nn.Module = nn.Sequential(nn.Linear(1, width), *blocks)
        else:
            self.body = companion.GRU(1, width, 2, batch_first=True)
        self.kind, self.out = kind, nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        return self.out((y if self.kind == "s4d" else y[0]).mean(1))


def sequences(images: Tensor) -> Tensor:
    """(N, 8, 8) -> (N, 64, 1), row by row, of mean near 0 and deviation near 1."""
    return (images.flatten(1).unsqueeze(-1) - 0.3) / 0.38


def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return F.cross_entropy(model(x), y), len(y)


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, labels: Tensor) -> float:
    return (model.eval()(x).argmax(-1) == labels).float().mean().item()


@torch.no_grad()
def slower(model: nn.Module, factor: float) -> None:
    """Multiply every step Δ."""
    for name, w in model.named_parameters():
        if "log_dt" in name:
            w += math.log(factor)


def fitted(
    kind: str,
    seed: int,
    train: tuple[Tensor, Tensor],
    start: str = "lin",
    epochs: int = EPOCHS,
    rate: float | None = None,
) -> Reader:
    seed_all(seed)
    model = Reader(kind, start)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate or RATES[kind])
    rows = batches(*train, batch_size=BATCH, shuffle=True, seed=seed)
    Trainer(model, objective, optimizer, clip_norm=1.0, progress=False).fit(rows, epochs=epochs)
    return model


def one_seed(seed: int) -> dict[str, float]:
    train, _, test = load("digits").split(seed=seed, valid=0.1, test=0.2)
    pixels = [sequences(part.images) for part in (train, test)]
    x = pixels[1]
    twice = x.repeat_interleave(2, 1)  # each pixel is held for two steps
    half = x.unflatten(1, (32, 2)).mean(2)  # pairs of pixels
    found = {}
    line = LogisticRegression(max_iter=3000).fit(pixels[0][..., 0], train.labels)
    found["linear"] = float(line.score(x[..., 0], test.labels))
    for start in STARTS:
        model = fitted("s4d", seed, (pixels[0], train.labels), start)
        found[f"s4d_{start}"] = accuracy(model, x, test.labels)
        if start == "lin":
            found["s4d_twice_kept"] = accuracy(model, twice, test.labels)
            found["s4d_half_kept"] = accuracy(model, half, test.labels)
            slower(model, 0.5)
            found["s4d_twice"] = accuracy(model, twice, test.labels)
            slower(model, 4)
            found["s4d_half"] = accuracy(model, half, test.labels)
    model = fitted("gru", seed, (pixels[0], train.labels))
    found["gru"] = accuracy(model, x, test.labels)
    found["gru_twice"] = accuracy(model, twice, test.labels)
    found["gru_half"] = accuracy(model, half, test.labels)
    model = fitted("gru", seed, (pixels[0], train.labels), epochs=MORE)
    found["gru_long"] = accuracy(model, x, test.labels)
    return found


KEYS = {
    "linear": "accuracy, logistic regression of the 64 pixels",
    "s4d_lin": "accuracy, S4D-Lin",
    "s4d_legs": "accuracy, S4D-LegS",
    "s4d_twice_kept": "accuracy, S4D-Lin, each pixel twice, Δ kept",
    "s4d_half_kept": "accuracy, S4D-Lin, means of pairs, Δ kept",
    "s4d_twice": "accuracy, S4D-Lin, each pixel twice, Δ halved",
    "s4d_half": "accuracy, S4D-Lin, means of pairs, Δ doubled",
    "gru": "accuracy, GRU",
    "gru_long": "accuracy, GRU, three times as many passes",
    "gru_twice": "accuracy, GRU, each pixel twice",
    "gru_half": "accuracy, GRU, means of pairs",
}

if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    if sys.argv[1:] == ["rates"]:
        train, valid, _ = load("digits").split(seed=100, valid=0.1, test=0.2)
        a, b = [sequences(part.images) for part in (train, valid)]
        for kind in RATES:
            for rate in (1e-2, 3e-2):
                model = fitted(kind, 100, (a, train.labels), rate=rate)
                size = sum(w.numel() for w in model.parameters())
                print(kind, size, rate, accuracy(model, b, valid.labels), flush=True)
    else:
        path = run_study(
            __file__,
            f"Handwritten digits, 8 × 8, read one pixel at a time: two layers, mean over time, "
            f"about 4,500 weights, {EPOCHS} passes (long: {MORE}) in batches of {BATCH}, Adam at "
            "the better of two rates by validation (a seed that is not reported), gradient norm "
            "clipped at 1; accuracy in a fifth of the digits. "
            "Then the same weights at twice and half the sampling rate.",
            one_seed,
            SEEDS,
            KEYS,
        )
        print(path.name)
