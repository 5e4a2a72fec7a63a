"""Study: surnames to languages by cells of equal size, one layer each, at their default start.

Equal are the weights of the recurrent layers. The readout comes on top: 735 weights for the 48
units of a GRU, 5,310 for the 353 of an IndRNN.
"""

from __future__ import annotations

from typing import Any

import torch
from other_recall import equal
from torch import Tensor, nn
from torch.nn import functional as F

from companion.data import Surnames, batches, build_vocab_from_iterator, load, pad
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
WEIGHTS, EMBEDDING, EPOCHS, BATCH, RATE = 12_000, 32, 4, 64, 3e-3
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "rnn": ("rnn", {}),
    "lstm": ("lstm", {}),
    "gru": ("gru", {}),
    "indrnn": ("indrnn", {}),
    "qrnn_1": ("qrnn", {"window": 1}),
    "qrnn": ("qrnn", {}),
    "sru_2017": ("sru_2017", {}),
    "sru": ("sru", {}),
    "clockwork": ("clockwork", {}),
}

surnames = load("surnames")
parts = surnames.split(seed=0)  # one split: the seeds vary weights and the order of batches
vocab = build_vocab_from_iterator((list(n.lower()) for n in parts.train.names), specials=["<unk>"])
vocab.set_default_index(0)


class Reader(nn.Module):
    """Letters → output after the last letter → language."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(vocab), EMBEDDING)
        self.rnn = equal(*VARIANTS[name], EMBEDDING, 1, WEIGHTS, keep=False)
        self.language = nn.Linear(self.rnn.output_size, len(surnames.languages))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        y, _ = self.rnn(self.letters(x), lengths=lengths)
        return self.language(y[torch.arange(len(y)), lengths - 1])


def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
    x, lengths, labels = batch
    return F.cross_entropy(model(x, lengths), labels), len(labels)


def data(part: Surnames, size: int, shuffle: bool, seed: int = 0) -> Any:
    indices = [vocab(list(name.lower())) for name in part.names]
    collate = lambda rows, labels: (*pad(rows), labels)  # noqa: E731
    return batches(
        indices, part.labels, batch_size=size, shuffle=shuffle, seed=seed, collate=collate
    )


def accuracy(name: str, seed: int) -> float:
    seed_all(seed)
    model = Reader(name)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    trainer = Trainer(model, objective, optimizer, clip_norm=1.0, progress=False)
    trainer.fit(data(parts.train, BATCH, True, seed), epochs=EPOCHS)
    ((x, lengths, labels),) = data(parts.test, len(parts.test), False)
    with torch.no_grad():
        return (model.eval()(x, lengths).argmax(-1) == labels).float().mean().item()


def one_seed(seed: int) -> dict[str, float]:
    found = {name: accuracy(name, seed) for name in VARIANTS}
    return found | {f"{name}_units": Reader(name).rnn.hidden_size for name in VARIANTS}


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Surnames to {len(surnames.languages)} languages: an embedding of {EMBEDDING}, one "
        f"recurrent layer of about {WEIGHTS} weights, {EPOCHS} epochs of Adam at {RATE:g} on "
        f"{len(parts.train)} names in batches of {BATCH}, gradient norm clipped at 1; accuracy "
        f"on {len(parts.test)} others. One split; the seeds vary weights and order.",
        one_seed,
        SEEDS,
        {name: f"test accuracy, {name}" for name in VARIANTS}
        | {f"{name}_units": f"hidden units, {name}" for name in VARIANTS},
    )
    print(path.name)
