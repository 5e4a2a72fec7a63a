"""Newton finds the states of the loop, with their gradients, or says that it did not."""

from __future__ import annotations

import pytest
import torch

import companion
from companion.look import lyapunov_exponents
from companion.run.newton import matrix_scan, newton

from ..helpers import assert_close, randn

D, H, B = 3, 5, 2


def make(name, scale=1.0, **options):
    torch.manual_seed(0)
    layer = companion.Recurrence(name, D, H, dtype=torch.float64, **options)
    if scale != 1:
        with torch.no_grad():
            layer.weight_hh_l0.mul_(scale)
    return layer


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33, 64, 257])
@pytest.mark.parametrize("jacobian", ["full", "diagonal"])
@pytest.mark.parametrize("name", ["gru", "gru_reset_before", "rnn", "indrnn", "sru", "mingru"])
def test_it_is_the_loop(name, jacobian, T):
    layer = make(name, **({"nonlinearity": "tanh"} if name == "indrnn" else {}))
    x, h0 = randn(B, T, D).requires_grad_(), randn(1, B, H).requires_grad_()
    found = newton(layer.cell(0), x, h0[0], jacobian=jacobian)
    y, h = layer(x, h0, form="loop")
    assert_close((found.y, found.state), (y, h[0]), 1e-10)
    assert found.iterations <= T
    assert found.residuals[-1] < 1e-11
    wanted = [x, h0, *layer.parameters()]
    grads = [
        torch.autograd.grad(a.cos().sum() + b.sin().sum(), wanted)
        for a, b in ((y, h), (found.y, found.state))
    ]
    for a, b in zip(*grads, strict=True):
        assert_close(b, a, 1e-9 * max(1.0, a.abs().max().item()))


def test_the_number_of_right_digits_doubles():
    layer, x = make("gru"), randn(B, 300, D)
    assert lyapunov_exponents(layer, x[0]).max() < 0
    found = newton(layer.cell(0), x)
    r = found.residuals
    assert len(r) == found.iterations + 1 <= 8
    late = [k for k in range(len(r) - 1) if 1e-7 < r[k] < 1e-2]
    assert late and all(r[k + 1] < r[k] ** 1.5 for k in late)


def test_a_diagonal_takes_more_iterations_but_where_it_is_the_whole():
    x = randn(B, 300, D)
    full, diagonal = (
        newton(make("gru").cell(0), x, jacobian=j).iterations for j in ("full", "diagonal")
    )
    assert diagonal > full
    layer = make("indrnn", nonlinearity="tanh")
    full, diagonal = (
        newton(layer.cell(0), x, jacobian=j).iterations for j in ("full", "diagonal")
    )
    assert diagonal == full


def test_a_linear_cell_takes_one():
    for name in ("mingru", "lru", "rglru", "s4d"):
        layer = make(name)
        found = newton(layer.cell(0), x := randn(B, 20, D))
        assert found.iterations == 1
        assert_close(found.y, layer(x)[0], 1e-10)


def chaotic():
    torch.manual_seed(0)
    init = companion.spectral_radius(3.0)
    layer = companion.Recurrence("rnn", D, 40, dtype=torch.float64, recurrent_init=init)
    return layer, 0.1 * randn(1, 400, D)


@pytest.mark.parametrize("T", [1, 2, 5, 12])
@pytest.mark.parametrize("jacobian", ["full", "diagonal"])
def test_as_many_iterations_as_steps_are_enough(T, jacobian):
    """Each makes one more step exact, also where the rest is far from right."""
    layer, x = chaotic()
    found = newton(layer.cell(0), x[:, :T], jacobian=jacobian, max_iterations=T)
    assert_close(found.y, layer(x[:, :T])[0], 1e-9)


def test_where_states_part_it_says_so():
    layer, x = chaotic()
    assert lyapunov_exponents(layer, x[0]).max() > 0
    with pytest.raises(ArithmeticError, match=r"no convergence: after \d+ iterations .*Lyapunov"):
        newton(layer.cell(0), x, max_iterations=20)
    with pytest.raises(ArithmeticError, match="try jacobian='full', or run the loop"):
        newton(layer.cell(0), x, jacobian="diagonal", max_iterations=20)


def test_numbers_that_are_not_finite_are_named():
    layer, x = make("gru"), randn(1, 5, D)
    x[0, 2, 0] = torch.nan
    with pytest.raises(ArithmeticError, match="one step .* is not finite; look for .* in x, "):
        newton(layer.cell(0), x)
    layer, x = chaotic()
    with torch.no_grad():
        layer.weight_hh_l0.mul_(20)
    with pytest.raises(ArithmeticError, match=r"after \d+ iterations the states are no longer fi"):
        newton(layer.float().cell(0), x.float())


def test_its_gradient_cannot_be_differentiated_again():
    layer, x = make("gru"), randn(1, 6, D).requires_grad_()
    (dx,) = torch.autograd.grad(newton(layer.cell(0), x).y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="newton: its gradient is of first order only"):
        torch.autograd.grad(dx.sum(), x)


def test_no_graph_where_none_is_wanted():
    layer, x = make("gru"), randn(B, 6, D)
    with torch.no_grad():
        assert not newton(layer.cell(0), x).y.requires_grad


@pytest.mark.parametrize("B, T", [(0, 3), (2, 0), (0, 0)])
def test_nothing_to_run(B, T):
    h0 = randn(B, H)
    found = newton(make("gru").cell(0), randn(B, T, D), h0)
    assert found.y.shape == (B, T, H) and torch.equal(found.state, h0) and found.iterations == 0
    assert found.state is not h0


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33])
def test_matrix_scan(T):
    """Matrices do not commute (mamba#716): the order counts."""
    A, b, h0 = 0.5 * randn(T, B, 3, 3), randn(T, B, 3), randn(B, 3)
    h, want = h0, []
    for t in range(T):
        h = (A[t] @ h[..., None])[..., 0] + b[t]
        want.append(h)
    assert_close(matrix_scan(A, b, h0), torch.stack(want), 1e-12)


@pytest.mark.parametrize("jacobian", ["full", "diagonal"])
def test_no_sequence_is_less_exact_for_a_huge_one_in_its_batch(jacobian):
    """A tolerance relative to the largest state of all, 1e12, would let a residual of 2 pass."""
    layer, x, h0 = make("gru", 2.0), randn(3, 60, D), randn(3, H)
    h0[0] = 1e12
    found = newton(layer.cell(0), x, h0, jacobian=jacobian)
    assert_close(found.y[1:], layer(x, h0[None])[0][1:], 1e-10)
    assert_close(found.y[0] / 1e12, layer(x, h0[None])[0][0] / 1e12, 1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_is_off_inside(dtype):
    torch.manual_seed(0)
    layer, x = companion.GRU(D, H, batch_first=True), torch.randn(B, 50, D)
    x = x.bfloat16().float()
    want = newton(layer.cell(0), x)
    with torch.autocast("cpu", torch.bfloat16):
        found = newton(layer.cell(0), x.to(dtype))
    assert torch.equal(found.y, want.y) and found.iterations == want.iterations
    found.y.sum().backward()
    assert layer.weight_hh_l0.grad.isfinite().all()


def test_float32():
    torch.manual_seed(0)
    layer, x = companion.GRU(D, H, batch_first=True), torch.randn(B, 500, D)
    torch.testing.assert_close(newton(layer.cell(0), x).y, layer(x)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "change, kind, message",
    [
        ({"cell": torch.nn.GRUCell(D, H)}, TypeError, "cell: expected a Cell, .* got GRUCell"),
        ({"cell": companion.LSTMCell(D, H)}, ValueError, "cell: .*one tensor, got LSTMCell, .* 2"),
        ({"x": torch.zeros(2, D)}, ValueError, r"x: expected \(B, T, 3\), got \(2, 3\)"),
        ({"x": torch.zeros(2, 4, D).double()}, ValueError, "x: expected dtype torch.float32"),
        ({"state": torch.zeros(2, 4)}, ValueError, r"state: expected shape \(2, 5\)"),
        ({"jacobian": "none"}, ValueError, "jacobian: expected 'full' or 'diagonal', got 'none'"),
        ({"tolerance": 0.0}, ValueError, "tolerance: expected a number above 0, got 0.0"),
        ({"tolerance": "a"}, TypeError, "tolerance: expected a number, got str"),
        ({"max_iterations": 0}, ValueError, "max_iterations: expected at least 1, got 0"),
    ],
)
def test_bad_input_is_named(change, kind, message):
    call = {"cell": companion.GRUCell(D, H), "x": torch.zeros(2, 4, D), **change}
    with pytest.raises(kind, match=message):
        newton(**call)
