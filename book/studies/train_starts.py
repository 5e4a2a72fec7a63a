"""Study: how an LSTM may start, on a task that needs memory and on recorded vowels.

The starts differ in two things: whether a rule for the weights is applied to the four gates
together, as a loop over the parameters does, or to each gate; and where the biases begin.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import batches, first_token_recall, load, pad
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
LAG, SYMBOLS, STEPS, BATCH, HIDDEN, RATE, TESTED = 30, 4, 300, 64, 48, 3e-3, 1000
EPOCHS = 12  # of the vowels
STARTS = {
    "torch": "torch's start",
    "loop": "orthogonal and Xavier on the stack, biases 0",
    "gates": "orthogonal and Xavier gate by gate, biases 0",
    "torch_1": "torch's start, forget bias 1",
    "loop_1": "orthogonal and Xavier on the stack, other biases 0, forget bias 1",
    "gates_1": "orthogonal and Xavier gate by gate, other biases 0, forget bias 1",
    "loop_twice": "orthogonal and Xavier on the stack, forget bias 1 in both vectors",
    "torch_3": "torch's start, forget bias 3",
    "chrono": f"torch's start, chrono with T_max = {LAG}",
}


@torch.no_grad()
def layer(start: str, inputs: int) -> companion.LSTM:
    """An LSTM that starts as asked."""
    rule, _, bias = start.partition("_")
    if rule == "chrono":
        return companion.LSTM(inputs, HIDDEN, batch_first=True, chrono=LAG)
    if rule == "torch":
        forget = float(bias) if bias else None
        return companion.LSTM(inputs, HIDDEN, batch_first=True, forget_bias=forget)
    lstm = companion.LSTM(inputs, HIDDEN, batch_first=True)
    count = 1 if rule == "loop" else 4
    for block in lstm.weight_hh_l0.chunk(count):
        nn.init.orthogonal_(block)
    for block in lstm.weight_ih_l0.chunk(count):
        nn.init.xavier_uniform_(block)
    for vector in (lstm.bias_ih_l0, lstm.bias_hh_l0):
        nn.init.zeros_(vector)
        if bias == "twice" or (bias and vector is lstm.bias_ih_l0):
            vector[HIDDEN : 2 * HIDDEN] = 1.0
    return lstm


class Reader(nn.Module):
    """Inputs → LSTM → scores from the last valid state."""

    def __init__(self, lstm: companion.LSTM, answers: int) -> None:
        super().__init__()
        self.lstm, self.score = lstm, nn.Linear(HIDDEN, answers)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self.score(self.lstm(x, lengths=lengths)[1][0][-1])


def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
    *x, y = batch
    return F.cross_entropy(model(*x), y), len(y)


def trained(model: nn.Module, data: object, epochs: int = 1) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    trainer = Trainer(model, objective, optimizer, clip_norm=1.0, progress=False)
    trainer.fit(data, epochs=epochs)  # type: ignore[arg-type]
    return model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, x: tuple[Tensor, ...], y: Tensor) -> float:
    return (model(*x).argmax(-1) == y).float().mean().item()


def recall(start: str, seed: int) -> float:
    seed_all(seed)
    model = Reader(layer(start, SYMBOLS), SYMBOLS)
    task, test = (
        first_token_recall(n, LAG, SYMBOLS, seed=s)
        for n, s in ((STEPS * BATCH, seed), (TESTED, 10_000))
    )
    x = F.one_hot(task.x, SYMBOLS).float()
    trained(model, list(zip(x.split(BATCH), task.y.split(BATCH), strict=True)))
    return accuracy(model, (F.one_hot(test.x, SYMBOLS).float(),), test.y)


VOWELS = load("japanese-vowels")


def vowels(start: str, seed: int) -> float:
    seed_all(seed)
    train, test = VOWELS["train"], VOWELS["test"]
    model = Reader(layer(start, train.frames[0].shape[1]), len(train.classes))
    rows = batches(
        train.frames,
        train.labels,
        batch_size=30,
        shuffle=True,
        seed=seed,
        collate=lambda frames, labels: (*pad(frames), labels),
    )
    return accuracy(trained(model, rows, EPOCHS), pad(test.frames), test.labels)


def one_seed(seed: int) -> dict[str, float]:
    return {f"{s}_recall": recall(s, seed) for s in STARTS} | {
        f"{s}_vowels": vowels(s, seed) for s in STARTS
    }


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"LSTM, H = {HIDDEN}, Adam at {RATE:g}, gradient norm clipped at 1. Recall: the first of "
        f"{SYMBOLS} symbols at lag {LAG}, {STEPS} steps on batches of {BATCH} fresh sequences, "
        f"accuracy over {TESTED} new ones, chance 1/{SYMBOLS}. Vowels: 9 speakers, 270 recordings "
        f"to train on, {EPOCHS} epochs of batches of 30, accuracy on 370 others.",
        one_seed,
        SEEDS,
        {
            f"{s}_{task}": f"accuracy, {what}, {task}"
            for task in ("recall", "vowels")
            for s, what in STARTS.items()
        },
    )
    print(path.name)
