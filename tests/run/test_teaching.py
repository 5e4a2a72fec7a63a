"""The written-out gradients against autograd, and against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import companion
from companion.run.teaching import numpy_backward, numpy_forward, rtrl

from ..helpers import randn


def weights(seed=0):
    cell_seed = torch.manual_seed(seed)
    assert cell_seed is not None
    return companion.RNN(3, 4, dtype=torch.float64)


def test_numpy_equals_the_package_in_outputs_and_gradients():
    rnn = weights()
    x, h0 = randn(7, 2, 3).requires_grad_(), randn(1, 2, 4).requires_grad_()
    y, _ = rnn(x, h0)
    dh = randn(7, 2, 4)
    named = {n.removesuffix("_l0"): w for n, w in rnn.named_parameters()}
    want = torch.autograd.grad((y * dh).sum(), [x, h0, *named.values()])
    W_ih, W_hh, b_ih, b_hh = (w.detach().numpy() for w in named.values())
    h = numpy_forward(x.detach().numpy(), h0[0].detach().numpy(), W_ih, W_hh, b_ih + b_hh)
    np.testing.assert_allclose(h[1:], y.detach().numpy(), atol=1e-13)
    found = numpy_backward(x.detach().numpy(), h, dh.numpy(), W_ih, W_hh)
    for a, b in zip(found, [want[0], want[1][0], *want[2:5]], strict=True):
        np.testing.assert_allclose(a, b.numpy(), atol=1e-12)


def test_numpy_backward_is_the_slope_of_the_loss():
    """axon#646: a gradient of .405 against a true .091; so: finite differences."""
    rng = np.random.default_rng(0)
    x, h0 = rng.normal(size=(4, 1, 2)), rng.normal(size=(1, 3))
    W_ih, W_hh, b = rng.normal(size=(3, 2)), rng.normal(size=(3, 3)), rng.normal(size=3)
    dh = rng.normal(size=(4, 1, 3))
    inputs = [x, h0, W_ih, W_hh, b]

    def loss():
        return (numpy_forward(*inputs)[1:] * dh).sum()

    found = numpy_backward(x, numpy_forward(*inputs), dh, W_ih, W_hh)
    for value, gradient in zip(inputs, found, strict=True):
        for place in np.ndindex(value.shape):
            old, e = value[place], 1e-6
            value[place] = old + e
            up = loss()
            value[place] = old - e
            down = loss()
            value[place] = old
            assert gradient[place] == pytest.approx((up - down) / (2 * e), abs=1e-7)


@pytest.mark.parametrize("bias", [True, False])
def test_rtrl_is_bptt(bias):
    torch.manual_seed(0)
    cell = companion.RNNCell(3, 4, bias=bias, dtype=torch.float64)
    x, w, state = randn(6, 3), randn(6, 4), randn(1, 4)

    def loss(t, y):
        return (w[t] * y.sin()).sum()

    found = rtrl(cell, x, loss, state)
    total, s = torch.zeros(()).double(), state
    for t in range(6):
        y, s = cell.step(x[t : t + 1], s)
        total = total + loss(t, y[0])
    total.backward()
    assert set(found) == {n for n, _ in cell.named_parameters()}
    for name, p in cell.named_parameters():
        torch.testing.assert_close(found[name], p.grad, rtol=0, atol=1e-12)
        assert p.grad.abs().max() > 0.01


def test_rtrl_wants_one_sequence():
    with pytest.raises(ValueError, match=r"x: expected one sequence \(T, D\)"):
        rtrl(companion.RNNCell(3, 4), torch.zeros(5, 2, 3), lambda t, y: y.sum())
