"""Study: few examples a class; an LSTM, with changed copies of its data, and a bag beside it.

All three take as many steps on batches of as many examples. The bag is a linear layer on
standardized features that know nothing of order, or only of neighbors.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import build_vocab_from_iterator, load, pad
from companion.look import run_study
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
STEPS, BATCH, HIDDEN, RATE, DECAY = 400, 32, 48, 1e-2, 1e-2
SIZES = (5, 20, 80)  # examples a class
METHODS = {
    "bag": "a linear layer on a bag",
    "lstm": "an LSTM",
    "changed": "an LSTM, examples changed at random",
}


class Reader(nn.Module):
    """Frames, or letters → LSTM → scores from the last valid state."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.lstm = companion.LSTM(inputs, HIDDEN, batch_first=True, forget_bias=1.0)
        self.score = nn.Linear(HIDDEN, classes)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.score(self.lstm(x, lengths=lengths)[1][0][-1])


# -- surnames: 15 languages -------------------------------------------------------------------

NAMES = load("surnames").split(seed=0)
LETTERS = build_vocab_from_iterator((list(n.lower()) for n in NAMES.train.names), specials=["?"])
LETTERS.set_default_index(0)


def misspelled(name: str, draw: random.Random) -> str:
    """One letter lost, doubled, replaced or exchanged with its neighbor, half of the time."""
    if len(name) < 3 or draw.random() < 0.5:
        return name
    k = draw.randrange(len(name) - 1)
    return {
        "lost": name[:k] + name[k + 1 :],
        "doubled": name[: k + 1] + name[k:],
        "replaced": name[:k] + draw.choice(LETTERS.get_itos()[1:]) + name[k + 1 :],
        "exchanged": name[:k] + name[k + 1] + name[k] + name[k + 2 :],
    }[draw.choice(("lost", "doubled", "replaced", "exchanged"))]


def spelled(names: list[str]) -> tuple[Tensor, Tensor]:
    x, lengths = pad([LETTERS(list(name.lower())) for name in names])
    return F.one_hot(x, len(LETTERS)).float(), lengths


def letter_pairs(names: list[str]) -> Tensor:
    """Counts of letters and of pairs of neighbors, with the ends."""
    side = len(LETTERS) + 1
    bag = torch.zeros(len(names), side * side + side)
    for row, name in zip(bag, names, strict=True):
        at = [side - 1, *LETTERS(list(name.lower())), side - 1]
        for a, b in zip(at, at[1:], strict=False):
            row[side * a + b] += 1
            row[side * side + b] += 1
    return bag


# -- spoken digits: frames of 13 numbers ------------------------------------------------------

DIGITS = load("spoken-digits").split(seed=0)


def respoken(frames: Tensor, draw: random.Random) -> Tensor:
    """Said faster or slower, a little louder or softer in each coefficient, with noise."""
    generator = cpu_generator(draw.randrange(2**31))
    length = max(2, round(len(frames) * draw.uniform(0.8, 1.25)))
    warped = F.interpolate(frames.T[None], length, mode="linear", align_corners=True)[0].T
    spread = SCALE[1]
    shift = 0.2 * torch.randn(1, frames.shape[1], generator=generator)
    return warped + spread * (shift + 0.2 * torch.randn(warped.shape, generator=generator))


def scale(frames: list[Tensor]) -> tuple[Tensor, Tensor]:
    whole = torch.cat(frames)
    return whole.mean(0), whole.std(0)


SCALE = scale(DIGITS.train.frames)


def spoken(frames: list[Tensor]) -> tuple[Tensor, Tensor]:
    mean, spread = SCALE
    return pad([(x - mean) / spread for x in frames])


def moments(frames: list[Tensor]) -> Tensor:
    """Mean and spread of each coefficient over the frames, and the length."""
    return torch.stack(
        [torch.cat([x.mean(0), x.std(0), torch.tensor([len(x)]).float()]) for x in frames]
    )


# -- both -------------------------------------------------------------------------------------

Task = tuple[Any, str, Callable[..., Any], Callable[..., Any], Callable[..., Tensor]]
TASKS: dict[str, Task] = {
    "names": (NAMES, "names", spelled, misspelled, letter_pairs),
    "digits": (DIGITS, "frames", spoken, respoken, moments),
}


def few(part: Any, each: int, seed: int) -> Any:
    """So many examples of each class."""
    order = torch.randperm(len(part), generator=cpu_generator(seed))
    labels = part.labels[order]
    kept = [order[labels == k][:each] for k in range(len(part_classes(part)))]
    return part.subset(torch.cat(kept))


def part_classes(part: Any) -> list[str]:
    return part.languages if hasattr(part, "languages") else part.classes


def objective(model: nn.Module, batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
    *x, y = batch
    return F.cross_entropy(model(*x), y), len(y)


def accuracy(task: str, method: str, each: int, seed: int) -> float:
    parts, column, encode, change, features = TASKS[task]
    train = few(parts.train, each, seed)
    rows, classes = getattr(train, column), len(part_classes(train))
    seed_all(seed)
    draw = random.Random(seed)
    test, answers = getattr(parts.test, column), parts.test.labels
    at = [torch.randint(len(rows), (BATCH,)) for _ in range(STEPS)]
    if method == "bag":
        bag = features(rows)
        mean, spread = bag.mean(0), bag.std(0).clamp(min=0.1)
        bag, seen = ((z - mean) / spread for z in (bag, features(test)))
        model: nn.Module = nn.Linear(bag.shape[1], classes)
        data = [(bag[k], train.labels[k]) for k in at]
        x: tuple[Tensor, ...] = (seen,)
    else:
        x = encode(test)
        model = Reader(x[0].shape[-1], classes)
        changed = change if method == "changed" else lambda row, draw: row
        data = [
            (*encode([changed(rows[i], draw) for i in k.tolist()]), train.labels[k]) for k in at
        ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    Trainer(model, objective, optimizer, clip_norm=1.0, progress=False).fit(data)
    with torch.no_grad():
        return (model.eval()(*x).argmax(-1) == answers).float().mean().item()


def one_seed(seed: int) -> dict[str, float]:
    return {
        f"{task}_{method}_{each}": accuracy(task, method, each, seed)
        for task in TASKS
        for each in SIZES
        for method in METHODS
    }


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Few examples a class, drawn anew for each seed: {STEPS} steps of AdamW at {RATE:g} on "
        f"batches of {BATCH}, gradient norm clipped at 1, LSTM with H = {HIDDEN} "
        f"read at its last step; accuracy on {len(NAMES.test)} surnames of 15 languages and on "
        f"{len(DIGITS.test)} spoken digits.",
        one_seed,
        SEEDS,
        {
            f"{task}_{method}_{each}": f"accuracy on {task}, {each} a class, {what}"
            for task in TASKS
            for each in SIZES
            for method, what in METHODS.items()
        },
    )
    print(path.name)
