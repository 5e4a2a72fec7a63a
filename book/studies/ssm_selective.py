"""Study: symbols to be copied, at places that are always the same, or that are not."""

from __future__ import annotations

import torch
from ssm_digits import Block
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import selective_copying
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
T, SYMBOLS, LENGTH = 24, 4, 3
STEPS, BATCH, TESTED = 500, 64, 1000
RATES = {"s4d": 1e-2, "gru": 1e-2}
WIDTH = {"s4d": 32, "gru": 24}


class Copier(nn.Module):
    """(B, T) symbols -> (B, T, symbols) scores."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        width, self.kind = WIDTH[kind], kind
        self.embed = nn.Embedding(SYMBOLS + 2, width)
        if kind == "s4d":
            self.body: nn.Module = nn.Sequential(*[Block(width, "lin") for _ in range(2)])
        else:
            self.body = companion.GRU(width, width, 2, batch_first=True)
        self.out = nn.Linear(width, SYMBOLS + 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.embed(x))
        return self.out(y if self.kind == "s4d" else y[0])


def examples(n: int, where: str, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs (n, T + LENGTH) and answers (n, LENGTH)."""
    task = selective_copying(n, T, SYMBOLS, LENGTH, seed)
    x, answers = task.x, task.y[:, T:]
    if where == "fixed":
        x = x.clone()
        x[:, :T] = 0
        x[:, : T : T // LENGTH] = answers
    return x, answers


def accuracy(kind: str, where: str, seed: int) -> float:
    seed_all(seed)
    model = Copier(kind)
    x, answers = examples(STEPS * BATCH, where, seed)

    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
        x, y = batch
        return F.cross_entropy(model(x)[:, T:].flatten(0, 1), y.flatten()), len(y)

    optimizer = torch.optim.Adam(model.parameters(), lr=RATES[kind])
    rows = list(zip(x.split(BATCH), answers.split(BATCH), strict=True))
    Trainer(model, objective, optimizer, clip_norm=1.0, progress=False).fit(rows)
    x, answers = examples(TESTED, where, 10_000 + seed)
    with torch.no_grad():
        return (model.eval()(x)[:, T:].argmax(-1) == answers).float().mean().item()


def one_seed(seed: int) -> dict[str, float]:
    return {f"{k}_{w}": accuracy(k, w, seed) for k in WIDTH for w in ("fixed", "anywhere")}


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Copy {LENGTH} of {SYMBOLS} symbols spread over {T} steps, at fixed or random places: "
        f"two layers, {STEPS} Adam steps at 0.01 on batches of {BATCH} fresh sequences, gradient "
        f"norm clipped at 1; share of the symbols right in {TESTED} new sequences, 1/{SYMBOLS} by "
        "chance.",
        one_seed,
        SEEDS,
        {
            "s4d_fixed": "symbols right, S4D, fixed places",
            "s4d_anywhere": "symbols right, S4D, random places",
            "gru_fixed": "symbols right, GRU, fixed places",
            "gru_anywhere": "symbols right, GRU, random places",
        },
    )
    print(path.name)
