"""Study: what the bias of the forget gate does for first-token recall at a lag of 30.

The symbols in between come from the alphabet of the first one, or from one of their own. The
first is the harder task: nothing marks the symbol to be kept but its place.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import Task, first_token_recall
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(6)
LAG, STEPS, BATCH, TESTED = 30, 500, 64, 1000
SYMBOLS, HIDDEN, RATE = 4, 64, 1e-3
STARTS = {
    "zeros": "all biases 0",
    "default": "torch's start",
    "1": "forget bias 1",
    "3": "forget bias 3",
}
ALPHABETS = {"same": "fillers from the same alphabet", "own": "fillers from their own alphabet"}


class Reader(nn.Module):
    """Symbols → one-hot → LSTM → scores of the answer after the last step."""

    def __init__(self, symbols: int, start: str) -> None:
        super().__init__()
        self.symbols = symbols
        bias = float(start) if start.isdigit() else None
        self.lstm = companion.LSTM(symbols, HIDDEN, batch_first=True, forget_bias=bias)
        if start == "zeros":
            nn.init.zeros_(self.lstm.bias_ih_l0)
            nn.init.zeros_(self.lstm.bias_hh_l0)
        self.score = nn.Linear(HIDDEN, SYMBOLS)

    def forward(self, x: Tensor) -> Tensor:
        _, (h_n, _) = self.lstm(F.one_hot(x, self.symbols).to(self.score.weight.dtype))
        return self.score(h_n[-1])  # (B, answers)


def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return F.cross_entropy(model(x), y), len(y)


def recall(start: str, alphabet: str, seed: int) -> float:
    """Accuracy over new sequences after training, each training sequence seen once."""
    own = alphabet == "own"

    def task(n: int, seed: int) -> Task:
        drawn = first_token_recall(n, LAG, SYMBOLS, seed=seed)
        if own:
            drawn.x[:, 1:] += SYMBOLS
        return drawn

    seed_all(seed)
    model = Reader(2 * SYMBOLS if own else SYMBOLS, start)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    drawn = task(STEPS * BATCH, seed)
    batches = list(zip(drawn.x.split(BATCH), drawn.y.split(BATCH), strict=True))
    Trainer(model, objective, optimizer, clip_norm=1.0, progress=False).fit(batches)
    test = task(TESTED, 10_000)
    with torch.no_grad():
        return (model.eval()(test.x).argmax(-1) == test.y).float().mean().item()


def one_seed(seed: int) -> dict[str, float]:
    return {f"{s}_{a}": recall(s, a, seed) for s in STARTS for a in ALPHABETS}


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys: dict[str, str | tuple[str, str]] = {
        f"{s}_{a}": f"accuracy of the first of {LAG + 1} symbols, {start}, {alphabet}"
        for s, start in STARTS.items()
        for a, alphabet in ALPHABETS.items()
    }
    path = run_study(
        __file__,
        f"LSTM, H = {HIDDEN}, {STEPS} Adam steps at rate {RATE:g} on batches of {BATCH} fresh "
        f"sequences, gradient norm clipped at 1. First of {SYMBOLS} symbols at lag {LAG}, by "
        f"start of the biases and alphabet of the fillers. Accuracy over {TESTED} new sequences; "
        f"chance is 1/{SYMBOLS}.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
