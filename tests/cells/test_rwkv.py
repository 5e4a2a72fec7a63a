"""RWKV-4 against the weighted mean it defines, RWKV-7 against its matrices, step by step."""

from __future__ import annotations

import math

import pytest
import torch

import companion
from companion import RWKVCell

from ..helpers import assert_close, randn, random_state, wave

H, B = 4, 2


def shifted(x, mix):
    """μ ⊙ x_t + (1 − μ) ⊙ x_{t-1}, from x_0 = 0."""
    before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
    return [m * x + (1 - m) * before for m in mix]


def rwkv4(cell, x):
    """The quotient of two sums over all steps so far, for each t, in float64."""
    W = cell.weight_ih.split(H)
    b = (0, 0, 0) if cell.bias_ih is None else cell.bias_ih.split(H)
    k, v, r = (a @ w.T + c for a, w, c in zip(shifted(x, cell.mix), W, b, strict=True))
    w, rows = cell.log_rate.exp(), []
    for t in range(len(x)):
        weights = [torch.exp(-(t - 1 - j) * w + k[j]) for j in range(t)]
        weights.append(torch.exp(cell.bonus + k[t]))
        total = sum(weights)
        rows.append(sum(a * v[j] for j, a in enumerate(weights)) / total)
    y = (torch.sigmoid(r) * torch.stack(rows)) @ cell.weight_ho.T
    return y if cell.bias_ho is None else y + cell.bias_ho


@pytest.mark.parametrize("form", ["loop", "chunk"])
@pytest.mark.parametrize("bias", [False, True])
def test_rwkv4_is_the_mean_of_all_values_so_far(form, bias):
    for T in (1, 2, 3, 7, 33, 64, 150):
        torch.manual_seed(T)
        layer = companion.RWKV(3, H, bias=bias, batch_first=False, dtype=torch.float64)
        with torch.no_grad():
            layer.log_rate_l0.uniform_(-5, 0)
            layer.mix_l0.uniform_()
        x = randn(T, B, 3).requires_grad_()
        y, _ = layer(x, form=form)
        z = rwkv4(layer.cell(0), x)
        wanted = [x, *layer.parameters()]
        ours = (y, *torch.autograd.grad(wave(y), wanted, materialize_grads=True))
        theirs = (z, *torch.autograd.grad(wave(z), wanted, materialize_grads=True))
        for a, b in zip(ours, theirs, strict=True):
            scale = max(1.0, b.detach().abs().max().item())
            assert_close(a / scale, b / scale, 1e-9)


@pytest.mark.parametrize("key", [-200.0, 100.0, 1000.0])
@pytest.mark.parametrize("form", ["loop", "chunk"])
def test_keys_of_any_size_give_the_mean(key, form):
    """Case 29: e^100 is no float32. With all keys alike and little decay, wkv is a mean."""
    layer = companion.RWKV(2, 2, bias=True)
    with torch.no_grad():
        for p in layer.parameters():
            p.zero_()
        layer.mix_l0.fill_(1)
        layer.bias_ih_l0[:2] = key
        layer.weight_ih_l0[2:4] = torch.eye(2)  # v = x
        layer.bias_ih_l0[4:] = 50.0  # r: open
        layer.log_rate_l0.fill_(-50)
        layer.weight_ho_l0.copy_(torch.eye(2))
    x = torch.randn(1, 30, 2).requires_grad_()
    y, state = layer(x, form=form)
    mean = x.cumsum(1) / torch.arange(1, 31)[:, None]
    torch.testing.assert_close(y, mean, rtol=1e-5, atol=1e-6)
    y.sum().backward()
    assert all(p.grad.isfinite().all() for p in (x, *layer.parameters()))
    assert all(s.isfinite().all() for s in state)


def test_without_its_maximum_it_would_overflow():
    """What the state holds instead of e^100: the maximum 100, and sums over e^100."""
    cell = RWKVCell(1, 1)
    with torch.no_grad():
        for p in cell.parameters():
            p.zero_()
        cell.bias_ih[0] = 100.0
        cell.log_rate.fill_(-50)
    state = cell.initial_state(1)
    for _ in range(7):
        y, state = cell.step(torch.ones(1, 1), state)
    _, num, den, peak = state
    assert torch.tensor(100.0).exp().isinf()
    assert peak.item() == pytest.approx(100.0) and den.item() == pytest.approx(7.0)


def rwkv7(cell, x, S, last, heads):
    """The state as in the paper, (value, key), and every gate of one step at a time."""
    d, R = H // heads, cell.rank
    W = cell.weight_ih.split([H, H, H, R, R, R])
    b = (0,) * 6 if cell.bias_ih is None else cell.bias_ih.split([H, H, H, R, R, R])
    now = [(m * x) @ w.T + c for m, w, c in zip(cell.mix, W, b, strict=True)]
    later = [((1 - m) * x) @ w.T for m, w in zip(cell.mix, W, strict=True)]
    late = torch.cat(later, -1)
    before = torch.cat([last[None], late[:-1]])
    r, k, v, w, a, g = (
        p + q for p, q in zip(now, before.split([H, H, H, R, R, R], -1), strict=True)
    )
    w = torch.exp(
        -math.exp(-0.5) * torch.sigmoid(torch.tanh(w) @ cell.weight_decay.T + cell.bias_decay)
    )
    a = torch.sigmoid(a @ cell.weight_rate.T + cell.bias_rate)
    g = torch.sigmoid(g) @ cell.weight_gate.T
    kk = (k * cell.key_scale).unflatten(-1, (heads, d))
    kk = kk / kk.norm(dim=-1, keepdim=True)
    k = k * (1 + (a - 1) * cell.key_rate)
    r, k, v, w, a = (p.unflatten(-1, (heads, d)) for p in (r, k, v, w, a))
    S, rows = S.unflatten(1, (heads, d, d)).mT, []
    for t in range(len(x)):
        transition = torch.diag_embed(w[t]) - torch.einsum("bhi,bhj->bhij", kk[t], kk[t] * a[t])
        S = S @ transition + torch.einsum("bhi,bhj->bhij", v[t], k[t])
        y = torch.einsum("bhij,bhj->bhi", S, r[t])
        y = (y - y.mean(-1, keepdim=True)) / (
            y.var(-1, unbiased=False, keepdim=True) + 64e-5
        ).sqrt()
        y = y.flatten(1) * cell.gain + cell.bias_norm
        bonus = (r[t] * k[t] * cell.bonus.view(heads, d)).sum(-1, keepdim=True) * v[t]
        rows.append((y + bonus.flatten(1)) * g[t])
    y = torch.stack(rows) @ cell.weight_ho.T
    return (y if cell.bias_ho is None else y + cell.bias_ho), S.mT.flatten(1), late[-1]


@pytest.mark.parametrize("form", ["loop", "chunk"])
@pytest.mark.parametrize("heads, bias", [(1, True), (2, False)])
def test_rwkv7_is_its_equations(form, heads, bias):
    for T in (1, 2, 3, 7, 33, 64):
        torch.manual_seed(T)
        layer = companion.RWKV7(
            3, H, bias=bias, batch_first=False, dtype=torch.float64, heads=heads, rank=2
        )
        with torch.no_grad():
            layer.mix_l0.uniform_()
        state = [s.requires_grad_() for s in random_state(layer, B)]
        x = randn(T, B, 3).requires_grad_()
        y, final = layer(x, tuple(state), form=form)
        z, *ends = rwkv7(layer.cell(0), x, *(s[0] for s in state), heads)
        wanted = [x, *state, *layer.parameters()]
        ours = (y, *(s[0] for s in final), *torch.autograd.grad(wave(y, *final), wanted))
        theirs = (z, *ends, *torch.autograd.grad(wave(z, *ends), wanted))
        for a, b in zip(ours, theirs, strict=True):
            scale = max(1.0, b.detach().abs().max().item())
            assert_close(a / scale, b / scale, 1e-9)


def test_rwkv4_starts_as_the_author_starts():
    cell = RWKVCell(4, 5)
    want = [-5 + 8 * (i / 4) ** 0.7 for i in range(5)]
    assert cell.log_rate.tolist() == pytest.approx(want, rel=1e-6)
    zigzag = [math.log(0.3) + z for z in (0.0, 0.5, -0.5, 0.0, 0.5)]
    assert cell.bonus.tolist() == pytest.approx(zigzag, rel=1e-6)
    assert cell.mix[0].tolist() == [0.0, 0.25, 0.5, 0.75]
    assert cell.mix[2].tolist() == pytest.approx([0.0, 0.5, 0.5**0.5, 0.75**0.5])


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"heads": 3}, ValueError, "hidden_size: expected a multiple of heads = 3, got 4"),
        ({"rank": 0}, ValueError, "rank: expected at least 1, got 0"),
    ],
)
def test_options_are_checked(options, error, message):
    with pytest.raises(error, match=message):
        companion.RWKV7(3, 4, **options)


def test_what_they_print():
    assert repr(companion.RWKV(3, 4, 2)) == "RWKV(3, 4, num_layers=2)"
    assert repr(companion.RWKV7(3, 4, rank=4)) == "RWKV7(3, 4, rank=4)"


@pytest.mark.parametrize("form", ["loop", "chunk"])
@pytest.mark.parametrize("rate", [-100.0, 3.0, 12.0, 20.0, 90.0])
def test_decays_of_any_strength_are_as_exact_as_float32(rate, form):
    """Of what a step finds nothing may be lost to e^20 or e^90 = ∞, and the last value counts."""
    torch.manual_seed(0)
    layer = companion.RWKV(3, 4)
    exact = companion.RWKV(3, 4, dtype=torch.float64)
    for key in (-100.0, 0.0, 100.0):
        with torch.no_grad():
            layer.log_rate_l0.fill_(rate)
            layer.bias_ih_l0[:4] = key
        exact.load_state_dict(layer.state_dict())
        x = torch.randn(2, 70, 3)
        y, state = layer(x, form=form)
        want, _ = exact(x.double(), form="loop")
        grads = torch.autograd.grad(y.sum(), list(layer.parameters()))
        assert all(s.isfinite().all() for s in (*state, *grads))
        torch.testing.assert_close(y.double(), want, rtol=0, atol=1e-5)
