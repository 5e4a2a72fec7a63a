"""Kill training runs at random moments, resume them, and compare with runs that were left alone.

    python tools/kill_and_resume.py --kills 10 --seed 0

Each kind of run is trained once to its end, and then again in a process that is sent SIGKILL after
a random time, and started again with ``resume="auto"``, until it has died so many times and comes
to its end. Parameters, buffers, optimizer, schedulers and history (durations aside) are written
out by both, and the two files must be equal, byte by byte. (Where data are loaded by workers,
those of a killed run may complain that it is gone.)
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import torch
import torch._dynamo  # noqa: F401  # optimizers import it late, which takes long
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import companion
from companion.reproduce import cpu_generator
from companion.train import EarlyStopping, Trainer
from companion.train.batches import tensors_of
from companion.train.runs import _state
from companion.train.storage import write

LR = torch.optim.lr_scheduler


class Classifier(nn.Module):
    """Dropout, running statistics, and a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = companion.LSTM(5, 16, 2, batch_first=True, dropout=0.3)
        self.norm, self.drop = nn.BatchNorm1d(16), nn.Dropout(0.2)
        self.out, self.again = nn.Linear(16, 16), nn.Linear(16, 16)
        self.again.weight = self.out.weight

    def forward(self, x):
        return self.again(self.out(self.drop(self.norm(self.rnn(x)[0][:, -1]))))[:, :3]


def classify(model, batch):
    x, y = batch
    logits = model(x)
    right = (logits.argmax(1) == y).double().mean()
    return nn.functional.cross_entropy(logits, y), len(y), {"accuracy": right}


def shuffled(folder, resume, workers=0, accumulate=1):
    """A shuffled DataLoader with a batch that is not finite, two schedulers, early stopping."""
    companion.seed_all(1)
    x, y = torch.randn(150, 7, 5), torch.randint(3, (150,))
    x[17, 3] = math.nan
    own = cpu_generator(5)
    train = DataLoader(TensorDataset(x, y), 8, shuffle=True, num_workers=workers)
    valid = DataLoader(TensorDataset(x[30:60], y[30:60]), 16, shuffle=True, generator=own)
    model = Classifier()
    adam = torch.optim.AdamW(model.parameters(), lr=0.01)
    trainer = Trainer(
        model,
        classify,
        adam,
        scheduler=LR.ReduceLROnPlateau(adam, factor=0.5, patience=0),
        step_scheduler=LR.LinearLR(adam, 0.1, total_iters=20),
        early_stopping=EarlyStopping(patience=3),
        accumulate=accumulate,
        clip_norm=0.5,
    )
    trainer.fit(train, valid, 4, checkpoint=folder, every=2, resume=resume)
    return trainer


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = companion.GRU(4, 12, 2, batch_first=True, dropout=0.1, recurrent_dropout=0.2)
        self.out = nn.Linear(12, 4)

    def forward(self, x, state):
        y, h = self.rnn(x, state)
        return self.out(y), h


def stateful(folder, resume):
    """Truncated backpropagation with a nested carried state that is a view of the outputs."""
    companion.seed_all(2)
    x = torch.randn(6, 200, 4).cumsum(1) / 10
    x[2, 77] = math.inf
    chunks = [(x[:, t : t + 5], x[:, t + 1 : t + 6]) for t in range(0, 194, 5)]
    model = Reader()

    def objective(model, batch, state):
        x, y = batch
        out, h = model(x, None if state is None else state["h"][0].transpose(0, 1))
        new = {
            "h": (h.transpose(0, 1), [h[:, :2]]),
            "batches": 1 + (state or {"batches": 0})["batches"],
        }
        return nn.functional.mse_loss(out, y), y.numel(), {"batches": new["batches"]}, new

    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    trainer = Trainer(
        model,
        objective,
        sgd,
        step_scheduler=LR.OneCycleLR(sgd, 0.1, total_steps=200),
        clip_norm=1.0,
        stateful=True,
    )
    trainer.fit(chunks, chunks[:5], 4, checkpoint=folder, every=3, resume=resume)
    return trainer


KINDS = {
    "shuffled": shuffled,
    "accumulated": lambda folder, resume: shuffled(folder, resume, accumulate=3),
    "workers": lambda folder, resume: shuffled(folder, resume, workers=2),
    "stateful": stateful,
}


def outcome(trainer: Trainer, path: Path) -> None:
    """Write all that must be the same."""
    history = asdict(trainer.history)
    seconds = history.pop("seconds")
    assert len(seconds) == len(trainer.history)
    history["skipped"] = [tuple(entry) for entry in trainer.history.skipped]
    assert history["skipped"] and len(trainer.history.grad_norm) > 20
    value = {
        "model": tensors_of(trainer.model),
        "optimizer": trainer.optimizer.state_dict(),
        "schedulers": [s and _state("", s) for s in (trainer.scheduler, trainer.step_scheduler)],
        "history": history,
        "random": torch.get_rng_state(),
    }
    write(path.with_suffix(".partial"), value)
    os.replace(path.with_suffix(".partial"), path)


def attempt(kind: str, folder: Path, after: float | None) -> bool:
    """Train in a process of its own, killed after a time; whether it came to its end."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # with its data workers, which must not outlive it
        status = 1
        try:
            outcome(KINDS[kind](folder / "checkpoints", "auto"), folder / "outcome.safetensors")
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(status)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    if os.WEXITSTATUS(status) != 0:
        raise RuntimeError(f"a run of kind {kind} failed; see above")
    return True


def check(kind: str, kills: int, folder: Path, chance: random.Random) -> str:
    """Compare a run that is killed with one that is not; say how it went."""
    start = time.perf_counter()
    assert attempt(kind, folder / "whole", None)
    length = time.perf_counter() - start
    longest, places = 2 * length / (kills + 1), []
    while len(places) < kills:
        if attempt(kind, folder / "killed", chance.uniform(0, longest)):
            # over before it had died so often: once more, and quicker
            shutil.rmtree(folder / "killed")
            longest, places = longest / 2, []
            continue
        names = [path.name for path in (folder / "killed").glob("checkpoints/epochs-*")]
        places.append(max(names, default="the beginning"))
    assert attempt(kind, folder / "killed", None)
    a, b = ((folder / n / "outcome.safetensors").read_bytes() for n in ("whole", "killed"))
    verdict = "bit-identical" if a == b else "DIFFERENT"
    return f"{kind}: {len(places)} kills, resumed from {', '.join(places)}: {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--kills", type=int, default=10, help="kills of each kind")
    parser.add_argument("--seed", type=int, default=None, help="of the moments")
    options = parser.parse_args()
    torch.set_num_threads(1)
    chance, bad = random.Random(options.seed), 0
    for kind in options.kinds:
        with tempfile.TemporaryDirectory() as folder:
            line = check(kind, options.kills, Path(folder), chance)
        print(line, flush=True)
        bad += not line.endswith("bit-identical")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
