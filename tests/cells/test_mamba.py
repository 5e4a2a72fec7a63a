"""Mamba and Mamba-2 against loops over steps, channels' convolutions by torch's own conv1d."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import companion
from companion import Mamba2Cell, MambaCell

from ..helpers import assert_close, randn, random_state, wave

H, B, LENGTHS = 4, 2, (1, 2, 3, 7, 33, 64, 257)


def silu(a):
    return a / (1 + torch.exp(-a))


def softplus(a):
    return torch.log1p(torch.exp(-a.abs())) + a.clamp(min=0)


def causal(x, past, weight, bias):
    """conv1d over past (B, (k-1)K, the latest first) and x (T, B, K); outputs and the new past."""
    k = weight.shape[1]
    before = past.unflatten(1, (k - 1, -1)).flip(1).transpose(0, 1)
    whole = torch.cat([before, x])
    y = F.conv1d(whole.permute(1, 2, 0), weight[:, None], bias, groups=len(weight))
    return y.permute(2, 0, 1), whole[len(whole) - k + 1 :].flip(0).transpose(0, 1).flatten(1)


def mamba(cell, x, h, past, zoh):
    """The selective scan, one channel and one number of state at a time."""
    V, N, R = 2 * H, cell.slots, cell.low
    u = x @ cell.weight_ih.T + (0 if cell.bias_ih is None else cell.bias_ih)
    u, z = u.chunk(2, -1)
    u, past = causal(u, past, cell.weight_conv, cell.bias_conv)
    u = silu(u)
    low, b, c = (u @ cell.weight_x.T).split([R, N, N], -1)
    dt = softplus(low @ cell.weight_dt.T + cell.bias_dt)
    A = -cell.log_a.exp()
    h, rows = list(h.unflatten(1, (V, N)).unbind(1)), []  # V of (B, N)
    for t in range(len(x)):
        y = []
        for i in range(V):
            step = dt[t, :, i, None]
            B_bar = (torch.exp(step * A[i]) - 1) / A[i] * b[t] if zoh else step * b[t]
            h[i] = torch.exp(step * A[i]) * h[i] + B_bar * u[t, :, i, None]
            y.append((h[i] * c[t]).sum(-1) + cell.skip[i] * u[t, :, i])
        rows.append(torch.stack(y, -1) * silu(z[t]))
    y = torch.stack(rows) @ cell.weight_ho.T
    return (y if cell.bias_ho is None else y + cell.bias_ho), torch.stack(h, 1).flatten(1), past


def mamba2(cell, x, S, past, heads):
    """Each head's matrix, one outer product after the other."""
    V, N, p = 2 * H, cell.slots, 2 * H // heads
    u = x @ cell.weight_ih.T + (0 if cell.bias_ih is None else cell.bias_ih)
    z, u, dt = u.split([V, V + 2 * N, heads], -1)
    u, past = causal(u, past, cell.weight_conv, cell.bias_conv)
    u, b, c = silu(u).split([V, N, N], -1)
    dt = softplus(dt + cell.bias_dt)
    S, rows = list(S.unflatten(1, (heads, N, p)).unbind(1)), []
    for t in range(len(x)):
        y = []
        for h in range(heads):
            v = u[t, :, h * p : (h + 1) * p]
            step = dt[t, :, h, None, None]
            outer = b[t][:, :, None] * v[:, None, :]
            S[h] = torch.exp(-step * cell.log_a[h].exp()) * S[h] + step * outer
            y.append((S[h] * c[t][:, :, None]).sum(1) + cell.skip[h] * v)
        rows.append(torch.cat(y, -1) * silu(z[t]))
    y = torch.stack(rows)
    y = y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt() * cell.gain
    y = y @ cell.weight_ho.T
    return (y if cell.bias_ho is None else y + cell.bias_ho), torch.stack(S, 1).flatten(1), past


def compare(layer, form, transcription, T):
    """Outputs, final state and all gradients, from a state that is not zero."""
    state = [s.requires_grad_() for s in random_state(layer, B)]
    x = randn(T, B, 3).requires_grad_()
    y, final = layer(x, tuple(state), form=form)
    z, *ends = transcription(layer.cell(0), x, *(s[0] for s in state))
    wanted = [x, *state, *layer.parameters()]
    ours = (y, *(s[0] for s in final), *torch.autograd.grad(wave(y, *final), wanted))
    theirs = (z, *ends, *torch.autograd.grad(wave(z, *ends), wanted))
    for a, b in zip(ours, theirs, strict=True):
        scale = max(1.0, b.detach().abs().max().item())
        assert_close(a / scale, b / scale, 1e-10)


@pytest.mark.parametrize("form", ["loop", "scan"])
@pytest.mark.parametrize("discretization, bias", [("euler", True), ("zoh", False)])
def test_mamba_is_its_equations(form, discretization, bias):
    for T in LENGTHS[:-1]:
        torch.manual_seed(T)
        layer = companion.Mamba(
            3,
            H,
            bias=bias,
            batch_first=False,
            dtype=torch.float64,
            slots=3,
            rank=2,
            discretization=discretization,
        )
        zoh = discretization == "zoh"
        compare(layer, form, lambda *a: mamba(*a, zoh), T)  # noqa: B023


@pytest.mark.parametrize("form", ["loop", "chunk"])
@pytest.mark.parametrize("heads, bias", [(1, True), (4, False)])
def test_mamba2_is_its_equations(form, heads, bias):
    for T in LENGTHS:
        torch.manual_seed(T)
        layer = companion.Mamba2(
            3, H, bias=bias, batch_first=False, dtype=torch.float64, heads=heads, slots=3
        )
        compare(layer, form, lambda *a: mamba2(*a, heads), T)


@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("kind", ["whole", "lengths", "reset"])
def test_the_scan_of_mamba_is_the_loop(T, kind):
    torch.manual_seed(T)
    layer = companion.Mamba(3, H, 2, dtype=torch.float64, slots=3)
    x = randn(4, T, 3).requires_grad_()
    state = tuple(s.requires_grad_() for s in random_state(layer, 4))
    options = {}
    if kind == "lengths":
        options["lengths"] = torch.tensor([0, T, T // 2, max(T - 1, 1)])
    if kind == "reset":
        options["reset"] = torch.rand(4, T) < 3 / T
    found = []
    for form in ("scan", "loop"):
        y, final = layer(x, state, form=form, **options)
        wanted = [x, *state, *layer.parameters()]
        grads = torch.autograd.grad(wave(y, *final), wanted, materialize_grads=True)
        found.append((y, *final, *grads))
    for a, b in zip(*found, strict=True):
        scale = max(1.0, b.detach().abs().max().item())
        assert_close(a / scale, b / scale, 1e-10)


def test_the_two_ways_to_make_the_input_discrete():
    """Case 27: one limit, Δ → 0, and far from it what a held input gives exactly.

    Of h' = −h + x with x = 1 held for Δ from h = 0, h(Δ) = 1 − e^−Δ; Euler says Δ.
    """
    found = {}
    for kind in ("zoh", "euler"):
        cell = MambaCell(1, 1, False, dtype=torch.float64, expand=1, slots=1, window=1,
                         discretization=kind)  # fmt: skip
        with torch.no_grad():
            for p in cell.parameters():
                p.fill_(0)
            cell.bias_conv.fill_(1.2784645427610738)  # silu of which is 1
            cell.weight_x[1] = 1  # B = 1
        for dt in (1e-4, 1.0):
            with torch.no_grad():
                cell.bias_dt.fill_(math.log(math.expm1(dt)))
            _, (h, _) = cell.step(randn(1, 1), cell.initial_state(1))
            found[kind, dt] = h.item()
    assert found["zoh", 1.0] == pytest.approx(1 - math.exp(-1), rel=1e-9)
    assert found["euler", 1.0] == pytest.approx(1, rel=1e-9)
    assert found["zoh", 1e-4] == pytest.approx(found["euler", 1e-4], rel=1e-4)


def test_they_start_as_the_authors_start():
    torch.manual_seed(0)
    one, two = MambaCell(16, 500, slots=4), Mamba2Cell(16, 500, heads=500)
    assert torch.allclose(one.log_a.exp(), torch.arange(1.0, 5.0).expand(1000, 4))
    for cell in (one, two):
        dt = F.softplus(cell.bias_dt.detach())
        assert 0.00099 < dt.min() < 0.0012 and 0.08 < dt.max() < 0.101
        assert dt.log().mean().item() == pytest.approx(math.log(1e-2), abs=0.15)
        assert (cell.skip == 1).all()
    a = two.log_a.detach().exp()
    assert a.min() >= 1 and a.max() <= 16 and a.mean().item() == pytest.approx(8.5, abs=0.7)
    assert MambaCell(3, 33).low == 3 and MambaCell(3, 33, rank=7).low == 7


def test_a_padded_step_reaches_neither_window_nor_state():
    """Case 19: what stands in the padding changes nothing, at once or a step later."""
    torch.manual_seed(0)
    for layer in (companion.Mamba(3, H), companion.Mamba2(3, H), companion.DeltaNet(3, H)):
        x = torch.randn(1, 9, 3)
        padded = torch.cat([x, torch.full((1, 4, 3), 1e6)], 1)
        y, state = layer(x)
        z, after = layer(padded, lengths=[9])
        torch.testing.assert_close(z[:, :9], y)
        for a, b in zip(after, state, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    "kind, options, error, message",
    [
        ("Mamba", {"expand": 0}, ValueError, "expand: expected at least 1, got 0"),
        ("Mamba", {"slots": 1.0}, TypeError, "slots: expected an int, got float"),
        ("Mamba", {"window": 0}, ValueError, "window: expected at least 1, got 0"),
        ("Mamba", {"rank": 0}, ValueError, "rank: expected at least 1, got 0"),
        ("Mamba", {"discretization": "tustin"}, ValueError, "discretization: expected one of"),
        ("Mamba2", {"heads": 3}, ValueError, r"expand \* hidden_size: expected a multiple of"),
        ("Mamba2", {"slots": 0}, ValueError, "slots: expected at least 1, got 0"),
    ],
)
def test_options_are_checked(kind, options, error, message):
    with pytest.raises(error, match=message):
        getattr(companion, kind)(3, H, **options)


def test_what_they_print():
    assert repr(MambaCell(3, 4)) == "MambaCell(3, 4)"
    assert repr(companion.Mamba(3, 4, discretization="zoh")) == "Mamba(3, 4, discretization=zoh)"
    assert repr(companion.Mamba2(3, 4, heads=4)) == "Mamba2(3, 4, heads=4)"


@pytest.mark.parametrize("form", ["loop", "scan"])
def test_without_decay_both_ways_are_a_sum(form):
    """A = −e^-200 is 0 in float32: (e^(ΔA) − 1) / A is Δ, not 0 / 0."""
    torch.manual_seed(0)
    held = companion.Mamba(3, 4, discretization="zoh")
    euler = companion.Mamba(3, 4)
    with torch.no_grad():
        held.log_a_l0.fill_(-200.0)
    euler.load_state_dict(held.state_dict())
    x = torch.randn(2, 20, 3)
    y, _ = held(x, form=form)
    torch.testing.assert_close(y, euler(x, form=form)[0])
    y.sum().backward()
    assert all(p.grad.isfinite().all() for p in held.parameters())


@pytest.mark.parametrize("discretization", ["euler", "zoh"])
def test_a_decay_beyond_all_numbers_forgets_all(discretization):
    """A = −e^200 is −∞ in float32; what is padded with Δ = 0 hands on its state all the same."""
    torch.manual_seed(0)
    layer, x = companion.Mamba(3, 4, discretization=discretization), torch.randn(2, 20, 3)
    with torch.no_grad():
        layer.log_a_l0.fill_(200.0)
    found, expected = (layer(x, lengths=[20, 12], form=form) for form in ("scan", "loop"))
    torch.testing.assert_close(found, expected)
    (found[0].sum() + found[1][0].sum()).backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
