"""Accumulation, precision, schedulers of each kind, and states for batches with fewer rows."""

import copy
import math

import pytest
import torch
from torch import nn

import companion
from companion.train import Skipped, Trainer, TrainingDiverged, state_rows

from .test_trainer import Noisy, data, linear, mse, normed, sgd, weights

LR = torch.optim.lr_scheduler


def joined(batches):
    return tuple(torch.cat(parts) for parts in zip(*batches, strict=True))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 9])
def test_accumulated_batches_are_one_of_them_all(k):
    """The mean weighted by the batches' sizes, the last incomplete group included."""
    batches = data((4, 1, 3, 5, 2, 6, 1))
    model, twin = linear(), linear()
    trainer = Trainer(model, mse, sgd(model, momentum=0.9), accumulate=k, clip_norm=0.3)
    history = trainer.fit(batches, epochs=2)
    unions = [joined(batches[n : n + k]) for n in range(0, 7, k)]
    want = Trainer(twin, mse, sgd(twin, momentum=0.9), clip_norm=0.3).fit(unions, epochs=2)
    torch.testing.assert_close(weights(model), weights(twin), rtol=0, atol=1e-14)
    assert history.train_loss == pytest.approx(want.train_loss, rel=1e-12)
    assert history.grad_norm == pytest.approx(want.grad_norm, rel=1e-12)


def test_the_mean_of_means_would_be_something_else():
    batches = data((7, 1))
    model, twin = linear(), linear()
    Trainer(model, mse, sgd(model), accumulate=2).fit(batches)
    for batch in batches:
        (mse(twin, batch)[0] / 2).backward()
    sgd(twin).step()
    assert (weights(model) - weights(twin)).abs().max() > 1e-3


def test_weight_0_among_accumulated_batches():
    batches = data((4, 0, 3))
    model, twin = linear(), linear()
    history = Trainer(model, mse, sgd(model), accumulate=3).fit(batches)
    Trainer(twin, mse, sgd(twin)).fit([joined(batches)])
    torch.testing.assert_close(weights(model), weights(twin), rtol=0, atol=1e-14)
    assert history.skipped == [Skipped(1, 2, "weight 0")] and len(history.grad_norm) == 1


@pytest.mark.parametrize("bad", [2, 3])
def test_case_33_one_bad_batch_undoes_its_whole_step(bad):
    """As a batch of them all would be skipped; statistics and carried state included."""
    batches = data((4, 4, 4, 4, 4, 4))
    batches[bad][0][0] = math.nan
    seen = []

    def objective(model, batch, state):
        seen.append(state)
        return *mse(model, batch), torch.ones(())

    model, twin = normed(), normed()
    trainer = Trainer(model, objective, sgd(model), accumulate=2, clip_norm=1.0, stateful=True)
    history = trainer.fit(batches)
    Trainer(twin, mse, sgd(twin), accumulate=2, clip_norm=1.0).fit(batches[:2] + batches[4:])
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, twin.state_dict()[name], rtol=0, atol=1e-14)
    assert history.skipped == [Skipped(1, bad + 1, "loss nan is not finite")]
    assert [s is None for s in seen] == [True, False, False, *[False] * (bad - 2), True, False]


def test_a_bad_gradient_of_several_batches():
    def root(model, batch):
        loss, n = mse(model, batch)
        return loss + (model.bias.sum() * 0).sqrt() * (n == 3), n

    model = linear()
    before = weights(model)
    trainer = Trainer(model, root, sgd(model), accumulate=3, max_bad_steps=2)
    with pytest.raises(
        TrainingDiverged, match="epoch 1, batch 5. First of them: gradient of bias"
    ):
        trainer.fit(data((4, 3, 4, 3, 4)))
    assert [tuple(entry)[:2] for entry in trainer.history.skipped] == [(1, 3), (1, 5)]
    assert torch.equal(weights(model), before)


# ---- precision ----------------------------------------------------------------------------------


def test_bf16_is_autocast_in_training_and_evaluation():
    seen = []

    def objective(model, batch):
        y = model(batch[0].float())
        seen.append((y.dtype, model.training))
        return (y.float() - batch[1]).square().mean(), len(y)

    model = linear().float()
    history = Trainer(model, objective, sgd(model), precision="bf16").fit(data(), data(), epochs=9)
    assert set(seen) == {(torch.bfloat16, True), (torch.bfloat16, False)}
    assert model.weight.dtype == torch.float32 and model.weight.grad.dtype == torch.float32
    assert history.train_loss[-1] < history.train_loss[0]
    assert linear().float()(data()[0][0].float()).dtype == torch.float32, "and nowhere else"


def test_case_33_under_autocast():
    batches = data((4, 4, 4))
    batches[1][0][0] = math.inf
    model, twin = normed().float(), normed().float()

    def objective(model, batch):
        return mse(model, (batch[0].float(), batch[1].float()))

    options = {"precision": "bf16", "clip_norm": 1.0}
    history = Trainer(model, objective, sgd(model), **options).fit(batches)
    Trainer(twin, objective, sgd(twin), **options).fit([batches[0], batches[2]])
    assert len(history.skipped) == 1
    for name, value in model.state_dict().items():
        assert torch.equal(value, twin.state_dict()[name]), name


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrent_networks_train_in_bf16(name):
    companion.seed_all(0)
    rnn = getattr(companion, name)(2, 16, batch_first=True)
    model = nn.ModuleDict({"rnn": rnn, "out": nn.Linear(16, 1)})
    x = torch.randn(64, 4, 2)
    y = (x[:, 0, :1] > 0).float()

    def objective(m, batch):
        logits = m["out"](m["rnn"](batch[0])[0][:, -1])
        return nn.functional.binary_cross_entropy_with_logits(logits, batch[1]), len(batch[0])

    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    trainer = Trainer(model, objective, adam, clip_norm=1.0, precision="bf16")
    assert trainer.fit([(x, y)], epochs=100).train_loss[-1] < 0.2


# ---- schedulers ---------------------------------------------------------------------------------


def test_step_scheduler_is_stepped_after_each_step():
    model = linear()
    optimizer, rates = sgd(model, lr=1.0), []

    def objective(model, batch):
        rates.append(optimizer.param_groups[0]["lr"])
        loss, n = mse(model, batch)
        return loss * (math.nan if len(rates) == 2 else 1e-3), n

    warm = LR.LinearLR(optimizer, 0.25, total_iters=3)
    history = Trainer(model, objective, optimizer, step_scheduler=warm).fit(data(), epochs=2)
    # warm-up in steps that were taken: the second batch's was not
    assert rates == pytest.approx([0.25, 0.5, 0.5, 0.75, 1.0, 1.0])
    assert history.learning_rate == pytest.approx([0.25, 0.75])


def test_step_scheduler_counts_steps_and_not_batches():
    model = linear()
    optimizer = sgd(model, lr=1.0)
    half = LR.StepLR(optimizer, 1, 0.5)
    Trainer(model, mse, optimizer, step_scheduler=half, accumulate=2).fit(data((2,) * 5))
    assert optimizer.param_groups[0]["lr"] == 1 / 8


def test_warm_up_and_plateau_together():
    model = linear()
    optimizer = sgd(model, lr=1e-9)  # nothing gets better
    trainer = Trainer(
        model,
        mse,
        optimizer,
        step_scheduler=LR.LinearLR(optimizer, 0.1, total_iters=4),
        scheduler=LR.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, eps=0.0),
    )
    rates = trainer.fit(data((2, 2)), data((3,)), epochs=5).learning_rate
    # 2 steps an epoch; from the second epoch on each halves it
    assert rates == pytest.approx([1e-10, 5.5e-10, 1e-9 / 2, 1e-9 / 4, 1e-9 / 8], rel=1e-6)


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"accumulate": 0}, ValueError, "accumulate must be >= 1"),
        ({"accumulate": 1.0}, TypeError, "accumulate must be an int, got float"),
        ({"precision": "fp16"}, ValueError, "precision must be 'full' or 'bf16', got 'fp16'"),
        ({"generators": 3}, TypeError, "generators must be a sequence .*, got int: 3"),
        ({"generators": torch.Generator()}, TypeError, "generators must be .*, got Generator"),
        ({"generators": [3]}, TypeError, r"generators must be .*, got list: \[3\]"),
        ({"own_batches": 1}, TypeError, "own_batches must be a bool"),
        ({"step_scheduler": "linear"}, TypeError, "step_scheduler must be .* got str"),
    ],
)
def test_options(options, kind, message):
    model = linear()
    with pytest.raises(kind, match=message):
        Trainer(model, mse, sgd(model), **options)


def test_plateau_has_no_loss_at_a_step():
    model = linear()
    optimizer = sgd(model)
    with pytest.raises(TypeError, match="step_scheduler: ReduceLROnPlateau waits for a loss"):
        Trainer(model, mse, optimizer, step_scheduler=LR.ReduceLROnPlateau(optimizer))


# ---- rows of a carried state --------------------------------------------------------------------


def test_rows_are_picked_however_the_state_is_nested():
    h, c = torch.arange(12.0).reshape(2, 3, 2), torch.arange(6.0).reshape(1, 3, 2)
    found = state_rows({"a": (h, [c, None]), "n": 3}, 2)
    assert torch.equal(found["a"][0], h[:, :2]) and torch.equal(found["a"][1][0], c[:, :2])
    assert found["a"][1][1] is None and found["n"] == 3
    assert torch.equal(state_rows(h, torch.tensor([2, 0])), h[:, [2, 0]])
    assert torch.equal(state_rows(h, 1, dim=0), h[:1]) and state_rows(None, 5) is None
    assert state_rows(h, 0).shape == (2, 0, 2)


@pytest.mark.parametrize(
    "rows, dim, kind, message",
    [
        (4, 1, ValueError, r"\(2, 3, 2\) has 3 rows along dimension 1, row 3 was asked for"),
        (torch.tensor([0, 5]), 1, ValueError, "row 5 was asked for"),
        (torch.tensor([-1]), 1, ValueError, "row -1 was asked for"),
        (-1, 1, ValueError, "rows: expected"),
        (2, 3, ValueError, r"expected a dimension 3, got \(2, 3, 2\)"),
        (2.0, 1, TypeError, "rows: expected an int or a tensor"),
        (True, 1, TypeError, "rows: expected an int or a tensor"),
        (torch.ones(3), 1, TypeError, r"expected indices \(n,\) of int64, got \(3,\) of torch.fl"),
        (torch.ones(3, 1).long(), 1, TypeError, r"got \(3, 1\)"),
    ],
)
def test_rows_that_are_not_there(rows, dim, kind, message):
    with pytest.raises(kind, match=message):
        state_rows(torch.zeros(2, 3, 2), rows, dim)


def reader(short):
    """A stateful objective; `short` says what to do with the state of a smaller batch."""
    torch.manual_seed(0)
    rnn = companion.LSTM(2, 3, batch_first=True, dtype=torch.float64)

    def objective(model, x, state):
        y, state = model(x, None if state is None else short(state, len(x)))
        return y.square().mean(), y.numel(), state

    return Trainer(rnn, objective, sgd(rnn, lr=0.0), stateful=True)


def chunks():
    x = torch.randn(4, 6, 2, generator=torch.Generator().manual_seed(1)).double()
    return x, [x[:, :3], x[:3, 3:]]


def test_case_46_a_short_last_batch_goes_on_with_its_rows():
    x, batches = chunks()
    trainer = reader(state_rows)
    losses = []
    inner = trainer.objective

    def listening(*given):
        result = inner(*given)
        losses.append(result[0].item())
        return result

    trainer.objective = listening
    trainer.fit(batches)
    y, _ = trainer.model(x[:3])
    assert losses[1] == pytest.approx(y[:, 3:].square().mean().item(), rel=1e-12)


def test_case_46_a_short_last_batch_is_named():
    trainer = reader(lambda state, n: state)
    with pytest.raises(ValueError) as caught:
        trainer.fit(chunks()[1])
    assert "hx" in str(caught.value)
    (note,) = caught.value.__notes__
    assert "after a batch of shapes [(4, 3, 2)]; this batch has [(3, 3, 2)]" in note
    assert "state_rows" in note


def test_other_errors_get_no_note():
    def fails(model, batch, state):
        if state is not None:
            raise ValueError("mine")
        return *mse(model, batch), 1

    model = linear()
    with pytest.raises(ValueError, match="^mine$") as caught:
        Trainer(model, fails, sgd(model), stateful=True).fit(data((4, 4)))
    assert not hasattr(caught.value, "__notes__")


def test_rows_begin_anew_where_the_batch_says_so():
    """Several documents in a row: the layer's own reset, with the trainer's carried state."""
    x, _ = chunks()
    reset = torch.zeros(4, 6, dtype=torch.bool)
    reset[1, 3] = reset[2, 4] = True  # at a cut, and within a chunk
    outputs = []

    def objective(model, batch, state):
        y, state = model(batch[0], state, reset=batch[1])
        outputs.append(y.detach())
        return y.square().mean(), y.numel(), state

    rnn = reader(state_rows).model
    trainer = Trainer(rnn, objective, sgd(rnn, lr=0.0), stateful=True)
    trainer.fit([(x[:, t : t + 3], reset[:, t : t + 3]) for t in (0, 3)])
    found = torch.cat(outputs, 1)
    torch.testing.assert_close(found[0], rnn(x[:1])[0][0])
    torch.testing.assert_close(found[1, 3:], rnn(x[1:2, 3:])[0][0])
    torch.testing.assert_close(found[2, 4:], rnn(x[2:3, 4:])[0][0])


def test_the_carried_state_is_a_copy_of_its_own():
    kept = []

    def objective(model, x, state):
        y, _ = model(x)
        if state is not None:
            assert state.is_contiguous() and state.untyped_storage().nbytes() == 4 * 3 * 8
        kept.append(y)
        return y.square().mean(), 1, y[:, -1]  # a view of all outputs

    rnn = reader(state_rows).model
    Trainer(rnn, objective, sgd(rnn), stateful=True).fit([chunks()[0]] * 2)
    assert len(kept) == 2


def test_dropout_is_as_without_the_new_options():
    """One batch a step: bit for bit the loop written out."""
    companion.seed_all(0)
    model = Noisy().double()
    model.forward = lambda x: model.out(model.drop(x))
    twin = copy.deepcopy(model)
    twin.forward = lambda x: twin.out(twin.drop(x))
    torch.manual_seed(1)
    Trainer(model, mse, sgd(model)).fit(data())
    torch.manual_seed(1)
    optimizer = sgd(twin)
    for batch in data():
        optimizer.zero_grad()
        mse(twin, batch)[0].backward()
        optimizer.step()
    assert torch.equal(weights(model), weights(twin))
