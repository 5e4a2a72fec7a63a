"""Study: three tasks, ten mixers of time in a block of as many weights, at two learning rates.

What a mixer has fewer weights, the feed-forward part of its block has more. All networks of a task
and a seed read the same batches in the same order. "alone" is the control: an attention that sees
one step, so that nothing goes from step to step.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from train_small import LETTERS, NAMES, letter_pairs
from transformer_text import objective as text_objective
from transformer_text import tokens

from companion.data import Scaler, load, split_by_time, windows
from companion.look import run_study
from companion.models import (
    Backbone,
    Forecaster,
    LanguageModel,
    LinearForecaster,
    SeasonalNaive,
    TextClassifier,
    bits,
    forecasting_objective,
)
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
E, RATES = 32, (5e-3, 2e-2)
WORDS = ("rnn", "lstm", "gru", "mingru", "s4d", "mamba", "retnet", "rwkv7", "attention", "alone")
STEPS, ROWS = 100, {"names": 128, "weather": 64, "text": 32}
PAST, AHEAD = 24, 6  # hours
SHARE, SCORED, T = 0.1, 8000, 32  # of the seven plays; characters of Macbeth; of a piece


class Task(NamedTuple):
    """A model for a word, the batches of a seed, the objective, and two errors: valid, test."""

    model: Callable[[list[str], dict[str, Any]], nn.Module]
    batches: Callable[[int], list[tuple[Tensor, ...]]]
    objective: Callable[..., tuple[Any, ...]]
    errors: Callable[[nn.Module], tuple[float, float]]


def drawn(rows: int, task: str, seed: int) -> Tensor:
    """Which rows are in each batch, (steps, batch): pass after pass, each in a new order."""
    count, g = STEPS * ROWS[task], cpu_generator(seed)
    passes = [torch.randperm(rows, generator=g) for _ in range(-(-count // rows))]
    return torch.cat(passes)[:count].view(STEPS, ROWS[task])


@functools.cache
def expand(word: str) -> float:
    """How wide the feed-forward part is, so that all blocks have as many weights."""

    def weights(word: str, wide: int) -> int:
        layers = ["attention" if word == "alone" else word]
        return sum(w.numel() for w in Backbone(E, E, layers, expand=wide / E).parameters())

    goal = weights("attention", 4 * E)
    return min(range(1, 6 * E), key=lambda wide: abs(weights(word, wide) - goal)) / E


def mixers(word: str) -> tuple[list[str], dict[str, Any]]:
    if word == "alone":
        return ["attention"], {"expand": 4, "window": 1}
    return [word], {"expand": expand(word)}


# -- surnames: 15 languages -------------------------------------------------------------------


def spelled(names: list[str]) -> Tensor:
    """Letters (B, 24), padded in front with a token of its own: all end at the last step."""
    empty = [len(LETTERS)] * 24
    return torch.tensor([(empty + LETTERS(list(name.lower())))[-24:] for name in names])


@functools.cache
def names() -> Task:
    x = spelled(NAMES.train.names)
    longest = (x != len(LETTERS)).sum(1)

    def batches(seed: int) -> list[tuple[Tensor, ...]]:
        at_once = drawn(len(x), "names", seed)
        return [(x[at, -int(longest[at].max()) :], NAMES.train.labels[at]) for at in at_once]

    def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        return F.cross_entropy(model(batch[0]), batch[1]), len(batch[1])

    def wrong(model: nn.Module, part: Any) -> float:
        return (model(spelled(part.names)).argmax(1) != part.labels).double().mean().item()

    return Task(
        lambda words, given: TextClassifier(
            len(LETTERS) + 1, len(NAMES.train.languages), E, E, words, **given
        ),
        batches,
        objective,
        lambda model: (wrong(model, NAMES.valid), wrong(model, NAMES.test)),
    )


# -- weather: the temperature six hours ahead -------------------------------------------------


@functools.cache
def hours() -> tuple[list[Any], float]:
    """Windows of training, validation and test; °F of one unit."""
    weather = load("weather")
    values = weather.select("temp")
    split = split_by_time(len(values), 0.1, 0.2, context=PAST)
    scaler = Scaler.fit(values[split.train])
    scaled = scaler.transform(values)
    cut = [windows(scaled[p], PAST, AHEAD, time=weather.time[p]) for p in split]
    return cut, scaler.std[0].item()


def off(model: nn.Module, part: Any, unit: float) -> float:
    """Root of the mean squared error of the last hour, in °F."""
    return (model(part.past)[:, -1] - part.future[:, -1, 0]).square().mean().sqrt().item() * unit


@functools.cache
def weather() -> Task:
    (train, valid, test), unit = hours()
    return Task(
        lambda words, given: Forecaster(1, AHEAD, E, words, relative=True, **given),
        lambda seed: [
            (train.past[at], train.future[at, :, 0])
            for at in drawn(len(train.past), "weather", seed)
        ],
        forecasting_objective,
        lambda model: (off(model, valid, unit), off(model, test, unit)),
    )


# -- text: the next character -----------------------------------------------------------------


def pieces(text: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs and targets (n, T) that overlap by half."""
    cut = text.unfold(0, T + 1, T // 2)
    return cut[:, :-1], cut[:, 1:]


def surprisal(model: nn.Module, text: Tensor) -> float:
    """Bits a character, each after half a piece at least."""
    x, y = pieces(text)
    scores = model(x)[0][:, T // 2 :]
    return bits(F.cross_entropy(scores.flatten(0, 1), y[:, T // 2 :].flatten()).item())


@functools.cache
def shakespeare() -> tuple[Tensor, Tensor, Tensor, int]:
    """What is read, what is scored, what it is chosen by; the size of the vocabulary."""
    read, scored, choosing, size = tokens()
    return read[: int(SHARE * len(read))], scored[:SCORED], choosing, size


@functools.cache
def text() -> Task:
    read, scored, choosing, size = shakespeare()
    x, y = pieces(read)

    def model(words: list[str], given: dict[str, Any]) -> nn.Module:
        made = LanguageModel(size, E, E, words, tied=False, **given)
        torch.nn.init.normal_(made.embedding.weight)
        return made

    return Task(
        model,
        lambda seed: [(x[at], y[at]) for at in drawn(len(x), "text", seed)],
        text_objective,
        lambda model: (surprisal(model, choosing), surprisal(model, scored)),
    )


TASKS = {"names": names, "weather": weather, "text": text}
MEASURES = {
    "names": ("share of names wrong", ""),
    "weather": (f"RMSE {AHEAD} hours ahead", "°F"),
    "text": ("bits a character", "bits"),
}


def trained(task: str, word: str, rate: float, seed: int) -> nn.Module:
    kind = TASKS[task]()
    words, given = mixers(word)
    seed_all(seed)
    model = kind.model(words, given)
    adam = torch.optim.Adam(model.parameters(), lr=rate)

    def share(step: int) -> float:  # up in a tenth of the steps, then down along a cosine
        return min(10 * (step + 1) / STEPS, 0.5 + 0.5 * math.cos(math.pi * step / STEPS))

    schedule = torch.optim.lr_scheduler.LambdaLR(adam, share)
    trainer = Trainer(
        model, kind.objective, adam, step_scheduler=schedule, clip_norm=1.0, progress=False
    )
    trainer.fit(kind.batches(seed))
    return model.eval()


@functools.cache
def baselines() -> dict[str, float]:
    """What needs no network, on the same data."""
    from lm_words import KneserNey

    (train, valid, test), unit = hours()
    naive = SeasonalNaive(AHEAD)
    fits = [
        LinearForecaster(1, PAST, AHEAD, ridge, relative=True).fit(train.past, train.future)
        for ridge in (0.0, 1.0, 10.0, 100.0)
    ]
    linear = min(fits, key=lambda model: off(model, valid, unit))

    read, scored, choosing, size = shakespeare()
    part = read.tolist()
    counts = [KneserNey(part, order, size) for order in range(2, 7)]

    def cost(model: Any, tokens: Tensor) -> float:
        p = model.of_text(tokens.tolist())[T // 2 :]
        return -sum(map(math.log2, p)) / len(p)

    counted = min(counts, key=lambda model: cost(model, choosing))
    most = NAMES.train.labels.bincount().argmax()
    return {
        "names_naive": (NAMES.test.labels != most).double().mean().item(),
        "weather_naive": off(naive, test, unit),
        "weather_linear": off(linear, test, unit),
        "text_naive": cost(KneserNey(part, 1, size), scored),
        "text_ngram": cost(counted, scored),
    }


def bag(seed: int) -> float:
    """A linear layer on counts of letters and neighbors, as many steps on the same names."""
    x = letter_pairs(NAMES.train.names)
    mean, spread = x.mean(0), x.std(0) + 0.1
    seed_all(seed)
    model = nn.Linear(x.shape[1], len(NAMES.train.languages))
    adam = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-2)
    for at in drawn(len(x), "names", seed):
        loss = F.cross_entropy(model((x[at] - mean) / spread), NAMES.train.labels[at])
        adam.zero_grad()
        loss.backward()
        adam.step()
    held = (letter_pairs(NAMES.test.names) - mean) / spread
    with torch.no_grad():
        return (model(held).argmax(1) != NAMES.test.labels).double().mean().item()


def one_seed(seed: int) -> dict[str, float]:
    values = dict(baselines()) | {"names_bag": bag(seed)}
    for task in TASKS:
        for word in WORDS:
            for rate in RATES:
                model = trained(task, word, rate, seed)
                with torch.no_grad():
                    valid, test = TASKS[task]().errors(model)
                key = f"{task}_{word}_{rate:g}"
                values |= {key: test, f"{key}_valid": valid}
    for word in WORDS:
        values[f"weights_{word}"] = sum(
            w.numel() for w in Backbone(E, E, mixers(word)[0], **mixers(word)[1]).parameters()
        )
    return values


def keys() -> dict[str, tuple[str, str]]:
    found = {f"weights_{word}": (f"weights of the block, {word}", "") for word in WORDS}
    for task, (measure, unit) in MEASURES.items():
        for word in WORDS:
            for rate in RATES:
                key, what = f"{task}_{word}_{rate:g}", f"{task}: {measure}, {word}, rate {rate:g}"
                found[key] = (f"{what}, test", unit)
                found[f"{key}_valid"] = (f"{what}, validation", unit)
    extra = {
        "names_naive": "always the commonest language",
        "names_bag": "a linear layer on counts of letters and of neighbors",
        "weather_naive": "the last hour again",
        "weather_linear": "a linear map of the window",
        "text_naive": "counts of single characters",
        "text_ngram": "n-grams",
    }
    for key, what in extra.items():
        task = key.split("_")[0]
        measure, unit = MEASURES[task]
        found[key] = (f"{task}: {measure}, {what}, test", unit)
    return found


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Ten mixers of time, each in one residual block of {E} features with as many weights, "
        f"{STEPS} steps. Surnames of 15 languages (batches of {ROWS['names']}), the temperature "
        f"at JFK {AHEAD} hours ahead of {PAST} known ({ROWS['weather']}), {SCORED} characters of "
        f"Macbeth after {SHARE:.0%} of seven other plays ({ROWS['text']} pieces of {T}). Adam at "
        f"{RATES}, up in a tenth of the steps and down along a cosine, gradient norm clipped at "
        "1.",
        one_seed,
        SEEDS,
        keys(),
    )
    print(path.name)
