"""minGRU and minLSTM against a direct transcription of Feng et al. (2024)."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import softplus

import companion
from companion import MinGRUCell, MinLSTMCell

from ..helpers import assert_close, randn, wave

D, H, B = 3, 4, 2


def sigmoid(a):
    return 1 / (1 + torch.exp(-a))


def g(a):
    """The paper's log-space form: g(x) = x + 0.5 for x ≥ 0, else σ(x)."""
    return (a >= 0) * (a.clamp(min=0) + 0.5) + (a < 0) * sigmoid(a.clamp(max=0))


def mingru(x, h, W, b, positive):
    """h_t = (1 - z_t) h_{t-1} + z_t h̃_t, with the paper's z, which is 1 minus ours."""
    ours, tilde = (x @ W.T + b).chunk(2, -1)
    z, tilde = sigmoid(-ours), g(tilde) if positive else tilde
    outputs = []
    for t in range(x.shape[1]):
        h = (1 - z[:, t]) * h + z[:, t] * tilde[:, t]
        outputs.append(h)
    return torch.stack(outputs, 1), h


def minlstm(x, h, W, b, positive, normalize):
    """h_t = f' h_{t-1} + i' h̃_t with f' = f / (f + i), i' = i / (f + i)."""
    i, f, tilde = (x @ W.T + b).chunk(3, -1)
    i, f, tilde = sigmoid(i), sigmoid(f), g(tilde) if positive else tilde
    total = f + i if normalize else 1
    outputs = []
    for t in range(x.shape[1]):
        h = (f / total)[:, t] * h + (i / total)[:, t] * tilde[:, t]
        outputs.append(h)
    return torch.stack(outputs, 1), h


CASES = [
    (companion.MinGRU, {"positive": p}, lambda *a, p=p: mingru(*a, p)) for p in (False, True)
] + [
    (
        companion.MinLSTM,
        {"positive": p, "normalize": n},
        lambda *a, p=p, n=n: minlstm(*a, p, n),
    )
    for p in (False, True)
    for n in (False, True)
]


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33, 64, 257])
@pytest.mark.parametrize("form", ["loop", "scan"])
@pytest.mark.parametrize("kind, options, transcription", CASES)
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_its_equations(T, form, kind, options, transcription, bias):
    torch.manual_seed(T)
    layer = kind(D, H, bias=bias, dtype=torch.float64, **options)
    x, h0 = randn(B, T, D).requires_grad_(), randn(1, B, H).requires_grad_()
    y, h = layer(x, h0, form=form)
    wanted = [x, h0, *layer.parameters()]
    b = layer.bias_ih_l0 if bias else torch.zeros(1, dtype=torch.float64)
    z, e = transcription(x, h0[0], layer.weight_ih_l0, b)
    assert_close((y, h[0]), (z, e), 1e-12)
    for a, c in zip(
        torch.autograd.grad(wave(y, h), wanted),
        torch.autograd.grad(wave(z, e), wanted),
        strict=True,
    ):
        assert_close(a, c, 1e-11 * max(1.0, c.abs().max().item()))


def log_scan(log_a, log_b):
    """The paper's log-space form: h = exp(a* + logcumsumexp(log b - a*)), a* = cumsum(log a)."""
    total = log_a.cumsum(1)
    return torch.exp(total + torch.logcumsumexp(log_b - total, 1))


def log_g(a):
    return torch.where(a >= 0, (a.clamp(min=0) + 0.5).log(), -softplus(-a))


def test_positive_is_the_log_space_form_of_the_paper():
    torch.manual_seed(0)
    x = 3 * randn(B, 50, D)
    gru = companion.MinGRU(D, H, positive=True, dtype=torch.float64)
    z, a = (x @ gru.weight_ih_l0.T + gru.bias_ih_l0).chunk(2, -1)
    assert_close(gru(x)[0], log_scan(-softplus(-z), -softplus(z) + log_g(a)), 1e-12)
    lstm = companion.MinLSTM(D, H, positive=True, dtype=torch.float64)
    i, f, a = (x @ lstm.weight_ih_l0.T + lstm.bias_ih_l0).chunk(3, -1)
    diff = softplus(-f) - softplus(-i)  # log i − log f
    assert_close(lstm(x)[0], log_scan(-softplus(diff), -softplus(-diff) + log_g(a)), 1e-12)


@pytest.mark.parametrize("kind", [companion.MinGRU, companion.MinLSTM])
def test_positive_keeps_every_state_positive(kind):
    torch.manual_seed(0)
    x = 5 * torch.randn(B, 200, D)
    y, _ = kind(D, 50, positive=True)(x)
    assert (y > 0).all() and (kind(D, 50)(x)[0] < 0).any()


def test_where_both_gates_vanish_they_still_share_one():
    """f / (f + i) itself would be 0 / 0: σ(−1000) is 0 in float64."""
    layer = companion.MinLSTM(1, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.tensor([[-1000.0], [-1001.0], [2.0]]))
    x, h0 = torch.ones(1, 1, 1, dtype=torch.float64), torch.full((1, 1, 1), 5.0).double()
    y, _ = layer(x, h0)
    f = 1 / (1 + math.e)  # f / i = exp(−1)
    assert y.item() == pytest.approx(5 * f + 2 * (1 - f), abs=1e-12)
    y.sum().backward()
    assert layer.weight_ih_l0.grad.isfinite().all()


@pytest.mark.parametrize("kind", [companion.MinGRU, companion.MinLSTM])
def test_100_000_steps_stay_between_the_candidates(kind):
    torch.manual_seed(0)
    layer, x = kind(2, 3), torch.randn(1, 100_000, 2).requires_grad_()
    y, h = layer(x)
    candidate = (x @ layer.weight_ih_l0.T + layer.bias_ih_l0)[..., -3:]
    assert (y.abs() <= candidate.abs().amax((0, 1)) * (1 + 1e-5)).all()
    (dx,) = torch.autograd.grad(y.square().mean() + h.sum(), x)
    assert dx.isfinite().all()


@pytest.mark.parametrize(
    "make, kind, message",
    [
        (
            lambda: MinGRUCell(3, 4, positive=1),
            TypeError,
            "positive: expected True or False, got 1",
        ),
        (
            lambda: MinLSTMCell(3, 4, normalize="no"),
            TypeError,
            "normalize: expected True or False",
        ),
        (lambda: companion.MinGRU(3, 4, zoneout=0.1), TypeError, "zoneout"),
    ],
)
def test_options_are_checked(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


def test_what_it_prints():
    assert repr(MinGRUCell(3, 4)) == "MinGRUCell(3, 4)"
    assert repr(companion.MinGRU(3, 4, 2, positive=True)) == (
        "MinGRU(3, 4, num_layers=2, positive=True)"
    )
    assert repr(MinLSTMCell(3, 4, normalize=False)) == "MinLSTMCell(3, 4, normalize=False)"
