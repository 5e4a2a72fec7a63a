"""Study: the same blocks around linear attention, retention, RWKV, a GRU and attention, on text.

Every network has as many weights: what a mixer of time has more, its feed-forward part has less.
All read pieces that stand alone, with no state from the piece before, and take the same steps.
"""

from __future__ import annotations

import functools
import math
import sys
from pathlib import Path
from typing import Any

import torch
from lm_words import KneserNey
from torch import Tensor
from torch.nn import functional as F

from companion.cells import Cell
from companion.look import run_study
from companion.models import Backbone, LanguageModel, bits
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer

sys.path.append(str(Path(__file__).parents[1] / "checkpoints"))
from macbeth import plays, vocabulary

SEEDS = range(5)
E, BLOCKS, STEPS, ROWS, T = 48, 2, 200, 16, 64
WEIGHTS = BLOCKS * 12 * E * E  # of the blocks, their biases and norms as well
SCORED, CHOOSING = 20000, 6000  # characters of Macbeth
ORDERS = range(3, 7)
HEADS = 4

# the mixer, and the best of the rates 0.01, 0.03 and 0.06 by seed 100, which is not reported,
# on the CHOOSING characters
MIXERS: dict[str, tuple[str, dict[str, Any], float]] = {
    "linear_attention": ("linear_attention", {"heads": HEADS}, 3e-2),
    "retnet": ("retnet", {"heads": HEADS}, 6e-2),
    "rwkv4": ("rwkv4", {}, 3e-2),
    "rwkv7": ("rwkv7", {"heads": HEADS}, 3e-2),
    "gru": ("gru", {}, 3e-2),
    "attention": ("attention", {}, 3e-2),
}


@functools.cache
def tokens() -> tuple[Tensor, Tensor, Tensor, int]:
    """What is read, what is scored, what is chosen by; the size of the vocabulary."""
    texts, held = plays()
    vocab = vocabulary(texts)
    macbeth = torch.tensor(vocab(held[: SCORED + CHOOSING]))
    return (
        torch.tensor(vocab("\n".join(texts))),
        macbeth[:SCORED],
        macbeth[SCORED:],
        len(vocab),
    )


def pieces(text: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs and targets (n, T) that overlap by half."""
    cut = text.unfold(0, T + 1, T // 2)
    return cut[:, :-1], cut[:, 1:]


def surprisal(model: LanguageModel, text: Tensor) -> float:
    """Bits a character, each after half a piece at least."""
    x, y = pieces(text)
    with torch.no_grad():
        scores = model.eval()(x)[0][:, T // 2 :]
    return bits(F.cross_entropy(scores.flatten(0, 1), y[:, T // 2 :].flatten()).item())


def weights(module: torch.nn.Module) -> int:
    return sum(w.numel() for w in module.parameters())


def built(mixer: str | type[Cell], seed: int, **options: Any) -> LanguageModel:
    """A language model whose feed-forward parts fill up what the mixers leave of WEIGHTS."""
    words, given = [mixer] * BLOCKS, {"options": {mixer: options}} if options else {}
    bare = weights(Backbone(E, E, words, expand=0, **given))  # type: ignore[arg-type]
    each = 2 * E + 1  # of one more unit of a feed-forward part; 3 E are its norm's and last bias
    wide = round(((WEIGHTS - bare) / BLOCKS - 3 * E) / each)
    seed_all(seed)
    model = LanguageModel(tokens()[3], E, E, words, tied=False, expand=wide / E, **given)
    torch.nn.init.normal_(model.embedding.weight)
    blocks = weights(model.layers[0])
    if abs(blocks / WEIGHTS - 1) > 0.005:
        raise ValueError(f"{mixer}: {blocks} weights in the blocks, not {WEIGHTS}")
    return model


def objective(model: LanguageModel, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten()), y.numel()


def train(model: LanguageModel, rate: float, seed: int) -> None:
    """STEPS steps of Adam; the rate goes up in a tenth of them, then down along a cosine."""
    read = tokens()[0]
    at = torch.randint(len(read) - T, (STEPS, ROWS, 1), generator=cpu_generator(seed))
    cut = read[at + torch.arange(T + 1)]
    batches = list(zip(cut[..., :-1], cut[..., 1:], strict=True))
    adam = torch.optim.Adam([w for w in model.parameters() if w.requires_grad], lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        adam,
        lambda step: min(10 * (step + 1) / STEPS, 0.5 + 0.5 * math.cos(math.pi * step / STEPS)),
    )
    Trainer(model, objective, adam, step_scheduler=schedule, clip_norm=1.0, progress=False).fit(
        batches
    )


@functools.cache
def counted() -> dict[str, float]:
    """N-grams: on all there is to read, and on as many characters as a network is shown."""
    read, scored, choosing, size = tokens()
    values = {}
    for key, part in (("all", read), ("shown", read[: STEPS * ROWS * T])):
        models = [KneserNey(part.tolist(), order, size) for order in ORDERS]
        costs = [-sum(map(math.log2, m.of_text(choosing.tolist()))) for m in models]
        p = models[costs.index(min(costs))].of_text(scored.tolist())[T // 2 :]
        values[f"ngram_{key}"] = -sum(map(math.log2, p)) / len(p)
    return values


def one_seed(seed: int) -> dict[str, float]:
    values = dict(counted())
    for name, (mixer, options, rate) in MIXERS.items():
        model = built(mixer, seed, **options)
        train(model, rate, seed)
        values[name] = surprisal(model, tokens()[1])
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Bits a character of Macbeth ({SCORED} characters) after reading in seven other plays: "
        f"{BLOCKS} blocks of {12 * E * E} weights each, within half a percent, E = {E}, heads of "
        f"{E // HEADS}; {STEPS} Adam steps on {ROWS} pieces of {T} characters, the rate up and "
        "then down along a cosine, its peak the best of three by a seed that is not reported. "
        f"N-grams: interpolated Kneser-Ney, orders {ORDERS[0]} to {ORDERS[-1]}, chosen on "
        f"{CHOOSING} other characters of Macbeth; on all of the seven plays, and on as many "
        "characters as a network is shown.",
        one_seed,
        SEEDS,
        {
            "ngram_all": ("n-grams, all of the seven plays", "bits"),
            "ngram_shown": ("n-grams, as much as a network is shown", "bits"),
        }
        | {name: (f"{name} in both blocks", "bits") for name in MIXERS},
    )
    print(path.name)
