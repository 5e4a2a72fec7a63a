"""Retention against its parallel form in the paper: a matrix of decays, positions that turn."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import companion
from companion import RetNetCell

from ..helpers import assert_close, randn, wave

H, B = 8, 2


def turned(x, positions, angles):
    """Pairs of features as complex numbers, times exp(i n θ)."""
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    angles = positions[:, None, None] * angles
    z = z * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(z).flatten(-2)


def parallel(cell, x, heads, norm, scored):
    """Retention at once, for each head, from a state of zeros."""
    T, d = len(x), H // heads
    V = cell.expand * H
    u = x @ cell.weight_ih.T + (0 if cell.bias_ih is None else cell.bias_ih)
    q, k, v, g = u.split([H, H, V, V], -1)
    n = torch.arange(T, dtype=torch.float64)
    pairs = d // 2
    theta = 10000 ** -(torch.arange(pairs).to(n) / max(pairs - 1, 1))
    outputs = []
    for h in range(heads):
        gamma = 1 - 2.0 ** (-5 - h)
        D = (gamma ** (n[:, None] - n)).tril()
        if scored:
            D = D / D.sum(-1, keepdim=True).sqrt()
        mine, wide = slice(h * d, (h + 1) * d), slice(h * V // heads, (h + 1) * V // heads)
        Q, K = turned(q[..., mine], n, theta), turned(k[..., mine], n, theta) / math.sqrt(d)
        R = torch.einsum("ibd,jbd->bij", Q, K) * D
        if scored:
            R = R / R.sum(-1, keepdim=True).abs().clamp(min=1)
        y = torch.einsum("bij,jbd->ibd", R, v[..., wide])
        if norm == "group":
            y = F.layer_norm(y, y.shape[-1:], eps=1e-5)
        else:
            y = y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        outputs.append(y)
    y = torch.cat(outputs, -1) * g * torch.sigmoid(g)
    y = y @ cell.weight_ho.T
    return y if cell.bias_ho is None else y + cell.bias_ho


@pytest.mark.parametrize("form", ["loop", "chunk"])
@pytest.mark.parametrize(
    "heads, norm, scored, bias",
    [(1, "group", False, False), (2, "rms", True, True), (4, "group", True, False)],
)
def test_it_is_the_parallel_form_of_the_paper(form, heads, norm, scored, bias):
    for T in (1, 2, 3, 7, 33, 64, 257):
        torch.manual_seed(T)
        layer = companion.RetNet(
            3,
            H,
            bias=bias,
            batch_first=False,
            dtype=torch.float64,
            heads=heads,
            norm=norm,
            normalize_score=scored,
        )
        with torch.no_grad():
            layer.weight_ih_l0.normal_(0, 2)  # sums of scores on both sides of 1
        x = randn(T, B, 3).requires_grad_()
        y, _ = layer(x, form=form)
        z = parallel(layer.cell(0), x, heads, norm, scored)
        wanted = [x, *layer.parameters()]
        for a, b in zip(
            (y, *torch.autograd.grad(wave(y), wanted)),
            (z, *torch.autograd.grad(wave(z), wanted)),
            strict=True,
        ):
            scale = max(1.0, b.detach().abs().max().item())
            assert_close(a / scale, b / scale, 1e-9)


def test_the_norm_undoes_the_normalizations_of_the_score():
    """Case 22: both forms of the layer agree up to the ε of the norm."""
    torch.manual_seed(0)
    plain = companion.RetNet(3, H, dtype=torch.float64)
    scored = companion.RetNet(3, H, dtype=torch.float64, normalize_score=True)
    with torch.no_grad():
        plain.weight_ih_l0.normal_(0, 3)
    scored.load_state_dict(plain.state_dict())
    x = randn(B, 50, 3)
    y, z = plain(x)[0], scored(x)[0]
    assert 1e-9 < (y - z).abs().max() < 1e-2


def test_heads_decay_as_the_paper_says():
    cell = RetNetCell(3, 16, heads=4)
    gamma = cell.log_decays(torch.empty(0, dtype=torch.bfloat16)).exp()
    torch.testing.assert_close(gamma, torch.tensor([31 / 32, 63 / 64, 127 / 128, 255 / 256]))
    assert gamma.dtype == torch.float32  # in bfloat16 the last would be 1
    torch.testing.assert_close(cell.angles(torch.empty(0)), torch.tensor([1.0, 1e-4]))


def test_only_distances_count():
    """Retention of what comes after 1000 steps of nothing is that of what comes at once."""
    torch.manual_seed(0)
    layer = companion.RetNet(3, H, bias=False)
    x = torch.randn(1, 5, 3)
    with torch.no_grad():
        late = layer(torch.cat([torch.zeros(1, 1000, 3), x], 1))[0][:, 1000:]
    torch.testing.assert_close(late, layer(x)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"heads": 3}, ValueError, "hidden_size: expected a multiple of heads = 3, got 8"),
        ({"heads": 8}, ValueError, "hidden_size: expected an even number for each of 8 heads"),
        ({"expand": 0}, ValueError, "expand: expected at least 1, got 0"),
        ({"norm": "layer"}, ValueError, "norm: expected one of .*got 'layer'"),
        ({"normalize_score": 0}, TypeError, "normalize_score: expected True or False, got 0"),
    ],
)
def test_options_are_checked(options, kind, message):
    with pytest.raises(kind, match=message):
        companion.RetNet(3, H, **options)


def test_what_it_prints():
    text = "RetNet(3, 8, num_layers=2, heads=4, norm=rms)"
    assert repr(companion.RetNet(3, 8, 2, heads=4, norm="rms")) == text
