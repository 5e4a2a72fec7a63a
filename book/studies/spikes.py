"""Study: what peepholes are good for: a metronome, measured delays, and surnames.

Metronomes of one kind are trained side by side: their weights are stacked, and `vmap` runs the
package's own cell once for all of them. Their gradients do not mix.
"""

from __future__ import annotations

import statistics
import time

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F

import companion
from companion.data import batches, build_vocab_from_iterator, load, pad, spike_delays
from companion.look import write_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

# metronome: one spike in, then a spike out at every fifth step
PERIOD, TRAINED, TESTED, STEPS, RATE = 5, 3, 10, 1500, 3e-2
SEEDS = range(8)
STARTS = 8  # metronomes a seed, 64 in all: whether one comes to keep time is a matter of luck
# delays from 3 to 8 between two spikes among 16 steps, and surnames
DELAY_STEPS = 500
HIDDEN, EMBEDDING, EPOCHS, BATCH = 64, 32, 4, 128
VARIANTS = {
    "plain": {},
    "peephole": {"peephole": True},
    "coupled": {"coupled": True},
    "layer_norm": {"layer_norm": True},
    "no_forget": {"forget_gate": False},
}


def stacked(modules: list[nn.Module]) -> dict[str, Tensor]:
    """Stack the weights of equal modules along a new first dimension."""
    every = [dict(module.named_parameters()) for module in modules]
    return {n: torch.stack([w[n] for w in every]).detach().requires_grad_() for n in every[0]}


def beats(periods: int) -> Tensor:
    """Return the spikes wanted, (periods · PERIOD + 1,)."""
    y = torch.zeros(periods * PERIOD + 1)
    y[PERIOD::PERIOD] = 1
    return y


def metronome(peephole: bool, hidden_size: int) -> dict[str, list[float]]:
    """Train all starts of all seeds; say which keep time, and with what error."""
    cells, outs = [], []
    for start in range(len(SEEDS) * STARTS):
        seed_all(start)
        cells.append(companion.LSTMCell(1, hidden_size, peephole=peephole))
        outs.append(nn.Linear(hidden_size, 1))
    W, V = stacked(cells), stacked(outs)

    def one(w, v, x, h, c):
        h, c = functional_call(cells[0], w, (x, (h, c)))
        return h, c, functional_call(outs[0], v, (h,))

    step = vmap(one, in_dims=(0, 0, None, 0, 0))

    def play(periods: int) -> Tensor:
        h = c = torch.zeros(len(cells), 1, hidden_size)
        outputs = []
        for t in range(periods * PERIOD + 1):
            h, c, y = step(W, V, torch.full((1, 1), float(t == 0)), h, c)
            outputs.append(y[:, 0, 0])
        return torch.stack(outputs, 1)  # (networks, T)

    weights = [*W.values(), *V.values()]
    adam = torch.optim.Adam(weights, RATE)
    wanted = beats(TRAINED)
    balance = torch.where(wanted > 0, PERIOD - 1.0, 1.0)  # spikes weigh as much as silence
    for _ in range(STEPS):
        error = (balance * (play(TRAINED) - wanted) ** 2).mean(1)
        adam.zero_grad()
        error.sum().backward()
        norm = sum(w.grad.flatten(1).square().sum(1) for w in weights).sqrt()
        for w in weights:  # each network's gradient is clipped at 1
            w.grad /= norm.clamp(min=1).view(-1, *[1] * (w.dim() - 1))
        adam.step()
    with torch.no_grad():
        trained = ((play(TRAINED) > 0.5) == (beats(TRAINED) > 0)).all(1)
        longer = ((play(TESTED) > 0.5) == (beats(TESTED) > 0)).all(1)
    rows = {
        "best": error.detach().view(-1, STARTS).amin(1),
        "trained": trained.float().view(-1, STARTS).mean(1),
        "longer": longer.float().view(-1, STARTS).mean(1),
    }
    return {key: values.tolist() for key, values in rows.items()}


def fit(model: nn.Module, objective, train, rate: float, epochs: int = 1) -> nn.Module:
    adam = torch.optim.Adam(model.parameters(), rate)
    Trainer(model, objective, adam, clip_norm=1.0, progress=False).fit(train, epochs=epochs)
    return model.eval()


class Reader(nn.Module):
    """Inputs → state after the last → scores."""

    def __init__(self, features: int, hidden_size: int, answers: int, symbols: int = 0, **options):
        super().__init__()
        self.embed = nn.Embedding(symbols, features) if symbols else nn.Identity()
        self.rnn = companion.LSTM(features, hidden_size, batch_first=True, **options)
        self.out = nn.Linear(hidden_size, answers)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        _, (h_n, _) = self.rnn(self.embed(x), lengths=lengths)
        return self.out(h_n[-1])


def objective(model: nn.Module, batch: tuple) -> tuple:
    *inputs, labels = batch
    return F.cross_entropy(model(*inputs), labels), len(labels)


@torch.no_grad()
def accuracy(model: nn.Module, batch: tuple) -> float:
    *inputs, labels = batch
    return (model(*inputs).argmax(-1) == labels).float().mean().item()


def delays(peephole: bool, hidden_size: int, seed: int) -> float:
    seed_all(seed)
    model = Reader(1, hidden_size, 6, peephole=peephole)
    task = spike_delays(64 * DELAY_STEPS, 16, 3, 8, seed=seed)
    test = spike_delays(1000, 16, 3, 8, seed=10_000)
    fit(model, objective, list(zip(task.x.split(64), task.y.split(64), strict=True)), 1e-2)
    return accuracy(model, (test.x, test.y))


surnames = load("surnames")
parts = surnames.split(seed=0)  # one split: the seeds vary weights and order
vocab = build_vocab_from_iterator((list(n.lower()) for n in parts.train.names), specials=["<unk>"])
vocab.set_default_index(0)


def names(part: companion.data.Surnames, size: int, shuffle: bool, seed: int = 0):
    indices = [vocab(list(name.lower())) for name in part.names]
    collate = lambda rows, labels: (*pad(rows), labels)  # noqa: E731
    return batches(
        indices, part.labels, batch_size=size, shuffle=shuffle, seed=seed, collate=collate
    )


def languages(variant: str, seed: int) -> float:
    seed_all(seed)
    model = Reader(EMBEDDING, HIDDEN, len(surnames.languages), len(vocab), **VARIANTS[variant])
    fit(model, objective, names(parts.train, BATCH, True, seed), 3e-3, EPOCHS)
    (test,) = names(parts.test, len(parts.test), False)
    return accuracy(model, test)


def training_times(form: str | None, rounds: int = 30) -> tuple[float, float]:
    """Median processor seconds of a training step, plain and coupled, measured in turns."""
    x = torch.randn(50, 32, 64)
    layers = [companion.LSTM(64, 64), companion.LSTM(64, 64, coupled=True)]
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for layer, column in zip(layers, times, strict=True):
            start = time.process_time()
            layer(x, form=form)[0].sum().backward()
            column.append(time.process_time() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def kernel_entry(form: str | None = None) -> dict:
    """Ratio of times, by default with the backward pass derived by hand that both layers have."""
    of = "fastest form of each" if form is None else f"both in form {form!r}"
    size = "T = 50, B = 32, D = H = 64; one round a seed"
    what = f"training step, coupled over plain LSTM, {of}: {size}"
    pairs = [training_times(form) for _ in SEEDS]
    return {"values": [coupled / plain for plain, coupled in pairs], "unit": "", "what": what}


def main() -> None:
    results: dict[str, dict] = {}
    for kind, peephole in (("plain", False), ("peephole", True)):
        for hidden_size in (1, 2, 4):
            of = f"{kind}, H = {hidden_size}"
            row = metronome(peephole, hidden_size)
            what = {
                "trained": f"metronome, {of}: share of starts that keep time for {TRAINED} beats",
                "longer": f"metronome, {of}: share that keep time for {TESTED} beats",
                "best": f"metronome, {of}: weighted squared error of the best start",
            }
            for key, values in row.items():
                entry = {"values": values, "unit": "", "what": what[key]}
                results[f"metronome_{kind}_{hidden_size}_{key}"] = entry
            print(of, {key: sum(values) / len(values) for key, values in row.items()}, flush=True)
        for hidden_size in (4, 8):
            values = [delays(peephole, hidden_size, seed) for seed in SEEDS]
            what_ = f"delays between spikes, {kind}, H = {hidden_size}: test accuracy"
            entry = {"values": values, "unit": "", "what": what_}
            results[f"delays_{kind}_{hidden_size}"] = entry
            print(what_, values, flush=True)
    for variant in VARIANTS:
        values = [languages(variant, seed) for seed in SEEDS]
        what_ = f"surnames, {variant.replace('_', ' ')}: test accuracy"
        results[f"surnames_{variant}"] = {"values": values, "unit": "", "what": what_}
        print(what_, values, flush=True)
    results["coupled_time"] = kernel_entry()
    results["coupled_time_loop"] = kernel_entry("loop")
    path = write_study(
        __file__,
        f"LSTM with and without peepholes. Metronome: {STARTS} starts a seed, a spike every "
        f"{PERIOD} steps after one spike in, linear readout of h, {STEPS} steps of Adam at "
        f"{RATE:g} on {TRAINED} beats. Delays of 3 to 8 steps between two spikes: {DELAY_STEPS} "
        f"batches of 64. Surnames: H = {HIDDEN}, {EPOCHS} epochs, {len(parts.train)} names, "
        f"{len(parts.test)} others to test.",
        SEEDS,
        results,
    )
    print(path.name)


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    main()
