"""The trainer against loops written out, and everything that can go wrong on the way."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

import companion
from companion.train import History, Skipped, Trainer, TrainingDiverged
from companion.train import progress as progress_module


def linear(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(3, 1).double()


def data(sizes=(4, 4, 2), seed=1):
    g = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(n, 3, generator=g).double(), torch.randn(n, 1, generator=g).double())
        for n in sizes
    ]


def mse(model, batch):
    x, y = batch
    return nn.functional.mse_loss(model(x), y), len(x)


def sgd(model, lr=0.1, **options):
    return torch.optim.SGD(model.parameters(), lr=lr, **options)


def weights(model):
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def test_equals_a_loop_written_out():
    model, batches = linear(), data()
    twin = copy.deepcopy(model)
    optimizer = sgd(twin, momentum=0.9)
    losses = []
    for _ in range(3):
        total = count = 0
        for x, y in batches:
            loss = ((twin(x) - y) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, count = total + loss.item() * len(x), count + len(x)
        losses.append(total / count)
    history = Trainer(model, mse, sgd(model, momentum=0.9)).fit(batches, epochs=3)
    assert torch.equal(weights(model), weights(twin))
    assert history.train_loss == pytest.approx(losses, rel=1e-14)
    assert len(history) == 3 and len(history.grad_norm) == 9 and history.skipped == []
    assert len(history.seconds) == 3 and history.learning_rate == [0.1] * 3


def test_validation_is_the_mean_over_all_examples():
    model, batches = linear(), data((7, 1))
    x = torch.cat([b[0] for b in batches])
    y = torch.cat([b[1] for b in batches])
    found = Trainer(model, mse, sgd(model)).evaluate(batches)
    whole = mse(model, (x, y))[0].item()
    assert found.loss == pytest.approx(whole, rel=1e-14)
    mean_of_means = sum(mse(model, b)[0].item() for b in batches) / 2
    assert abs(found.loss - mean_of_means) > 1e-3 * whole


def test_two_fits_are_one():
    one, two = linear(), linear()
    long = Trainer(one, mse, sgd(one)).fit(data(), data((3,)), epochs=4)
    trainer = Trainer(two, mse, sgd(two))
    first = trainer.fit(data(), data((3,)), epochs=1)
    second = trainer.fit(data(), data((3,)), epochs=3)
    assert first is second and torch.equal(weights(one), weights(two))
    assert second.train_loss == long.train_loss and second.valid_loss == long.valid_loss


@pytest.mark.parametrize("clip", [0.01, 1e9])
def test_clipping_scales_to_the_norm_and_records_the_norm_before(clip):
    model, batches = linear(), data((5,))
    before = weights(model)
    loss, _ = mse(model, batches[0])
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, model.parameters())])
    norm = gradient.norm().item()
    history = Trainer(model, mse, sgd(model, lr=1.0), clip_norm=clip).fit(batches)
    assert history.grad_norm == [pytest.approx(norm, rel=1e-12)]
    step = before - weights(model)
    assert torch.allclose(step, gradient * min(1, clip / norm), rtol=1e-3)
    assert norm > 0.01


class Spoiled(torch.autograd.Function):
    """Identity whose gradient is a given value."""

    @staticmethod
    def forward(ctx, x, value):
        ctx.value = value
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return torch.full_like(grad, ctx.value), None


def spoiling(bad, value, where="bias"):
    """Make an objective whose batches number `bad` (from 0) have a spoiled gradient."""
    calls = iter(range(10**6))

    def objective(model, batch):
        x, y = batch
        weight, bias = model.weight, model.bias
        if next(calls) in bad:
            if where == "bias":
                bias = Spoiled.apply(bias, value)
            else:
                weight = Spoiled.apply(weight, value)
        return nn.functional.mse_loss(x @ weight.T + bias, y), len(x)

    return objective


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("where", ["weight", "bias"])
def test_case_33_one_infinite_gradient_poisons_nothing(value, where):
    # pytorch#46849: clip_grad_norm_ would make every gradient NaN or 0
    batches = data((4, 4, 4))
    model, twin = linear(), linear()
    trainer = Trainer(model, spoiling({1}, value, where), sgd(model), clip_norm=1.0)
    history = trainer.fit(batches)
    Trainer(twin, mse, sgd(twin), clip_norm=1.0).fit([batches[0], batches[2]])
    assert torch.equal(weights(model), weights(twin))
    assert history.skipped == [Skipped(1, 2, f"gradient of {where} is not finite")]
    assert len(history.grad_norm) == 2 and math.isfinite(history.train_loss[0])


def test_clipping_alone_would_have_poisoned():
    model = linear()
    loss, _ = spoiling({0}, math.inf)(model, data((4,))[0])
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert any(not p.grad.isfinite().all() for p in model.parameters())
    assert not model.weight.grad.any()  # and the good gradient is gone


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_loss_that_is_not_finite_is_skipped(bad):
    batches = data((4, 4, 4))
    batches[0][1][0] = bad
    model, twin = linear(), linear()
    history = Trainer(model, mse, sgd(model, momentum=0.9)).fit(batches)
    Trainer(twin, mse, sgd(twin, momentum=0.9)).fit(batches[1:])
    assert torch.equal(weights(model), weights(twin))
    assert history.skipped == [Skipped(1, 1, f"loss {bad} is not finite")]


def test_several_in_a_row_stop_with_an_explanation():
    model = linear()
    batches = data((4,) * 6)
    trainer = Trainer(model, spoiling({2, 3, 4}, math.inf), sgd(model), max_bad_steps=3)
    with pytest.raises(TrainingDiverged) as caught:
        trainer.fit(batches, epochs=2)
    text = str(caught.value)
    norm = trainer.history.grad_norm[-1]
    for part in (
        "3 steps in a row",
        "epoch 1, batch 5",
        "gradient of bias",
        f"last good step: {norm:.3g}",
        "Parameters: all finite",
        "now 0.1",
        "clip_norm (now None)",
    ):
        assert part in text
    assert isinstance(caught.value, FloatingPointError)
    assert len(trainer.history.skipped) == 3 and len(trainer.history.grad_norm) == 2
    assert all(p.grad is None for p in model.parameters())
    assert weights(model).isfinite().all()


def test_a_good_step_starts_the_count_again():
    model = linear()
    objective = spoiling({0, 1, 3, 4}, math.nan)
    history = Trainer(model, objective, sgd(model), max_bad_steps=3).fit(data((2,) * 6))
    assert len(history.skipped) == 4 and len(history.grad_norm) == 2


def test_the_count_goes_on_over_epochs():
    model = linear()
    with pytest.raises(TrainingDiverged, match="2 steps in a row.*epoch 2, batch 1"):
        Trainer(model, spoiling(range(9), math.nan), sgd(model), max_bad_steps=2).fit(
            data((2,)), epochs=5
        )


def test_parameter_that_is_not_finite_is_named():
    model = linear()
    with torch.no_grad():
        model.weight[0, 0] = math.nan
    with pytest.raises(TrainingDiverged, match="Parameters: weight is not finite"):
        Trainer(model, mse, sgd(model), max_bad_steps=1).fit(data())


def test_norm_that_overflows_is_said():
    model = nn.Linear(1, 1, bias=False)
    x = torch.full((2, 1), 1.0)

    def objective(model, batch):
        return (model(batch) * 1e38).sum() * 2, 1

    with torch.no_grad():
        model.weight.zero_()
    history = Trainer(model, objective, sgd(model)).fit([x])
    # the gradient 4e38 is beyond float32's 3.4e38
    assert history.skipped[0].reason == "gradient of weight is not finite"


def test_weight_zero_is_skipped_and_counted():
    batches = data((4, 0, 4))  # the mean over no example is NaN
    model, twin = linear(), linear()
    trainer = Trainer(model, mse, sgd(model), max_bad_steps=1)
    history = trainer.fit(batches, batches)
    Trainer(twin, mse, sgd(twin)).fit([batches[0], batches[2]])
    assert torch.equal(weights(model), weights(twin))
    assert history.skipped == [Skipped(1, 2, "weight 0")]
    assert math.isfinite(history.train_loss[0]) and math.isfinite(history.valid_loss[0])


def test_an_epoch_of_bad_steps_leaves_nan_in_every_column():
    calls = iter(range(9))

    def objective(model, batch):
        loss, n = mse(model, batch)
        return loss * (math.nan if next(calls) == 1 else 1), n, {"one": 1.0}

    model = linear()
    history = Trainer(model, objective, sgd(model)).fit(data((4,)), epochs=3)
    assert [math.isnan(v) for v in history.train_loss] == [False, True, False]
    assert [math.isnan(v) for v in history.train_metrics["one"]] == [False, True, False]
    assert history.best() and history.best("one", largest=True) == (1, 1.0)


meta = torch.zeros((), device="meta")


@pytest.mark.parametrize(
    "returned, kind, message",
    [
        (lambda loss: loss, TypeError, "must return .* got Tensor"),
        (lambda loss: (loss,), TypeError, "must return"),
        (lambda loss: [loss, 1], TypeError, "got list"),
        (lambda loss: (loss, 1, {}, 2), TypeError, "must return"),
        (lambda loss: (loss.item(), 1), TypeError, "mean_loss must be .* got float"),
        (lambda loss: (torch.tensor(1), 1), TypeError, "got torch.int64"),
        (lambda loss: (loss.expand(2), 1), ValueError, r"shape \(2,\)"),
        (lambda loss: (loss[None], 1), ValueError, r"shape \(1,\)"),
        (lambda loss: (loss.detach(), 1), ValueError, "no gradient"),
        (lambda loss: (loss, -1), ValueError, "weight must be"),
        (lambda loss: (loss, math.nan), ValueError, "weight must be"),
        (lambda loss: (loss, torch.tensor(math.inf)), ValueError, "weight must be"),
        (lambda loss: (loss, torch.ones(2)), TypeError, r"weight must be a number, got shape"),
        (lambda loss: (loss, None), TypeError, "weight must be a number"),
        (lambda loss: (loss, "8"), TypeError, "weight must be a number, got '8'"),
        (lambda loss: (loss, 1j), TypeError, "weight must be a number, got 1j"),
        (lambda loss: (loss, 10**400), ValueError, "weight is beyond the largest float"),
        (lambda loss: (loss, 1, {"a": "0.5"}), TypeError, "metric 'a' must be a number"),
        (lambda loss: (loss, 1, {"a": 10**400}), ValueError, "metric 'a' is beyond the largest"),
        (lambda loss: (loss, 1, {"a": meta}), TypeError, "metric 'a' must be a number"),
        (lambda loss: (loss, 1, [0.5]), TypeError, "metrics must be a dict"),
        (lambda loss: (loss, 1, {"a": torch.ones(2)}), TypeError, "metric 'a' must be a number"),
        (lambda loss: (loss, 1, {"a": "x"}), TypeError, "metric 'a' must be a number"),
        (lambda loss: (loss, 1, {"loss": 1.0}), ValueError, "a metric must be .* got 'loss'"),
        (lambda loss: (loss, 1, {"": 1.0}), ValueError, "a metric must be .* got ''"),
        (lambda loss: (loss, 1, {1: 1.0, "1": 2.0}), ValueError, "a metric must be .* got 1"),
    ],
)
def test_objectives_that_return_something_else(returned, kind, message):
    model = linear()
    model.eval()
    before = weights(model)
    trainer = Trainer(model, lambda m, b: returned(mse(m, b)[0]), sgd(model))
    with pytest.raises(kind, match="^objective.*" + message):
        trainer.fit(data())
    assert torch.equal(weights(model), before) and not model.training


def test_weight_and_metrics_may_be_tensors():
    model = linear()

    def objective(model, batch):
        loss, n = mse(model, batch)
        return loss, torch.tensor(n), {"n": torch.tensor(float(n)), "loss2": loss}

    history = Trainer(model, objective, sgd(model)).fit(data((4, 2)), data((3,)))
    assert history.train_metrics["n"] == [(4 * 4 + 2 * 2) / 6]
    assert history.valid_metrics["loss2"] == history.valid_loss


@pytest.mark.parametrize(
    "train, valid, epochs, kind, message",
    [
        ([], None, 1, ValueError, "^train holds no batch"),
        (data(), [], 1, ValueError, "^valid holds no batch"),
        (data((0, 0)), None, 1, ValueError, "weight 0 for all 2 batches of train"),
        (data(), data((0,)), 1, ValueError, "weight 0 for all 1 batches of valid"),
        (3, None, 1, TypeError, "^train must be an iterable of batches, got int"),
        (data(), 3, 1, TypeError, "^valid must be"),
        (None, None, 1, TypeError, "^train must be"),
        (iter(data()), None, 2, ValueError, "^train is a one-shot iterator"),
        ((b for b in data()), None, 2, ValueError, "one-shot iterator .generator"),
        (data(), map(id, []), 2, ValueError, "^valid is a one-shot"),
        (data(), None, 1.0, TypeError, "epochs must be an int"),
        (data(), None, True, TypeError, "epochs must be an int"),
        (data(), None, -1, ValueError, "epochs must be >= 0"),
    ],
)
def test_fit_arguments(train, valid, epochs, kind, message):
    model = linear()
    with pytest.raises(kind, match=message):
        Trainer(model, mse, sgd(model)).fit(train, valid, epochs=epochs)


def test_a_generator_will_do_for_one_epoch_and_none_for_none():
    model = linear()
    before = weights(model)
    assert len(Trainer(model, mse, sgd(model)).fit([], epochs=0)) == 0
    assert torch.equal(weights(model), before)
    assert len(Trainer(model, mse, sgd(model)).fit(b for b in data())) == 1


def elsewhere():
    """A scheduler of another optimizer."""
    return torch.optim.lr_scheduler.StepLR(sgd(linear()), 1)


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"clip_norm": 0}, ValueError, "clip_norm must be"),
        ({"clip_norm": -1.0}, ValueError, "clip_norm must be"),
        ({"clip_norm": math.nan}, ValueError, "clip_norm must be"),
        ({"clip_norm": "1"}, TypeError, "clip_norm must be .* got str: '1'"),
        ({"clip_norm": True}, TypeError, "clip_norm must be .* got bool"),
        ({"max_bad_steps": "5"}, TypeError, "max_bad_steps must be .* got str"),
        ({"max_bad_steps": None}, TypeError, "max_bad_steps must be .* got NoneType"),
        ({"max_bad_steps": math.nan}, TypeError, "max_bad_steps must be .* got float"),
        ({"scheduler": "cosine"}, TypeError, "scheduler must be .* got str: 'cosine'"),
        ({"scheduler": torch.optim.lr_scheduler.StepLR}, TypeError, "got the class StepLR"),
        ({"seed": "a"}, TypeError, "seed must be an int, got str"),
        ({"seed": -1}, ValueError, "seed must be in 0"),
        ({"progress": "yes"}, TypeError, "progress must be a bool or None"),
        ({"stateful": 1}, TypeError, "stateful must be a bool"),
        ({"max_bad_steps": 0}, ValueError, "max_bad_steps must be"),
        ({"max_bad_steps": 1.5}, TypeError, "max_bad_steps must be"),
        ({"max_bad_steps": True}, TypeError, "max_bad_steps must be"),
        ({"device": "nowhere"}, ValueError, "device must be a .* got 'nowhere'"),
        ({"device": 3.5}, TypeError, "device must be a .* got float: 3.5"),
        ({"device": "meta"}, ValueError, "device: tensors on meta hold no values"),
        ({"device": "cuda:99"}, ValueError, "device: cuda:99 is not here; torch finds"),
        ({"precision": np.array([1, 2])}, ValueError, "precision must be"),
        ({"progress": np.array([1, 2])}, TypeError, "progress must be a bool or None"),
        ({"scheduler": elsewhere()}, ValueError, "^scheduler sets the learning rate of another"),
        ({"step_scheduler": elsewhere()}, ValueError, "^step_scheduler sets the learning rate of"),
    ],
)
def test_options(options, kind, message):
    model = linear()
    with pytest.raises(kind, match=message):
        Trainer(model, mse, sgd(model), **options)


def test_wrong_objects():
    model = linear()
    with pytest.raises(TypeError, match="objective must be callable"):
        Trainer(model, "mse", sgd(model))
    for wrong in ("adam", torch.optim.SGD, None):
        with pytest.raises(TypeError, match="optimizer must be a torch.optim.Optimizer"):
            Trainer(model, mse, wrong)
    for wrong in (lambda x: x, nn.Linear, None):
        with pytest.raises(TypeError, match="model must be a torch.nn.Module"):
            Trainer(wrong, mse, sgd(model))
    with pytest.raises(ValueError, match="optimizer holds no parameter of model"):
        Trainer(model, mse, sgd(linear()))
    with pytest.raises(TypeError, match="LBFGS"):
        Trainer(model, mse, torch.optim.LBFGS(model.parameters()))


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.out = nn.Dropout(0.5), nn.Linear(3, 1)
        self.seen = []

    def forward(self, x):
        self.seen.append((self.training, self.drop.training, torch.is_grad_enabled()))
        return self.out(self.drop(x.float()))


@pytest.mark.parametrize("mode", [True, False])
def test_modes_while_and_after(mode):
    model = Noisy().train(mode)
    trainer = Trainer(model, lambda m, b: (m(b[0]).mean(), 1), sgd(model))
    trainer.fit(data((2, 2)), data((2,)), epochs=2)
    assert model.seen == [(True, True, True)] * 2 + [(False, False, False)] + [
        (True, True, True)
    ] * 2 + [(False, False, False)]
    assert model.training is mode and model.drop.training is mode
    first = trainer.evaluate(data((2,))).loss
    assert first == trainer.evaluate(data((2,))).loss  # no dropout
    assert model.training is mode and torch.is_grad_enabled()


def test_evaluate_changes_nothing():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double()
    before = copy.deepcopy(model.state_dict())
    trainer = Trainer(model, mse, sgd(model))
    trainer.evaluate(data())
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters()) and trainer.history == History()


def test_epoch_scheduler_and_recorded_rate():
    model = linear()
    optimizer = sgd(model, lr=0.8)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    history = Trainer(model, mse, optimizer, scheduler=scheduler).fit(data(), epochs=3)
    assert history.learning_rate == pytest.approx([0.8, 0.4, 0.2])


@pytest.mark.parametrize("with_valid", [True, False])
def test_plateau_scheduler_watches_validation_else_training(with_valid):
    model = linear()
    optimizer = sgd(model, lr=0.0)  # nothing gets better …
    optimizer.param_groups[0]["lr"] = 1e-9
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=0, threshold=1e-4, eps=0.0
    )
    seen = []
    step = plateau.step
    plateau.step = lambda loss: (seen.append(loss), step(loss))
    valid = data((3,), seed=5) if with_valid else None
    history = Trainer(model, mse, optimizer, scheduler=plateau).fit(data(), valid, epochs=3)
    assert seen == (history.valid_loss if with_valid else history.train_loss)
    assert history.learning_rate == pytest.approx([1e-9, 1e-9, 5e-10])  # … so it halves


def test_no_scheduler_step_without_an_optimizer_step(recwarn):
    model = linear()
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    objective = spoiling({0}, math.nan)
    history = Trainer(model, objective, optimizer, scheduler=scheduler).fit(data((4,)), epochs=3)
    assert history.learning_rate == pytest.approx([0.1, 0.1, 0.05])
    assert len(recwarn) == 0  # torch would warn about the order of the two steps


def test_seed_makes_runs_equal():
    runs = []
    for noise in range(2):
        model = Noisy()
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(0.1)
        torch.manual_seed(noise)
        trainer = Trainer(model, lambda m, b: (m(b[0]).mean(), 1), sgd(model), seed=3)
        trainer.fit(data())
        runs.append(weights(model))
    assert torch.equal(*runs)


def test_parameters_outside_the_model_and_without_gradient():
    model = nn.ModuleDict({"used": nn.Linear(3, 1), "idle": nn.Linear(2, 2)}).double()
    scale = nn.Parameter(torch.ones((), dtype=torch.float64))

    def objective(m, batch):
        x, y = batch
        loss = nn.functional.mse_loss(m["used"](x), y) * scale
        return (loss * math.nan if batch[0].shape[0] == 1 else loss), len(x)

    optimizer = torch.optim.SGD([scale, *model.parameters()], lr=0.1)
    history = Trainer(model, objective, optimizer, clip_norm=0.5).fit(data((4, 4)))
    assert scale.item() != 1 and len(history.grad_norm) == 2
    assert model["idle"].weight.grad is None


def test_frozen_network_has_no_gradient():
    model = linear().requires_grad_(False)
    with pytest.raises(ValueError, match="no gradient"):
        Trainer(model, mse, sgd(model)).fit(data())


def test_sparse_gradients():
    model = nn.Embedding(5, 2, sparse=True)
    dense = nn.Embedding(5, 2)
    dense.load_state_dict(model.state_dict())
    batch = torch.tensor([1, 1, 3])

    def objective(m, b):
        return (m(b) ** 2).sum(), 1

    norms = [Trainer(m, objective, sgd(m)).fit([batch]).grad_norm[0] for m in (model, dense)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-6)
    assert torch.allclose(model.weight, dense.weight)


def test_trains_a_recurrent_network():
    companion.seed_all(0)
    rnn = companion.RNN(2, 8, batch_first=True)
    model = nn.ModuleDict({"rnn": rnn, "out": nn.Linear(8, 1)})
    x = torch.randn(32, 6, 2)
    y = (x[:, 0, :1] > 0).float()  # the sign of the first input, five steps later
    lengths = torch.full((32,), 6)

    def objective(m, batch):
        _, h_n = m["rnn"](batch["x"], lengths=batch["lengths"])
        logits = m["out"](h_n[-1])
        right = ((logits > 0).float() == batch["y"]).float().mean()
        loss = nn.functional.binary_cross_entropy_with_logits(logits, batch["y"])
        return loss, len(batch["y"]), {"accuracy": right}

    batches = [{"x": x, "y": y, "lengths": lengths}]
    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    history = Trainer(model, objective, adam, clip_norm=1.0).fit(batches, epochs=80)
    assert history.train_metrics["accuracy"][-1] == 1.0 and history.train_loss[-1] < 0.2


@pytest.mark.parametrize(
    "wish, show, expected",
    [("0", None, False), ("1", None, True), ("0", True, True), ("1", False, False), ("", None, 0)],
)
def test_progress(monkeypatch, capsys, wish, show, expected):
    monkeypatch.setenv("COMPANION_PROGRESS", wish)
    model = linear()
    Trainer(model, mse, sgd(model), progress=show).fit(data(), epochs=1)
    out, err = capsys.readouterr()
    assert out == "" and ("epoch 1/1" in err) == bool(expected)


def test_progress_by_itself(monkeypatch):
    for name in ("COMPANION_PROGRESS", "CI", "PYTEST_CURRENT_TEST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(progress_module.sys.stderr, "isatty", lambda: True, raising=False)
    batches = data()
    assert progress_module.bar(batches, "t", None) is not batches
    monkeypatch.setenv("CI", "true")
    assert progress_module.bar(batches, "t", None) is batches


def test_epochs_without_validation_are_not_renumbered():
    model = linear()
    trainer = Trainer(model, mse, sgd(model, lr=0.01))
    trainer.fit(data(), epochs=3)
    history = trainer.fit(data(), data(), epochs=2)
    assert [math.isnan(v) for v in history.valid_loss] == [True] * 3 + [False] * 2
    assert history.best() == (5, history.valid_loss[4])
    trainer.fit(data())
    assert len(history.valid_loss) == 5 and history.best()[0] == 5


def normed(momentum=0.1):
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(3, momentum=momentum), nn.Linear(3, 1)).double()


# with momentum None the statistics depend on the number of batches too, an integer buffer
@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("way", ["nan in the batch", "weight 0", "gradient"])
def test_a_skipped_batch_leaves_the_statistics(way, momentum):
    batches = data((4, 4, 4))
    if way == "nan in the batch":
        batches[1][0][0, 0] = math.nan

    def objective(model, batch):
        loss, n = mse(model, batch)
        if batch is not seen[1]:
            return loss, n
        if way == "gradient":
            return loss + (model[1].weight.sum() * 0).sqrt(), n
        return loss, 0 if way == "weight 0" else n

    seen = batches
    model, twin = normed(momentum), normed(momentum)
    trainer = Trainer(model, lambda m, b: objective(m, seen[index(b)]), sgd(model))

    def index(batch):
        return next(i for i, b in enumerate(batches) if b[1].equal(batch[1]))

    history = trainer.fit(batches)
    Trainer(twin, mse, sgd(twin)).fit([batches[0], batches[2]])
    assert [entry.batch for entry in history.skipped] == [2]
    for (name, got), expected in zip(
        model.state_dict().items(), twin.state_dict().values(), strict=True
    ):
        assert torch.equal(got, expected), name


def test_a_buffer_that_is_replaced_comes_back_too():
    class Counting(nn.Linear):
        def __init__(self):
            super().__init__(3, 1)
            self.register_buffer("total", torch.zeros(()))

        def forward(self, x):
            self.total = self.total + x.sum()
            return super().forward(x.float())

    model = Counting()
    good, bad = torch.ones(2, 3), torch.full((2, 3), math.inf)
    history = Trainer(model, lambda m, x: (m(x).mean(), 1), sgd(model)).fit([good, bad, good])
    assert model.total == 12 and len(history.skipped) == 1


def test_an_error_in_the_validation_leaves_the_epoch_in_every_column():
    model = linear()
    fails = [True]

    def objective(model, batch):
        if not model.training and fails:
            raise RuntimeError("no validation")
        return *mse(model, batch), {"one": 1.0}

    trainer = Trainer(model, objective, sgd(model))
    with pytest.raises(RuntimeError, match="no validation"):
        trainer.fit(data(), data())
    history = trainer.history
    columns = (history.train_loss, history.learning_rate, history.seconds)
    assert [len(c) for c in columns] == [1, 1, 1] and history.train_metrics == {"one": [1.0]}
    fails.clear()
    trainer.fit(data(), data())
    assert len(history) == 2 and len(history.grad_norm) == 6 and history.best()[0] == 2
    assert math.isnan(history.valid_metrics["one"][0]) and history.valid_metrics["one"][1] == 1


def test_sparse_gradients_cannot_be_clipped():
    model = nn.Embedding(5, 2, sparse=True)
    before = weights(model)
    trainer = Trainer(model, lambda m, b: (m(b).sum(), 1), sgd(model), clip_norm=1.0)
    with pytest.raises(TypeError, match="^clip_norm: the gradient of weight is sparse"):
        trainer.fit([torch.tensor([1, 3])])
    assert torch.equal(weights(model), before)


def test_integers_of_numpy_will_do():
    model = linear()
    assert len(Trainer(model, mse, sgd(model)).fit(data(), epochs=np.int64(2))) == 2


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_fit_where_gradients_are_off(off):
    model = linear()
    trainer = Trainer(model, mse, sgd(model))
    with off(), pytest.raises(RuntimeError, match="^fit: gradients are switched off here"):
        trainer.fit(data())
    assert len(trainer.fit(data())) == 1


def test_an_objective_that_trains_another_model_is_named():
    model, other = linear(), linear()
    before = weights(model)
    trainer = Trainer(model, lambda m, batch: mse(other, batch), sgd(model))
    with pytest.raises(
        ValueError, match="^objective: .* for no parameter that the optimizer holds"
    ):
        trainer.fit(data())
    assert torch.equal(weights(model), before)


def two_layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)).double()


def test_a_group_that_is_added_later_is_clipped():
    """Against a trainer whose optimizer has both groups from the start."""
    model, twin = two_layers(), two_layers()
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
    trainer = Trainer(model, mse, optimizer, clip_norm=0.1)
    optimizer.add_param_group({"params": model[0].parameters()})
    history = trainer.fit(data())
    both = torch.optim.SGD([*twin[1].parameters(), *twin[0].parameters()], lr=0.1)
    expected = Trainer(twin, mse, both, clip_norm=0.1).fit(data())
    assert torch.equal(weights(model), weights(twin)) and history.grad_norm == expected.grad_norm


def test_a_group_that_is_added_within_an_epoch_is_looked_at():
    model, calls = two_layers(), iter(range(9))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)

    def objective(model, batch):
        x, y = batch
        if next(calls) == 1:
            optimizer.add_param_group({"params": model[0].parameters()})
            x = Spoiled.apply(model[0](x), math.nan)
            return nn.functional.mse_loss(model[1](x), y), len(x)
        return mse(model, batch)

    trainer = Trainer(model, objective, optimizer)
    history = trainer.fit(data())
    assert [s.reason for s in history.skipped] == ["gradient of 0.weight is not finite"]
    assert weights(model).isfinite().all() and len(history.grad_norm) == 2


@pytest.mark.parametrize("make", [lambda: None, lambda: torch.ones(1, 3).expand(4, 3)])
def test_a_skipped_batch_leaves_buffers_of_every_kind(make):
    class Late(nn.Linear):
        def __init__(self):
            super().__init__(3, 1)
            self.register_buffer("h", make())

        def forward(self, x):
            self.h = x.mean() if self.h is None else self.h + x.mean()
            return super().forward(x)

    good, bad = torch.ones(2, 3), torch.full((2, 3), math.nan)
    ends = []
    for batches in ([bad, good, bad, good], [good, good]):
        model = Late()
        Trainer(model, lambda m, x: (m(x).mean(), 1), sgd(model)).fit(batches)
        ends.append(model.h)
    assert torch.equal(*ends) and ends[0].isfinite().all()
