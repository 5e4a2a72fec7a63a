"""QRNN against a direct transcription of Bradbury et al. (2017), section 2."""

from __future__ import annotations

import pytest
import torch

import companion
from companion import QRNNCell
from companion.cells import flat_state

from ..helpers import assert_close, randn, wave

D, H, B = 3, 4, 2


def sigmoid(a):
    return 1 / (1 + torch.exp(-a))


def transcription(W, b, x, k, pooling):
    """A masked convolution as the paper writes it, z_t = tanh(W^1 x_{t-k+1} + … + W^k x_t).

    W (k, G, D): W[j] for the input j steps ago. The state is zero before the first step.
    """
    T = len(x)
    padded = torch.cat([torch.zeros(k - 1, *x.shape[1:], dtype=x.dtype), x])
    gates = torch.stack([sum(padded[t + k - 1 - j] @ W[j].T for j in range(k)) for t in range(T)])
    z, f, *rest = (gates + b).split(H, -1)
    z, f = torch.tanh(z), sigmoid(f)
    o = sigmoid(rest[0]) if rest else torch.ones_like(f)
    i = sigmoid(rest[1]) if pooling == "ifo" else 1 - f
    c, outputs = torch.zeros(x.shape[1], H, dtype=x.dtype), []
    for t in range(T):
        c = f[t] * c + i[t] * z[t]
        outputs.append(o[t] * c)
    return torch.stack(outputs), c


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33])
@pytest.mark.parametrize("form", ["loop", "scan"])
@pytest.mark.parametrize("pooling", ["f", "fo", "ifo"])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_its_equations(T, form, pooling, k, bias):
    torch.manual_seed(T)
    layer = companion.QRNN(
        D, H, bias=bias, batch_first=False, dtype=torch.float64, window=k, pooling=pooling
    )
    x = randn(T, B, D).requires_grad_()
    y, state = layer(x, form=form)
    c = flat_state(state)[0]
    wanted = [x, *layer.parameters()]
    b = layer.bias_ih_l0 if bias else torch.zeros(1, dtype=torch.float64)
    z, e = transcription(layer.weight_ih_l0.view(k, -1, D), b, x, k, pooling)
    assert_close((y, c[0]), (z, e), 1e-10)
    assert_close(
        torch.autograd.grad(wave(y, c), wanted), torch.autograd.grad(wave(z, e), wanted), 1e-10
    )


def test_the_gates_are_a_masked_convolution():
    """torch's conv1d, whose filters run from the oldest input to the newest."""
    k = 3
    layer = companion.QRNN(D, H, window=k, pooling="f", dtype=torch.float64)
    W = layer.weight_ih_l0.view(k, 2 * H, D).permute(1, 2, 0).flip(2)
    x = randn(B, 7, D)
    a = torch.nn.functional.conv1d(
        torch.nn.functional.pad(x.transpose(1, 2), (k - 1, 0)), W, layer.bias_ih_l0
    )
    z, f = a.transpose(1, 2).chunk(2, -1)
    c, f = torch.zeros(B, H, dtype=torch.float64), torch.sigmoid(f)
    for t in range(7):
        c = f[:, t] * c + (1 - f[:, t]) * torch.tanh(z[:, t])
    assert_close(layer(x)[0][:, -1], c, 1e-12)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("form", ["loop", "scan"])
def test_the_window_reaches_over_a_cut(k, form):
    """salesforce/pytorch-qrnn carries x of one step, without its gradient; ours is exact."""
    layer = companion.QRNN(D, H, 2, window=k, dtype=torch.float64)
    x = randn(B, 7, D).requires_grad_()
    y, _ = layer(x)
    state, parts = None, []
    for piece in x.split([1, 2, 0, 4], 1):
        y_k, state = layer(piece, state, form=form)
        parts.append(y_k)
    assert_close(torch.cat(parts, 1), y)
    (whole,), (cut,) = (torch.autograd.grad(wave(v), x) for v in (y, torch.cat(parts, 1)))
    assert_close(cut, whole)


def test_08_two_layers_of_unequal_widths():
    """pytorch-qrnn#10: input ≠ hidden with two layers."""
    for k in (1, 2):
        layer = companion.QRNN(D, H, 2, window=k, bidirectional=True)
        y, state = layer(torch.randn(B, 5, D))
        assert y.shape == (B, 5, 2 * H) and flat_state(state)[0].shape == (4, B, H)


# ---------------------------------------------------------------- zoneout


def test_zoneout_keeps_some_units_and_leaves_the_others():
    torch.manual_seed(0)
    layer = companion.QRNN(D, 1000, window=1, pooling="f", pool_zoneout=0.3, dtype=torch.float64)
    plain = companion.QRNN(D, 1000, window=1, pooling="f", dtype=torch.float64)
    plain.load_state_dict(layer.state_dict())
    x, c0 = randn(B, 1, D), randn(1, B, 1000)
    y, z = layer(x, c0)[0][:, 0], plain(x, c0)[0][:, 0]
    kept = y == c0[0]
    assert_close(y[~kept], z[~kept], 1e-14)  # nothing is scaled up
    assert kept.double().mean().item() == pytest.approx(0.3, abs=0.04)
    assert not torch.equal(layer(x, c0)[0], layer(x, c0)[0])


def test_zoneout_in_evaluation_is_its_mean():
    torch.manual_seed(0)
    layer = companion.QRNN(D, H, window=1, pooling="f", pool_zoneout=0.3, dtype=torch.float64)
    x, c0 = randn(B, 1, D), randn(1, B, H)
    layer.eval()
    W_z, W_f = layer.weight_ih_l0.split(H)
    b_z, b_f = layer.bias_ih_l0.split(H)
    z, f = torch.tanh(x[:, 0] @ W_z.T + b_z), sigmoid(x[:, 0] @ W_f.T + b_f)
    moved = f * c0[0] + (1 - f) * z
    assert_close(layer(x, c0)[0][:, 0], 0.3 * c0[0] + 0.7 * moved, 1e-14)


@pytest.mark.parametrize("pooling", ["f", "fo", "ifo"])
def test_both_forms_draw_the_same_zoneout(pooling):
    layer = companion.QRNN(D, H, 2, pooling=pooling, pool_zoneout=0.4, dtype=torch.float64)
    x, found = randn(3, 6, D), []
    for form in ("loop", "scan"):
        torch.manual_seed(1)
        y, state = layer(x, lengths=[6, 2, 4], form=form)
        found.append((y, *state, *torch.autograd.grad(wave(y), list(layer.parameters()))))
    assert_close(*found)
    layer.step(x[:, 0])


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"window": 0}, ValueError, "window: expected at least 1, got 0"),
        ({"window": 1.5}, TypeError, "window: expected an int"),
        ({"pooling": "max"}, ValueError, "pooling: expected one of .*got 'max'"),
        ({"pool_zoneout": 1.5}, ValueError, "pool_zoneout: expected a probability.*got 1.5"),
        ({"pool_zoneout": "a"}, TypeError, "pool_zoneout: expected a number, got str"),
    ],
)
def test_options_are_checked(options, kind, message):
    with pytest.raises(kind, match=message):
        companion.QRNN(D, H, **options)


def test_what_it_prints():
    assert repr(QRNNCell(3, 4)) == "QRNNCell(3, 4)"
    text = repr(QRNNCell(3, 4, bias=False, window=1, pooling="f", pool_zoneout=0.5))
    assert text == "QRNNCell(3, 4, bias=False, window=1, pooling=f, pool_zoneout=0.5)"
