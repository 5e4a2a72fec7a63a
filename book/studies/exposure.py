"""Study: what a decoder reads in training, and what its own errors do to it when it writes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from companion.data import batches
from companion.look import run_study
from companion.models import Decoder, Encoder, Seq2Seq, scheduled_objective
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
DIGITS, BOS, EOS = 10, 10, 11
LONGEST, TESTED, STRINGS = 10, 8, 1000
HIDDEN, EMBEDDING, BATCH, STEPS, RATE = 64, 32, 64, 300, 1e-2
RUNS = {  # probability of telling the right token at first and at last, what a coin is for, steps
    "told": (1.0, 1.0, "token", STEPS),
    "token": (0.75, 0.75, "token", STEPS),
    "sentence": (0.75, 0.75, "sentence", STEPS),
    "falling": (1.0, 0.5, "token", STEPS),
    "told_long": (1.0, 1.0, "token", 3 * STEPS),
    "falling_long": (1.0, 0.5, "token", 3 * STEPS),
}
MEANINGS = {
    "told": "teacher forcing",
    "token": "a quarter of the tokens its own, a coin a token",
    "sentence": "a quarter of the strings on its own, a coin a string",
    "falling": "ever more tokens its own, half of them at last, a coin a token",
    "told_long": f"teacher forcing, {3 * STEPS} steps",
    "falling_long": f"ever more tokens its own, half of them at last, {3 * STEPS} steps",
}
PLACES = ("told", "falling")


def scheduled(first: float, last: float, per: str, steps: int, draws: Generator) -> Callable:
    """An objective whose probability of telling goes from the first to the last in a line."""
    done = 0

    def objective(model: Seq2Seq, batch: tuple) -> tuple:
        nonlocal done
        share = first + (last - first) * done / steps
        done += 1
        return scheduled_objective(share, per, draws)(model, batch)

    return objective


def train(name: str, seed: int) -> Seq2Seq:
    first, last, per, steps = RUNS[name]
    draws = cpu_generator(seed)
    x = torch.randint(DIGITS, (steps * BATCH, LONGEST), generator=draws)
    lengths = torch.randint(1, LONGEST + 1, (len(x),), generator=draws)
    seed_all(seed)
    model = Seq2Seq(
        Encoder(DIGITS, EMBEDDING, HIDDEN, bidirectional=False),
        Decoder(DIGITS + 2, EMBEDDING, HIDDEN),
        bos=BOS,
        eos=EOS,
    )
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    falling = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.05, total_iters=steps)
    objective = scheduled(first, last, per, steps, cpu_generator(seed))
    trainer = Trainer(
        model, objective, adam, step_scheduler=falling, clip_norm=1.0, progress=False
    )
    trainer.fit(batches(x, lengths, x, lengths, batch_size=BATCH), epochs=1)
    return model.eval()


@torch.no_grad()
def written(model: Seq2Seq, x: Tensor, first: Tensor | None = None) -> Tensor:
    """What the model writes, (B, n); with ``first`` (B,) it is told the right token there.

    Digits only: the question is what it writes at each place, not where it stops.
    """
    B, n = x.shape
    state, token, out = model.begin(x), torch.full((B,), BOS), []
    for t in range(n):
        logits, _, state = model.decoder(token[:, None], state)
        token = logits[:, 0, :DIGITS].argmax(-1)
        out.append(token)
        if first is not None:
            token = torch.where(first == t, x[:, t], token)
    return torch.stack(out, 1)


def one_seed(seed: int) -> dict[str, float]:
    values = {}
    x = torch.randint(DIGITS, (STRINGS, TESTED), generator=cpu_generator(1000 + seed))
    for name in RUNS:
        values |= measured(name, train(name, seed), x)
    return values


@torch.no_grad()
def measured(name: str, model: Seq2Seq, x: Tensor) -> dict[str, float]:
    values = {}
    logits, _ = model(x, x)
    told = logits[:, :-1, :DIGITS].argmax(-1) == x
    wrote = written(model, x)
    free = wrote == x
    values[f"{name}_exact"] = free.all(1).float().mean().item()
    values[f"{name}_free"] = free.float().mean().item()
    values[f"{name}_told"] = told.float().mean().item()
    outputs = torch.cat([x, torch.full((STRINGS, 1), EOS)], 1)
    nats = torch.nn.functional.cross_entropy(logits.transpose(1, 2), outputs)
    values[f"{name}_perplexity"] = nats.exp().item()
    # rows whose first error is before the last place: once corrected there, once not
    first = (~free).float().argmax(1).masked_fill(free.all(1), TESTED)
    rows = first < TESTED - 1
    corrected = written(model, x, first) == x
    after = (first[rows] + 1)[:, None]
    values[f"{name}_next"] = free[rows].gather(1, after).float().mean().item()
    here = first[rows][:, None]
    early = wrote[rows].gather(1, here) == x[rows].gather(1, after)  # the digit of the next place
    late = wrote[rows].gather(1, after) == x[rows].gather(1, here)
    values[f"{name}_swapped"] = (early & late).float().mean().item()
    values[f"{name}_corrected"] = corrected[rows].gather(1, after).float().mean().item()
    if name in PLACES:
        for t in range(TESTED):
            values[f"{name}_free_{t + 1}"] = free[:, t].float().mean().item()
            values[f"{name}_told_{t + 1}"] = told[:, t].float().mean().item()
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys = {}
    for name, what in MEANINGS.items():
        keys[f"{name}_exact"] = f"share of strings without an error, trained with {what}"
        keys[f"{name}_free"] = f"share of digits right when it writes, trained with {what}"
        keys[f"{name}_told"] = f"share right when told the true prefix, trained with {what}"
        keys[f"{name}_perplexity"] = f"perplexity, true prefixes, trained with {what}"
        keys[f"{name}_next"] = f"share right just after the first error, trained with {what}"
        keys[f"{name}_swapped"] = (
            f"share of first errors that swap two neighbors, trained with {what}"
        )
        keys[f"{name}_corrected"] = (
            f"the same strings and places, the error corrected before it is read, trained "
            f"with {what}"
        )
    for name in PLACES:
        for t in range(1, TESTED + 1):
            keys[f"{name}_free_{t}"] = (
                f"right at place {t}, writing, trained with {MEANINGS[name]}"
            )
            keys[f"{name}_told_{t}"] = f"right at place {t}, told, trained with {MEANINGS[name]}"
    path = run_study(
        __file__,
        f"Copying strings of 1 to {LONGEST} random digits, GRU encoder (forward) and decoder of "
        f"{HIDDEN} units, {STEPS} steps (or as said) of Adam at {RATE:g} falling to a "
        f"twentieth, batches of {BATCH} new strings, with teacher forcing or scheduled "
        f"sampling; tested on {STRINGS} new strings of {TESTED}. All runs of a seed see the "
        "same strings from the same weights.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
