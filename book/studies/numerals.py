"""Study: names of numbers from English to French, and three ways to hold numbers out."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from companion.data import Vocab, batches, build_vocab_from_iterator, number_names, pad
from companion.look import run_study
from companion.models import Decoder, Encoder, Seq2Seq, generate, seq2seq_objective
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer
from companion.train.metrics import bleu, error_rate

SEEDS = range(5)
HIDDEN, EMBEDDING, BATCH, EPOCHS, RATE = 64, 32, 64, 8, 1e-2
TRAINED, TESTED = 6000, 500
FEW = 20  # numbers of the block, in place of as many others
BLOCK = range(6000, 7000)  # "six thousand ...": never trained on
RUNS = {
    "forward": "the English read forward",
    "reversed": "the English read backwards",
    "few": f"{FEW} numbers of the block among those trained on",
}
LONGER = range(20_000, 100_000)  # "twenty thousand ...", "thirty-one thousand ..."
MEANINGS = {
    "drawn": "numbers below 10,000 outside the block, drawn by chance",
    "block": "numbers from 6,000 to 6,999, of which none was trained on",
    "longer": "numbers from 20,000 to 99,999, when all trained on are below 10,000",
}


def tokens(name: str) -> list[str]:
    """Words, hyphens and commas."""
    return re.findall(r"\w+|[^\w\s]", name)


def joined(found: list[str]) -> str:
    """The text that has these tokens."""
    return " ".join(found).replace(" - ", "-")


def divide(seed: int) -> dict[str, Tensor]:
    """Numbers for training, twice, and the three parts for the test."""
    draws = cpu_generator(seed)
    order = torch.randperm(10_000, generator=draws)
    inside = (order >= BLOCK.start) & (order < BLOCK.stop)
    outside, block = order[~inside], order[inside]
    longer = torch.randint(LONGER.start, LONGER.stop, (TESTED,), generator=draws)
    return {
        "train": outside[:TRAINED],
        "few": torch.cat([outside[: TRAINED - FEW], block[-FEW:]]),
        "drawn": outside[TRAINED : TRAINED + TESTED],
        "block": block[:TESTED],
        "longer": longer,
    }


def one_seed(seed: int) -> dict[str, float]:
    numbers = divide(seed)
    parts = {name: number_names(n.tolist()) for name, n in numbers.items()}
    sources = {k: [tokens(s) for s in p.sources] for k, p in parts.items()}
    targets = {k: [tokens(t) for t in p.targets] for k, p in parts.items()}
    en = build_vocab_from_iterator(sources["train"])
    fr = build_vocab_from_iterator(targets["train"], specials=["<bos>", "<eos>"])
    values = {}
    for name in RUNS:
        order = -1 if name == "reversed" else 1
        rows = {k: pad([en(s[::order]) for s in sources[k]]) for k in sources}
        seed_all(seed)
        model = Seq2Seq(
            Encoder(len(en), EMBEDDING, HIDDEN, bidirectional=False),
            Decoder(len(fr), EMBEDDING, HIDDEN),
            bos=fr["<bos>"],
            eos=fr["<eos>"],
        )
        train(model, *rows["few" if name == "few" else "train"], targets, fr, name, seed)
        for part in MEANINGS:
            found = [
                fr.lookup_tokens(t.tokens) for t in generate(model, *rows[part], max_length=30)
            ]
            right = [f == t for f, t in zip(found, targets[part], strict=True)]
            values[f"{name}_{part}"] = sum(right) / len(right)
            if name != "forward":
                continue
            values[f"bleu_{part}"] = bleu([joined(f) for f in found], parts[part].targets)
            values[f"tokens_{part}"] = error_rate(found, targets[part])
            if part == "block":
                pairs = list(zip(found, targets[part], strict=True))
                rest = [f[0] != t[0] and f[1:] == t[1:] for f, t in pairs]
                values["first_word"] = sum(rest) / len(rest)
    # the French of the number trained on that is nearest in value
    known = numbers["train"]
    for part in MEANINGS:
        nearest = [int((known - n).abs().argmin()) for n in numbers[part]]
        found = [targets["train"][i] for i in nearest]
        values[f"neighbor_{part}"] = bleu([joined(f) for f in found], parts[part].targets)
    return values


def train(
    model: Seq2Seq,
    source: Tensor,
    lengths: Tensor,
    targets: dict[str, list[list[str]]],
    fr: Vocab,
    name: str,
    seed: int,
) -> None:
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    steps = EPOCHS * -(-TRAINED // BATCH)
    falling = torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.05, total_iters=steps)
    trainer = Trainer(
        model, seq2seq_objective, adam, step_scheduler=falling, clip_norm=1.0, progress=False
    )
    written = pad([fr(t) for t in targets["few" if name == "few" else "train"]])
    rows = batches(source, lengths, *written, batch_size=BATCH, shuffle=True, seed=seed)
    trainer.fit(rows, epochs=EPOCHS)


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys = {}
    for part, what in MEANINGS.items():
        keys |= {
            f"{run}_{part}": f"share without an error, {how}; {what}" for run, how in RUNS.items()
        }
        keys[f"bleu_{part}"] = f"BLEU; {what}"
        keys[f"tokens_{part}"] = f"token error rate; {what}"
        keys[f"neighbor_{part}"] = f"BLEU of the French of the nearest number trained on; {what}"
    keys["first_word"] = "share wrong in the first word and right in all others; the block"
    path = run_study(
        __file__,
        f"Names of numbers, English to French (num2words; words, hyphens and commas are tokens), "
        f"GRU encoder (forward) and decoder of {HIDDEN} units, embedding {EMBEDDING}, {EPOCHS} "
        f"epochs of Adam at {RATE:g} falling to a twentieth, batches of {BATCH}, {TRAINED} "
        f"numbers below 10,000 of which none is from 6,000 to 6,999; tested on {TESTED} of each "
        "part, written greedily. A seed draws the parts, the weights and the order.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
