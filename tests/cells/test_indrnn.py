"""IndRNN against a direct transcription of Li et al. (2018), equations 2 and 3."""

from __future__ import annotations

import pytest
import torch

import companion
from companion import IndRNNCell

from ..helpers import assert_close, randn, wave

D, H, B = 3, 4, 2


def transcription(x, h, W, u, b, phi):
    """h_{n,t} = σ(w_n x_t + u_n h_{n,t-1} + b_n), one neuron at a time."""
    outputs = []
    for x_t in x.unbind(1):
        neurons = [phi(x_t @ W[n] + u[n] * h[:, n] + b[n]) for n in range(len(u))]
        h = torch.stack(neurons, 1)
        outputs.append(h)
    return torch.stack(outputs, 1), h


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33])
@pytest.mark.parametrize("form", ["loop", "bptt"])
@pytest.mark.parametrize("phi", ["relu", "tanh", "identity"])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_its_equations(T, form, phi, bias):
    torch.manual_seed(T)
    layer = companion.IndRNN(D, H, bias=bias, nonlinearity=phi, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_hh_l0.uniform_(-1, 1)
    x, h0 = randn(B, T, D).requires_grad_(), randn(1, B, H).requires_grad_()
    y, h = layer(x, h0, form=form)
    wanted = [x, h0, *layer.parameters()]
    b = layer.bias_ih_l0 if bias else torch.zeros(H, dtype=torch.float64)
    functions = {"relu": lambda a: a * (a > 0), "tanh": torch.tanh, "identity": lambda a: a}
    z, g = transcription(x, h0[0], layer.weight_ih_l0, layer.weight_hh_l0, b, functions[phi])
    assert_close((y, h[0]), (z, g), 1e-10)
    assert_close(
        torch.autograd.grad(wave(y, h), wanted), torch.autograd.grad(wave(z, g), wanted), 1e-10
    )


@pytest.mark.parametrize("form", ["loop", "bptt"])
def test_the_gradient_over_k_steps_is_u_to_the_k(form):
    layer = companion.IndRNN(1, H, bias=False, dtype=torch.float64)
    u = torch.tensor([0.5, 0.9, 1.0, 1.1], dtype=torch.float64)
    with torch.no_grad():
        layer.weight_ih_l0.fill_(1)
        layer.weight_hh_l0.copy_(u)
    x, h0 = torch.ones(1, 50, 1, dtype=torch.float64), torch.zeros(1, 1, H, dtype=torch.float64)
    h0.requires_grad_()
    _, h = layer(x, h0, form=form)  # all activations are positive: the slope of relu is 1
    (gradient,) = torch.autograd.grad(h.sum(), h0)
    torch.testing.assert_close(gradient[0, 0], u**50)


def test_a_unit_sees_no_other_unit_past():
    layer, x = companion.IndRNN(D, H, nonlinearity="tanh", dtype=torch.float64), randn(1, 5, D)
    J = torch.autograd.functional.jacobian(lambda h: layer(x, h)[1].flatten(), randn(1, 1, H))
    J = J.view(H, H)
    assert (J.diag() != 0).all() and (J - J.diag().diag() == 0).all()


@pytest.mark.parametrize("form", ["loop", "bptt"])
def test_a_bound_is_kept_where_u_is_read_and_lets_it_come_back(form):
    T, stored = 10, torch.tensor([0.5, 3.0, -3.0, 1.0], dtype=torch.float64)
    bound = 2 ** (1 / T)
    layer = companion.IndRNN(D, H, bound=bound, nonlinearity="tanh", dtype=torch.float64)
    free = companion.IndRNN(D, H, nonlinearity="tanh", dtype=torch.float64)
    with torch.no_grad():
        layer.weight_hh_l0.copy_(stored)
        free.load_state_dict(layer.state_dict())
        free.weight_hh_l0.copy_(stored.clamp(-bound, bound))
    x = randn(B, T, D)
    y, z = layer(x, form=form)[0], free(x, form="loop")[0]
    assert_close(y, z, 1e-14)
    assert torch.equal(layer.weight_hh_l0, stored)
    assert (layer.cell(0).bounded().abs() <= bound).all()
    (got,) = torch.autograd.grad(wave(y), layer.weight_hh_l0)
    (want,) = torch.autograd.grad(wave(z), free.weight_hh_l0)
    assert_close(got, want, 1e-12)
    assert (got[1:3] != 0).all()  # also of those outside


def test_u_starts_between_0_and_the_bound_or_1():
    for bound, most in ((None, 1.0), (0.25, 0.25), (2 ** (1 / 5), 2 ** (1 / 5))):
        torch.manual_seed(0)
        u = IndRNNCell(1, 10_000, bound=bound).weight_hh.detach()
        assert 0 <= u.min() < 0.01 * most and 0.99 * most < u.max() <= most


def test_a_resting_relu_stops_even_an_infinite_gradient():
    layer = companion.IndRNN(1, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_ih_l0.fill_(1)
        layer.weight_hh_l0.fill_(1e200)
    x = torch.tensor([[[-1.0], [-1.0], [0.5], [0.0]]], dtype=torch.float64)
    found = []
    for form in ("loop", "bptt"):
        h0 = torch.ones(1, 1, 1, dtype=torch.float64, requires_grad=True)
        y, _ = layer(x * torch.tensor([1e300, 1, 1, 1]).double().view(1, 4, 1), h0, form=form)
        found.append(torch.autograd.grad(y[0, 3, 0] * 1e200, h0)[0])
    assert found[0].item() == found[1].item() == 0


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"nonlinearity": "gelu"}, ValueError, "nonlinearity: expected one of .*got 'gelu'"),
        ({"bound": 0}, ValueError, "bound: expected a finite number above 0, got 0"),
        ({"bound": float("nan")}, ValueError, "bound: expected a finite number"),
        ({"bound": "1"}, TypeError, "bound: expected a number or None, got str"),
        ({"bound": True}, TypeError, "bound: expected a number or None, got bool"),
    ],
)
def test_options_are_checked(options, kind, message):
    with pytest.raises(kind, match=message):
        companion.IndRNN(D, H, **options)


def test_what_it_prints():
    assert repr(IndRNNCell(3, 4)) == "IndRNNCell(3, 4)"
    assert repr(companion.IndRNN(3, 4, 2)) == "IndRNN(3, 4, num_layers=2)"
    assert repr(companion.IndRNN(3, 4, batch_first=False)) == "IndRNN(3, 4, batch_first=False)"
    text = repr(IndRNNCell(3, 4, False, nonlinearity="tanh", bound=1.5))
    assert text == "IndRNNCell(3, 4, bias=False, nonlinearity=tanh, bound=1.5)"
