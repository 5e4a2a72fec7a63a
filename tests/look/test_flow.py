"""Gradient flow against closed forms of linear maps."""

from __future__ import annotations

import math

import pytest
import torch

import companion
from companion.look import flow

from ..helpers import randn


def linear(W, x_dim=1):
    """An RNN that is linear near 0: relu in its open half, or tanh at 0."""
    n = len(W)
    rnn = companion.RNN(x_dim, n, dtype=torch.float64, bias=False)
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(W)
    return rnn


def test_jacobian_at_zero_is_the_recurrent_matrix():
    W = randn(3, 3)
    J = flow.jacobians(linear(W), torch.zeros(4, 1).double())
    torch.testing.assert_close(J, W.expand(4, 3, 3))


def test_jacobian_is_slope_times_matrix_in_that_order():
    """Row 24: diag(φ′) W, not W diag(φ′)."""
    torch.manual_seed(0)
    rnn, x = companion.RNN(2, 3, dtype=torch.float64), randn(5, 2)
    y, _ = rnn(x)
    W = rnn.weight_hh_l0.detach()
    slope = 1 - y.detach() ** 2
    J = flow.jacobians(rnn, x)
    torch.testing.assert_close(J, slope[:, :, None] * W)
    assert (J - W * slope[:, None, :]).abs().max() > 1e-3


def test_norms_of_a_diagonal_map():
    rnn = linear(torch.diag(torch.tensor([0.5, 0.25])).double())
    found = flow.gradient_flow(rnn, torch.zeros(6, 1).double())
    want = 0.5 ** torch.arange(6, -1, -1).double()
    torch.testing.assert_close(found.state, want)
    assert found.lag.tolist() == [6, 5, 4, 3, 2, 1, 0]
    both = torch.tensor([0.5, 0.25]).double() ** torch.arange(6, -1, -1)[:, None]
    torch.testing.assert_close(found.loss, both.norm(dim=1))
    norms = flow.jacobian_norms(rnn, torch.zeros(6, 1).double())
    torch.testing.assert_close(norms.norm, torch.full((6,), 0.5).double())
    torch.testing.assert_close(norms.radius, torch.full((6,), 0.5).double())


def test_a_non_normal_map_stretches_though_its_radius_is_below_one():
    W = torch.tensor([[0.9, 5.0], [0.0, 0.9]]).double()
    norms = flow.jacobian_norms(linear(W), torch.zeros(3, 1).double())
    assert norms.radius.tolist() == pytest.approx([0.9] * 3) and (norms.norm > 5).all()
    grown = flow.gradient_flow(linear(W), torch.zeros(60, 1).double()).state.flip(0)
    assert grown[:20].max() > 10 and grown[-1] < 2


def test_gradient_of_the_loss_is_autograd_s():
    torch.manual_seed(0)
    rnn, x = companion.RNN(2, 3, dtype=torch.float64), randn(5, 2)
    w = randn(5, 3)
    h0 = torch.zeros(1, 3).double().requires_grad_()
    y, _ = rnn(x, h0)
    (want,) = torch.autograd.grad((y * w).sum(), h0)
    found = flow.gradient_flow(rnn, x, lambda y: (y * w).sum())
    assert found.loss[0].item() == pytest.approx(want.norm().item(), abs=1e-12)
    assert found.loss[-1].item() == pytest.approx(w[-1].norm().item(), abs=1e-12)


def test_stacked_layers_have_one_state():
    torch.manual_seed(0)
    rnn, x = companion.RNN(2, 3, 2, dtype=torch.float64), randn(4, 2)
    assert flow.jacobians(rnn, x).shape == (4, 6, 6)
    J = flow.jacobians(rnn, x)
    assert (J[:, :3, 3:] == 0).all()  # the upper layer tells the lower one nothing
    found = flow.gradient_flow(rnn, x, state=randn(2, 3))
    assert len(found.loss) == len(found.state) == 5


def test_lyapunov_exponents_of_known_maps():
    W = torch.diag(torch.tensor([2.0, 0.5, 0.1])).double()
    found = flow.lyapunov_exponents(linear(W), torch.zeros(50, 1).double())
    assert found.tolist() == pytest.approx([math.log(2), math.log(0.5), math.log(0.1)])
    a = 0.3
    turn = torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]).double()
    found = flow.lyapunov_exponents(linear(0.9 * turn), torch.zeros(50, 1).double(), skip=10)
    assert found.tolist() == pytest.approx([math.log(0.9)] * 2)
    shear = torch.tensor([[0.9, 5.0], [0.0, 0.9]]).double()
    found = flow.lyapunov_exponents(linear(shear), torch.zeros(2000, 1).double())
    assert found.tolist() == pytest.approx([math.log(0.9)] * 2, abs=0.01)
    # their sum is the mean log volume: log |det W| at 0
    W = randn(4, 4)
    found = flow.lyapunov_exponents(linear(W), torch.zeros(30, 1).double())
    assert found.sum().item() == pytest.approx(math.log(abs(torch.linalg.det(W))), abs=1e-9)


@pytest.mark.parametrize("x", [torch.zeros(0, 2), torch.zeros(3, 1, 2)])
def test_wants_one_sequence(x):
    for f in (flow.gradient_flow, flow.jacobians, flow.jacobian_norms):
        with pytest.raises(ValueError, match=r"x: expected one sequence \(T, D\)"):
            f(companion.RNN(2, 3), x)


def test_refuses_what_it_cannot_use():
    x = torch.zeros(3, 2)
    with pytest.raises(ValueError, match="loss: expected a scalar"):
        flow.gradient_flow(companion.RNN(2, 3), x, lambda y: y)
    with pytest.raises(ValueError, match="skip: expected 0 to 2, got 3"):
        flow.lyapunov_exponents(companion.RNN(2, 3), x, skip=3)
    with pytest.raises(ValueError, match="bidirectional"):
        flow.jacobians(companion.RNN(2, 3, bidirectional=True), x)


def test_pictures():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rnn, x = companion.RNN(2, 3), torch.randn(5, 2)
    ax = flow.gradient_flow(rnn, x).plot()
    assert ax.get_yscale() == "log" and "steps" in ax.get_xlabel()
    plt.figure()
    assert len(flow.jacobian_norms(rnn, x).plot().get_lines()) == 3
    plt.close("all")
