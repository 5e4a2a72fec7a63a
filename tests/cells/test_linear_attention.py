"""Linear attention against attention: all weights of all steps, with no recurrence."""

from __future__ import annotations

import pytest
import torch

import companion
from companion import LinearAttentionCell

from ..helpers import assert_close, randn, wave

H, B = 8, 2
PHI = {
    "elu": lambda a: torch.where(a > 0, a + 1, a.exp()),
    "relu": lambda a: a.clamp(min=0),
    "identity": lambda a: a,
}


def attention(cell, x, heads, phi, normalize):
    """Σ_{j ≤ i} (φ(q_i)·φ(k_j)) v_j over the sum of its weights, from a state of zeros."""
    W, b = cell.weight_ih, 0 if cell.bias_ih is None else cell.bias_ih
    q, k, v = (x @ W.T + b).chunk(3, -1)
    outputs = []
    for h in range(heads):
        mine = slice(h * H // heads, (h + 1) * H // heads)
        weights = torch.einsum("ibd,jbd->bij", phi(q[..., mine]), phi(k[..., mine])).tril()
        y = torch.einsum("bij,jbd->ibd", weights, v[..., mine])
        if normalize:
            y = y / (weights.sum(-1).T.unsqueeze(-1) + 1e-6)
        outputs.append(y)
    out = torch.cat(outputs, -1) @ cell.weight_ho.T
    return out if cell.bias_ho is None else out + cell.bias_ho


@pytest.mark.parametrize("form", ["loop", "chunk"])
@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize(
    "phi, normalize, bias",
    [("elu", True, True), ("elu", False, False), ("relu", True, True), ("identity", False, True)],
)
def test_it_is_attention_without_a_softmax(form, heads, phi, normalize, bias):
    for T in (1, 2, 3, 7, 33, 64, 257):
        torch.manual_seed(T)
        layer = companion.LinearAttention(
            3,
            H,
            bias=bias,
            batch_first=False,
            dtype=torch.float64,
            heads=heads,
            feature_map=phi,
            normalize=normalize,
        )
        with torch.no_grad():
            layer.weight_ih_l0.normal_()
            if bias:
                layer.bias_ih_l0.fill_(1.0)  # so that no relu leaves all weights 0
        x = randn(T, B, 3).requires_grad_()
        y, _ = layer(x, form=form)
        z = attention(layer.cell(0), x, heads, PHI[phi], normalize)
        wanted = [x, *layer.parameters()]
        for a, b in zip(
            (y, *torch.autograd.grad(wave(y), wanted)),
            (z, *torch.autograd.grad(wave(z), wanted)),
            strict=True,
        ):
            scale = max(1.0, b.detach().abs().max().item())
            assert_close(a / scale, b / scale, 1e-10)


def test_its_state_is_the_sum_of_outer_products_and_of_keys():
    torch.manual_seed(0)
    layer = companion.LinearAttention(3, H, heads=2, dtype=torch.float64)
    x = randn(B, 9, 3)
    _, (S, z) = layer(x)
    q, k, v = (x @ layer.weight_ih_l0.T + layer.bias_ih_l0).chunk(3, -1)
    k = PHI["elu"](k)
    outer = torch.einsum("bthd,bthe->bhde", *(p.unflatten(-1, (2, 4)) for p in (k, v)))
    assert_close((S[0], z[0]), (outer.flatten(1), k.sum(1)), 1e-12)


def test_without_a_normalizer_outputs_are_linear_in_values():
    torch.manual_seed(0)
    layer = companion.LinearAttention(3, 4, bias=False, normalize=False, dtype=torch.float64)
    x = randn(B, 9, 3)
    y, _ = layer(x)
    with torch.no_grad():
        layer.weight_ih_l0[8:] *= 3
    assert_close(layer(x)[0], 3 * y, 1e-12)


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"heads": 3}, ValueError, "hidden_size: expected a multiple of heads = 3, got 4"),
        ({"heads": 0}, ValueError, "heads: expected at least 1, got 0"),
        ({"heads": 2.0}, TypeError, "heads: expected an int, got float"),
        ({"feature_map": "exp"}, ValueError, "feature_map: expected one of .*got 'exp'"),
        ({"normalize": 1}, TypeError, "normalize: expected True or False, got 1"),
        ({"bias": None}, TypeError, "bias: expected True or False, got None"),
    ],
)
def test_options_are_checked(options, kind, message):
    with pytest.raises(kind, match=message):
        companion.LinearAttention(3, 4, **options)


def test_what_it_prints():
    assert repr(LinearAttentionCell(3, 4)) == "LinearAttentionCell(3, 4)"
    layer = companion.LinearAttention(3, 4, heads=4, normalize=False)
    assert repr(layer) == "LinearAttention(3, 4, heads=4, normalize=False)"
