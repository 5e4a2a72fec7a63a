"""The RG-LRU and its block against transcriptions of De et al. (2024), sections 2.3 and 2.4."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import companion
from companion import GriffinCell, RGLRUCell

from ..helpers import assert_close, randn, random_state, wave

B = 2


def sigmoid(a):
    return 1 / (1 + torch.exp(-a))


def transcription(x, h, decay, gates, bias, heads, projection=None):
    """r, i = σ(W x + b); a_t = a^(8 r_t); h_t = a_t h_{t-1} + √(1 − a_t²) (i_t x_t)."""
    if projection is not None:
        x = x @ projection[0].T + projection[1]
    W_a, W_x = (torch.block_diag(*W.chunk(heads)) for W in gates.chunk(2))
    b_a, b_x = bias.chunk(2)
    outputs = []
    for x_t in x.unbind(1):
        r, i = sigmoid(x_t @ W_a.T + b_a), sigmoid(x_t @ W_x.T + b_x)
        a = sigmoid(decay) ** (8 * r)
        h = a * h + torch.sqrt(1 - a**2) * (i * x_t)
        outputs.append(h)
    return torch.stack(outputs, 1), h


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33, 64, 257])
@pytest.mark.parametrize("form", ["loop", "scan"])
@pytest.mark.parametrize("D, H, heads", [(4, 4, 1), (4, 4, 2), (3, 6, 3)])
def test_it_is_its_equations(T, form, D, H, heads):
    torch.manual_seed(T)
    layer = companion.RGLRU(D, H, heads=heads, dtype=torch.float64)
    with torch.no_grad():
        layer.bias_gates_l0.normal_()
        layer.decay_l0.sub_(3)
    x, h0 = randn(B, T, D).requires_grad_(), randn(1, B, H).requires_grad_()
    y, h = layer(x, h0, form=form)
    wanted = [x, h0, *layer.parameters()]
    weights = dict(layer.named_parameters())
    projection = None if D == H else (weights["weight_ih_l0"], weights["bias_ih_l0"])
    z, e = transcription(
        x,
        h0[0],
        layer.decay_l0,
        layer.weight_gates_l0,
        layer.bias_gates_l0,
        heads,
        projection,
    )
    assert_close((y, h[0]), (z, e), 1e-11)
    for a, c in zip(
        torch.autograd.grad(wave(y, h), wanted),
        torch.autograd.grad(wave(z, e), wanted),
        strict=True,
    ):
        assert_close(a, c, 1e-10 * max(1.0, c.abs().max().item()))


def block(w, x, h, past, heads, k):
    """Two branches: gelu(W_g x + b), and a convolution by torch's own conv1d, then the RG-LRU."""
    (W_g, W_v), (b_g, b_v) = w["weight_ih"].chunk(2), w["bias_ih"].chunk(2)
    g = x @ W_g.T + b_g
    g = g * (1 + torch.erf(g / 2**0.5)) / 2
    before = past.unflatten(1, (k - 1, -1)).flip(1)  # the latest came first
    v = torch.cat([before, x @ W_v.T + b_v], 1).transpose(1, 2)
    past = v[..., v.shape[2] - k + 1 :].transpose(1, 2).flip(1).flatten(1)
    v = F.conv1d(v, w["weight_conv"][:, None], w["bias_conv"], groups=v.shape[1])
    decays = w["decay"], w["weight_gates"], w["bias_gates"]
    hs, h = transcription(v.transpose(1, 2), h, *decays, heads)
    return (g * hs) @ w["weight_ho"].T + w["bias_ho"], h, past


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33, 64, 257])
@pytest.mark.parametrize("form", ["loop", "scan"])
@pytest.mark.parametrize("width, heads, k", [(None, 1, 4), (6, 3, 2)])
def test_the_block_is_its_equations(T, form, width, heads, k):
    torch.manual_seed(T)
    layer = companion.Griffin(3, 4, width=width, heads=heads, window=k, dtype=torch.float64)
    with torch.no_grad():
        layer.bias_gates_l0.normal_()
        layer.decay_l0.sub_(3)
    x, state = randn(B, T, 3).requires_grad_(), random_state(layer, B)
    state = tuple(s.requires_grad_() for s in state)
    y, (h, past) = layer(x, state, form=form)
    w = {name.removesuffix("_l0"): p for name, p in layer.named_parameters()}
    wanted = [x, *state, *layer.parameters()]
    z, *ends = block(w, x, state[0][0], state[1][0], heads, k)
    assert_close((y, h[0], past[0]), (z, *ends), 1e-11)
    for a, c in zip(
        torch.autograd.grad(wave(y, h, past), wanted),
        torch.autograd.grad(wave(z, *ends), wanted),
        strict=True,
    ):
        assert_close(a, c, 1e-10 * max(1.0, c.abs().max().item()))


def test_without_a_window_the_block_is_the_unit_between_products():
    torch.manual_seed(0)
    layer = companion.Griffin(3, 4, window=1, heads=2, dtype=torch.float64)
    unit = companion.RGLRU(4, 4, heads=2, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_conv_l0.fill_(1)
        layer.bias_conv_l0.zero_()
        for name, w in unit.named_parameters():
            w.copy_(getattr(layer, name))
    x = randn(B, 9, 3)
    g, v = F.linear(x, layer.weight_ih_l0, layer.bias_ih_l0).chunk(2, -1)
    want = F.linear(F.gelu(g) * unit(v)[0], layer.weight_ho_l0, layer.bias_ho_l0)
    assert_close(layer(x)[0], want, 1e-12)


def test_without_biases_it_is_the_same_with_zeros():
    torch.manual_seed(0)
    layer = companion.RGLRU(3, 4, bias=False, heads=2, dtype=torch.float64)
    x, h0 = randn(B, 5, 3), randn(1, B, 4)
    names = [n for n, _ in layer.named_parameters()]
    assert names == ["decay_l0", "weight_gates_l0", "weight_ih_l0"]
    zeros = torch.zeros(8, dtype=torch.float64)
    z, _ = transcription(
        x,
        h0[0],
        layer.decay_l0,
        layer.weight_gates_l0,
        zeros,
        2,
        (layer.weight_ih_l0, zeros[:4]),
    )
    assert_close(layer(x, h0)[0], z, 1e-12)


def test_it_starts_with_decays_from_0_9_to_0_999():
    torch.manual_seed(0)
    cell = RGLRUCell(1, 20_000, heads=20_000)
    a = torch.sigmoid(cell.decay.detach().double()) ** 8
    assert 0.9 <= a.min() < 0.9001 and 0.9989 < a.max() <= 0.9991
    assert a.mean().item() == pytest.approx((0.9 + 0.999) / 2, abs=0.001)
    cell = GriffinCell(1, 1, width=20_000, heads=20_000)
    a = torch.sigmoid(cell.decay.detach().double()) ** 8
    assert 0.9 <= a.min() < 0.9001 and 0.9989 < a.max() <= 0.9991
    bound = cell.weight_conv.detach().abs().max()
    assert 0.499 < bound <= 0.5 and not cell.bias_gates.any()  # 1 / √4
    gates = RGLRUCell(400, 400, heads=4).weight_gates.detach()
    assert gates.std().item() == pytest.approx(0.1, rel=0.02)  # 1 / √100


def test_near_1_the_root_keeps_its_digits():
    """1 − a² of a = 1 − 1e-9 is 2e-9; in float32 a itself is 1."""
    cell = RGLRUCell(1, 1)
    with torch.no_grad():
        cell.weight_gates.zero_()  # both gates ½: a_t = a⁴
        decay = -torch.tensor(2.5e-10, dtype=torch.float64).expm1().log()
        cell.decay.fill_(decay.item())  # softplus(−Λ) = 2.5e-10
    h = cell(torch.ones(1, 1))
    assert h.item() == pytest.approx(0.5 * (2 * 4 * 2.5e-10) ** 0.5, rel=1e-4)


def test_a_closed_recurrence_gate_keeps_the_state_and_has_a_gradient():
    layer = companion.RGLRU(1, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.weight_gates_l0.copy_(torch.tensor([[-1000.0], [0.0]]))
    x = torch.ones(1, 50, 1, dtype=torch.float64, requires_grad=True)
    h0 = torch.full((1, 1, 1), 3.0, dtype=torch.float64)
    y, _ = layer(x, h0)
    assert_close(y, torch.full_like(y, 3), 1e-12)
    y.sum().backward()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_100_000_steps():
    torch.manual_seed(0)
    layer, x = companion.RGLRU(2, 2), torch.randn(1, 100_000, 2).requires_grad_()
    with torch.no_grad():
        layer.decay_l0.add_(3)  # a longer memory
    y, h = layer(x)
    (dx,) = torch.autograd.grad(y.square().mean() + h.sum(), x)
    assert dx.isfinite().all()
    assert y.std().item() < 10  # the root keeps its size
    exact, _ = layer.double()(x.double())
    torch.testing.assert_close(y.double(), exact, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"heads": 0}, ValueError, "heads: expected at least 1, got 0"),
        ({"heads": 3}, ValueError, "hidden_size: expected a multiple of 3, .* got 4"),
        ({"heads": 1.0}, TypeError, "heads: expected an int"),
        ({"dtype": torch.complex64}, ValueError, "dtype: expected a real one"),
    ],
)
def test_options_are_checked(options, kind, message):
    with pytest.raises(kind, match=message):
        companion.RGLRU(3, 4, **options)


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"heads": 3}, ValueError, "hidden_size: expected a multiple of heads = 3, got 4"),
        ({"width": 5, "heads": 2}, ValueError, "width: expected a multiple of heads = 2, got 5"),
        ({"width": 0}, ValueError, "width: expected at least 1, got 0"),
        ({"window": 0}, ValueError, "window: expected at least 1, got 0"),
        ({"dtype": torch.complex64}, ValueError, "dtype: expected a real one"),
    ],
)
def test_options_of_the_block_are_checked(options, kind, message):
    with pytest.raises(kind, match=message):
        companion.Griffin(3, 4, **options)


def test_what_it_prints():
    assert repr(companion.Griffin(3, 4, width=6)) == "Griffin(3, 4, width=6)"
    assert repr(RGLRUCell(3, 4)) == "RGLRUCell(3, 4)"
    assert repr(companion.RGLRU(4, 4, heads=2)) == "RGLRU(4, 4, heads=2)"
