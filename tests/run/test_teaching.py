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


def test_numpy_backward_of_integer_inputs():
    """A one-hot x of integers once made the gradient of x integers too, cut off to 0."""
    x, W_ih, W_hh = np.eye(2, dtype=int)[:, None], np.full((3, 2), 0.1), np.full((3, 3), 0.2)
    h = numpy_forward(x, np.zeros((1, 3)), W_ih, W_hh, np.zeros(3))
    dh = np.ones((2, 1, 3))
    found = numpy_backward(x, h, dh, W_ih, W_hh)
    for a, b in zip(found, numpy_backward(x.astype(float), h, dh, W_ih, W_hh), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (found[0] > 0).all()


@pytest.mark.parametrize("bias", [True, False])
def test_rtrl_is_bptt(bias):
    torch.manual_seed(0)
    cell = companion.RNNCell(3, 4, bias=bias, dtype=torch.float64)
    found = check_rtrl(cell, randn(1, 4))
    assert set(found) == {n for n, _ in cell.named_parameters()}


def loss(t, y):
    """A loss in which each output counts differently."""
    return (y.sin() * torch.arange(1.0, len(y) + 1).to(y) * (t + 1)).sum()


def check_rtrl(cell, state=None, x=None, by=None):
    """The gradient by rtrl equals the one by autograd through ``by.step``, weight by weight."""
    x, by = randn(6, 3) if x is None else x, by or cell
    torch.manual_seed(1)
    found = rtrl(cell, x, loss, state)
    torch.manual_seed(1)
    total, s = torch.zeros(()).double(), by.initial_state(1) if state is None else state
    for t, x_t in enumerate(x):
        y, s = by.step(x_t.unsqueeze(0), s)
        total = total + loss(t, y[0])
    for p in by.parameters():
        p.grad = None
    total.backward()
    named = dict(by.named_parameters())
    assert len(found) == len(named)
    for name, gradient in found.items():
        p = named[name if name in named else next(n for n in named if alike(n, name))]
        torch.testing.assert_close(gradient, p.grad, rtol=0, atol=1e-12)
        assert p.grad.abs().max() > 0.01
    return found


def alike(of_layer, of_cell):
    """Whether a layer calls norm_l0.weight what its cell calls norm.weight."""
    return of_layer.replace("_l0", "") == of_cell


class Learned(companion.Cell):
    """A cell with everything inside that a cell may have: a learned first state, a module, a
    buffer; and noise on demand."""

    noise = 0.0

    def __init__(self, input_size, hidden_size, bias=True, **new):
        super().__init__(input_size, hidden_size)
        self.h0 = self.weight(hidden_size, **new)
        self.weight_ih = self.weight(hidden_size, input_size, **new)
        self.weight_hh = self.weight(hidden_size, hidden_size, **new)
        self.norm = torch.nn.LayerNorm(hidden_size, **new)
        self.register_buffer("scale", torch.full((hidden_size,), 0.7, **new))
        self.reset_parameters()

    def initial_state(self, batch_size, like=None):
        return self.h0.expand(batch_size, -1)

    def prepare(self, x):
        return x @ self.weight_ih.T

    def update(self, u_t, h):
        noise = 1 + self.noise * torch.randn_like(h)
        h = torch.tanh(self.norm(u_t + h @ self.weight_hh.T)) * self.scale * noise
        return 3 * h, h


def test_rtrl_of_a_learned_initial_state_with_modules_and_buffers_inside():
    torch.manual_seed(0)
    cell = Learned(3, 4, dtype=torch.float64)
    assert set(check_rtrl(cell)) == {"h0", "weight_ih", "weight_hh", "norm.weight", "norm.bias"}
    # a given state is held fixed: the first one learns nothing
    given = rtrl(cell, randn(6, 3), loss, randn(1, 4))
    assert (given["h0"] == 0).all() and given["weight_hh"].abs().max() > 0.01


def test_rtrl_draws_once_a_step():
    torch.manual_seed(0)
    cell = Learned(3, 4, dtype=torch.float64)
    cell.noise = 0.5
    check_rtrl(cell)


@pytest.mark.parametrize("cell", ["rnn", Learned])
def test_rtrl_of_a_cell_that_a_layer_lends(cell):
    torch.manual_seed(0)
    layer = companion.Recurrence(cell, 3, 4, dtype=torch.float64)
    before = {n: w.clone() for n, w in layer.state_dict().items()}
    check_rtrl(layer.cell(0), by=layer)
    assert all(torch.equal(w, before[n]) for n, w in layer.state_dict().items())


def test_rtrl_of_a_parametrized_cell():
    torch.manual_seed(0)
    cell = companion.RNNCell(3, 4, dtype=torch.float64)
    torch.nn.utils.parametrizations.orthogonal(cell, "weight_hh")
    assert "parametrizations.weight_hh.original" in check_rtrl(cell)
    cell = companion.RNNCell(3, 4, dtype=torch.float64)
    torch.nn.utils.parametrizations.spectral_norm(cell, "weight_hh")
    before = {n: w.clone() for n, w in cell.state_dict().items()}
    rtrl(cell, randn(6, 3), loss)  # in training, where its buffers change with each use
    assert all(torch.equal(w, before[n]) for n, w in cell.state_dict().items())
    check_rtrl(cell.eval())


def test_rtrl_of_a_loss_that_speaks_at_the_end_alone_and_without_grad_mode():
    torch.manual_seed(0)
    cell, x = companion.RNNCell(3, 4, dtype=torch.float64), randn(6, 3)

    def last(t, y):
        return y.sum() if t == 5 else y.new_zeros(())

    with torch.no_grad():
        found = rtrl(cell, x, last)
    s = cell.initial_state(1)
    for x_t in x:
        s = cell(x_t[None], s)
    s.sum().backward()
    for name, p in cell.named_parameters():
        torch.testing.assert_close(found[name], p.grad, rtol=0, atol=1e-12)
    # a loss with weights of its own that ignores the output is silent as well
    own = torch.ones((), requires_grad=True)
    assert all((g == 0).all() for g in rtrl(cell, x, lambda t, y: own).values())


def test_rtrl_of_a_cell_without_weights():
    class Mean(companion.Cell):
        def prepare(self, x):
            return x

        def update(self, u_t, s):
            return s[0], (0.5 * (s[0] + u_t), s[1] + 1)

    cell = Mean(3, 3)
    cell.state_size = (3, 3)
    assert rtrl(cell, torch.ones(4, 3), loss) == {}


def test_rtrl_refuses_what_it_cannot_use():
    cell, x = companion.RNNCell(3, 4), torch.zeros(5, 3)
    with pytest.raises(ValueError, match=r"x: expected one sequence \(T, D\)"):
        rtrl(cell, torch.zeros(5, 2, 3), lambda t, y: y.sum())
    with pytest.raises(ValueError, match=r"state: expected shape \(1, 4\), got \(2, 2\)"):
        rtrl(cell, x, lambda t, y: y.sum(), torch.zeros(2, 2))
    with pytest.raises(TypeError, match="state: expected one tensor, got tuple"):
        rtrl(cell, x, lambda t, y: y.sum(), (torch.zeros(1, 4),))
    with pytest.raises(TypeError, match="loss: expected a scalar tensor, got float"):
        rtrl(cell, x, lambda t, y: y.sum().item())
    with pytest.raises(ValueError, match=r"loss: expected a scalar, got shape \(4,\)"):
        rtrl(cell, x, lambda t, y: y)
