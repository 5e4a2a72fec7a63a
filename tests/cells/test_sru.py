"""Both forms of the SRU against direct transcriptions of the equations of Lei et al."""

from __future__ import annotations

import math

import pytest
import torch

import companion
from companion import SRU2017Cell, SRUCell

from ..helpers import assert_close, randn, wave

H, B = 4, 2


def sigmoid(a):
    return 1 / (1 + torch.exp(-a))


def transcription(cell, x, c, see, g, alpha):
    """One step after another, one gate at a time."""
    W, W_f, W_r, *W_skip = cell.weight_ih.split(H)
    b_f, b_r = (0.0, 0.0) if cell.bias_ih is None else cell.bias_ih.split(H)
    v_f, v_r = cell.weight_ch if see else (0.0, 0.0)
    outputs = []
    for x_t in x:
        f = sigmoid(x_t @ W_f.T + v_f * c + b_f)
        r = sigmoid(x_t @ W_r.T + v_r * c + b_r)
        c = f * c + (1 - f) * (x_t @ W.T)
        skip = x_t @ W_skip[0].T if W_skip else alpha * x_t
        outputs.append(r * g(c) + (1 - r) * skip)
    return torch.stack(outputs), c


@pytest.mark.parametrize("D", [3, 4], ids=["projected", "identity"])
@pytest.mark.parametrize("T", [1, 2, 3, 7, 33])
@pytest.mark.parametrize("see, form", [(True, "bptt"), (False, "scan"), (True, "loop")])
@pytest.mark.parametrize("phi", ["identity", "tanh"])
@pytest.mark.parametrize("bias, rescale", [(True, True), (False, False)])
def test_it_is_its_equations(D, T, see, form, phi, bias, rescale):
    torch.manual_seed(T)
    layer = companion.SRU(
        D,
        H,
        bias=bias,
        batch_first=False,
        dtype=torch.float64,
        gates_see_state=see,
        nonlinearity=phi,
        rescale=rescale,
        highway_bias=-1.0 if bias else 0.0,
    )
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.randn_like(p))
    x, c0 = randn(T, B, D).requires_grad_(), randn(1, B, H).requires_grad_()
    y, c = layer(x, c0, form=form)
    wanted = [x, c0, *layer.parameters()]
    alpha = math.sqrt(1 + 2 * math.exp(-1.0 if bias else 0.0)) if rescale else 1.0
    g = torch.tanh if phi == "tanh" else lambda c: c
    z, e = transcription(layer.cell(0), x, c0[0], see, g, alpha)
    assert_close((y, c[0]), (z, e), 1e-10)
    assert_close(
        torch.autograd.grad(wave(y, c), wanted), torch.autograd.grad(wave(z, e), wanted), 1e-10
    )


def test_a_stack_of_unequal_widths_on_ragged_rows():
    for see in (True, False):
        layer = companion.SRU(3, H, 3, bidirectional=True, gates_see_state=see).double()
        x = randn(3, 6, 3)
        y, c = layer(x, lengths=[6, 0, 3])
        for b, n in ((0, 6), (2, 3)):
            z, e = layer(x[b : b + 1, :n], form="loop")
            assert_close((y[b : b + 1, :n], c[:, b : b + 1]), (z, e))


def test_what_is_returned_is_not_the_state():
    layer = companion.SRU(3, H)
    y, c = layer(torch.randn(2, 5, 3))
    assert y.shape == (2, 5, H) and c.shape == (1, 2, H)
    assert not torch.allclose(y[:, -1], c[0])


def test_without_a_view_of_the_state_the_forms_are_one():
    """Where v = 0 the published form is the one of 2017."""
    new, old = SRUCell(3, H, dtype=torch.float64), SRU2017Cell(3, H, dtype=torch.float64)
    weights = new.state_dict()
    weights["weight_ch"].zero_()
    del weights["weight_ch"]
    old.load_state_dict(weights)
    x, c = randn(2, 3), randn(2, H)
    assert_close(new.step(x, c), old.step(x, c), 1e-15)


def test_it_starts_as_the_authors_start():
    torch.manual_seed(0)
    D, wide = 100, 1000
    cell = SRUCell(D, wide, highway_bias=-2.0)
    W, W_f, W_r, W_skip = cell.weight_ih.detach().split(wide)
    alpha = math.sqrt(1 + 2 * math.exp(-2.0))
    for w, variance in ((W, 1 / D), (W_f, 0.5 / D), (W_r, 0.5 / D), (W_skip, alpha**2 / D)):
        assert w.var().item() == pytest.approx(variance, rel=0.03)
        assert w.abs().max().item() <= math.sqrt(3 * variance)
    assert cell.weight_ch.var().item() == pytest.approx(0.5, rel=0.1)
    assert (cell.bias_ih[:wide] == 0).all() and (cell.bias_ih[wide:] == -2).all()
    W, W_f, W_r = SRU2017Cell(D, D).weight_ih.detach().split(D)
    for w in (W, W_f, W_r):
        assert w.var().item() == pytest.approx(1 / D, rel=0.05)


def test_the_scale_of_the_highway():
    """α = √(1 + 2 exp b), b the bias of the highway's gate."""
    assert SRUCell(H, H).alpha ** 2 == pytest.approx(3)
    assert SRUCell(H, H, highway_bias=-3.0).alpha ** 2 == pytest.approx(1.0995741367)
    assert SRUCell(H, H, rescale=False).alpha == 1


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"nonlinearity": "relu"}, ValueError, "nonlinearity: expected one of .*got 'relu'"),
        ({"rescale": 1}, TypeError, "rescale: expected True or False, got 1"),
        ({"gates_see_state": "no"}, TypeError, "gates_see_state: expected True or False"),
        ({"highway_bias": "0"}, TypeError, "highway_bias: expected a number, got str"),
        ({"highway_bias": math.inf}, ValueError, "highway_bias: expected a number from -80"),
        ({"highway_bias": -1.0, "bias": False}, ValueError, "highway_bias: expected 0 where"),
    ],
)
def test_options_are_checked(options, kind, message):
    with pytest.raises(kind, match=message):
        companion.SRU(3, H, **options)


def test_what_it_prints():
    assert repr(SRUCell(3, 4)) == "SRUCell(3, 4)"
    assert repr(companion.SRU(3, 4, bidirectional=True)) == "SRU(3, 4, bidirectional=True)"
    text = repr(SRU2017Cell(3, 4, nonlinearity="tanh", rescale=False, highway_bias=-1))
    assert text == "SRU2017Cell(3, 4, nonlinearity=tanh, rescale=False, highway_bias=-1.0)"
