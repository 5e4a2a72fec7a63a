"""Study: Bahdanau's attention against Luong's, with as many weights and as many steps."""

from __future__ import annotations

import torch
from phonemes import (
    BATCH,
    EMBEDDING,
    HIDDEN,
    LONGEST,
    RATE,
    fixed,
    found,
    scores,
    sources,
    spelled,
    train,
    with_attention,
)

from companion.attention import GeneralAttention, LocalAttention
from companion.look import run_study
from companion.models import Seq2Seq, generate
from companion.reproduce import deterministic, seed_all

SEEDS = range(5)
STEPS = 500
WINDOW = 2


def local() -> Seq2Seq:
    writes = 119
    attention = LocalAttention(GeneralAttention(writes, 2 * HIDDEN), WINDOW)
    return with_attention(writes=writes, attention=attention)


# units chosen so that each has about 173,000 weights
KINDS = {
    "dot": (
        lambda: with_attention(hidden=68, writes=136, attention="dot"),
        "dot product, asked after the step",
    ),
    "general": (lambda: with_attention(attention="general"), "general, asked after the step"),
    "concat": (
        lambda: with_attention(writes=119, attention="concat"),
        "concat, asked after the step",
    ),
    "local": (local, f"general within {WINDOW} steps of a predicted place (local-p)"),
    "feeding": (
        lambda: with_attention(writes=105, attention="general", input_feeding=True),
        "general, asked after the step, with input feeding",
    ),
    "before": (
        lambda: with_attention(writes=101, attention="general", query="before"),
        "general, asked before the step",
    ),
    "bahdanau": (
        lambda: with_attention(writes=96, attention="additive", query="before"),
        "additive, asked before the step (Bahdanau)",
    ),
    "fixed": (lambda: fixed(writes=170), "no attention"),
}


def one_seed(seed: int) -> dict[str, float]:
    """The seed draws the division of the words, the start, and the order of the batches."""
    learn, _, test = found.split(seed=seed)
    x, S = sources(test)
    values = {}
    for name, (make, _) in KINDS.items():
        seed_all(seed)
        model = make()
        values[f"{name}_weights"] = sum(w.numel() for w in model.parameters())
        train(model, learn, seed, STEPS)
        values[name], values[f"{name}_exact"] = scores(
            spelled(generate(model, x, S, LONGEST)), test
        )
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys = {}
    for name, (_, what) in KINDS.items():
        keys[f"{name}_weights"] = f"weights: {what}"
        keys[name] = f"phoneme error rate, greedy: {what}"
        keys[f"{name}_exact"] = f"words wholly right, greedy: {what}"
    path = run_study(
        __file__,
        "Letters to phonemes, words of the CMU dictionary divided anew for each seed; GRUs, "
        f"embeddings of {EMBEDDING}, {STEPS} steps, Adam from {RATE:g} falling linearly, batches "
        f"of {BATCH}; the kinds of attention of Bahdanau and of Luong.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
