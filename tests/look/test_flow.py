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


class Readout(companion.Cell):
    """A cell whose output is 3h, not the state."""

    def __init__(self, input_size, hidden_size, bias=True, **new):
        super().__init__(input_size, hidden_size)
        self.weight_hh = self.weight(hidden_size, hidden_size, **new)
        self.reset_parameters()

    def prepare(self, x):
        return x

    def update(self, u_t, h):
        h = torch.tanh(u_t + h @ self.weight_hh.T)
        return 3 * h, h


def test_an_output_that_equals_the_state_by_chance_is_not_the_state():
    """At h = 0 also 3h = h; once the gradient was then that of the sum of h."""
    layer = companion.Recurrence(Readout, 2, 2, dtype=torch.float64)
    W = layer.weight_hh_l0.detach()
    found = flow.gradient_flow(layer, torch.zeros(3, 2).double()).loss
    want = [3 * torch.linalg.matrix_power(W, k).sum(0).norm().item() for k in (3, 2, 1)]
    assert found.tolist() == pytest.approx([*want, 0.0])


class Pair(companion.Cell):
    """State (c, h), of which the output is the second."""

    def __init__(self, input_size, hidden_size, bias=True, **new):
        super().__init__(input_size, hidden_size)
        self.state_size = (hidden_size, hidden_size)
        self.weight_hh = self.weight(hidden_size, hidden_size, **new)
        self.reset_parameters()

    def prepare(self, x):
        return x

    def update(self, u_t, state):
        c, h = state
        c = 0.5 * c + u_t + h @ self.weight_hh.T
        return c.tanh(), (c, c.tanh())


def test_the_loss_speaks_to_the_part_of_the_state_that_is_the_output():
    torch.manual_seed(0)
    layer, x = companion.Recurrence(Pair, 3, 3, 2, dtype=torch.float64), randn(5, 3)
    found = flow.gradient_flow(layer, x, lambda y: 2 * y[-1].sum() + y[2, 0])
    assert found.loss[-1].item() == pytest.approx(2 * 3**0.5)
    state = [s.requires_grad_() for s in (randn(2, 3), randn(2, 3))]
    s = tuple(state)
    y = []
    for x_t in x:
        y_t, s = layer.step(x_t, s)
        y.append(y_t)
    grads = torch.autograd.grad(2 * y[-1].sum() + y[2][0], state)
    found = flow.gradient_flow(layer, x, lambda y: 2 * y[-1].sum() + y[2, 0], tuple(state))
    assert found.loss[0].item() == pytest.approx(torch.cat(grads).norm().item(), abs=1e-12)


def test_the_state_is_found_behind_a_relu_too():
    """Which may be silent where we ask."""
    for seed in range(8):
        torch.manual_seed(seed)
        rnn = companion.RNN(2, 2, 2, nonlinearity="relu")
        found = flow.gradient_flow(rnn, torch.ones(3, 2))
        assert found.loss[-1].item() == pytest.approx(2**0.5), seed


class Gain(companion.Cell):
    """h_t = x_t h_{t-1}: the Jacobians are the inputs."""

    def __init__(self, input_size, hidden_size, bias=True, **new):
        super().__init__(input_size, hidden_size)
        self.unused = self.weight(1, **new)

    def prepare(self, x):
        return x

    def update(self, u_t, h):
        return u_t * h, u_t * h


def test_products_that_overflow_are_inf_and_those_that_come_back_are_right():
    rnn = linear(3 * torch.linalg.qr(randn(4, 4)).Q)
    found = flow.gradient_flow(rnn, torch.zeros(800, 1).double())
    assert found.state[0] == found.loss[0] == math.inf
    assert found.state[-101].item() == pytest.approx(3.0**100)
    assert found.loss[-101].item() > 1e47
    assert not found.state.isnan().any() and not found.loss.isnan().any()
    layer = companion.Recurrence(Gain, 1, 1, dtype=torch.float64)
    x = torch.tensor([1e-200, 1e-200, 1e200, 1e200], dtype=torch.float64)[:, None]
    found = flow.gradient_flow(layer, x).state.tolist()
    assert found == pytest.approx([1.0, 1e200, math.inf, 1e200, 1.0])
    found = flow.gradient_flow(layer, x.flip(0)).state.tolist()
    assert found == pytest.approx([1.0, 1e-200, 0.0, 1e-200, 1.0], abs=0, rel=1e-9)


def test_single_precision_norms_do_not_underflow():
    rnn = companion.RNN(1, 2, bias=False)
    with torch.no_grad():
        rnn.weight_hh_l0.copy_(0.1 * torch.eye(2))
    found = flow.gradient_flow(rnn, torch.zeros(30, 1)).loss  # 1e-30 squared is no float32
    assert found[0].item() == pytest.approx(2**0.5 * 1e-30, rel=1e-4)


def test_a_state_that_overflows_is_named():
    layer = companion.Recurrence(Gain, 1, 1, dtype=torch.float64)
    one = torch.ones(1, 1).double()
    for f in (flow.gradient_flow, flow.jacobians, flow.jacobian_norms, flow.lyapunov_exponents):
        with pytest.raises(ValueError, match="x: expected states that stay finite.* at step 2"):
            f(layer, torch.full((4, 1), 1e200, dtype=torch.float64), state=one)


def test_runs_in_evaluation_mode_and_restores_the_mode():
    torch.manual_seed(0)
    x = randn(5, 2)
    rnn = companion.RNN(2, 3, 2, dropout=0.5, dtype=torch.float64)
    rnn.train()
    first, again = flow.jacobians(rnn, x), flow.jacobians(rnn, x)
    assert rnn.training and torch.equal(first, again)
    rnn.eval()
    torch.testing.assert_close(first, flow.jacobians(rnn, x))
    assert not rnn.training
    torch.nn.utils.parametrizations.spectral_norm(rnn, "weight_hh_l0")
    rnn.train()
    rnn.parametrizations.eval()  # one part in a mode of its own
    rnn.parametrizations["weight_hh_l0"][0].train()
    modes = [m.training for m in rnn.modules()]
    before = {n: w.clone() for n, w in rnn.state_dict().items()}
    flow.gradient_flow(rnn, x)
    with pytest.raises(ValueError, match="scalar"):
        flow.gradient_flow(rnn, x, lambda y: y)
    assert [m.training for m in rnn.modules()] == modes
    assert all(torch.equal(w, before[n]) for n, w in rnn.state_dict().items())


class Clipped(Readout):
    """Plain Python that looks at numbers, which cannot be vectorized over steps."""

    def update(self, u_t, h):
        h = u_t + h @ self.weight_hh.T
        if h.norm() > 1:
            h = h / h.norm()
        return h, h


def test_a_cell_may_branch_on_its_numbers():
    layer = companion.Recurrence(Clipped, 2, 2, dtype=torch.float64)
    W = layer.weight_hh_l0.detach()
    J = flow.jacobians(layer, torch.tensor([[0.1, 0.0], [3.0, 4.0]]).double())
    torch.testing.assert_close(J[0], W)
    u = torch.tensor([3.0, 4.0]).double() + W @ torch.tensor([0.1, 0.0]).double()
    unit = u / u.norm()
    projection = torch.eye(2).double() - torch.outer(unit, unit)
    torch.testing.assert_close(J[1], projection @ W / u.norm())


def test_a_step_that_forgets_the_state_has_a_jacobian_of_zero():
    class Forget(Readout):
        def update(self, u_t, h):
            return u_t, u_t

    layer = companion.Recurrence(Forget, 2, 2).requires_grad_(False)
    x = torch.ones(3, 2)
    assert torch.equal(flow.jacobians(layer, x), torch.zeros(3, 2, 2))
    found = flow.gradient_flow(layer, x)
    assert found.state.tolist() == [0, 0, 0, 1]
    assert found.loss.tolist() == pytest.approx([0, 0, 0, 2**0.5])


def test_without_grad_mode_the_same_comes_out():
    torch.manual_seed(0)
    rnn, x = companion.RNN(2, 3, dtype=torch.float64), randn(5, 2)
    want = flow.gradient_flow(rnn, x)
    with torch.no_grad():
        found = flow.gradient_flow(rnn, x)
        assert not torch.is_grad_enabled()
    assert torch.equal(found.loss, want.loss) and torch.equal(found.state, want.state)


def test_refuses_a_state_that_does_not_fit():
    rnn, x = companion.RNN(2, 3, 2), torch.zeros(4, 2)
    for state in (torch.zeros(3, 2), torch.zeros(6), torch.zeros(1, 3), torch.zeros(2, 1, 3)):
        for f in (flow.gradient_flow, flow.jacobians, flow.jacobian_norms):
            with pytest.raises(ValueError, match=r"state: expected shape \(2, 3\), got"):
                f(rnn, x, state=state)
    with pytest.raises(TypeError, match="state: expected one tensor, got tuple"):
        flow.jacobians(rnn, x, (torch.zeros(2, 3),))
    pair = companion.Recurrence(Pair, 3, 3)
    with pytest.raises(ValueError, match=r"state\[1\]: expected shape \(1, 3\), got \(3,\)"):
        flow.jacobians(pair, torch.zeros(4, 3), (torch.zeros(1, 3), torch.zeros(3)))


def test_refuses_a_loss_or_skip_it_cannot_use():
    rnn, x = companion.RNN(2, 3), torch.zeros(4, 2)
    with pytest.raises(TypeError, match="loss: expected a scalar tensor, got float"):
        flow.gradient_flow(rnn, x, lambda y: y.sum().item())
    for ignores in (lambda y: y.detach().sum(), lambda y: rnn.weight_hh_l0.sum()):
        with pytest.raises(ValueError, match="loss: expected a function of the outputs"):
            flow.gradient_flow(rnn, x, ignores)
    with pytest.raises(ValueError, match="loss: expected a finite number, got nan"):
        flow.gradient_flow(rnn, x, lambda y: (y.sum() - 100).log())
    with pytest.raises(TypeError, match="skip: expected an int, got float"):
        flow.lyapunov_exponents(rnn, x, skip=2.0)
    with pytest.raises(ValueError, match=r"x: expected one sequence \(T, D\)"):
        flow.lyapunov_exponents(rnn, torch.zeros(0, 2))


class Far(torch.Tensor):
    """A tensor on some device: matplotlib cannot read it before .cpu()."""

    def __array__(self, *args, **options):
        raise TypeError("not on the CPU")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def test_pictures_of_tensors_on_a_device():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    far = torch.rand(4).as_subclass(Far)
    ax = flow.GradientFlow(far, far).plot()
    assert len(ax.get_lines()) == 2
    plt.figure()
    ax = flow.JacobianNorms(torch.rand(4, 2).as_subclass(Far), far).plot()
    assert len(ax.get_lines()) == 3
    plt.close("all")


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
