"""Study: LSTM against GRU: counting, a long lag, small and larger data, the time of a step.

The counting task is a^n b^n, trained on n = 1 … 20 and read on longer strings. Timings are ratios
taken in turns on one machine; they say what is true of the kernels compared there.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import companion
from companion.bench import interleaved
from companion.data import (
    anbn,
    batches,
    build_vocab_from_iterator,
    first_token_recall,
    load,
    pad,
)
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
UNITS, STEPS, RATE, LONGEST, TESTED, KEEP = 4, 1500, 3e-2, 20, 400, 5.0
COUNTERS = {
    "lstm": "LSTM, forget bias 5",
    "lstm_default": "LSTM, torch's start",
    "gru": "GRU, bias of z 5",
    "gru_default": "GRU, torch's start",
    "gru_reset_before": "GRU with the reset gate before the product, bias of z 5",
    "lstm_1997": "LSTM without forget gate",
}
LAG, RECALL_STEPS, RECALL_KEEP = 50, 600, (3.0, 5.0)
SIZES, NAME_STEPS = (200, 800, 7668), 400
SHAPE = (32, 50, 64, 64)  # B, T, D, H of the timings, the first shape of the benchmark


class Reader(nn.Module):
    """Symbols → states → scores of the next symbol, after every step."""

    def __init__(self, cell: str, symbols: int, hidden: int, classes: int, keep: float = 0):
        super().__init__()
        self.rnn = companion.Recurrence(cell, symbols, hidden)
        self.out = nn.Linear(hidden, classes)
        if keep:  # the second block keeps: f of an LSTM, z of a GRU
            with torch.no_grad():
                self.rnn.bias_ih_l0[hidden : 2 * hidden] = keep
                self.rnn.bias_hh_l0[hidden : 2 * hidden] = 0

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        x = F.one_hot(x, self.rnn.input_size).float()
        return self.out(self.rnn(x, lengths=lengths)[0])


def longest_correct(model: Reader) -> int:
    """Largest n such that a^k b^k is read without an error for every k up to n."""
    task = anbn(range(1, TESTED + 1))
    with torch.no_grad():
        right = (model(task.x).argmax(-1) == task.y) | ~task.scored
    return int(right.all(1).long().cumprod(0).sum())


def counting(name: str, seed: int) -> int:
    cell = name.removesuffix("_default")
    keep = 0.0 if name.endswith(("_default", "_1997")) else KEEP

    def objective(model: nn.Module, task: tuple) -> tuple[Tensor, int]:
        x, y, scored = task
        return F.cross_entropy(model(x)[scored], y[scored]), int(scored.sum())

    task = anbn(range(1, LONGEST + 1))
    seed_all(seed)
    model = Reader(cell, 3, UNITS, 3, keep)
    fit(model, objective, [(task.x, task.y, task.scored)] * STEPS, RATE)
    return longest_correct(model)


def recall(cell: str, keep: float, seed: int) -> float:
    """Accuracy on new sequences: which symbol came first?"""

    def objective(model: nn.Module, batch: tuple) -> tuple[Tensor, int]:
        x, y = batch
        return F.cross_entropy(model(x)[:, -1], y), len(y)

    def draw(n: int, seed: int) -> tuple[Tensor, Tensor]:
        return first_token_recall(n, LAG, symbols=4, seed=seed)[:2]

    x, y = draw(32 * RECALL_STEPS, seed)
    seed_all(seed)
    model = Reader(cell, 4, 32, 4, keep)
    fit(model, objective, list(zip(x.split(32), y.split(32), strict=True)), 3e-3)
    x, y = draw(1000, 10_000 + seed)
    with torch.no_grad():
        return (model(x)[:, -1].argmax(-1) == y).float().mean().item()


surnames = load("surnames")
parts = surnames.split(seed=0)
vocab = build_vocab_from_iterator(parts.train.names, specials=["<pad>", "<unk>"])
vocab.set_default_index(vocab["<unk>"])


def collate(names: list[str], labels: Tensor) -> tuple:
    return (*pad([vocab(name) for name in names]), labels)


def last(model: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
    return model(x, lengths)[torch.arange(len(x)), lengths - 1]


def naming(cell: str, size: int, seed: int) -> float:
    """Test accuracy after the same number of steps on the first `size` of shuffled names."""

    def objective(model: nn.Module, batch: tuple) -> tuple[Tensor, int]:
        x, lengths, labels = batch
        return F.cross_entropy(last(model, x, lengths), labels), len(labels)

    chosen = torch.randperm(len(parts.train), generator=torch.Generator().manual_seed(seed))
    part = parts.train.subset(chosen[:size])
    one_pass = batches(
        part.names, part.labels, batch_size=64, shuffle=True, seed=seed, collate=collate
    )
    steps: list = []
    while len(steps) < NAME_STEPS:
        steps += list(one_pass)
    seed_all(seed)
    model = Reader(cell, len(vocab), 64, len(surnames.languages))
    fit(model, objective, steps[:NAME_STEPS], 3e-3)
    x, lengths, labels = collate(parts.test.names, parts.test.labels)
    with torch.no_grad():
        return (last(model, x, lengths).argmax(-1) == labels).float().mean().item()


def fit(model: nn.Module, objective: Callable, steps: list, rate: float) -> None:
    """Adam with cosine decay, the rate changed twenty times on the way."""
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 20)
    trainer = Trainer(model, objective, adam, scheduler=decay, clip_norm=1.0, progress=False)
    each = len(steps) // 20
    for start in range(0, len(steps), each):
        trainer.fit(steps[start : start + each])


def times() -> dict[str, float]:
    """Time of a training step, GRU over LSTM, for three ways to run them."""
    B, T, D, H = SHAPE
    x = torch.randn(T, B, D, requires_grad=True)

    def step(layer: nn.Module, **how: str) -> Callable[[], None]:
        def run() -> None:
            layer(x, **how)[0].sum().backward()
            layer.zero_grad(set_to_none=True)

        return run

    def without_onednn(run: Callable[[], None]) -> Callable[[], None]:
        def plain() -> None:
            with torch.backends.mkldnn.flags(enabled=False):
                run()

        return plain

    pairs = {}
    for name in ("GRU", "LSTM"):
        theirs, ours = (getattr(module, name)(D, H) for module in (nn, companion))
        pairs[f"torch {name}"] = step(theirs)
        pairs[f"torch_plain {name}"] = without_onednn(step(theirs))
        pairs[f"ours {name}"] = step(ours)
        pairs[f"loop {name}"] = step(ours, form="loop")
    middle = {k: statistics.median(v) for k, v in interleaved(pairs, 3.0).items()}
    return {f"time_{k}": middle[f"{k} GRU"] / middle[f"{k} LSTM"] for k in TIMED}


TIMED = {
    "torch": "torch.nn on the CPU, the LSTM by oneDNN",
    "torch_plain": "torch.nn on the CPU without oneDNN",
    "ours": "companion, derived backward",
    "loop": "companion, plain loop under autograd",
}


def one_seed(seed: int) -> dict[str, float]:
    row: dict[str, float] = {name: counting(name, seed) for name in COUNTERS}
    for cell in ("lstm", "gru"):
        row |= {f"recall_{cell}_{k:g}": recall(cell, k, seed) for k in RECALL_KEEP}
        row |= {f"surnames_{cell}_{n}": naming(cell, n, seed) for n in SIZES}
    return row | times()


KEYS = {name: (f"longest correct n, {what}", "") for name, what in COUNTERS.items()}
for cell in ("lstm", "gru"):
    for k in RECALL_KEEP:
        KEYS[f"recall_{cell}_{k:g}"] = (f"accuracy at lag {LAG}, {cell.upper()}, bias {k:g}", "")
    for n in SIZES:
        KEYS[f"surnames_{cell}_{n}"] = (f"test accuracy after {n} names, {cell.upper()}", "")
for kind, what in TIMED.items():
    KEYS[f"time_{kind}"] = (f"training step, GRU over LSTM, {what}, B,T,D,H = {SHAPE}", "")

if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"LSTM against GRU. Counting: a^n b^n, H = {UNITS}, {STEPS} steps of Adam at {RATE:g}, "
        f"cosine decay, on all n up to {LONGEST} at once; longest correct n of {TESTED}. Recall: "
        f"first of 4 symbols at lag {LAG}, H = 32, {RECALL_STEPS} steps of 32. Surnames: H = 64, "
        f"{NAME_STEPS} steps of at most 64 names. Times: medians taken in turns, one thread.",
        one_seed,
        SEEDS,
        KEYS,
    )
    print(path.name)
