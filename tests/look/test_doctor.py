"""The doctor: healthy runs are left alone, each illness is named, and no other one is."""

from __future__ import annotations

import math
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import companion
from companion import data
from companion.look import checkup, doctor
from companion.look.patient import Patient
from companion.models import (
    LanguageModel,
    TextClassifier,
    classification_objective,
    language_model_objective,
)
from companion.train import History, Skipped, Trainer, TrainingDiverged

CHANCE = math.log(4)


class Reader(nn.Module):
    def __init__(self, rnn, answers=4):
        super().__init__()
        self.rnn, self.out = rnn, nn.Linear(rnn.hidden_size, answers)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def answer(model, batch):
    x, y = batch
    return F.cross_entropy(model(x), y), len(y)


def squared(model, batch):
    x, y = batch
    return F.mse_loss(model(x), y), len(y)


def recall(n=1024, lag=4, seed=0):
    task = data.first_token_recall(n, lag, 4, seed=seed)
    return list(zip(F.one_hot(task.x, 4).float().split(32), task.y.split(32), strict=True))


def train(model, batches, objective=answer, valid=None, epochs=3, rate=1e-2, **options):
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    trainer = Trainer(model, objective, adam, progress=False, **options)
    try:
        trainer.fit(batches, valid, epochs)
    except TrainingDiverged:
        pass
    return trainer.history


def lstm(**options):
    torch.manual_seed(0)
    return companion.LSTM(4, 24, batch_first=True, **options)


def examine(history, model, batches, objective=answer, **more):
    return doctor(history, model=model, objective=objective, batches=batches, **more)


# ---------------------------------------------------------------- the healthy


@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_learns_is_well(seed):
    torch.manual_seed(seed)
    model, batches = Reader(companion.LSTM(4, 24, batch_first=True)), recall()
    history = train(model, batches, valid=recall(seed=1), epochs=4)
    report = examine(history, model, batches, chance=CHANCE, baseline=CHANCE, lag=4)
    assert not report, report
    assert repr(report).startswith("nothing found; looked at: losses of 4 epochs")


def test_a_language_model_is_well():
    torch.manual_seed(0)
    play = data.load("shakespeare")[0].text[:6000]
    at = {c: i for i, c in enumerate(sorted(set(play)))}
    streams = data.stream_batches([at[c] for c in play], 16, 20)
    model = LanguageModel(len(at), 32, 32)
    options = {"valid": streams, "stateful": True, "rate": 1e-2}
    history = train(model, streams, language_model_objective, **options)
    chance = math.log(len(at))
    options = {"chance": chance, "stateful": True}
    report = examine(history, model, streams, language_model_objective, **options)
    assert not report, report
    fresh = LanguageModel(len(at), 32, 32)
    batch = next(iter(streams))
    assert not checkup(fresh, language_model_objective, batch, causal=True, **options)


def test_a_forecaster_is_well():
    torch.manual_seed(0)
    x = torch.sin(torch.arange(600) / 5)[:, None] + 0.1 * torch.randn(600, 1)
    w = data.windows(x, 20, 1)
    batches = list(zip(w.past.split(64), w.future[:, :, 0].split(64), strict=True))
    model = Reader(companion.GRU(1, 16, batch_first=True), 1)
    history = train(model, batches, squared, valid=batches, epochs=4)
    assert not examine(history, model, batches, squared, chance=0.5)


@pytest.mark.parametrize(
    "losses",
    [
        {"train_loss": [1.0, 0.5, 0.4, 0.39], "valid_loss": [0.8, 0.5, 0.45, 0.46]},
        {"train_loss": [1.0, 1e-3, 1e-4, 5e-4], "valid_loss": [0.1, 1e-3, 1e-4, 6e-4]},
        {"train_loss": [0.9, 0.5, 0.52, 0.49]},  # restless
        {"train_loss": [0.3, 0.05, 0.02, 0.06, 0.02, 0.09]},  # arrived, and restless there
        {"train_loss": [0.3, 0.05, 0.02, 0.06, 0.02, 0.09, 0.06]},
        {"train_loss": [1.0, math.nan, 0.5, 0.3]},  # a batch without a target, perhaps
        {"train_loss": [5.0, 1.0, 0.5, 0.3]},  # a wild first epoch, forgiven
        {"train_loss": [1.4, 1.4], "valid_loss": [1.4, 1.4]},  # too early to tell
        {"train_loss": [1.0, 0.5, 0.4], "valid_loss": [math.nan, 0.5, math.nan]},
        {"train_loss": [-1.0, -2.0, -3.0], "valid_loss": [-1.0, -2.0, -3.0]},  # a density
    ],
)
def test_curves_that_are_well(losses):
    assert not doctor(History(**losses), chance=1.4 if min(losses["train_loss"]) > 0 else None)


# ---------------------------------------------------------------- the sick


def one(report, symptom, cause):
    assert [(f.symptom, f.cause) for f in report] == [(symptom, cause)], report
    return report[0].evidence


def test_bad_data_is_found_in_its_batch():
    model, batches = Reader(lstm()), recall()
    batches[5][0][3, 2, 1] = math.inf
    report = examine(train(model, batches), model, batches, chance=CHANCE)
    evidence = one(report, "loss is not finite", "bad data")
    assert evidence["batches"] == "6" and evidence["steps skipped"] == 3


def test_a_batch_without_a_target():
    model, batches = Reader(lstm()), recall()
    batches[2][1].fill_(-100)
    report = examine(train(model, batches), model, batches, chance=CHANCE)
    assert one(report, "loss is not finite", "batch without a target")["batches"] == "3"


def test_the_same_in_a_loop_without_a_trainer_where_all_weights_are_lost():
    model, batches = Reader(lstm()), recall()
    batches[2][1].fill_(-100)
    for p in model.parameters():
        p.data.fill_(math.nan)
    report = examine(History(train_loss=[math.nan]), model, batches)
    assert one(report, "loss is not finite", "batch without a target")["batches"] == "3"


def test_a_loss_that_takes_the_logarithm_of_zero():
    def objective(model, batch):
        x, y = batch
        return F.nll_loss((1000 * model(x)).softmax(-1).log(), y), len(y)

    model, batches = Reader(lstm()), recall(128)
    report = examine(train(model, batches, objective), model, batches, objective)
    one(report, "loss is not finite", "the loss")


def test_a_module_that_gives_nan_is_named():
    class Log(nn.Module):
        def forward(self, x):
            return x.clamp(min=0).log()

    model, batches = Reader(lstm()), recall(128)
    model.out = nn.Sequential(nn.Linear(24, 4), Log())
    report = examine(train(model, batches), model, batches)
    assert one(report, "loss is not finite", "the model")["where"] == "out.1"


def test_an_exploding_gradient_shows_in_the_norms():
    norms = [1.0, 2.0, 1.5, 1.0, 2.0, 1.0, 900.0]
    skipped = [Skipped(1, 8, "loss inf is not finite")]
    report = doctor(History(grad_norm=norms, skipped=skipped))
    evidence = one(report, "loss is not finite", "exploding gradient")
    assert evidence["at the end"] == 900 and evidence["usual gradient norm"] == 1.25
    calm = doctor(History(grad_norm=norms[:-1], skipped=skipped))
    one(calm, "loss is not finite", "unknown")


def test_skipped_batches_of_weight_0_are_no_illness():
    skipped = [Skipped(1, 8, "weight 0")]
    assert not doctor(History(train_loss=[1.0, 0.5, 0.4], skipped=skipped))


def test_a_training_loss_that_rises():
    one(doctor(History(train_loss=[1.0, 0.5, 1.4])), "training loss rises", "rate too high")
    for lasting in ([1.0, 0.05, 0.2, 0.4], [1.0, 0.05, 0.02, 0.06, 0.3, 0.4]):
        one(doctor(History(train_loss=lasting)), "training loss rises", "rate too high")
    lost = History(train_loss=[1.0, 0.1, 0.05, 0.4, math.nan])
    one(doctor(lost), "loss is not finite", "rate too high")
    worse = History(train_loss=[2.0, 1.38, 1.38], learning_rate=[0.5] * 3)
    assert one(doctor(worse, chance=CHANCE), "training loss rises", "rate too high")[
        "learning rate"
    ] == pytest.approx(0.5)


FLAT = "validation loss does not fall"


def test_overfitting_is_told_from_a_valid_loss_that_merely_stays():
    grown = History(train_loss=[1.0, 0.6, 0.3, 0.1], valid_loss=[0.9, 0.8, 1.0, 1.4])
    evidence = one(doctor(grown), FLAT, "overfitting")
    assert evidence["best epoch"] == 2 and evidence["now"] == 1.4
    both = History(train_loss=[1.0, 0.6, 0.6, 0.62], valid_loss=[0.9, 0.8, 0.9, 1.0])
    assert not doctor(both)  # training does not go on: whatever it is, this it is not


def test_a_rate_that_is_too_low():
    model, batches = Reader(lstm()), recall()
    history = train(model, batches, valid=batches, rate=1e-6)
    one(examine(history, model, batches, chance=CHANCE), FLAT, "rate too low")


def test_a_gradient_that_is_cut():
    class Cut(Reader):
        def forward(self, x):
            return self.out(self.rnn(x)[0][:, -1].detach())

    model, batches = Cut(lstm()), recall()
    report = examine(train(model, batches, rate=1e-4), model, batches, chance=CHANCE)
    evidence = one(report, FLAT, "gradient is cut")
    assert "rnn.weight_hh_l0" in evidence["parameters without one"]
    assert "out.weight" not in evidence["parameters without one"]


def test_targets_of_other_rows():
    model, batches = Reader(lstm()), recall(512)
    draw = torch.Generator().manual_seed(0)
    mixed = [(x, torch.randint(4, (len(y),), generator=draw)) for x, y in batches]
    valid = [(x, torch.randint(4, (len(y),), generator=draw)) for x, y in recall(512, seed=1)]
    cause = "targets do not follow from inputs"
    for epochs, rate in ((12, 1e-2), (30, 2e-3)):  # learned by heart, or hardly begun
        torch.manual_seed(0)
        model = Reader(lstm())
        history = train(model, mixed, valid=valid, epochs=epochs, rate=rate)
        one(examine(history, model, mixed, chance=CHANCE), FLAT, cause)


def test_worse_than_something_simple():
    stuck = History(train_loss=[1.2, 1.0, 1.0, 1.0], valid_loss=[1.1, 1.0, 1.0, 1.0])
    one(doctor(stuck, chance=CHANCE, baseline=0.8), FLAT, "underfitting")
    falling = History(train_loss=[1.2, 1.1, 1.0, 0.9], valid_loss=[1.2, 1.1, 1.0, 0.9])
    one(doctor(falling, chance=CHANCE, baseline=0.8), FLAT, "not finished")
    assert not doctor(stuck, chance=CHANCE, baseline=1.05)


ONE = "one prediction for everything"


def surnames(classes=2, wide=None):
    """Sequences of two kinds, apart in their first symbol, most of them of one kind."""
    draw = torch.Generator().manual_seed(0)
    y = (torch.rand(64, generator=draw) < 1 / classes).long()
    x = torch.randint(1, 4, (64, 5), generator=draw)
    return [(F.pad(x, (0, (wide or 5) - 5)), torch.full((64,), 5), y)]


def test_padding_that_is_read():
    class Blind(TextClassifier):
        def forward(self, tokens, lengths=None):
            return super().forward(tokens)

    for kind, ill in ((Blind, True), (TextClassifier, False)):
        torch.manual_seed(0)
        model, batches = kind(4, 2, 8, 8), surnames(wide=80)
        history = train(model, batches, classification_objective, epochs=20)
        report = examine(history, model, batches, classification_objective)
        if ill:
            one(report, ONE, "padding in the last state")
        else:
            assert "padding in the last state" not in report.causes


def test_unbalanced_classes():
    torch.manual_seed(0)
    model, batches = TextClassifier(4, 2, 8, 8), surnames(classes=10)
    history = train(model, batches, classification_objective, epochs=10)
    report = examine(history, model, batches, classification_objective)
    evidence = one(report, ONE, "unbalanced classes")
    assert evidence["largest share, true"] > 0.6


def test_saturation_and_a_constant_target():
    model, batches = Reader(companion.RNN(4, 24, batch_first=True)), recall(128)
    with torch.no_grad():
        model.rnn.bias_ih_l0.fill_(20.0)
    report = doctor(model=model, objective=answer, batches=batches)
    one(report, ONE, "saturation")
    same = [(x, torch.zeros_like(y)) for x, y in batches]
    assert not doctor(model=model, objective=answer, batches=same)  # there is one class


def test_weights_just_drawn_may_prefer_a_class():
    for seed in range(20):
        torch.manual_seed(seed)
        model = Reader(companion.LSTM(4, 24, batch_first=True))
        assert not doctor(model=model, objective=answer, batches=recall(64))


LONG = "long dependency is not learned"


def test_memory_is_measured_from_the_weights():
    batches = recall(64, lag=40)
    ill = doctor(model=Reader(lstm()), objective=answer, batches=batches, lag=40)
    assert one(ill, LONG, "vanishing gradient")["effective memory"] < 20
    for torchs in (False, True):
        rnn = lstm(forget_bias=4.0)
        rnn = companion.to_torch(rnn) if torchs else rnn
        assert not doctor(model=Reader(rnn), objective=answer, batches=batches, lag=40)
    plain = nn.LSTM(4, 24, batch_first=True)
    one(doctor(model=Reader(plain), objective=answer, batches=batches, lag=40), LONG,
        "vanishing gradient")  # fmt: skip


def test_pieces_shorter_than_the_lag():
    report = doctor(model=Reader(lstm()), objective=answer, batches=recall(64), lag=9)
    evidence = one(report, LONG, "pieces too short")
    assert evidence == {"steps in a batch": 5, "to remember": 9}


def test_what_has_learned_its_task_remembers_enough():
    history = History(train_loss=[1.0, 0.1, 0.01])
    batches = recall(64, lag=40)
    report = examine(history, Reader(lstm()), batches, chance=CHANCE, lag=40)
    assert "vanishing gradient" not in report.causes


@pytest.fixture
def clock(monkeypatch):
    """Seconds for each row of a batch, and for a step: no test reads a real clock."""
    from companion.look import symptoms

    def install(*seconds):  # to fetch, for a step, perhaps one without denormals, a wide one
        times = iter(seconds)
        monkeypatch.setattr(symptoms, "seconds_of", lambda call: (call(), next(times))[1])

    return install


@pytest.mark.parametrize(
    "times, causes",
    [
        ((0.0, 1.0, 4.0), []),
        ((40.0, 1.0, 4.0), ["waiting for data"]),
        ((0.0, 1.0, 1.1), ["batches too small"]),
    ],
)
def test_where_the_time_goes(clock, times, causes):
    clock(*times)
    batches = recall(128, lag=20)
    report = doctor(model=Reader(lstm()), objective=answer, batches=batches, slow=True)
    assert report.causes == causes


def test_a_python_loop_is_counted_not_timed(clock):
    class Looped(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = companion.LSTM(4, 24, batch_first=True)
            self.out = nn.Linear(24, 4)

        def forward(self, x):
            return self.out(self.rnn(x, form="loop")[0][:, -1])

    clock(0.0, 1.0, 4.0)
    report = doctor(model=Looped(), objective=answer, batches=recall(64, lag=30), slow=True)
    assert report.causes == ["Python loop over time"]
    assert report[0].evidence["operations for a step of time"] > 4


def test_denormal_numbers_are_counted(clock):
    x = torch.zeros(1, 40, 1)
    rnn = companion.RNN(1, 1, batch_first=True, bias=False, nonlinearity="relu")
    with torch.no_grad():
        rnn.weight_hh_l0.fill_(0.01)  # the gradient is denormal after 19 to 22 steps
        rnn.weight_ih_l0.fill_(1.0)
    x[0, :, 0] = 1.0
    model = Reader(rnn, 2)
    clock(0.0, 1.0, 0.5, 4.0)
    batches = [(x.expand(4, -1, -1), torch.tensor([0, 1, 0, 1]))]
    seen = Patient(model, answer, batches).vitals(batches[0])
    g = seen.x_grad.abs()
    assert 0 < ((g > 0) & (g < 2**-126)).sum() <= 16
    report = doctor(model=model, objective=answer, batches=batches, slow=True)
    assert "denormal numbers" in report.causes
    clock(0.0, 1.0, 1.0, 4.0)  # as on a processor that does not mind
    report = doctor(model=model, objective=answer, batches=batches, slow=True)
    assert "denormal numbers" not in report.causes
    assert torch.tensor(1e-41).mul(1) > 0  # they are not flushed afterwards


def test_memory_that_grows_with_the_steps():
    batches = recall(64, lag=99)
    model = Reader(lstm())
    ask = {"model": model, "objective": answer, "batches": batches}
    evidence = one(doctor(**ask, memory=1000), "out of memory", "memory grows with the steps")
    kept = evidence["bytes kept by a step"]
    # at least the gates of each step, four numbers of four bytes a unit
    assert kept > 32 * 100 * 24 * 16 and evidence["steps of time"] == 100
    assert evidence["for a step of time"] * 100 == pytest.approx(kept, rel=0.2)
    assert not doctor(**ask, memory=int(kept))


# ---------------------------------------------------------------- no trace, and errors


def test_the_patient_is_as_it_was():
    model, batches = Reader(lstm(recurrent_dropout=0.2)), recall(128, lag=20)
    model.bn = nn.BatchNorm1d(4)
    model.eval()
    model.out.train()
    model.out.weight.grad = torch.ones_like(model.out.weight)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    rng = torch.get_rng_state()
    history = History(train_loss=[1.4] * 3)
    examine(history, model, batches, chance=CHANCE, lag=10, slow=True, memory=1)
    checkup(model, answer, batches[0], chance=CHANCE)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(rng, torch.get_rng_state())
    assert model.out.weight.grad.eq(1).all() and model.rnn.weight_hh_l0.grad is None
    assert not model.training and model.out.training and not model.rnn.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="model, objective, batches, history"):
        doctor()
    with pytest.raises(ValueError, match="batches"):
        doctor(History(), model=Reader(lstm()), objective=answer)
    with pytest.raises(ValueError, match="^lag: needs model"):
        doctor(History(), lag=3)
    with pytest.raises(ValueError, match="^batches: expected at least one"):
        doctor(model=Reader(lstm()), objective=answer, batches=[])
    with pytest.raises(ValueError, match=r"^causal: expected scores \(B, T"):
        checkup(Reader(lstm()), answer, recall(32)[0], causal=True)


# ---------------------------------------------------------------- before training


class EachStep(nn.Module):
    def __init__(self, **options):
        super().__init__()
        torch.manual_seed(0)
        self.rnn = companion.Recurrence("lstm", 4, 12, **options)
        self.out = nn.Linear(self.rnn.output_size, 4)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


def each(model, batch):
    x, y = batch
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten()), y.numel()


def steps():
    task = data.first_token_recall(16, 7, 4)
    return F.one_hot(task.x, 4).float(), task.x


def test_a_new_model_is_ready():
    report = checkup(EachStep(), each, steps(), chance=CHANCE, causal=True)
    assert not report and len(report.looked_at) == 5


@pytest.mark.parametrize("integers", [False, True])
def test_a_network_that_sees_the_future(integers):
    model = EachStep(bidirectional=True)
    x, y = steps()
    if integers:
        model = nn.Sequential(nn.Embedding(4, 4), model)
        x = y
    report = checkup(model, each, (x, y), chance=CHANCE, causal=True)
    assert report.causes == ["the future leaks into the past"]


def test_time_and_batch_mixed_up():
    model, batch = Reader(nn.LSTM(4, 24)), recall(32)[0]
    assert checkup(model, answer, batch).causes == ["a row depends on its batch-mates"]


def test_a_row_among_longer_ones():
    class Blind(TextClassifier):
        def forward(self, tokens, lengths=None):
            return super().forward(tokens)

    x = torch.randint(1, 9, (8, 6), generator=torch.Generator().manual_seed(0))
    x[-1, 3:] = 0
    n, y = torch.tensor([*[6] * 7, 3]), torch.arange(8) % 2
    alone = (x[-1:, :3], n[-1:], y[-1:])
    for kind, causes in ((Blind, ["a row depends on its batch-mates"]), (TextClassifier, [])):
        torch.manual_seed(0)
        model = kind(9, 2, 8, 8)
        report = checkup(model, classification_objective, (x, n, y), alone=alone)
        assert report.causes == causes


def test_a_sum_for_a_mean_and_a_part_without_gradient():
    def summed(model, batch):
        x, y = batch
        return F.cross_entropy(model(x), y, reduction="sum"), len(y)

    causes = checkup(Reader(lstm()), summed, recall(32)[0], chance=CHANCE).causes
    assert causes == ["loss at the start is not that of chance"]
    model = Reader(lstm())
    model.forgotten = nn.Linear(3, 3)
    report = checkup(model, answer, recall(32)[0])
    assert report.causes == ["gradient is cut"]
    assert "forgotten.weight" in str(report)


def test_a_network_that_cannot_learn_a_few_rows():
    class Deaf(Reader):
        def forward(self, x):
            return super().forward(0 * x)

    report = checkup(Deaf(lstm()), answer, recall(32)[0])
    assert "not even a few rows can be learned" in report.causes


def test_a_state_that_overflows():
    rnn = companion.RNN(4, 24, batch_first=True, nonlinearity="relu")
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(30 * torch.eye(24))
    model, batches = Reader(rnn), recall(64, lag=40)
    report = examine(train(model, batches), model, batches)
    assert one(report, "loss is not finite", "exploding state")["where"] == "rnn"


def test_a_gradient_that_overflows_though_the_loss_does_not():
    """Wide in the middle: h stays at 0, and the gradient grows by 30 a step."""
    rnn = companion.RNN(4, 24, batch_first=True, nonlinearity="relu", bias=False)
    with torch.no_grad():
        rnn.weight_ih_l0.fill_(1e-30)
        rnn.weight_hh_l0.copy_(30 * torch.eye(24))
    model, batches = Reader(rnn), recall(64, lag=30)
    report = examine(train(model, batches), model, batches)
    one(report, "loss is not finite", "exploding gradient")

    def root(model, batch):  # infinite where it begins: that is no explosion
        return model(batch[0]).mul(0).sum().sqrt(), 1

    model = Reader(lstm())
    assert examine(train(model, recall(64), root), model, recall(64), root).causes == ["unknown"]


# ---------------------------------------------------------------- the rare, the odd


def rare(hits, chance=None, losses=(0.5, 0.1, 0.02)):
    """A detector of 12 rows in 1000, of which it finds so many."""
    y = (torch.arange(1000) < 12).long()
    x = (torch.arange(1000) < hits).float()[:, None]
    model = nn.Linear(1, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-10.0], [10.0]]))
        model.bias.copy_(torch.tensor([5.0, -5.0]))
    history = History(train_loss=list(losses))
    return examine(history, model, [(x, y)], chance=chance)


def test_a_detector_of_what_is_rare():
    assert not rare(9)
    one(rare(0), ONE, "unbalanced classes")
    # -.012 log .012 - .988 log .988 = .065: who knows the shares only
    assert not rare(0, chance=math.log(2))
    one(rare(0, chance=math.log(2), losses=(0.5, 0.1, 0.064)), ONE, "unbalanced classes")


def test_an_output_layer_that_begins_with_zeros():
    model = Reader(lstm())
    nn.init.zeros_(model.out.weight)
    assert not checkup(model, answer, recall(32)[0], chance=CHANCE)
    assert model.out.weight.eq(0).all()


def test_a_batch_in_which_nothing_counts():
    x, y = recall(32)[0]
    with pytest.raises(ValueError, match="^batch: expected one with a target"):
        checkup(Reader(lstm()), answer, (x, torch.full_like(y, -100)))

    def weightless(model, batch):
        return answer(model, batch)[0] * 0, 0

    with pytest.raises(ValueError, match="^batch: expected one with a target"):
        checkup(Reader(lstm()), weightless, (x, y))


def test_random_numbers_of_python_and_of_the_model_are_put_back():
    class Noisy(Reader):
        def __init__(self, rnn):
            super().__init__(rnn)
            self.draw = torch.Generator().manual_seed(3)

        def forward(self, x):
            noise = torch.rand(x.shape, generator=self.draw) * random.random()
            return super().forward(x + 1e-3 * noise)

    model, batches = Noisy(lstm()), recall(64)
    own, pythons = model.draw.get_state(), random.getstate()
    examine(History(train_loss=[1.4] * 3), model, batches, chance=CHANCE)
    checkup(model, answer, batches[0])
    assert torch.equal(own, model.draw.get_state()) and pythons == random.getstate()


def test_a_model_that_keeps_its_output():
    class Keeper(Reader):
        def forward(self, x):
            self.last = super().forward(x)
            return self.last

    with pytest.raises(ValueError, match="^model: expected one that copy.deepcopy can copy"):
        checkup(Keeper(lstm()), answer, recall(32)[0])


def test_lengths_in_a_list():
    def packed(model, batch):
        x, n, y = batch
        assert len(n) == len(x)
        return F.cross_entropy(model(x), y), len(y)

    x, y = recall(32)[0]
    assert not checkup(Reader(lstm()), packed, (x, [5] * 32, y), chance=CHANCE)


@pytest.mark.parametrize(
    "name, value",
    [("lag", v) for v in (-1, 0, 2.5, "x", True)]
    + [("memory", -1), ("chance", math.nan), ("baseline", math.inf), ("history", [1.0, 0.5])],
)
def test_arguments_that_make_no_sense(name, value):
    known = {"model": Reader(lstm()), "objective": answer, "batches": recall(32)}
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        doctor(**{"history": History(train_loss=[1.0]), **known, name: value})


def test_batches_models_and_objectives_that_make_no_sense():
    model, batches = Reader(lstm()), recall(32)
    with pytest.raises(ValueError, match="^batches: expected a list or a loader"):
        doctor(model=model, objective=answer, batches=iter(batches))
    empty = tuple(t[:0] for t in batches[0])
    with pytest.raises(ValueError, match="^batches: expected at least one row"):
        doctor(model=model, objective=answer, batches=[empty])
    with pytest.raises(ValueError, match="^batch: expected at least one row"):
        checkup(model, answer, empty)
    with pytest.raises(ValueError, match="^chance: expected a finite"):
        checkup(model, answer, batches[0], chance=math.nan)
    with pytest.raises(ValueError, match=r"^objective: expected a tuple \(loss, weight"):
        checkup(model, lambda m, b: answer(m, b)[0], batches[0])
    with pytest.raises(ValueError, match="^model: expected a parameter with requires_grad"):
        checkup(model.requires_grad_(False), answer, batches[0])


def test_denormal_numbers_stay_on_after_an_error(monkeypatch):
    from companion.look import symptoms

    calls = []

    def second_fails(call):
        calls.append(call)
        if len(calls) == 3:  # to fetch, a step, one without denormals
            raise RuntimeError("out of memory")
        return 1.0

    monkeypatch.setattr(symptoms, "seconds_of", second_fails)
    model, batches = Reader(lstm()), recall(32)
    patient = Patient(model, answer, batches)
    seen = patient.vitals(batches[0])
    seen.denormal = 1.0
    with pytest.raises(RuntimeError, match="out of memory"):
        symptoms.slow_steps(patient, seen, None)
    assert torch.tensor(1e-41).mul(1) > 0
