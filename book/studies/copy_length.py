"""Study: copying strings of digits against length, through one context and with attention."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.data import batches
from companion.look import run_study
from companion.models import (
    AttentionDecoder,
    Decoder,
    Encoder,
    Seq2Seq,
    generate,
    seq2seq_objective,
)
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
DIGITS, BOS, EOS = 10, 10, 11
LONGEST, EMBEDDING, BATCH, STEPS, RATE = 12, 32, 64, 500, 1e-2
TESTED, STRINGS = range(2, 17, 2), 200
RUNS = {  # hidden units, attention, source reversed, steps
    "h32": (32, False, False, STEPS),
    "h64": (64, False, False, STEPS),
    "h128": (128, False, False, STEPS),
    "reversed": (64, False, True, STEPS),
    "long": (64, False, False, 3 * STEPS),
    "attention": (64, True, False, STEPS),
}
MEANINGS = {
    "h32": "context of 32 numbers",
    "h64": "context of 64 numbers",
    "h128": "context of 128 numbers",
    "reversed": "context of 64 numbers, source read backwards",
    "long": f"context of 64 numbers, {3 * STEPS} steps",
    "attention": "64 units, additive attention to the states of a forward encoder (query before)",
}


def turned(x: Tensor, lengths: Tensor) -> Tensor:
    """The same strings (B, S) backwards, each within its own length."""
    steps = torch.arange(x.shape[1])
    return x.gather(1, (lengths[:, None] - 1 - steps) % x.shape[1])


def network(hidden: int, attention: bool) -> Seq2Seq:
    encoder = Encoder(DIGITS, EMBEDDING, hidden, bidirectional=False)
    if attention:
        decoder = AttentionDecoder(
            DIGITS + 2, hidden, EMBEDDING, hidden, attention="additive", query="before"
        )
    else:
        decoder = Decoder(DIGITS + 2, EMBEDDING, hidden)
    return Seq2Seq(encoder, decoder, bos=BOS, eos=EOS)


def train(name: str, seed: int) -> Seq2Seq:
    hidden, attention, backwards, steps = RUNS[name]
    draws = cpu_generator(seed)
    x = torch.randint(DIGITS, (steps * BATCH, LONGEST), generator=draws)
    lengths = torch.randint(1, LONGEST + 1, (len(x),), generator=draws)
    seed_all(seed)
    model = network(hidden, attention)
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    falling = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.05, total_iters=steps)
    trainer = Trainer(
        model, seq2seq_objective, adam, step_scheduler=falling, clip_norm=1.0, progress=False
    )
    source = turned(x, lengths) if backwards else x
    trainer.fit(batches(source, lengths, x, lengths, batch_size=BATCH), epochs=1)
    return model


def copied(model: Seq2Seq, x: Tensor, backwards: bool) -> Tensor:
    """bool (B, n + 1): which tokens are right, EOS included, when the model writes freely."""
    B, n = x.shape
    want = torch.cat([x, torch.full((B, 1), EOS)], 1)
    out = torch.full_like(want, -1)
    for row, found in enumerate(generate(model, x.flip(1) if backwards else x, max_length=n + 1)):
        tokens = [*found.tokens, EOS] if found.finished else found.tokens
        out[row, : len(tokens)] = torch.tensor(tokens)
    return out == want


def one_seed(seed: int) -> dict[str, float]:
    values = {}
    for name, (_, _, backwards, _) in RUNS.items():
        model = train(name, seed)
        draws = cpu_generator(1000 + seed)
        for n in TESTED:
            x = torch.randint(DIGITS, (STRINGS, n), generator=draws)
            right = copied(model, x, backwards)
            values[f"{name}_{n}"] = right.all(1).float().mean().item()
            if n == 8 and name in ("h64", "reversed"):
                share = right.float().mean(0).tolist()
                values |= {f"{name}_at_{i + 1}": share[i] for i in range(n)}
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys = {
        f"{name}_{n}": f"share of strings of {n} digits copied without an error, {what}"
        for name, what in MEANINGS.items()
        for n in TESTED
    }
    keys |= {
        f"{name}_at_{i}": f"share right at place {i} of strings of 8, {MEANINGS[name]}"
        for name in ("h64", "reversed")
        for i in range(1, 9)
    }
    path = run_study(
        __file__,
        f"Copying strings of 1 to {LONGEST} random digits, GRU encoder (forward) and decoder, "
        f"embedding {EMBEDDING}, {STEPS} steps of Adam at {RATE:g} falling to a twentieth, "
        f"batches of {BATCH} new strings, teacher forcing; {STRINGS} new strings of each length, "
        "written greedily. All runs of a seed see the same strings in the same order.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
