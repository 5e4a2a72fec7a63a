"""Study: which state of a bidirectional layer to read, on surnames; what padding does to it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import Surnames, batches, build_vocab_from_iterator, load, pad
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(6)
HIDDEN, EMBEDDING, EPOCHS, BATCH, RATE = 64, 32, 5, 64, 3e-3
ALONE = 96  # units of a forward layer with as many weights as both directions have
MORE = 20  # steps of padding added
MEANINGS = {
    "ends": "both ends: each direction at the step where it has read the whole name",
    "last": "outputs at the last letter, forward and backward",
    "forward": "outputs at the last letter, forward half alone",
    "padded_ends": "both ends, padding read as letters",
    "padded_last": "outputs at the last step of the batch, padding read as letters",
    "two_ends": "two layers, both ends of the upper one",
    "two_last": "two layers, outputs of the upper one at the last letter",
    "alone": f"a forward layer of {ALONE} units with as many weights, at the last letter",
}

surnames = load("surnames")
parts = surnames.split(seed=0)  # one split: the seeds vary weights and the order of batches
vocab = build_vocab_from_iterator((list(n.lower()) for n in parts.train.names), specials=["<pad>"])
vocab.set_default_index(0)


class Reader(nn.Module):
    """Letters → one vector of a bidirectional layer → language.

    ``reading`` says which vector: ``"ends"``, where each direction has read the whole name;
    ``"last"``, the outputs at the last letter, of which the backward half has read that letter
    alone; ``"forward"``, of those the forward half; ``"padded ends"`` and ``"padded last"``, the
    same without lengths, so that padding is read like letters; ``"two ends"`` and ``"two last"``,
    the same of the upper of two layers. ``"alone"`` is another network, a forward layer with as
    many weights as both directions have.
    """

    def __init__(self, reading: str) -> None:
        super().__init__()
        self.reading = reading
        self.letters = nn.Embedding(len(vocab), EMBEDDING)
        alone = reading == "alone"
        self.lstm = companion.LSTM(
            EMBEDDING,
            ALONE if alone else HIDDEN,
            num_layers=2 if reading.startswith("two") else 1,
            batch_first=True,
            bidirectional=not alone,
        )
        width = HIDDEN if reading == "forward" else self.lstm.output_size
        self.language = nn.Linear(width, len(surnames.languages))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        padded = self.reading.startswith("padded")
        out, (h_n, _) = self.lstm(self.letters(x), lengths=None if padded else lengths)
        if self.reading.endswith("ends"):
            return self.language(torch.cat([h_n[-2], h_n[-1]], 1))
        if padded:
            return self.language(out[:, -1])
        at_last = out[torch.arange(len(x)), lengths - 1]
        return self.language(at_last[:, : self.language.in_features])


def objective(model: nn.Module, batch: tuple) -> tuple:
    x, lengths, labels = batch
    return F.cross_entropy(model(x, lengths), labels), len(labels)


def data(part: Surnames, size: int, shuffle: bool, seed: int = 0):
    indices = [vocab(list(name.lower())) for name in part.names]
    collate = lambda rows, labels: (*pad(rows), labels)  # noqa: E731
    return batches(
        indices, part.labels, batch_size=size, shuffle=shuffle, seed=seed, collate=collate
    )


def train(reading: str, seed: int) -> Reader:
    seed_all(seed)
    model = Reader(reading)
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    trainer = Trainer(model, objective, adam, clip_norm=1.0, progress=False)
    trainer.fit(data(parts.train, BATCH, True, seed), epochs=EPOCHS)
    return model.eval()


@torch.no_grad()
def answers(model: Reader, more: int = 0) -> Tensor:
    """Languages of the test names, in one batch, with some more steps of padding."""
    ((x, lengths, _),) = data(parts.test, len(parts.test), False)
    return model(F.pad(x, (0, more)), lengths).argmax(-1)


def one_seed(seed: int) -> dict[str, float]:
    def accuracy(guess: Tensor) -> float:
        return (guess == parts.test.labels).float().mean().item()

    values = {}
    for key in MEANINGS:
        reading = key.replace("_", " ")
        model = train(reading, seed)
        guess, wider = answers(model), answers(model, MORE)
        values[key] = accuracy(guess)
        values[f"{key}_moved"] = (guess != wider).float().mean().item()
        if reading == "ends":
            model.reading = "last"
            values["swapped"] = accuracy(answers(model))
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys = {key: f"test accuracy, {what}" for key, what in MEANINGS.items()}
    keys |= {
        f"{key}_moved": f"share of answers that {MORE} more steps of padding change, {what}"
        for key, what in MEANINGS.items()
    }
    keys["swapped"] = "test accuracy, trained on both ends, then read at the last letter"
    path = run_study(
        __file__,
        f"Bidirectional LSTM, H = {HIDDEN} a direction, embedding {EMBEDDING}, {EPOCHS} epochs of "
        f"Adam at {RATE:g} with batches of {BATCH} on {len(parts.train)} surnames of 15 "
        f"languages; accuracy on {len(parts.test)} others, all in one batch. One split; the seeds "
        f"vary weights and order. Every reading has its own training, the same for all; training "
        f"pads to the longest name of a batch of {BATCH}, the test to the longest of all.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
