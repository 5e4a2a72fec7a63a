"""What test_processes.py starts once, and with torchrun: trains, and the first process reports.

python worker.py KIND OUTPUT [FOLDER]
"""

import math
import os
import sys
from dataclasses import asdict

import torch
from torch import nn
from torch.utils.data import DataLoader

import companion
from companion.train import Trainer
from companion.train.batches import tensors_of
from companion.train.storage import write

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


class Net(nn.Module):
    def __init__(self, drop=0.0):
        super().__init__()
        self.rnn = companion.LSTM(3, 6, 2, batch_first=True, dropout=drop)
        self.out, self.idle = nn.Linear(6, 4), nn.Linear(2, 2)

    def forward(self, x, lengths):
        return self.out(self.rnn(x, lengths=lengths)[0])


def sentences(sizes):
    """Batches of (x, y, lengths); the weight is the number of tokens."""
    g = torch.Generator().manual_seed(3)
    batches = []
    for n in sizes:
        lengths = torch.randint(1, 8, (n,), generator=g)
        x = torch.randn(n, 7, 3, generator=g).double()
        batches.append((x, torch.randint(4, (n, 7), generator=g), lengths))
    return batches


def tokens(model, batch):
    """The objective calls parts of the model, as DistributedDataParallel would not allow."""
    x, y, lengths = batch
    y = y.masked_fill(torch.arange(7) >= lengths[:, None], -1)
    logits = model.out(model.rnn(x, lengths=lengths)[0])
    loss = nn.functional.cross_entropy(logits.transpose(1, 2), y, ignore_index=-1)
    right = (logits.argmax(2) == y).double().sum() / lengths.sum()
    return loss, int(lengths.sum()), {"accuracy": right}


def trainer_of(model, objective=tokens, **options):
    adam = torch.optim.AdamW(model.parameters(), lr=0.02)
    accumulate = options.pop("accumulate", 1) * (2 if WORLD == 1 else 1)
    return Trainer(model, objective, adam, clip_norm=0.5, accumulate=accumulate, **options)


def plain(folder, dtype=torch.float64, **options):
    torch.manual_seed(RANK)  # all become the first one's
    model = Net().to(dtype)
    trainer = trainer_of(model, **options)
    batches = [(x.to(dtype), *rest) for x, *rest in sentences([5, 1, 4, 2, 6, 3, 2])]
    trainer.fit(batches, batches[:3], epochs=3)
    return trainer


def faults(folder):
    """An empty batch, and loss and gradient that are not finite, in this process or that."""
    torch.manual_seed(0)
    batches = sentences([5, 0, 4, 4, 2, 3, 0, 0, 3, 2])
    batches[2][0][0, 0] = math.nan

    def objective(model, batch):
        x, y, lengths = batch
        if len(x) == 0:
            return model.out.bias.sum() * math.nan, 0, {"accuracy": 0.0}
        loss, weight, metrics = tokens(model, batch)
        if x is batches[5][0]:
            loss = loss + (model.out.bias.sum() * 0).sqrt()
        return loss, weight, metrics

    trainer = trainer_of(Net().double(), objective)
    trainer.fit(batches, batches, epochs=2)
    return trainer


def shuffled(folder):
    """A shuffling loader on the global generator: the processes agree on the order."""
    torch.manual_seed(5 + RANK)
    loader = DataLoader(sentences([3] * 8), None, shuffle=True)
    seen = []

    def objective(model, batch):
        if model.training:
            seen.append(batch[0][0, 0, 0].item())
        return tokens(model, batch)

    trainer = trainer_of(Net(0.5).double(), objective)
    trainer.fit(loader, loader, epochs=3)
    trainer.history.train_metrics["seen"] = sum(trainer.processes.gather(seen), [])
    trainer.history.valid_metrics["draws"] = trainer.processes.gather(torch.rand(()).item())
    return trainer


def resumed(folder, epochs=3):
    """Dropout and checkpoints; started again, it goes on."""
    torch.manual_seed(5 + RANK)
    loader = DataLoader(sentences([3] * 8), None, shuffle=True)
    trainer = trainer_of(Net(0.5).double())
    trainer.fit(loader, loader, epochs, checkpoint=folder, every=1, keep=100, resume="auto")
    return trainer


def stream(folder):
    """Stateful: each process has its own rows of the stream."""
    torch.manual_seed(0)
    model = Net().double()
    x = torch.randn(4, 24, 3, generator=torch.Generator().manual_seed(1)).double()
    mine = x[RANK::WORLD]
    chunks = [mine[:, t : t + 6] for t in range(0, 24, 6)]

    def objective(model, x, state):
        y, state = model.rnn(x, state)
        return model.out(y).square().mean(), y.shape[0] * y.shape[1], state

    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, objective, sgd, stateful=True, own_batches=True)
    trainer.fit(chunks, chunks, epochs=2)
    return trainer


def uneven(folder):
    """Own batches, of which one process has fewer."""
    torch.manual_seed(0)
    batches = sentences([3, 2, 4, 5, 1, 2])
    trainer = trainer_of(Net().double(), own_batches=WORLD > 1)
    if WORLD > 1:
        trainer.fit([batches[:4], batches[4:]][RANK], checkpoint=f"{folder}/uneven", every=1)
    else:
        trainer.fit([batches[i] for i in (0, 4, 1, 5)])
        trainer.accumulate = 1
        trainer.fit(batches[2:4])
    return trainer


def normed(folder):
    """Statistics of batches, which each process has its own of."""
    torch.manual_seed(RANK)
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 4)).double()
    for name in ("uint16", "float8_e5m2", "bool", "complex64"):
        buffer = torch.full((2,), float(RANK)).to(getattr(torch, name))
        model.register_buffer(name, buffer)
    model.register_buffer("repeated", torch.full((1, 2), float(RANK)).expand(3, 2))
    model.register_buffer("empty", torch.zeros(0))

    def objective(model, batch):
        return model(batch[0][:, 0]).square().mean(), len(batch[0])

    trainer = trainer_of(model, objective)
    trainer.fit(sentences([3] * 5), epochs=2)
    return trainer


KINDS = {
    "normed": normed,
    "plain": plain,
    "float32": lambda folder: plain(folder, torch.float32),
    "accumulated": lambda folder: plain(folder, accumulate=3),
    "bf16": lambda folder: plain(folder, torch.float32, precision="bf16"),
    "faults": faults,
    "shuffled": shuffled,
    "resumed": resumed,
    "stream": stream,
    "uneven": uneven,
}


def report(trainer, path):
    history = asdict(trainer.history)
    history.pop("seconds")
    history["skipped"] = [tuple(entry) for entry in trainer.history.skipped]
    weights = [t.detach().clone() for t in tensors_of(trainer.model).values()]
    value = {"history": history, "weights": weights, "world": trainer.processes.world}
    data = [t.reshape(-1).view(torch.uint8) for t in weights]  # torch pickles no uint16
    value["everywhere"] = trainer.processes.gather((history, data))
    if RANK == 0:
        write(path, value)


if __name__ == "__main__":
    for kind in sys.argv[1].split(","):
        report(KINDS[kind](*sys.argv[3:] or [None]), f"{sys.argv[2]}/{kind}.safetensors")
