"""Study: what the notes prescribe for a symptom, and what its cause asks for, on five seeds.

Every treatment of a patient has the same data, network, and number of steps.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import companion
from companion.data import first_token_recall, load, pad
from companion.look import run_study
from companion.models import TextClassifier, classification_objective
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
ROWS, FEW, WIDE, LAG = 1280, 256, 48, 30
CHANCE = math.log(15)


class Blind(TextClassifier):
    """Reads the padding behind a name, as a layer does that is not told the lengths."""

    def forward(self, tokens: Tensor, lengths: Any = None) -> Tensor:
        return super().forward(tokens)


class Recall(nn.Module):
    """Symbols → layer → which came first?"""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.score = layer, nn.Linear(48, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.score(self.layer(x)[0][:, -1])


def answer(model: nn.Module, batch: Any) -> Any:
    scores = model(batch[0])
    right = (scores.argmax(-1) == batch[1]).float().mean()
    return F.cross_entropy(scores, batch[1]), len(batch[1]), {"accuracy": right}


def names(seed: int, rows: int, wide: int = 0) -> tuple[list[Any], list[Any]]:
    """Batches of surnames to train on and to validate on."""
    surnames = load("surnames")
    at = {c: k for k, c in enumerate(sorted(set("".join(surnames.names))), 1)}
    train, valid, _ = surnames.split(seed)

    def batches(part: Any) -> list[Any]:
        found = []
        for k in range(0, len(part), 64):
            x, n = pad([[at[c] for c in name] for name in part.names[k : k + 64]])
            x = F.pad(x, (0, max(wide - x.shape[1], 0)))
            found.append((x, n, part.labels[k : k + 64]))
        return found

    return batches(train.subset(torch.arange(rows))), batches(valid)


def mixed(batches: list[Any], seed: int) -> list[Any]:
    """The same with each name's label given to another name of the batch."""
    g = cpu_generator(seed)
    return [(x, n, y[torch.randperm(len(y), generator=g)]) for x, n, y in batches]


def network(seed: int, kind: type[TextClassifier] = TextClassifier, **options: Any) -> Any:
    seed_all(seed)
    letters = len(set("".join(load("surnames").names))) + 1
    return kind(letters, 15, 24, 48, **options)


def fit(model: nn.Module, train: Any, valid: Any, epochs: int, rate: float) -> Any:
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    trainer = Trainer(model, classification_objective, adam, progress=False)
    return trainer.fit(train, valid, epochs)


def flat(seed: int) -> dict[str, float]:
    """Four validation losses that will not fall, with dropout, and with what the cause asks."""
    found = {}
    train, valid = names(seed, ROWS)
    few = train[: FEW // 64]
    cases = {  # (batches, epochs, rate), and the same healed
        "slow": ((train, 8, 1e-5), (train, 8, 3e-3)),
        "fast": ((train, 8, 0.5), (train, 8, 3e-3)),
        "mixed": ((mixed(train, seed), 8, 3e-3), (train, 8, 3e-3)),
        "over": ((few, 40, 1e-2), None),
    }
    for name, (ill, well) in cases.items():
        for cure, p in (("ill", 0.0), ("dropout", 0.5)):
            batches, epochs, rate = ill
            history = fit(network(seed, dropout=p), batches, valid, epochs, rate)
            found[f"{name}_{cure}"] = history.valid_loss[-1]
        if well is not None:
            batches, epochs, rate = well
            history = fit(network(seed), batches, valid, epochs, rate)
            found[f"{name}_healed"] = history.valid_loss[-1]
        else:
            history = fit(network(seed), few, valid, 40, 1e-2)
            found[f"{name}_healed"] = history.best()[1]
    return found


def one_class(seed: int) -> dict[str, float]:
    """Accuracy of a network that reads padding: as it is, started anew, another cell, healed."""
    train, valid = names(seed, ROWS, WIDE)
    options: dict[str, tuple[int, type[TextClassifier], dict[str, Any]]] = {
        "ill": (seed, Blind, {}),
        "anew": (seed + 100, Blind, {}),
        "gru": (seed, Blind, {"cell": "gru"}),
        "healed": (seed, TextClassifier, {}),
    }
    found = {}
    for name, (start, kind, more) in options.items():
        history = fit(network(start, kind, **more), train, valid, 8, 3e-3)
        found[f"padding_{name}"] = history.valid_metrics["accuracy"][-1]
    return found


def long(seed: int) -> dict[str, float]:
    """Accuracy at a lag of 30 after 300 steps."""

    def batches(n: int, seed: int) -> list[Any]:
        task = first_token_recall(n, LAG, 4, seed=seed)
        x = F.one_hot(task.x, 4).float()
        return list(zip(x.split(64), task.y.split(64), strict=True))

    layers = {
        "rnn": lambda: companion.RNN(4, 48, batch_first=True),
        "gru": lambda: companion.GRU(4, 48, batch_first=True),
        "lstm": lambda: companion.LSTM(4, 48, batch_first=True),
        "lstm_3": lambda: companion.LSTM(4, 48, batch_first=True, forget_bias=3.0),
        "rnn_orth": lambda: companion.RNN(4, 48, batch_first=True, recurrent_init="orthogonal"),
    }
    found = {}
    for name, layer in layers.items():
        seed_all(seed)
        model = Recall(layer())
        adam = torch.optim.Adam(model.parameters(), lr=3e-3)
        trainer = Trainer(model, answer, adam, clip_norm=1.0, progress=False)
        trainer.fit(batches(300 * 64, seed))
        found[f"lag_{name}"] = trainer.evaluate(batches(1000, seed + 100)).metrics["accuracy"]
    return found


KINDS = {
    "slow": "learning rate 1e-5",
    "fast": "learning rate 0.5",
    "mixed": "labels of other names",
    "over": f"{FEW} names, 40 epochs at 1e-2",
}
CURES = {"ill": "untreated", "dropout": "with dropout of 0.5", "healed": "healed"}
KEYS = {
    **{
        f"{kind}_{cure}": (f"{text}, {treated}", "nats")
        for kind, text in KINDS.items()
        for cure, treated in CURES.items()
    },
    "padding_ill": f"accuracy, padded to {WIDE} and the padding read",
    "padding_anew": "the same from another start",
    "padding_gru": "the same with a GRU",
    "padding_healed": "the same, lengths told",
    "lag_rnn": "vanilla, torch's start",
    "lag_gru": "GRU, torch's start",
    "lag_lstm": "LSTM, torch's start",
    "lag_lstm_3": "LSTM, forget bias 3",
    "lag_rnn_orth": "vanilla, orthogonal",
}


def one_seed(seed: int) -> dict[str, float]:
    return {**flat(seed), **one_class(seed), **long(seed)}


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    run_study(
        __file__,
        f"Validation loss and accuracy of an LSTM of 48 units on {ROWS} surnames of 15 languages "
        f"({FEW} for overfitting), 8 epochs of Adam, at the last epoch (overfitting healed: at "
        f"the best); and accuracy of recall at lag {LAG} after 300 steps of Adam at 3e-3.",
        one_seed,
        SEEDS,
        KEYS,
    )
