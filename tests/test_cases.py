"""Public bug reports of other recurrent code, as tests of ours (cases 1–14)."""

from __future__ import annotations

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
