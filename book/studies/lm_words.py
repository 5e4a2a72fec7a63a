"""Study: a language model of words, its noise and its ties one at a time, beside n-grams.

Seven State of the Union addresses to read, two others to be measured on. Every network has the
same layers, the same steps and the same rate; it is measured after the last epoch, none is chosen.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import torch

from companion.data import Streams, Vocab, basic_english, build_vocab_from_iterator, load
from companion.data import stream_batches as streamed
from companion.look import run_study
from companion.models import LanguageModel, language_model_objective
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
WORDS, HIDDEN, LAYERS, ROWS, STEPS, EPOCHS, RATE = 2000, 96, 2, 8, 35, 12, 5e-3
TRAIN, HELD = (2009, 2010, 2012, 2013, 2014, 2015, 2016), (2003, 2011)

# name: options of the model, of the objective, what it is
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, float], str]] = {
    "untied": ({"tied": False}, {}, "two tables, no noise"),
    "tied": ({}, {}, "one table, no noise"),
    "locked": ({"dropout": (0.2, 0.2, 0.4)}, {}, "one table, locked dropout"),
    "weight_drop": ({"weight_drop": 0.3}, {}, "one table, 0.3 of W_hh dropped"),
    "word_dropout": ({"word_dropout": 0.1}, {}, "one table, 0.1 of the words dropped"),
    "penalty": ({}, {"ar": 2.0, "tar": 1.0}, "one table, AR 2 and TAR 1"),
    "all": (
        {"dropout": (0.2, 0.2, 0.4), "weight_drop": 0.3, "word_dropout": 0.1},
        {"ar": 2.0, "tar": 1.0},
        "one table, all noise and penalties",
    ),
}


class KneserNey:
    """N-grams, interpolated, with one discount an order (Kneser and Ney 1995)."""

    def __init__(self, tokens: Sequence[Hashable], order: int, vocab_size: int) -> None:
        grams = Counter(zip(*(tokens[i:] for i in range(order)), strict=False))
        self.vocab_size, self.levels = vocab_size, []
        for _ in range(order):
            sizes, total, kinds = Counter(grams.values()), Counter(), Counter()
            for gram, count in grams.items():
                total[gram[:-1]] += count
                kinds[gram[:-1]] += 1
            discount = sizes[1] / max(sizes[1] + 2 * sizes[2], 1)
            self.levels.insert(0, (grams, total, kinds, discount))
            grams = Counter(gram[1:] for gram in grams)  # in how many contexts, not how often

    def probability(self, token: Hashable, history: Sequence[Hashable]) -> float:
        p = 1 / self.vocab_size
        for n, (grams, total, kinds, discount) in enumerate(self.levels):
            h = tuple(history[len(history) - n :])
            if total[h]:
                p = (max(grams[*h, token] - discount, 0) + discount * kinds[h] * p) / total[h]
        return p

    def of_text(self, tokens: Sequence[Hashable]) -> list[float]:
        """The probability of each token but the first."""
        n = len(self.levels) - 1
        steps = range(1, len(tokens))
        return [self.probability(tokens[i], tokens[max(0, i - n) : i]) for i in steps]


@functools.cache
def texts() -> tuple[list[int], list[int], Vocab]:
    """The words to read, the words held out, and the vocabulary."""
    spoken = {a.year: basic_english(a.text) for a in load("state-of-the-union")}
    vocab = build_vocab_from_iterator(
        (spoken[year] for year in TRAIN), specials=["<unk>"], max_tokens=WORDS
    )
    vocab.set_default_index(0)
    read, held = (vocab(sum((spoken[y] for y in years), [])) for years in (TRAIN, HELD))
    return read, held, vocab


def streams() -> tuple[Streams, Streams]:
    read, held, _ = texts()
    return streamed(read, ROWS, STEPS), streamed(held, 1, 500)


@functools.cache
def counted(order: int) -> list[float]:
    read, held, _ = texts()
    return KneserNey(read, order, WORDS).of_text(held)


def perplexity(p: Sequence[float]) -> float:
    return math.exp(-sum(map(math.log, p)) / len(p))


def trained(variant: str, seed: int) -> Trainer:
    options, penalties, _ = VARIANTS[variant]
    seed_all(seed)
    model = LanguageModel(WORDS, HIDDEN, HIDDEN, "lstm", LAYERS, **options)
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    train, _ = streams()
    trainer = Trainer(
        model,
        functools.partial(language_model_objective, **penalties),
        adam,
        step_scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(adam, EPOCHS * len(train)),
        clip_norm=1.0,
        stateful=True,
        progress=False,
    )
    trainer.fit(train, epochs=EPOCHS)
    return trainer


@torch.no_grad()
def of_network(model: LanguageModel) -> list[float]:
    """The probability of each held-out token but the first."""
    tokens = torch.tensor(texts()[1])
    model.eval()
    scores, _ = model(tokens[None, :-1])
    return scores[0].softmax(-1)[torch.arange(len(tokens) - 1), tokens[1:]].tolist()


def one_seed(seed: int) -> dict[str, float]:
    train, _ = streams()
    values = {}
    for variant in VARIANTS:
        trainer = trained(variant, seed)
        p = of_network(trainer.model)
        values[variant] = perplexity(p)
        values[f"{variant}_train"] = math.exp(trainer.evaluate(train).loss)
        if variant in ("tied", "all"):
            values[f"{variant}_mixed"] = perplexity(
                [(a + b) / 2 for a, b in zip(p, counted(5), strict=True)]
            )
        print(f"{variant}: {values[variant]:.1f}", flush=True)
    values["ngram_3"], values["ngram_5"] = (perplexity(counted(n)) for n in (3, 5))
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    read, held, _ = texts()
    path = run_study(
        __file__,
        f"Perplexity a token. {LAYERS} LSTM layers, E = H = {HIDDEN}, {WORDS} words, {EPOCHS} "
        f"epochs of Adam from {RATE:g} to 0 along a cosine over {len(read)} tokens of seven State "
        f"of the Union addresses in {ROWS} streams, pieces of {STEPS} steps, state carried, "
        f"gradient norm clipped at 1; measured on {len(held)} tokens of 2003 and 2011 after the "
        "last epoch. N-grams: interpolated Kneser-Ney.",
        one_seed,
        SEEDS,
        {
            **{name: f"held out, {what}" for name, (_, _, what) in VARIANTS.items()},
            **{f"{n}_train": f"text read, without noise, {w}" for n, (*_, w) in VARIANTS.items()},
            "tied_mixed": "held out, half one table without noise, half 5-grams",
            "all_mixed": "held out, half the network with all noise, half 5-grams",
            "ngram_3": "held out, 3-grams",
            "ngram_5": "held out, 5-grams",
        },
    )
    print(path.name)
