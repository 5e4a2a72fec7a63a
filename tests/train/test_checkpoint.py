"""Runs that are broken off anywhere and resumed, and checkpoints that cannot be used."""

import importlib.util
import json
import math
import os
import random
import shutil
import sys
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

import companion
from companion.reproduce import cpu_generator
from companion.train import CheckpointError, EarlyStopping, Trainer
from companion.train import checkpoint as checkpoint_module
from companion.train.batches import tensors_of
from companion.train.checkpoint import Store
from companion.train.processes import Alone
from companion.train.runs import _state
from companion.train.storage import pack

LR = torch.optim.lr_scheduler
TOOL = Path(__file__).parents[2] / "tools" / "kill_and_resume.py"


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    """The disk is not waited for: power stays on in a test."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


class Broken(BaseException):
    """Ends a run as a kill does: nobody catches it."""


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))


def loader(n=22, **options):
    g = torch.Generator().manual_seed(8)
    x = torch.randn(n, 3, generator=g)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 4, **{"shuffle": True, **options})


def mse(model, batch):
    x, y = batch
    return nn.functional.mse_loss(model(x), y), len(x), {"size": len(x)}


def after(calls, objective=mse):
    """An objective that breaks the run off at a call, from 0."""
    left = iter(range(10**6))

    def broken(*given):
        if next(left) == calls:
            raise Broken
        return objective(*given)

    return broken


def trainer_of(model, objective=mse, **options):
    adam = options.pop("optimizer", torch.optim.Adam)(model.parameters(), lr=0.05)
    return Trainer(model, objective, adam, **options)


def everything(trainer):
    """All that must be equal, as plain values."""
    tensors = {}
    history = {k: v for k, v in vars(trainer.history).items() if k != "seconds"}
    history["skipped"] = [tuple(entry) for entry in trainer.history.skipped]
    parts = [trainer.scheduler, trainer.step_scheduler, trainer.early_stopping]
    value = [
        tensors_of(trainer.model),
        trainer.optimizer.state_dict(),
        [part and _state("", part) for part in parts],
        history,
        torch.get_rng_state(),
    ]
    plain = json.dumps(pack(value, tensors, "all"))
    return plain, {name: t.numpy().tobytes() for name, t in tensors.items()}


def fit(folder, objective=mse, resume="auto", train=None, epochs=3, every=1, **options):
    companion.seed_all(3)
    trainer = trainer_of(net(), objective, **options)
    train = loader() if train is None else train
    trainer.fit(train, loader(9), epochs, checkpoint=folder, every=every, resume=resume)
    return trainer


# ---- exactly as if nothing had happened ---------------------------------------------------------


@pytest.mark.parametrize("calls", [0, 1, 3, 6, 8, 9, 12, 16, 20, 26])  # 6 batches, 3 of validation
@pytest.mark.parametrize("every", [1, 4, None])
def test_broken_off_anywhere_and_resumed(tmp_path, calls, every):
    whole = fit(tmp_path / "a", every=every)
    with pytest.raises(Broken):
        fit(tmp_path / "b", after(calls), every=every)
    assert everything(fit(tmp_path / "b", every=every)) == everything(whole)
    assert len(whole.history.grad_norm) == 18 and len(whole.history) == 3


@pytest.mark.parametrize("step", range(9))
def test_broken_off_while_writing(tmp_path, monkeypatch, step):
    """Before each of the calls that a checkpoint is made of."""
    whole = fit(tmp_path / "a", every=2)
    left = iter(range(10**6))

    def breaking(function):
        def call(*given, **options):
            if next(left) == step + 18:  # in the third or fourth checkpoint
                raise Broken
            return function(*given, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "write", breaking(checkpoint_module.write))
        patch.setattr(checkpoint_module, "write_bytes", breaking(checkpoint_module.write_bytes))
        patch.setattr(checkpoint_module.os, "replace", breaking(os.replace))
        patch.setattr(checkpoint_module.shutil, "rmtree", breaking(shutil.rmtree))
        with pytest.raises(Broken):
            fit(tmp_path / "b", every=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is half-written is never taken for a checkpoint
        again = fit(tmp_path / "b", every=2)
    assert everything(again) == everything(whole)
    assert not list((tmp_path / "b").glob(".*")), "nothing is left lying about"


def sampled(generator):
    return loader(generator=generator)


class Augmented(Dataset):
    """Noise from a generator of its own."""

    def __init__(self):
        self.rng = random.Random(3)

    def __len__(self):
        return 20

    def __getitem__(self, n):
        x = torch.tensor([self.rng.gauss(0, 1), n / 20, torch.rand(()).item()])
        return x, x.sum(0, keepdim=True)


class Counting:
    """Batches in an order that follows from the epoch's number."""

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        yield from DataLoader(loader().dataset, 4, generator=cpu_generator(self.epoch))


def listed(generator):
    return list(loader(generator=generator))


def indices(generator):
    sampler = DistributedSampler(loader().dataset, 1, 0, seed=3)
    return loader(shuffle=False, sampler=sampler)


@pytest.mark.parametrize(
    "make",
    [
        sampled,
        listed,
        indices,
        lambda g: DataLoader(Augmented(), 4, shuffle=True),
        lambda g: Counting(),
        lambda g: loader(num_workers=1),
        lambda g: loader(num_workers=1, generator=g),
    ],
    ids=[
        "generator",
        "list",
        "set_epoch",
        "augmented",
        "own class",
        "worker",
        "worker, generator",
    ],
)
@pytest.mark.parametrize("calls", [3, 13])
def test_batches_of_every_kind(tmp_path, make, calls):
    whole = fit(tmp_path / "a", train=make(cpu_generator(1)))
    with pytest.raises(Broken):
        fit(tmp_path / "b", after(calls), train=make(cpu_generator(1)))
    # of a generator the checkpoint knows the state, of a list it does not know the content
    again = fit(tmp_path / "b", train=make(cpu_generator(1 if make is listed else 99)))
    assert everything(again) == everything(whole)


def test_generators_that_nobody_sees_can_be_named(tmp_path):
    def run(folder, objective, g):
        def noisy(model, batch):
            x, y = batch
            return objective(model, (x + torch.randn(x.shape, generator=g), y))

        return fit(folder, noisy, generators=[g])

    whole = run(tmp_path / "a", mse, cpu_generator(4))
    with pytest.raises(Broken):
        run(tmp_path / "b", after(8), cpu_generator(4))
    again = run(tmp_path / "b", mse, cpu_generator(5))
    assert everything(again) == everything(whole)


def schedulers():
    yield lambda o: LR.StepLR(o, 2, 0.5), False
    yield lambda o: LR.MultiStepLR(o, [3, 3, 5]), True
    yield lambda o: LR.LambdaLR(o, lambda n: 1 / (n + 1)), True
    yield lambda o: LR.CosineAnnealingWarmRestarts(o, 4, 2), True
    yield lambda o: LR.CosineAnnealingLR(o, 9), True
    yield lambda o: LR.OneCycleLR(o, 0.1, total_steps=18), True
    yield lambda o: LR.ExponentialLR(o, 0.9), True
    yield lambda o: LR.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", cycle_momentum=False), True
    yield lambda o: LR.ReduceLROnPlateau(o, patience=0), False
    two = [lambda o: LR.LinearLR(o, 0.1, total_iters=5), lambda o: LR.ExponentialLR(o, 0.9)]
    yield lambda o: LR.SequentialLR(o, [make(o) for make in two], [5]), True
    yield lambda o: LR.ChainedScheduler([make(o) for make in two]), True


@pytest.mark.parametrize("make, each_step", schedulers())
def test_schedulers_of_every_kind(tmp_path, make, each_step):
    def run(folder, objective=mse):
        companion.seed_all(3)
        model = net()
        adam = torch.optim.Adam(model.parameters(), lr=0.05)
        name = "step_scheduler" if each_step else "scheduler"
        trainer = Trainer(model, objective, adam, **{name: make(adam)})
        trainer.fit(loader(), loader(9), 3, checkpoint=folder, every=1, resume="auto")
        return trainer

    whole = run(tmp_path / "a")
    with pytest.raises(Broken):
        run(tmp_path / "b", after(13))
    assert everything(run(tmp_path / "b")) == everything(whole)
    assert len(set(whole.history.learning_rate)) > 1 or "Plateau" in str(whole.scheduler)


@pytest.mark.parametrize(
    "kind",
    [
        torch.optim.SGD,
        lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True),
        torch.optim.AdamW,
        lambda p, lr: torch.optim.AdamW(p, torch.tensor(lr), amsgrad=True),
        torch.optim.Adagrad,
        torch.optim.RMSprop,
        torch.optim.Rprop,
        torch.optim.ASGD,
        torch.optim.RAdam,
        torch.optim.Adadelta,
    ],
)
def test_optimizers_of_every_kind(tmp_path, kind):
    whole = fit(tmp_path / "a", optimizer=kind)
    with pytest.raises(Broken):
        fit(tmp_path / "b", after(13), optimizer=kind)
    assert everything(fit(tmp_path / "b", optimizer=kind)) == everything(whole)


def test_optimizers_that_keep_more_digits_than_the_parameters(tmp_path):
    """load_state_dict would round the state to the parameters' dtype."""

    class Exact(torch.optim.Optimizer):
        def __init__(self, parameters, lr):
            super().__init__(parameters, {"lr": lr})

        @torch.no_grad()
        def step(self):
            for p in self.param_groups[0]["params"]:
                total = self.state[p].get("total", torch.zeros_like(p).double())
                self.state[p]["total"] = total + p.grad.double() / 3
                p -= 0.1 * self.state[p]["total"].float()

    whole = fit(tmp_path / "a", optimizer=Exact)
    with pytest.raises(Broken):
        fit(tmp_path / "b", after(13), optimizer=Exact)
    assert everything(fit(tmp_path / "b", optimizer=Exact)) == everything(whole)


def test_an_epoch_lasts_as_long_as_its_parts(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("companion.train.epochs.time.perf_counter", lambda: now[0])

    def slow(model, batch):
        now[0] += 1
        return mse(model, batch)

    whole = fit(tmp_path / "a", slow)
    with pytest.raises(Broken):
        fit(tmp_path / "b", after(12, slow))
    now[0] += 1000  # until somebody starts it again
    assert fit(tmp_path / "b", slow).history.seconds == whole.history.seconds == [9, 9, 9]


def test_steps_before_a_kill_are_steps_of_the_epoch(tmp_path):
    """The scheduler is stepped after an epoch with a step, and here all are before the kill."""

    def run(folder, wrap):
        def first_ones(model, batch):
            left = len(trainer.history.grad_norm) - 3 * len(trainer.history)
            return *mse(model, batch)[:1], 4 if left < 3 else 0

        companion.seed_all(3)
        model = net()
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = Trainer(model, wrap(first_ones), sgd, scheduler=LR.StepLR(sgd, 1, 0.5))
        trainer.fit(loader(), None, 3, checkpoint=folder, every=1, resume="auto")
        return trainer

    whole = run(tmp_path / "a", lambda o: o)
    with pytest.raises(Broken):
        run(tmp_path / "b", lambda o: after(10, o))
    again = run(tmp_path / "b", lambda o: o)
    assert everything(again) == everything(whole)
    assert again.history.learning_rate == [0.1, 0.05, 0.025] and len(again.history.skipped) == 9


@pytest.mark.parametrize("calls", [4, 7, 13, 19])
def test_accumulation_faults_and_early_stopping(tmp_path, calls):
    def spoiled(model, batch):
        loss, n, metrics = mse(model, batch)
        return loss * (math.nan if (batch[0] > 2).any() and model.training else 1), n, metrics

    def run(folder, objective):
        stop = EarlyStopping(2, min_delta=0.3)
        return fit(folder, objective, epochs=8, accumulate=2, clip_norm=0.1, early_stopping=stop)

    whole = run(tmp_path / "a", spoiled)
    assert whole.history.skipped and whole.early_stopping.stopped
    with pytest.raises(Broken):
        run(tmp_path / "b", after(calls, spoiled))
    assert everything(run(tmp_path / "b", spoiled)) == everything(whole)


def test_bad_steps_in_a_row_are_counted_past_a_kill(tmp_path):
    def bad(model, batch):
        loss, n, metrics = mse(model, batch)
        return loss * math.nan if len(trainer.history.grad_norm) >= 3 else loss, n, metrics

    trainer = trainer_of(net(), bad)
    with pytest.raises(companion.train.TrainingDiverged):  # 3 in the first epoch, 2 in the second
        trainer.fit(loader(), None, 2, checkpoint=tmp_path)
    before = trainer.history.skipped
    trainer = trainer_of(net(), bad)
    with pytest.raises(companion.train.TrainingDiverged, match="5 steps in a row"):
        trainer.fit(loader(), None, 2, checkpoint=tmp_path, resume=True)
    assert trainer.history.skipped == before and len(before) == 5


def test_a_finished_run_is_finished(tmp_path):
    whole = fit(tmp_path, early_stopping=EarlyStopping(9))
    again = fit(tmp_path, after(0), resume=True, early_stopping=EarlyStopping(9))
    assert everything(again) == everything(whole)
    more = fit(tmp_path, resume=True, epochs=4, early_stopping=EarlyStopping(9))
    assert len(more.history) == 4 and more.history.train_loss[:3] == whole.history.train_loss


def test_a_second_fit_has_a_folder_of_its_own(tmp_path):
    def both(objective=mse):
        companion.seed_all(3)
        trainer = trainer_of(net(), objective)
        for name in "ab":
            trainer.fit(loader(), None, 2, checkpoint=tmp_path / name, every=1, resume="auto")
        return trainer

    with pytest.raises(Broken):
        both(after(20))
    again = both()
    for name in "ab":
        shutil.rmtree(tmp_path / name)
    assert everything(again) == everything(both())
    with pytest.raises(CheckpointError, match="epochs before this fit is 0, there 2"):
        trainer_of(net()).fit(loader(), None, 2, checkpoint=tmp_path / "b", resume=True)


class Odd(nn.Module):
    """Tied, not contiguous, a buffer that no state_dict has, one that is replaced, extra state."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(5, 3).t())
        self.b, self.drop = self.a, nn.Dropout(0.3)
        self.register_buffer("calls", torch.zeros(()), persistent=False)
        self.register_buffer("total", torch.zeros(()))
        self.words = ["none"]

    def forward(self, x):
        if self.training:
            self.calls += 1
            self.total = self.total + x.sum()
            self.words = self.words + ["one"]
        return self.drop(x @ self.a) @ self.b.t()

    def get_extra_state(self):
        return {"words": self.words}

    def set_extra_state(self, state):
        self.words = state["words"]


def test_models_with_everything_odd(tmp_path):
    def small(model, batch):
        return model(batch[0]).square().mean(), len(batch[0])

    def run(folder, objective=small):
        companion.seed_all(3)
        trainer = trainer_of(Odd(), objective)
        trainer.fit(loader(), None, 2, checkpoint=folder, every=1, resume="auto")
        return trainer

    whole = run(tmp_path / "a")
    with pytest.raises(Broken):
        run(tmp_path / "b", after(9, small))
    again = run(tmp_path / "b")
    assert everything(again) == everything(whole)
    assert again.model.calls == 12 and len(again.model.words) == 13
    assert again.model.a.stride() == (1, 3)
    names = load_file(sorted((tmp_path / "b").iterdir())[-1] / "model.safetensors")
    assert sorted(names) == ["a", "calls", "total"]  # tied ones once


def carrying(state_of):
    def objective(model, batch, state):
        x, _ = batch
        h = torch.zeros(4, 3) if state is None else state_of[1](state)
        y = model[2](x + h)
        return mse(model, (y, batch[1]))[0], 1, {}, state_of[0](y)

    return objective


@pytest.mark.parametrize(
    "state_of",
    [
        (lambda h: h, lambda s: s),
        (lambda h: (h, [{"h": h.t()}, None, 3]), lambda s: s[1][0]["h"].t()),
        (lambda h: h.expand(2, 4, 3), lambda s: s[1]),
    ],
    ids=["tensor", "nested", "view"],
)
@pytest.mark.parametrize("calls", [3, 9])
def test_carried_states(tmp_path, state_of, calls):
    def run(folder, wrap):
        companion.seed_all(3)
        trainer = trainer_of(net(), wrap(carrying(state_of)), stateful=True)
        trainer.fit(loader(20), None, 3, checkpoint=folder, every=1, resume="auto")
        return trainer

    whole = run(tmp_path / "a", lambda o: o)
    with pytest.raises(Broken):
        run(tmp_path / "b", lambda o: after(calls, o))
    assert everything(run(tmp_path / "b", lambda o: o)) == everything(whole)


def test_a_carried_state_that_cannot_be_kept_is_named(tmp_path):
    class State:
        pass

    def objective(model, batch, state):
        return *mse(model, batch), {"memory": State()}

    trainer = trainer_of(net(), objective, stateful=True)
    with pytest.raises(TypeError, match=r"^carried\.memory: a checkpoint holds .*State"):
        trainer.fit(loader(), checkpoint=tmp_path, every=1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("kind", ["shuffled", "accumulated", "workers", "stateful"])
def test_kill_9(tmp_path, kind):
    """Three random kills of a process; tools/kill_and_resume.py does as many as it is told."""
    spec = importlib.util.spec_from_file_location("kill_and_resume", TOOL)
    tool = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tool
    spec.loader.exec_module(tool)
    line = tool.check(kind, 3, tmp_path, random.Random())
    assert line.endswith("bit-identical"), line


# ---- which one, and whether it fits -------------------------------------------------------------


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("keep, left", [(1, 1), (2, 2), (3, 3), (99, 18)])
def test_the_newest_few_are_kept(tmp_path, keep, left):
    trainer_of(net()).fit(loader(), None, 3, checkpoint=tmp_path, every=1, keep=keep)
    found = names(tmp_path)
    # after the last step of an epoch and after the epoch there is one each
    assert len(found) == min(keep, 21) and found[-1] == "epochs-0003-batches-00000000"
    assert left <= len(found)


def test_checkpoints_without_every_are_of_whole_epochs(tmp_path):
    trainer_of(net()).fit(loader(), None, 3, checkpoint=tmp_path, keep=9)
    assert names(tmp_path) == [f"epochs-000{n}-batches-00000000" for n in (1, 2, 3)]


def test_what_a_checkpoint_says(tmp_path):
    trainer_of(net()).fit(loader(), None, 2, checkpoint=tmp_path)
    body = json.loads((tmp_path / "epochs-0002-batches-00000000/checkpoint.json").read_text())
    assert (body["epochs"], body["batches"], body["steps"]) == (2, 0, 12)
    assert names(tmp_path / "epochs-0002-batches-00000000") == [
        "checkpoint.json",
        "model.safetensors",
        "process-0.safetensors",
        "training.safetensors",
    ]
    weights = load_file(tmp_path / "epochs-0002-batches-00000000" / "model.safetensors")
    net().load_state_dict(weights)  # of use without this package


def damage_cut(path):
    path.write_bytes(path.read_bytes()[:-9])


def damage_byte(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage, file, message",
    [
        (damage_cut, "model.safetensors", "model.safetensors was changed or cut off"),
        (damage_byte, "training.safetensors", "training.safetensors was changed"),
        (damage_byte, "process-0.safetensors", "process-0.safetensors was changed"),
        (Path.unlink, "model.safetensors", "model.safetensors is missing"),
        (Path.unlink, "checkpoint.json", "checkpoint.json cannot be read"),
        (damage_cut, "checkpoint.json", "checkpoint.json cannot be read"),
        (damage_byte, "checkpoint.json", "checkpoint.json (was changed|cannot be read)"),
        (lambda p: p.write_text("[]"), "checkpoint.json", "checkpoint.json cannot be read"),
        (lambda p: p.write_text("{}"), "checkpoint.json", "checkpoint.json cannot be read"),
        (lambda p: p.write_bytes(b""), "model.safetensors", "model.safetensors was changed"),
    ],
)
def test_a_damaged_one_is_named_and_the_one_before_is_used(tmp_path, damage, file, message):
    whole = fit(tmp_path / "a")
    with pytest.raises(Broken):
        fit(tmp_path / "b", after(13))
    newest = sorted((tmp_path / "b").iterdir())[-1]
    damage(newest / file)
    with pytest.warns(UserWarning, match=f"older checkpoint.*{newest.name}: {message}"):
        again = fit(tmp_path / "b")
    assert everything(again) == everything(whole)


@pytest.mark.parametrize("resume", [True, "auto"])
def test_if_all_are_damaged_nothing_begins_anew(tmp_path, resume):
    fit(tmp_path)
    for path in tmp_path.glob("*/model.safetensors"):
        damage_cut(path)
    pattern = "no checkpoint in .* is whole. epochs-0003-batches-00000000: model.* cut off; epochs"
    with pytest.raises(CheckpointError, match=pattern):
        fit(tmp_path, resume=resume)


def test_another_version_is_named(tmp_path):
    fit(tmp_path)
    path = sorted(tmp_path.iterdir())[-1] / "checkpoint.json"
    body = json.loads(path.read_text())
    body.pop("sha256")
    body["version"] = 99
    path.write_text(json.dumps({**body, "sha256": checkpoint_module._sealed(body)}))
    with pytest.raises(CheckpointError, match="version 99; this release reads .*version 1"):
        fit(tmp_path)


def resumed(folder, model=None, **options):
    objective = options.pop("objective", mse)
    trainer = trainer_of(net() if model is None else model, objective, **options)
    return trainer, lambda: trainer.fit(loader(), None, 2, checkpoint=folder, resume=True)


class Wide(nn.Sequential):
    pass


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda: {"model": nn.Linear(3, 1)},
            "another model: it lacks bias, weight, and has 0.bia",
        ),
        (lambda: {"model": net().double()}, r"0.weight is \(4, 3\) of torch.float64, there .*32"),
        (
            lambda: {"model": nn.Sequential(nn.Linear(3, 5), *net()[1:])},
            r"another model: 0.weight is \(5, 3\) of torch.float32, there \(4, 3\)",
        ),
        (lambda: {"optimizer": torch.optim.SGD}, "optimizer is 'torch.*SGD', there 'torch.*Adam'"),
        (
            lambda: {"optimizer": lambda p, lr: torch.optim.Adam([*p][:-1], lr)},
            "optimizer: parameters of its groups is",
        ),
        (
            lambda: {"optimizer": lambda p, lr: torch.optim.Adam([*p][::-1], lr)},
            "optimizer: parameters of its groups is",
        ),
        (
            lambda: {
                "optimizer": lambda p, lr: torch.optim.Adam([{"params": [q]} for q in p], lr)
            },
            "optimizer: parameters of its groups is",
        ),
        (lambda: {"early_stopping": EarlyStopping(1)}, "early_stopping is .*, there None"),
        (
            lambda: {"stateful": True, "objective": lambda m, b, s: (*mse(m, b), s)},
            "stateful is True, there False",
        ),
    ],
)
def test_a_checkpoint_of_another_run_changes_nothing(tmp_path, change, message):
    trainer_of(net()).fit(loader(), None, 1, checkpoint=tmp_path)
    trainer, go = resumed(tmp_path, **change())
    before = everything(trainer)[1]
    with pytest.raises(CheckpointError, match=message):
        go()
    after = everything(trainer)[1]
    assert before.pop("all.4") and after.pop("all.4") and after == before


def test_a_scheduler_more_or_less_is_named(tmp_path):
    model = net()
    adam = torch.optim.Adam(model.parameters())
    trainer = Trainer(model, mse, adam, scheduler=LR.StepLR(adam, 1))
    trainer.fit(loader(), checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="scheduler is None, there 'torch.*StepLR'"):
        resumed(tmp_path)[1]()


def test_other_data_in_the_middle_of_an_epoch(tmp_path):
    with pytest.raises(Broken):
        fit(tmp_path, after(5))
    with pytest.raises(CheckpointError, match="train holds 2 batches, but 5 were read before"):
        fit(tmp_path, train=loader(8))


def test_a_folder_that_is_in_use_is_not_overwritten(tmp_path):
    fit(tmp_path)
    before = names(tmp_path)
    pattern = "checkpoint: .* holds epochs-0003-batches-00000000 already; resume=True goes on"
    with pytest.raises(ValueError, match=pattern):
        fit(tmp_path, resume=False)
    assert names(tmp_path) == before


def test_nothing_to_resume(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match="resume: no checkpoint in .*resume='auto'"):
            fit(folder, resume=True)
    assert len(fit(tmp_path / "none", resume="auto").history) == 3


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"checkpoint": 3}, TypeError, "checkpoint must be the path of a folder, got int: 3"),
        ({"every": 1}, ValueError, "^every: there is no folder"),
        ({"resume": True}, ValueError, "^resume: there is no folder"),
        ({"resume": "yes"}, ValueError, "resume must be True, False or 'auto', got 'yes'"),
        ({"resume": 1}, ValueError, "resume must be True, False or 'auto', got 1"),
        ({"checkpoint": "x", "every": 0}, ValueError, "every must be >= 1"),
        ({"checkpoint": "x", "every": 1.5}, TypeError, "every must be an int, got float"),
        ({"checkpoint": "x", "keep": 0}, ValueError, "keep must be >= 1"),
    ],
)
def test_options(tmp_path, monkeypatch, options, kind, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=message):
        trainer_of(net()).fit(loader(), **options)
    assert not names(tmp_path)


def test_a_folder_that_cannot_be_written_is_named_before_the_first_step(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(NotADirectoryError, match="checkpoint: cannot write in .*x/y"):
        trainer_of(net(), after(0)).fit(loader(), checkpoint=tmp_path / "x" / "y")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_two_runs_do_not_write_in_one_folder(tmp_path):
    (told, tell), (asked, ask) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store = Store(tmp_path, 2, Alone(torch.device("cpu")))
            store.claim()
            os.write(tell, b"1")
            os.close(ask)
            os.read(asked, 1)
        finally:
            os._exit(9)  # without letting go: killed
    os.close(tell)
    os.read(told, 1)
    pattern = f"checkpoint: process {child} writes in .*; wait until it has ended"
    try:
        with pytest.raises(CheckpointError, match=pattern):
            fit(tmp_path, after(0))
    finally:
        os.close(ask)
        os.waitpid(child, 0)
    assert len(fit(tmp_path).history) == 3 and not list(tmp_path.glob(".*"))


def test_a_trainer_that_has_trained_cannot_resume_its_own_run(tmp_path):
    trainer = trainer_of(net(), after(20))
    with pytest.raises(Broken):
        trainer.fit(loader(), None, 4, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="this trainer has 3 epochs already.*make a new one"):
        trainer.fit(loader(), None, 4, checkpoint=tmp_path, resume="auto")


def test_what_a_kill_left_is_removed_by_a_run_that_is_finished(tmp_path):
    fit(tmp_path / "a", every=None)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for old in ("epochs-0001-batches-00000000", ".epochs-0001-batches-00000003.discarded"):
        shutil.copytree(tmp_path / "b" / "epochs-0002-batches-00000000", tmp_path / "b" / old)
    (tmp_path / "b" / ".epochs-0009-batches-00000000.partial").mkdir()
    fit(tmp_path / "b", after(0), every=None)
    assert names(tmp_path / "b") == names(tmp_path / "a")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(NotADirectoryError, match="checkpoint: .*x is there, and is no folder"):
        trainer_of(net()).fit(loader(), checkpoint=tmp_path / "x")


def test_what_cannot_be_saved_is_said_before_the_first_step(tmp_path):
    model = net()
    model.register_buffer("adj", torch.eye(2).to_sparse())
    trainer = trainer_of(model, after(0))
    with pytest.raises(TypeError, match=r"^model\.adj is a sparse_coo tensor"):
        trainer.fit(loader(), checkpoint=tmp_path)
    model = net()
    adam = torch.optim.Adam(model.parameters())

    class Plain:
        def step(self):
            pass

    trainer = Trainer(model, after(0), adam, scheduler=Plain())
    with pytest.raises(TypeError, match="scheduler: .* has no state_dict"):
        trainer.fit(loader(), checkpoint=tmp_path)


# ---- what is not the same when it is resumed ----------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"metric": "size", "largest": True},
        {"metric": "size", "largest": False},
        {"min_delta": 0.5},
        {"restore_best": False},
    ],
)
def test_early_stopping_on_other_terms_is_an_error(tmp_path, change):
    fit(tmp_path, epochs=1, early_stopping=EarlyStopping(2))
    with pytest.raises(CheckpointError, match="early_stopping: its arguments is .*, there {'metr"):
        fit(tmp_path, early_stopping=EarlyStopping(2, **change))


def test_early_stopping_with_more_patience_goes_on(tmp_path):
    def run(patience):
        losses = iter([1.0, 2.0, 3.0, 4.0, 5.0])

        def objective(model, batch):
            loss, n, _ = mse(model, batch)
            return (loss if model.training else torch.tensor(next(losses))), n

        stop = EarlyStopping(patience)
        trainer = trainer_of(net(), objective, early_stopping=stop)
        trainer.fit(loader(), [next(iter(loader()))], 5, checkpoint=tmp_path, resume="auto")
        return len(trainer.history), stop.stopped

    assert run(1) == (2, True)
    assert run(1) == (2, True)
    assert run(9) == (5, False)


def test_settings_that_are_not_those_of_the_checkpoint_are_named(tmp_path):
    def run(epochs, lr=0.1, size=1, **options):
        model = net()
        sgd = torch.optim.SGD(model.parameters(), lr, **options)
        step = LR.StepLR(sgd, size)
        trainer = Trainer(model, mse, sgd, scheduler=step)
        trainer.fit(loader(), None, epochs, checkpoint=tmp_path, resume="auto")
        return sgd.param_groups[0]

    run(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(2)  # a rate that a scheduler has changed is no other setting
    pattern = r"settings of the checkpoint are used.*optimizer: lr \(now \[0.5\], there \[0.1\]\)"
    with pytest.warns(UserWarning, match=pattern) as caught:
        group = run(3, 0.5)
    assert "weight_decay" not in str(caught[0].message) and group["lr"] == pytest.approx(1e-4)
    with pytest.warns(UserWarning, match=r"optimizer: weight_decay \(now \[0.25\], there \[0\]\)"):
        assert run(4, weight_decay=0.25)["weight_decay"] == 0
    with pytest.warns(UserWarning, match=r"scheduler: step_size \(now 7, there 1\)"):
        run(5, size=7)


# ---- tensors that are in no state_dict, or come later -------------------------------------------


def test_a_parameter_that_only_the_optimizer_has(tmp_path):
    def run(folder, calls=-1, epochs=3):
        companion.seed_all(3)
        model, shift = net(), nn.Parameter(torch.zeros(()))

        def shifted(m, batch):
            return ((m(batch[0]) + shift - batch[1]) ** 2).mean(), len(batch[0])

        adam = torch.optim.Adam([*model.parameters(), shift], 0.05)
        trainer = Trainer(model, after(calls, shifted), adam)
        trainer.fit(loader(), None, epochs, checkpoint=folder, every=2, resume="auto")
        return everything(trainer), shift.item()

    whole = run(tmp_path / "a")
    with pytest.raises(Broken):
        run(tmp_path / "b", 9)
    assert run(tmp_path / "b") == whole and whole[1] != 0


def test_a_group_that_was_added_after_the_trainer_was_made(tmp_path):
    def run(folder, calls=-1):
        companion.seed_all(3)
        model = net()
        adam = torch.optim.Adam(model[3].parameters(), 0.05)
        trainer = Trainer(model, after(calls), adam)
        adam.add_param_group({"params": model[0].parameters(), "lr": 0.01})
        trainer.fit(loader(), None, 2, checkpoint=folder, every=1, resume="auto")
        return trainer

    whole = run(tmp_path / "a")
    with pytest.raises(Broken):
        run(tmp_path / "b", 8)
    assert everything(run(tmp_path / "b")) == everything(whole)


class Late(nn.Module):
    """A buffer that is None until a batch, and one that repeats its memory."""

    def __init__(self):
        super().__init__()
        self.net = net()
        self.register_buffer("h", None)
        self.register_buffer("mask", torch.ones(1, 3).expand(4, 3))

    def forward(self, x):
        self.h = x.mean(0) if self.h is None else self.h + x.mean(0)
        return self.net(x + self.h)


def test_buffers_that_come_later_or_repeat_their_memory(tmp_path):
    def run(folder, calls=-1):
        companion.seed_all(3)
        trainer = trainer_of(Late(), after(calls), early_stopping=EarlyStopping(9))
        trainer.fit(loader(), None, 2, checkpoint=folder, every=1, resume="auto")
        return trainer

    whole = run(tmp_path / "a")
    with pytest.raises(Broken):
        run(tmp_path / "b", 8)
    assert everything(run(tmp_path / "b")) == everything(whole)


class Summing(torch.optim.SGD):
    """Keeps something under a name instead of a parameter."""

    def step(self, closure=None):
        kept = self.state["all"].setdefault("steps", torch.zeros(()))
        kept += 1
        return super().step(closure)


def test_an_optimizer_with_a_state_of_no_parameter(tmp_path):
    whole = fit(tmp_path / "a", optimizer=Summing)
    with pytest.raises(Broken):
        fit(tmp_path / "b", after(8), optimizer=Summing)
    again = fit(tmp_path / "b", optimizer=Summing)
    assert everything(again) == everything(whole) and again.optimizer.state["all"]["steps"] == 18
