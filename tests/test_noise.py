"""Recurrent dropout, zoneout and weight drop, against their equations written out here."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

import companion
from companion.cells import ARCHITECTURES, flat_state, map_state

from .helpers import D, H, assert_close, every_architecture, make, randn, random_state, wave

# architectures whose update reads h_{t-1} through `recurrent`, and those that zoneout can keep
MASKED = [n for n, a in ARCHITECTURES.items() if a.cell.zoned != 0]


def step_rnn(w, x, state, m):
    h = torch.tanh(
        x @ w["weight_ih"].T + w["bias_ih"] + (m * state) @ w["weight_hh"].T + w["bias_hh"]
    )
    return h, h


def step_lstm(w, x, state, m):
    h, c = state
    a = x @ w["weight_ih"].T + w["bias_ih"] + (m * h) @ w["weight_hh"].T + w["bias_hh"]
    i, f, g, o = a.split(H, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return h, (h, c)


def step_gru(w, x, h, m):
    x_r, x_z, x_n = (x @ w["weight_ih"].T + w["bias_ih"]).split(H, 1)
    h_r, h_z, h_n = ((m * h) @ w["weight_hh"].T + w["bias_hh"]).split(H, 1)
    r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
    h = (1 - z) * (x_n + r * h_n).tanh() + z * h
    return h, h


def step_gru_reset_before(w, x, h, m):
    x_r, x_z, x_n = (x @ w["weight_ih"].T + w["bias_ih"]).split(H, 1)
    (W_r, W_z, W_n), (b_r, b_z, b_n) = w["weight_hh"].split(H), w["bias_hh"].split(H)
    r = (x_r + (m * h) @ W_r.T + b_r).sigmoid()
    z = (x_z + (m * h) @ W_z.T + b_z).sigmoid()
    h = (1 - z) * (x_n + (r * (m * h)) @ W_n.T + b_n).tanh() + z * h
    return h, h


STEPS = {
    "rnn": step_rnn,
    "lstm": step_lstm,
    "gru": step_gru,
    "gru_reset_before": step_gru_reset_before,
}


def weights_of(layer):
    return {n.removesuffix("_l0"): p for n, p in layer.named_parameters()}


# ---------------------------------------------------------------- recurrent dropout


@pytest.mark.parametrize("name", STEPS)
def test_recurrent_dropout_is_one_mask_for_all_steps(name):
    layer = make(name, num_layers=1, recurrent_dropout=0.4)
    x, state = randn(3, 6, D).requires_grad_(), random_state(layer, 3)
    torch.manual_seed(5)
    y, final = layer(x, state)
    torch.manual_seed(5)
    mask = F.dropout(torch.ones(3, H, dtype=torch.float64), 0.4)
    assert 0 < (mask == 0).sum() < mask.numel() and mask.max() == 1 / 0.6
    s, outputs = map_state(lambda p: p[0], state), []
    for t in range(6):
        y_t, s = STEPS[name](weights_of(layer), x[:, t], s, mask)
        outputs.append(y_t)
    want = torch.stack(outputs, 1)
    assert_close(y, want)
    assert_close(map_state(lambda p: p[0], final), s)
    inputs = [x, *layer.parameters()]
    found = (torch.autograd.grad(wave(z), inputs) for z in (y, want))
    assert_close(*found)


@pytest.mark.parametrize("name", MASKED)
def test_recurrent_dropout_draws_anew_for_each_call_and_not_in_evaluation(name):
    layer, x = make(name, recurrent_dropout=0.5, bidirectional=True), randn(2, 5, D)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    plain = make(name, bidirectional=True)
    assert_close(layer.eval()(x)[0], plain(x)[0], 0)
    layer.train()
    layer.recurrent_dropout = 0.0
    assert_close(layer(x)[0], plain(x)[0], 0)


def test_rows_with_lengths_and_resets_have_masks_of_their_own():
    layer, x = make("rnn", num_layers=1, recurrent_dropout=0.5), randn(1, 4, D).expand(64, 4, D)
    reset = torch.zeros(64, 4, dtype=torch.bool)
    reset[:, 2] = True
    y, final = layer(x, lengths=torch.tensor([4] * 63 + [0]), reset=reset)
    assert len(torch.unique(y[:63, 1], dim=0)) > 8  # of 16 masks
    assert len(torch.unique(y[:63, 3], dim=0)) > 8
    assert (y[63] == 0).all() and (final[:, 63] == 0).all()
    assert len(torch.unique(y[:63, 0], dim=0)) == 1  # a zero state has nothing to drop


def test_all_units_dropped_is_no_recurrence():
    layer, x = make("gru", num_layers=1, recurrent_dropout=1.0), randn(2, 5, D)
    free = copy.deepcopy(layer)
    free.recurrent_dropout = 0.0
    with torch.no_grad():
        free.weight_hh_l0.zero_()
    assert_close(layer(x)[0], free(x)[0])


def test_recurrent_dropout_is_refused_where_it_would_do_nothing():
    class Leaky(companion.Cell):
        def __init__(self, input_size, hidden_size, bias=True, **new):
            super().__init__(input_size, hidden_size)
            self.weight_ih = self.weight(hidden_size, input_size, **new)
            self.reset_parameters()

        def prepare(self, x):
            return F.linear(x, self.weight_ih)

        def update(self, u_t, h):
            h = 0.9 * h + 0.1 * u_t
            return h, h

    layer = companion.Recurrence(Leaky, D, H, recurrent_dropout=0.5)
    with pytest.raises(ValueError, match=r"recurrent_dropout: .*self.recurrent\(h\).* Leaky"):
        layer(torch.zeros(2, 3, D))
    layer.eval()(torch.zeros(2, 3, D))


def test_a_training_layer_with_a_locked_mask_does_not_step():
    layer = make("lstm", recurrent_dropout=0.5)
    with pytest.raises(ValueError, match="step: recurrent_dropout keeps one mask"):
        layer.step(randn(2, D))
    layer.eval().step(randn(2, D))


# ---------------------------------------------------------------- zoneout


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_zoneout_keeps_units_of_the_state(name, training):
    parts = len(flat_state(make(name).initial_state(1)))
    rates = (0.3, 0.6)[:parts]
    layer = make(name, num_layers=1, zoneout=rates).train(training)
    x, state = randn(3, 6, D).requires_grad_(), random_state(layer, 3)
    torch.manual_seed(5)
    y, final = layer(x, state)
    torch.manual_seed(5)
    s, outputs = map_state(lambda p: p[0], state), []
    for t in range(6):
        _, new = STEPS[name](weights_of(layer), x[:, t], s, 1)
        kept = []
        for p, before, after in zip(rates, flat_state(s), flat_state(new), strict=True):
            m = (torch.rand(3, H, dtype=torch.float64) < p).double() if training else p
            kept.append(m * before + (1 - m) * after)
        s = tuple(kept) if parts == 2 else kept[0]
        outputs.append(kept[0])
    want = torch.stack(outputs, 1)
    assert_close(y, want)
    assert_close(map_state(lambda p: p[0], final), s)
    inputs = [x, *layer.parameters()]
    assert_close(*(torch.autograd.grad(wave(z), inputs) for z in (y, want)))


@pytest.mark.parametrize("name", MASKED)
def test_zoneout_of_one_never_moves_and_of_zero_is_nothing(name):
    x = randn(2, 5, D)
    layer = make(name, zoneout=1.0)
    start = random_state(layer, 2)
    final = flat_state(layer(x, start)[1])
    kept = ARCHITECTURES[name].cell.zoned or len(final)  # a clock goes on
    assert_close(final[:kept], flat_state(start)[:kept], 0)
    assert_close(make(name, zoneout=0.0)(x, start)[0], make(name)(x, start)[0], 0)


@pytest.mark.parametrize("name", MASKED)
def test_evaluation_under_zoneout_is_a_loop_of_steps_with_lengths(name):
    layer, x = make(name, zoneout=0.2).eval(), randn(2, 5, D)
    state = layer.initial_state(2)
    y, final = layer(x, lengths=[5, 3])
    for t in range(3):
        y_t, state = layer.step(x[:, t], state)
        assert_close(y_t, y[:, t])
    assert_close(map_state(lambda s: s[:, 1], state), map_state(lambda s: s[:, 1], final))


def test_the_mean_of_training_is_evaluation_for_one_step():
    layer, x = make("rnn", num_layers=1, zoneout=0.25), randn(1, 1, D).expand(20000, 1, D)
    start = torch.full((1, 20000, H), 0.7, dtype=torch.float64)
    mean = layer(x, start)[0].mean(0)
    assert_close(mean, layer.eval()(x[:1], start[:, :1])[0][0], 0.02)


@every_architecture
def test_zoneout_works_or_says_why_not(name):
    try:
        layer = make(name, zoneout=0.5)
        y, final = layer(randn(2, 5, D))
    except ValueError as e:
        assert str(e).startswith("zoneout: ")  # noqa: PT017
        assert name not in MASKED
    else:
        assert y.isfinite().all() and y.shape == (2, 5, layer.output_size)


def test_bad_rates_are_named():
    for kind, value, message in [
        (ValueError, 1.5, "zoneout: expected a probability between 0 and 1, got 1.5"),
        (ValueError, (0.1, 0.2, 0.3), "zoneout: expected a number or 2 of them.* got 3"),
        (ValueError, (0.1, -1), r"zoneout\[1\]: expected a probability"),
        (TypeError, "much", "zoneout: expected a number, got str"),
    ]:
        with pytest.raises(kind, match=message):
            companion.LSTM(D, H, zoneout=value)
    with pytest.raises(ValueError, match="recurrent_dropout: expected a probability"):
        companion.GRU(D, H, recurrent_dropout=2)


def test_a_layer_prints_its_noise():
    assert "recurrent_dropout=0.2, zoneout=(0.1,)" in repr(
        companion.RNN(D, H, zoneout=0.1, recurrent_dropout=0.2)
    )


# ---------------------------------------------------------------- weight drop (cases 37 to 39)


def dropped(name="lstm", p=0.5, **options):
    return companion.weight_drop(make(name, **options), p)


@every_architecture
def test_weight_drop_acts_in_training_alone_and_changes_nothing_for_good(name):
    if not any(n.startswith("weight_hh") for n, _ in make(name).named_parameters()):
        with pytest.raises(ValueError, match="names: expected at least one .*has no weight_hh"):
            dropped(name)
        return
    layer, x = dropped(name, bidirectional=True), randn(2, 5, D)
    plain = make(name, bidirectional=True)
    before = copy.deepcopy(layer.state_dict())
    outputs = [layer(x)[0] for _ in range(3)]
    assert not torch.equal(outputs[0], outputs[1])
    assert all(torch.equal(w, before[n]) for n, w in layer.state_dict().items())
    assert_close(layer.eval()(x)[0], plain(x)[0], 0)  # case 37
    layer.train()(x)[0].sum().backward()
    for n, p in layer.named_parameters():
        assert p.grad is not None, n  # case 39: the raw weight learns


def test_all_steps_of_a_call_read_one_mask():
    layer, x = dropped("rnn", num_layers=1), randn(2, 5, D)
    torch.manual_seed(3)
    y, _ = layer(x)
    torch.manual_seed(3)
    w = layer.weight_hh_l0
    assert 0 < (w == 0).sum() < w.numel()
    plain = make("rnn", num_layers=1)
    with torch.no_grad():
        plain.weight_hh_l0.copy_(w)
    assert_close(y, plain(x)[0])


def test_weight_drop_takes_names_and_refuses_others():
    layer = companion.weight_drop(make("gru"), 0.5, ["weight_ih", "weight_hh"])
    assert {"weight_ih_l0", "weight_hh_l1"} <= set(layer.parametrizations)
    with pytest.raises(ValueError, match="names: expected some of .*weight_ih.*got 'weight_xx'"):
        companion.weight_drop(make("gru"), 0.5, ["weight_xx"])
    with pytest.raises(TypeError, match="names: expected a list of names, got the string"):
        companion.weight_drop(make("gru"), 0.5, "weight_hh")
    with pytest.raises(ValueError, match="p: expected a probability"):
        companion.weight_drop(make("gru"), 1.5)
    with pytest.raises(
        TypeError, match="layer: expected a recurrent layer of companion, got LSTM"
    ):
        companion.weight_drop(torch.nn.LSTM(D, H), 0.5)
