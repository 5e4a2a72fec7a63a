"""Early stopping: when, and what the weights then are."""

import math

import pytest
import torch
from torch import nn

from companion.train import EarlyStopping, Trainer


def run(losses, patience=2, **options):
    """The number of the epoch after which it stops, and the best one."""
    stop, net = EarlyStopping(patience, **options), nn.Linear(1, 1)
    for epoch, loss in enumerate(losses, 1):
        stop.update(epoch, {"loss": loss, "acc": loss}, net)
        if stop.stopped:
            return epoch, stop.best_epoch
    return None, stop.best_epoch


@pytest.mark.parametrize(
    "losses, patience, delta, stopped, best",
    [
        ([3, 2, 1], 1, 0, None, 3),
        ([3, 3], 1, 0, 2, 1),  # as good is no better
        ([3, 4, 5, 1], 2, 0, 3, 1),
        ([3, 4, 2, 4, 1, 4, 4], 2, 0, 7, 5),  # counted anew after each better one
        ([3, 2.75, 2.5, 2.25], 2, 0.5, 3, 1),  # better than the best one by 0.5 or less: no better
        ([3, 2.75, 2.25, 2.25], 2, 0.5, None, 3),  # two small gains are one large one
        ([math.nan, 2, math.nan, math.inf], 2, 0, 4, 2),
        ([math.nan, math.nan], 2, 0, 2, None),
    ],
)
def test_when_it_stops(losses, patience, delta, stopped, best):
    assert run(losses, patience, min_delta=delta) == (stopped, best)


def test_large_may_be_good():
    assert run([0.1, 0.5, 0.5, 0.4], metric="acc", largest=True) == (4, 2)
    assert run([0.1, 0.5, 0.5, 0.4], metric="acc", largest=False) == (3, 1)


def scripted(losses, seen=None):
    """A trainer whose validation losses are given, and whose weight counts its epochs."""
    model = nn.BatchNorm1d(1, affine=False)
    model.w = nn.Parameter(torch.zeros(()))
    left = iter(losses)

    def objective(model, batch):
        if not model.training:
            return torch.tensor(next(left)), 1, {"twice": 2.0}
        model.running_mean += 1
        return -model.w, 1, {"twice": 1.0}

    return Trainer(model, objective, torch.optim.SGD(model.parameters(), 1.0), **(seen or {}))


@pytest.mark.parametrize("restore", [True, False])
def test_fit_ends_early_with_the_best_weights(restore):
    stop = EarlyStopping(2, restore_best=restore)
    trainer = scripted([3.0, 1.0, 2.0, 2.0, 0.0], {"early_stopping": stop})
    history = trainer.fit([1], [1], epochs=5)
    assert history.valid_loss == [3, 1, 2, 2] and stop.stopped and stop.best_epoch == 2
    last = 2 if restore else 4
    assert trainer.model.w == last and trainer.model.running_mean == last


def test_best_weights_come_back_without_an_early_end_too():
    trainer = scripted([3.0, 1.0, 2.0], {"early_stopping": EarlyStopping(5)})
    trainer.fit([1], [1], epochs=3)
    assert trainer.model.w == 2 and not trainer.early_stopping.stopped


def test_each_fit_begins_anew():
    stop = EarlyStopping(1)
    trainer = scripted([1.0, 2.0, 5.0, 4.0], {"early_stopping": stop})
    trainer.fit([1], [1], epochs=2)
    assert stop.stopped and trainer.model.w == 1
    trainer.fit([1], [1], epochs=2)
    assert not stop.stopped and stop.best == 4.0 and len(trainer.history) == 4
    assert trainer.model.w == 3  # two steps on from the best of the first


def test_without_validation_the_training_counts():
    model = nn.Linear(1, 1)
    sgd = torch.optim.SGD(model.parameters(), 0.0)
    stop = EarlyStopping(3)
    x = torch.ones(2, 1)
    trainer = Trainer(model, lambda m, x: (m(x).mean(), 1), sgd, early_stopping=stop)
    assert len(trainer.fit([x], epochs=9)) == 4


@pytest.mark.parametrize(
    "arguments, options, kind, message",
    [
        ([0], {}, ValueError, "patience: expected at least 1, got 0"),
        ([1.5], {}, TypeError, "patience: expected an int, got float"),
        ([True], {}, TypeError, "patience: expected an int, got bool"),
        ([1], {"min_delta": -1}, ValueError, "min_delta: expected at least 0, got -1"),
        ([1], {"min_delta": math.nan}, ValueError, "min_delta: expected a finite number"),
        ([1], {"min_delta": "a"}, TypeError, "min_delta: expected a number, got str"),
        ([1], {"min_delta": None}, TypeError, "min_delta: expected a number, got NoneType"),
        ([1], {"min_delta": True}, TypeError, "min_delta: expected a number, got bool"),
        ([1], {"metric": 3, "largest": True}, TypeError, "metric: expected a str, got int"),
        ([1], {"largest": "no"}, TypeError, "largest: expected True or False, got 'no'"),
        ([1], {"restore_best": "no"}, TypeError, "restore_best: expected True or False"),
        ([1], {"restore_best": None}, TypeError, "restore_best: expected True or False"),
        ([1], {"metric": "f1"}, ValueError, "largest: expected True .*'f1'"),
    ],
)
def test_options(arguments, options, kind, message):
    with pytest.raises(kind, match=message):
        EarlyStopping(*arguments, **options)


def test_a_metric_that_is_not_there_is_named():
    stop = EarlyStopping(1, metric="f1", largest=True)
    with pytest.raises(ValueError, match="no metric 'f1'; there are: loss, twice"):
        scripted([1.0], {"early_stopping": stop}).fit([1], [1])
    with pytest.raises(TypeError, match="early_stopping must be .* got int: 3"):
        scripted([1.0], {"early_stopping": 3})


def test_what_the_optimizer_holds_beside_the_model_comes_back_too():
    model, scale = nn.Linear(1, 1), nn.Parameter(torch.zeros(()))
    seen = []

    def objective(m, x):
        if not m.training:
            seen.append((m.weight.item(), scale.item()))
            return torch.tensor([1.0, 3.0, 2.0][len(seen) - 1]), 1
        return (m(x) + scale).mean(), 1

    sgd = torch.optim.SGD([*model.parameters(), scale], 0.5)
    trainer = Trainer(model, objective, sgd, early_stopping=EarlyStopping(9))
    trainer.fit([torch.ones(2, 1)], [1], epochs=3)
    assert (model.weight.item(), scale.item()) == seen[0] and scale == -0.5  # of the first epoch


class Late(nn.Linear):
    """Its buffer is None until a batch."""

    def __init__(self):
        super().__init__(1, 1)
        self.register_buffer("h", None)
        self.register_buffer("mask", torch.ones(1, 3).expand(4, 3))

    def forward(self, x):
        if self.training:
            self.h = x.mean(0) if self.h is None else self.h + x.mean(0)
        return super().forward(x)


def test_buffers_that_come_later_or_repeat_their_memory():
    model, stop = Late(), EarlyStopping(2)
    stop.update(1, {"loss": 1.0}, model)
    model(torch.ones(4, 1))
    stop.update(2, {"loss": 2.0}, model)
    stop.restore(model)
    assert model.h is None and torch.equal(model.mask, torch.ones(4, 3))
    model(torch.ones(4, 1))
    stop.update(3, {"loss": 0.5}, model)
    model(torch.ones(4, 1))
    stop.restore(model)
    assert model.h.tolist() == [1.0]


def test_patience_may_change_when_a_run_is_resumed():
    stop, net = EarlyStopping(2), nn.Linear(1, 1)
    for epoch, loss in enumerate([1.0, 2.0, 3.0], 1):
        stop.update(epoch, {"loss": loss}, net)
    assert stop.stopped
    for patience, stopped in ((1, True), (2, True), (3, False)):
        other = EarlyStopping(patience)
        other.load_state_dict(stop.state_dict())
        assert other.stopped is stopped and other.waited == 2
