"""The LRU against a transcription of Orvieto et al. (2023) in complex numbers."""

from __future__ import annotations

import math

import pytest
import torch

import companion
from companion import LRUCell

from ..helpers import assert_close, randn, wave

B = 2


def transcription(x, h, weights):
    """h_t = λ h_{t-1} + γ B x_t, y_t = Re(C h_t) + D x_t, with complex B and C."""
    nu, theta, gamma, b, c, d = weights
    size = torch.exp(-torch.exp(nu))
    lam = size * torch.cos(torch.exp(theta)) + 1j * size * torch.sin(torch.exp(theta))
    b, c = b[::2] + 1j * b[1::2], c[:, ::2] - 1j * c[:, 1::2]
    outputs = []
    for x_t in x.unbind(1):
        h = lam * h + torch.exp(gamma) * (x_t.to(b) @ b.T)
        outputs.append((h @ c.T).real + (d * x_t if d.dim() == 1 else x_t @ d.T))
    return torch.stack(outputs, 1), h


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33, 64, 257])
@pytest.mark.parametrize("form", ["loop", "scan", "conv"])
@pytest.mark.parametrize("D, H, N", [(4, 4, None), (3, 4, 6), (1, 2, 1)])
def test_it_is_its_equations(T, form, D, H, N):
    torch.manual_seed(T)
    layer = companion.LRU(D, H, order=N, dtype=torch.float64)
    N = N or H
    x, h0 = randn(B, T, D).requires_grad_(), randn(1, B, 2 * N).requires_grad_()
    y, h = layer(x, h0, form=form)
    wanted = [x, h0, *layer.parameters()]
    z, e = transcription(x, torch.complex(h0[0, :, ::2], h0[0, :, 1::2]), list(layer.parameters()))
    e = torch.stack([e.real, e.imag], -1).flatten(1)
    assert_close((y, h[0]), (z, e), 1e-11)
    for a, c in zip(
        torch.autograd.grad(wave(y, h), wanted),
        torch.autograd.grad(wave(z, e[None]), wanted),
        strict=True,
    ):
        assert_close(a, c, 1e-11 * max(1.0, c.abs().max().item()))


def test_it_starts_on_its_ring():
    torch.manual_seed(0)
    cell = LRUCell(3, 4, order=20_000, r_min=0.6, r_max=0.9, max_phase=math.pi / 2)
    lam = cell.factors().detach()
    r, phase = lam.abs(), lam.angle()
    assert 0.6 <= r.min() < 0.601 and 0.899 < r.max() <= 0.9
    assert 0 <= phase.min() < 0.001 and 1.57 < phase.max() <= math.pi / 2 + 1e-6
    # uniform in area: |λ|² is uniform, and so half of them lie beyond the root of its mean
    half = (r > math.sqrt((0.36 + 0.81) / 2)).double().mean().item()
    assert half == pytest.approx(0.5, abs=0.015)
    assert_close(cell.gamma_log.detach().exp() ** 2 + r**2, torch.ones(20_000), 1e-5)


def test_white_noise_gives_states_of_size_one_whatever_the_memory():
    """E|h|² = γ² E|B x|² / (1 − |λ|²) = E|B x|² = 1 for B of variance 1/D in all."""
    torch.manual_seed(0)
    cell = LRUCell(64, 64, order=256, r_min=0.5, r_max=0.99)
    x = torch.randn(8, 2000, 64)
    layer = companion.LRU(64, 64, order=256, r_min=0.5, r_max=0.99)
    layer.load_state_dict({f"{n}_l0": w for n, w in cell.state_dict().items()})
    _, h = layer(x)
    size = h[0].view(8, 256, 2).square().sum(-1)  # |h|² of each row and unit
    assert size.mean().item() == pytest.approx(1, abs=0.1)
    slow = cell.factors().abs() > 0.9
    ratio = (size[:, slow].mean() / size[:, ~slow].mean()).item()
    assert ratio == pytest.approx(1, abs=0.2)


def test_no_weight_can_make_it_unstable():
    cell = LRUCell(2, 3)
    with torch.no_grad():
        for nu in (-80.0, 0.0, 4.0, 80.0):
            cell.nu_log.fill_(nu)
            assert (cell.factors().abs() <= 1).all()
        cell.nu_log.fill_(4.0)
        assert (cell.factors().abs() < 1e-20).all()


@pytest.mark.parametrize("form", ["scan", "conv"])
def test_100_000_steps(form):
    torch.manual_seed(0)
    layer = companion.LRU(2, 3, r_min=0.999, r_max=0.99999)
    x = torch.randn(1, 100_000, 2).requires_grad_()
    y, h = layer(x, form=form)
    (dx,) = torch.autograd.grad(y.square().mean() + h.sum(), x)
    assert y.isfinite().all() and dx.isfinite().all()
    exact, _ = layer.double()(x.double())
    scale = exact.abs().max().item()
    torch.testing.assert_close(y.double(), exact, rtol=0, atol=0.02 * scale)


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"order": 0}, ValueError, "order: expected at least 1, got 0"),
        ({"r_min": 0.9, "r_max": 0.5}, ValueError, "r_min, r_max: expected 0 <= r_min < r_max"),
        ({"r_max": 1.5}, ValueError, "r_min, r_max: expected .* got 0.0, 1.5"),
        ({"r_min": "0"}, TypeError, "r_min: expected a number, got str"),
        ({"max_phase": 0}, ValueError, "max_phase: expected a number above 0, got 0"),
        ({"dtype": torch.complex64}, ValueError, "dtype: expected a real one"),
        ({"bias": 1}, TypeError, "bias: expected True or False"),
    ],
)
def test_options_are_checked(options, kind, message):
    with pytest.raises(kind, match=message):
        companion.LRU(3, 4, **options)


def test_what_it_prints():
    assert repr(LRUCell(3, 4)) == "LRUCell(3, 4)"
    text = repr(companion.LRU(3, 4, order=8, r_min=0.5))
    assert text == "LRU(3, 4, order=8, r_min=0.5)"
