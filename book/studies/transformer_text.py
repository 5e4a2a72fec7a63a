"""Study: the same blocks around a GRU and around attention, on much text and on little.

A block has 12 E^2 weights either way: what the GRU has more, its feed-forward part has less. Both
read pieces that stand alone, with no state from the piece before, and take the same steps at the
same rate. Of each run there are two values: after the last step, and where it was best on a part
that is not scored. What a trained model looks at is compared with what it needs.
"""

from __future__ import annotations

import copy
import functools
import math
import sys
from pathlib import Path

import torch
from lm_words import KneserNey
from torch import Tensor
from torch.nn import functional as F

from companion.attention import CausalAttention, rotated
from companion.look import run_study
from companion.models import Backbone, LanguageModel, bits
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer

sys.path.append(str(Path(__file__).parents[1] / "checkpoints"))
from macbeth import plays, vocabulary

SEEDS = range(5)
E, BLOCKS, STEPS, ROWS, T, RATE, EVERY = 64, 2, 400, 16, 64, 1e-2, 50
SHARES = {"1": 0.01, "10": 0.1, "100": 1.0}  # percent of the seven plays
SCORED, CHOOSING = 20000, 6000  # characters of Macbeth
EXPAND = {"gru": 3, "attention": 4}  # 6 + 6 and 4 + 8 matrices of (E, E)
ORDERS = range(3, 7)
LOOKED_AT = 60  # pieces


@functools.cache
def tokens() -> tuple[Tensor, Tensor, Tensor, int]:
    """What is read, what is scored, what it is chosen by; the size of the vocabulary."""
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


def objective(model: LanguageModel, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten()), y.numel()


def trained(cell: str, share: float, seed: int) -> tuple[LanguageModel, LanguageModel]:
    """The model after the last step, and as it was where it was best."""
    read, _, choosing, size = tokens()
    read = read[: int(share * len(read))]
    seed_all(seed)
    model = LanguageModel(size, E, E, [cell] * BLOCKS, tied=False, expand=EXPAND[cell])
    torch.nn.init.normal_(model.embedding.weight)
    at = torch.randint(len(read) - T, (STEPS, ROWS, 1), generator=cpu_generator(seed))
    cut = read[at + torch.arange(T + 1)]
    batches = list(zip(cut[..., :-1], cut[..., 1:], strict=True))
    adam = torch.optim.Adam(model.parameters(), lr=RATE)

    def rate(step: int) -> float:  # up in a tenth of the steps, then down along a cosine
        return min(10 * (step + 1) / STEPS, 0.5 + 0.5 * math.cos(math.pi * step / STEPS))

    schedule = torch.optim.lr_scheduler.LambdaLR(adam, rate)
    trainer = Trainer(
        model, objective, adam, step_scheduler=schedule, clip_norm=1.0, progress=False
    )
    best, least = copy.deepcopy(model), math.inf
    for start in range(0, STEPS, EVERY):
        trainer.fit(batches[start : start + EVERY])
        now = surprisal(model, choosing)
        if now < least:
            best, least = copy.deepcopy(model), now
    return model.eval(), best.eval()


def mixing(model: LanguageModel, x: Tensor) -> tuple[Tensor, Tensor]:
    """How much the last step of the last block looks at each step, or still holds of it (n, T).

    Of attention the mean weight of the heads. Of a GRU the mean of 1 - z times every later z, for
    that is what the state still holds of the step; the second tensor is the mean of 1 - z alone,
    what is written. Of attention both are the same.
    """
    backbone = model.layers[0]
    assert isinstance(backbone, Backbone)
    y = model.embed(x)
    for block in backbone.blocks[:-1]:
        y = block(y, None)[0]
    block = backbone.blocks[-1]
    y, mixer = block.norm(y), block.mixer
    if isinstance(mixer, CausalAttention):
        position = torch.arange(T).expand(len(x), T)
        q, k = (
            rotated(w(y).unflatten(2, (mixer.num_heads, -1)), position)
            for w in (mixer.query, mixer.key)
        )
        scores = torch.einsum("bhd,bshd->bhs", q[:, -1], k) / math.sqrt(mixer.head_size)
        weights = scores.softmax(-1).mean(1)
        return weights, weights
    h = mixer(y)[0]
    before = torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1)
    own = slice(mixer.hidden_size, 2 * mixer.hidden_size)  # r, z, n
    a = F.linear(y, mixer.weight_ih_l0[own], mixer.bias_ih_l0[own]) + F.linear(
        before, mixer.weight_hh_l0[own], mixer.bias_hh_l0[own]
    )
    log_z = F.logsigmoid(a)
    kept = log_z.flip(1).cumsum(1).flip(1) - log_z  # over all later steps
    written = torch.sigmoid(-a)  # 1 - z
    return (written * kept.exp()).mean(-1), written.mean(-1)


def ranks(x: Tensor) -> Tensor:
    return x.argsort(-1).argsort(-1).double()


def alike(a: Tensor, b: Tensor) -> float:
    """Spearman's correlation along the last dimension, the mean over the rows."""
    a, b = (ranks(v) - (v.shape[-1] - 1) / 2 for v in (a, b))
    return ((a * b).sum(-1) / (a.square().sum(-1) * b.square().sum(-1)).sqrt()).mean().item()


@torch.no_grad()
def looked(model: LanguageModel, seed: int) -> tuple[float, float, float]:
    """How well the weights, what is written, and mere recency rank what a prediction needs.

    Needed is a character if its replacement by one drawn from the text changes the logarithm of
    the probability of what came next.
    """
    _, scored, _, _ = tokens()
    x, y = pieces(scored)
    g = cpu_generator(seed)
    some = torch.randperm(len(x), generator=g)[:LOOKED_AT]
    x, y = x[some], y[some, -1]
    drawn = scored[torch.randint(len(scored), (LOOKED_AT, T), generator=g)]

    def log_p(x: Tensor) -> Tensor:
        return model(x)[0][:, -1].log_softmax(-1).gather(1, y[:, None])[:, 0]

    whole, changes = log_p(x), []
    for s in range(T):
        other = x.clone()
        other[:, s] = drawn[:, s]
        changes.append((log_p(other) - whole).abs())
    change = torch.stack(changes, 1)
    recent = torch.arange(T).expand(LOOKED_AT, T)
    held, written = mixing(model, x)
    return alike(held, change), alike(written, change), alike(recent, change)


@functools.cache
def counted() -> dict[str, float]:
    """N-grams on the same text, the order chosen as the step of a network is."""
    read, scored, choosing, size = tokens()
    values = {}
    for key, share in SHARES.items():
        part = read[: int(share * len(read))].tolist()
        models = [KneserNey(part, order, size) for order in ORDERS]
        costs = [-sum(map(math.log2, m.of_text(choosing.tolist()))) for m in models]
        p = models[costs.index(min(costs))].of_text(scored.tolist())[T // 2 :]
        values[f"ngram_{key}"] = -sum(map(math.log2, p)) / len(p)
    return values


def one_seed(seed: int) -> dict[str, float]:
    values = dict(counted())
    for key, share in SHARES.items():
        for cell in EXPAND:
            last, best = trained(cell, share, seed)
            values[f"{cell}_{key}"] = surprisal(best, tokens()[1])
            values[f"{cell}_{key}_last"] = surprisal(last, tokens()[1])
            if share == 1:
                by_weight, by_writing, by_recency = looked(last, seed)
                values |= {f"{cell}_weights": by_weight, f"{cell}_recency": by_recency}
                if cell == "gru":
                    values["gru_written"] = by_writing
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    texts = {k: f"{k} % of the text" for k in SHARES}
    path = run_study(
        __file__,
        f"Bits a character of Macbeth ({SCORED} characters), read from seven other plays or a "
        f"part of them. Networks: {BLOCKS} blocks of {12 * E * E} weights in matrices, E = {E}; "
        f"{STEPS} Adam steps, rate up to {RATE:g} and down along a cosine, {ROWS} pieces of {T} "
        f"characters each; best of every {EVERY} steps on {CHOOSING} other characters of Macbeth. "
        f"N-grams: interpolated Kneser-Ney, orders {ORDERS[0]} to {ORDERS[-1]}, chosen on the "
        "same. Correlations: Spearman's, of what changes a prediction with what is looked at.",
        one_seed,
        SEEDS,
        {f"ngram_{k}": (f"n-grams, {what}", "bits") for k, what in texts.items()}
        | {
            f"{cell}_{k}{end}": (f"{cell}, {what}, {when}", "bits")
            for k, what in texts.items()
            for cell in EXPAND
            for end, when in (("", "best step"), ("_last", "last step"))
        }
        | {
            f"{cell}_{key}": f"{cell}: correlation of {what} with what a prediction needs"
            for cell in EXPAND
            for key, what in (
                ("weights", "what is written and kept" if cell == "gru" else "weights"),
                ("recency", "recency"),
            )
        }
        | {"gru_written": "gru: correlation of what is written with what a prediction needs"},
    )
    print(path.name)
