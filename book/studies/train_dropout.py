"""Study: where noise helps a language model that has too little text, at equal budget.

The text is small on purpose: two addresses, read until a plain network has learned them by
heart. The variants differ in where the noise enters and share everything else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import Streams, basic_english, build_vocab_from_iterator, load, stream_batches
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
HIDDEN, WORDS, ROWS, STEPS, EPOCHS, RATE = 64, 600, 16, 20, 10, 1e-2
TRAIN, VALID = (2014, 2015), (2011, 2016)


class Noisy(companion.LSTMCell):
    """The LSTM with fresh masks at every step; a subclass, because no layer of ours offers it."""

    p = 0.3


class FreshHidden(Noisy):
    """A fresh mask where the recurrent weights read h."""

    def recur(self, h: Tensor) -> Tensor:
        return super().recur(F.dropout(h, self.p, self.training))


class FreshCell(Noisy):
    """A fresh mask on the memory itself."""

    def update(self, u_t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        h, c = state
        return super().update(u_t, (h, F.dropout(c, self.p, self.training)))


class FreshUpdate(Noisy):
    """A fresh mask on what is written (Semeniuta et al. 2016)."""

    def update(self, u_t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Any]:
        h, c = state
        a_i, a_f, a_g, a_o = (u_t + self.recur(h)).chunk(4, -1)
        g = F.dropout(torch.tanh(a_g), self.p, self.training)
        c = torch.sigmoid(a_f) * c + torch.sigmoid(a_i) * g
        h = self.output(a_o, c)
        return h, (h, c)


def layer(cell: Any = "lstm", layers: int = 1, **noise: float) -> companion.Recurrence:
    return companion.Recurrence(cell, HIDDEN, HIDDEN, layers, forget_bias=1.0, **noise)


# name: the layer, dropout of the output, what it is
VARIANTS: dict[str, tuple[Callable[[], companion.Recurrence], float, str]] = {
    "none": (layer, 0.0, "no noise"),
    "output": (layer, 0.5, "0.5 before the output layer"),
    "fresh_cell": (lambda: layer(FreshCell), 0.0, "fresh masks of 0.3 on c"),
    "fresh_hidden": (lambda: layer(FreshHidden), 0.0, "fresh masks of 0.3 where W_hh reads h"),
    "fresh_update": (lambda: layer(FreshUpdate), 0.0, "fresh masks of 0.3 on what is written"),
    "locked": (lambda: layer(recurrent_dropout=0.3), 0.0, "locked masks of 0.3 on h"),
    "zoneout": (lambda: layer(zoneout=0.3), 0.0, "zoneout of 0.3"),
    "weight_drop": (lambda: companion.weight_drop(layer(), 0.5), 0.0, "half of W_hh dropped"),
    "together": (
        lambda: companion.weight_drop(layer(), 0.5),
        0.5,
        "half of W_hh dropped and 0.5 before the output layer",
    ),
    "two": (lambda: layer(layers=2), 0.0, "two layers, no noise"),
    "between": (lambda: layer(layers=2, dropout=0.5), 0.0, "two layers, 0.5 between them"),
}


class Writer(nn.Module):
    """Words → embedding → LSTM → scores of the next word."""

    def __init__(self, layer: companion.Recurrence, dropout: float = 0.0) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        nn.init.uniform_(self.words.weight, -0.1, 0.1)
        self.rnn, self.drop = layer, nn.Dropout(dropout)
        self.score = nn.Linear(HIDDEN, WORDS)

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        y, state = self.rnn(self.words(x), state)
        return self.score(self.drop(y)), state


def objective(model: nn.Module, batch: Any, state: Any) -> tuple[Tensor, int, Any]:
    scores, state = model(batch.x, state)
    return F.cross_entropy(scores.flatten(0, 1), batch.y.flatten()), batch.y.numel(), state


@functools.cache
def streams() -> tuple[Streams, Streams]:
    """The text to train on and the text to be tested on."""
    spoken = {a.year: basic_english(a.text) for a in load("state-of-the-union")}
    vocab = build_vocab_from_iterator(
        (spoken[year] for year in TRAIN), specials=["<unk>"], max_tokens=WORDS
    )
    vocab.set_default_index(0)

    def read(years: tuple[int, ...]) -> Streams:
        return stream_batches(vocab(sum((spoken[year] for year in years), [])), ROWS, STEPS)

    return read(TRAIN), read(VALID)


def one_run(variant: str, seed: int) -> dict[str, float]:
    make, dropout, _ = VARIANTS[variant]
    seed_all(seed)
    model = Writer(make(), dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    trainer = Trainer(model, objective, optimizer, clip_norm=1.0, stateful=True, progress=False)
    train, valid = streams()
    history = trainer.fit(train, valid, EPOCHS)
    return {
        variant: history.best()[1],
        f"{variant}_last": history.valid_loss[-1],
        f"{variant}_train": trainer.evaluate(train).loss,
    }


def one_seed(seed: int) -> dict[str, float]:
    return {k: v for variant in VARIANTS for k, v in one_run(variant, seed).items()}


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    read = [s.tokens for s in streams()]
    path = run_study(
        __file__,
        f"LSTM, forget bias 1, H = {HIDDEN}, {WORDS} words, {EPOCHS} epochs of Adam at "
        f"{RATE:g} over {read[0]} tokens of two State of the Union addresses in {ROWS} streams, "
        f"pieces of {STEPS} steps, state carried, gradient norm clipped at 1; loss in nats a "
        f"token on {read[1]} tokens of two others, at the best epoch and at the last.",
        one_seed,
        SEEDS,
        {
            name + end: (f"{when}, {what}", "nats")
            for name, (_, _, what) in VARIANTS.items()
            for end, when in {
                "": "valid loss, best epoch",
                "_last": "valid loss, last epoch",
                "_train": "loss on the training text without noise, last epoch",
            }.items()
        },
    )
    print(path.name)
