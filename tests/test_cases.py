"""Public bug reports of other recurrent code, as tests of ours.

Cases 1–14, 16, 32, 40, 47, 48 and 52–54: those that layers around a cell can have.
"""

from __future__ import annotations

import math
import warnings

import pytest
import torch

import companion
from companion.cells import flat_state

from .helpers import D, assert_close, every_architecture, every_case, every_form, make, randn, wave


@every_form
def test_01_a_row_of_length_0(form):
    """pytorch#4582, #11514, #80605: packed lengths [3, 0] raise."""
    rnn = companion.RNN(D, 4, batch_first=True)
    x = torch.randn(2, 3, D, requires_grad=True)
    h0 = torch.randn(1, 2, 4)
    y, h_n = rnn(x, h0, lengths=[3, 0], form=form)
    y.sum().backward()
    assert (y[1] == 0).all() and torch.equal(h_n[:, 1], h0[:, 1]) and (x.grad[1] == 0).all()


@every_form
def test_02_no_steps(form):
    """pytorch#50192: T = 0 raises."""
    rnn = companion.RNN(D, 4, 2)
    h0 = torch.randn(2, 5, 4)
    y, h_n = rnn(torch.empty(0, 5, D), h0, form=form)
    assert y.shape == (0, 5, 4) and torch.equal(h_n, h0)


@every_case
def test_03_no_rows_have_zero_gradients(name, form):
    layer = make(name)
    y, final = layer(randn(0, 3, D), form=form)
    grads = torch.autograd.grad(wave(y, *flat_state(final)), list(layer.parameters()))
    assert all(g.shape == w.shape for g, w in zip(grads, layer.parameters(), strict=True))
    assert all((g == 0).all() for g in grads)


def test_04_wrong_last_dimension_without_a_state():
    """pytorch#114874: 2 features against input_size 13 were accepted."""
    rnn = companion.RNN(13, 20)
    with pytest.raises(ValueError, match=r"input: expected last dimension 13.*got 2"):
        rnn(torch.randn(5, 3, 2))


@every_architecture
def test_05_and_06_a_wrong_state_is_named(name):
    """pytorch#45437: a bare h where a pair is due; a float64 state with float32 input."""
    layer = make(name, dtype=torch.float32)
    x, state = torch.randn(2, 5, D), layer.initial_state(2)
    wrong = state[0] if isinstance(state, tuple) else (state, state)
    with pytest.raises(TypeError, match="state: expected"):
        layer(x, wrong)
    double = tuple(s.double() for s in flat_state(state))
    with pytest.raises(ValueError, match="expected dtype torch.float32.*got torch.float64"):
        layer(x, double if isinstance(state, tuple) else double[0])


def test_07_batch_first_leaves_the_state_alone():
    """pytorch#34036, #19675: h_n is (L·D, B, H) in both layouts, also where T = 1."""
    for batch_first in (True, False):
        rnn = companion.RNN(3, 4, 2, bidirectional=True, batch_first=batch_first)
        for T in (1, 5):
            x = torch.randn(2, T, 3) if batch_first else torch.randn(T, 2, 3)
            y, h_n = rnn(x)
            assert h_n.shape == (4, 2, 4) and y.shape == (*x.shape[:2], 8)


@every_case
@pytest.mark.parametrize("T", [1, 2, 3, 7, 33])
def test_08_and_09_unequal_widths_and_awkward_lengths(name, form, T):
    """pytorch-qrnn#10: two layers, input ≠ hidden; accelerated-scan#13: powers of two only."""
    layer, x = make(name), randn(2, T, D)
    y, state = layer(x, form=form)
    outputs, carried = [], None
    for t in range(T):
        y_t, carried = layer.step(x[:, t], carried)
        outputs.append(y_t)
    assert_close(y, torch.stack(outputs, 1))
    assert_close(state, carried)


def test_10_dropout_with_one_layer_warns_and_does_nothing():
    """pytorch#5985."""
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="num_layers=1 it has no effect"):
        rnn = companion.RNN(3, 4, dropout=0.5)
    x = torch.randn(5, 2, 3)
    assert torch.equal(rnn(x)[0], rnn(x)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        companion.RNN(3, 4, 2, dropout=0.5)


@every_case
def test_11_and_12_final_states_do_not_depend_on_padding(name, form):
    """keras#4192, #1569: bidirectional states moved with the padding."""
    layer, x = make(name, bidirectional=True), randn(3, 4, D)
    lengths = torch.tensor([4, 1, 3])
    _, wanted = layer(x, lengths=lengths, form=form)
    for more in (1, 5):
        padded = torch.cat([x, randn(3, more, D)], 1)
        assert_close(layer(padded, lengths=lengths, form=form)[1], wanted, 1e-14)


@every_case
def test_13_a_row_without_a_valid_step(name, form):
    """tensorflow#36139, #43103."""
    layer = make(name, bidirectional=True)
    y, final = layer(randn(2, 4, D), lengths=[0, 0], form=form)
    assert (y == 0).all()
    assert_close(final, layer.initial_state(2), 0)


@every_case
@pytest.mark.parametrize("filler", [float("nan"), float("inf"), 1e30])
def test_14_what_stands_in_the_padding_leaks_nowhere(name, form, filler):
    """Masking after the run gives NaN gradients of the weights."""
    layer, x = make(name, bidirectional=True), randn(2, 4, D)
    wanted = list(layer.parameters())
    found = []
    for value in (0.0, filler):
        x[1, 2:] = value
        y, final = layer(x, lengths=[4, 2], form=form)
        found.append((y, *torch.autograd.grad(wave(y, *flat_state(final)), wanted)))
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


GATED = pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])


def hidden(state):
    """h of a state, whether it is one tensor or a pair."""
    return flat_state(state)[0]


@GATED
@every_form
def test_16_the_state_has_both_directions_of_every_layer(name, form):
    """keon/seq2seq#32: hidden[:n_layers] holds both directions of half the layers."""
    torch.manual_seed(0)
    layer = getattr(companion, name)(D, 4, 3, bidirectional=True, batch_first=True)
    x = torch.randn(2, 5, D)
    y, final = layer(x, form=form)
    h_n = hidden(final)
    assert h_n.shape == (3 * 2, 2, 4)
    by_layer = h_n.view(3, 2, 2, 4)  # layer, direction
    torch.testing.assert_close(by_layer[-1, 0], y[:, -1, :4])
    torch.testing.assert_close(by_layer[-1, 1], y[:, 0, 4:])
    one = getattr(companion, name)(D, 4, 1, bidirectional=True, batch_first=True)
    one.load_state_dict({k: w for k, w in layer.state_dict().items() if "_l0" in k})
    torch.testing.assert_close(by_layer[0], hidden(one(x)[1]))
    assert (y[:, 0] != 0).all()  # step 0 is an output like every other


@every_case
def test_32_float64(name, form):
    """sru#102: float64 fails."""
    layer, x = make(name, dtype=torch.float32, bidirectional=True), randn(2, 5, D)
    y, final = layer.double()(x, form=form)
    assert y.dtype == torch.float64 and all(s.dtype == torch.float64 for s in flat_state(final))
    single = layer.float()(x.float(), form=form)[0]
    assert 0 < (y - single).abs().max() < 1e-4  # so it was computed in float64
    layer.double()(x, form=form)[0].sum().backward()
    assert all(w.grad.dtype == torch.float64 for w in layer.parameters())


@every_case
def test_40_a_gradient_penalty_has_gradients(name, form):
    """pytorch#5261, #25315: double backward of cuDNN's layers raises."""
    layer, x = make(name, num_layers=1, bidirectional=True), randn(3, 4, D).requires_grad_()

    def penalty():
        y, _ = layer(x, lengths=[4, 1, 3], form=form)
        (g,) = torch.autograd.grad(wave(y), x, create_graph=True)
        return (g.flatten(1).norm(dim=1) - 1).square().sum()

    weights = list(layer.parameters())
    grads = torch.autograd.grad(penalty(), weights, materialize_grads=True)
    directions = [torch.randn_like(w) for w in weights]
    slope = sum((g * d).sum() for g, d in zip(grads, directions, strict=True))
    values = []
    for e in (1e-7, -2e-7):
        with torch.no_grad():
            for w, d in zip(weights, directions, strict=True):
                w.add_(d, alpha=e)
        values.append(penalty().item())
    torch.testing.assert_close(slope.item(), (values[0] - values[1]) / 2e-7, rtol=1e-5, atol=1e-6)


@GATED
@every_form
def test_47_the_last_output_of_the_backward_direction_has_seen_one_step(name, form):
    """yunjey#149, #174, pytorch#3587: out[:, -1] is taken for a summary of the row."""
    torch.manual_seed(0)
    layer = getattr(companion, name)(D, 4, bidirectional=True, batch_first=True)
    x, lengths = torch.randn(3, 6, D), [6, 4, 1]
    y, final = layer(x, lengths=lengths, form=form)
    other = x.clone()
    other[0, :5] = 7  # all but the last step of the first row
    changed, final_changed = layer(other, lengths=lengths, form=form)
    assert torch.equal(changed[0, -1, 4:], y[0, -1, 4:])
    assert (hidden(final_changed)[1, 0] != hidden(final)[1, 0]).all()
    for b, n in enumerate(lengths):
        torch.testing.assert_close(hidden(final)[0, b], y[b, n - 1, :4])
        torch.testing.assert_close(hidden(final)[1, b], y[b, 0, 4:])


@every_case
def test_48_a_sentence_has_the_same_code_alone_and_in_a_padded_batch(name, form):
    """bentrevett#90: the encoder runs over the padding."""
    layer = make(name, bidirectional=True)
    sentences = [randn(n, D) for n in (6, 2, 4)]
    batch = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True, padding_value=5.0)
    y, final = layer(batch, lengths=[6, 2, 4], form=form)
    for b, sentence in enumerate(sentences):
        y_b, final_b = layer(sentence, form=form)
        assert_close(y[b, : len(sentence)], y_b)
        assert_close(tuple(s[:, b] for s in flat_state(final)), flat_state(final_b))


def unit_gru(r, z, **options):
    """One unit: fixed gates; n = tanh(reset of 2 h + 3), one way or the other."""
    gru = companion.GRU(1, 1, dtype=torch.float64, **options)
    logit = {0.0: -800.0, 0.5: 0.0, 1.0: 800.0}
    with torch.no_grad():
        for p in gru.parameters():
            p.zero_()
        gru.bias_ih_l0.copy_(torch.tensor([logit[r], logit[z], 0.0]))
        gru.weight_hh_l0[2], gru.bias_hh_l0[2] = 2.0, 3.0
    return gru


@every_form
def test_52_the_reset_gate_after_or_before_the_product(form):
    """pytorch#8153, #99531: r ⊙ (W h + b) as in cuDNN, or W (r ⊙ h) + b as in Cho et al."""
    x, h = torch.zeros(1, 1, 1).double(), torch.full((1, 1, 1), 0.5).double()
    after = unit_gru(r=0.5, z=0.0)(x, h, form=form)[0].item()
    before = unit_gru(r=0.5, z=0.0, reset_after=False)(x, h, form=form)[0].item()
    assert after == pytest.approx(math.tanh(0.5 * (2 * 0.5 + 3)), abs=1e-15)
    assert before == pytest.approx(math.tanh(2 * (0.5 * 0.5) + 3), abs=1e-15)
    theirs = torch.nn.GRU(1, 1, dtype=torch.float64)
    theirs.load_state_dict(unit_gru(r=0.5, z=0.0).state_dict())
    assert theirs(x, h)[0].item() == pytest.approx(after, abs=1e-15)


@every_form
@pytest.mark.parametrize("reset_after", [True, False])
def test_53_an_open_update_gate_keeps_the_state(form, reset_after):
    """pytorch#20129, #60645: h = (1 − z) n + z h, not z n + (1 − z) h."""
    x, h = torch.zeros(4, 1, 1).double(), torch.full((1, 1, 1), 0.25).double()
    kept, _ = unit_gru(r=1.0, z=1.0, reset_after=reset_after)(x, h, form=form)
    assert (kept == 0.25).all()
    renewed, _ = unit_gru(r=1.0, z=0.0, reset_after=reset_after)(x, h, form=form)
    assert renewed[0].item() == pytest.approx(math.tanh(2 * 0.25 + 3), abs=1e-15)
    half, _ = unit_gru(r=1.0, z=0.5, reset_after=reset_after)(x, h, form=form)
    assert half[0].item() == pytest.approx((0.25 + math.tanh(2 * 0.25 + 3)) / 2, abs=1e-15)


@every_form
def test_54_the_forget_bias_counts_once(form):
    """pytorch#750, #20102: set in both bias vectors it counts twice."""
    lstm = companion.LSTM(1, 1, forget_bias=1.0, dtype=torch.float64)
    with torch.no_grad():
        for name in ("weight_ih_l0", "weight_hh_l0"):
            getattr(lstm, name).zero_()
        for bias in (lstm.bias_ih_l0, lstm.bias_hh_l0):
            bias[[0, 2, 3]] = 0.0  # all but the forget gate's
    h, c = torch.zeros(1, 1, 1).double(), torch.ones(1, 1, 1).double()
    _, (_, c_n) = lstm(torch.zeros(3, 1, 1).double(), (h, c), form=form)
    sigma = 1 / (1 + math.exp(-1.0))
    assert c_n.item() == pytest.approx(sigma**3, abs=1e-15)
