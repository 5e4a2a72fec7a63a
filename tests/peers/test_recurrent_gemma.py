"""Griffin's recurrent block, its RG-LRU and its attention beside transformers' RecurrentGemma.

Where the paper and that code differ we follow the paper, and these tests set what can be set: GeLU
is exact (the code: by a tanh); all features of a head are rotated (half of them); the root of the
RG-LRU is there from the first step on (left out where a position is 0: ours start from 1 here).
"""

from __future__ import annotations

import pytest
import torch
from transformers.masking_utils import create_sliding_window_causal_mask
from transformers.models.recurrent_gemma.modeling_recurrent_gemma import (
    RecurrentGemmaAttention,
    RecurrentGemmaConfig,
    RecurrentGemmaRecurrentBlock,
    RecurrentGemmaRglru,
)

import companion
from companion.attention import CausalAttention

from .helpers import B, T, given, moved, randn, steps, weights

LIBRARY, H, F64 = "transformers", 8, {"dtype": torch.float64}


def configured(**options):
    return RecurrentGemmaConfig(
        hidden_size=H,
        num_attention_heads=2,
        num_key_value_heads=1,
        attention_window_size=4,
        hidden_activation="gelu",
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 1.0,
        },
        attn_implementation="eager",
        **options,
    )


def recurrence(w, heads=2):
    """Its matrices stand on the other side of x, block by block, and it stores −Λ."""
    gates, biases = (w[f"{kind}_gates"].chunk(2) for kind in ("weight", "bias"))
    table = {"recurrent_param": -w["decay"]}
    for name, W, b in zip(("recurrent", "input"), gates, biases, strict=True):
        table[f"{name}_gate_weight"] = W.unflatten(0, (heads, -1)).transpose(1, 2)
        table[f"{name}_gate_bias"] = b.view(heads, -1)
    return table


def positions(count, start=1):
    return torch.arange(start, start + count).expand(B, -1)


@torch.no_grad()
def test_rglru(beside):
    layer = moved(companion.RGLRU(H, H, heads=2, **F64))
    peer = given(RecurrentGemmaRglru(configured()), recurrence(weights(layer)))
    x = randn(B, T, H)
    want = peer(x, positions(T))
    beside("RGLRU", LIBRARY, "RecurrentGemmaRglru", layer(x)[0], want)
    peer.recurrent_states = None
    theirs = peer(x, positions(T, 0))[:, 0]
    y, _ = layer(x)
    assert (theirs - y[:, 0]).abs().max() > 0.1, "no root at its position 0"


@pytest.mark.parametrize("width", [None, 12])
@torch.no_grad()
def test_griffin(beside, width):
    layer = moved(companion.Griffin(H, H, width=width, heads=2, **F64))
    w = weights(layer)
    table = {f"rg_lru.{name}": value for name, value in recurrence(w).items()}
    table |= {"conv_1d.weight": w["weight_conv"].unsqueeze(1), "conv_1d.bias": w["bias_conv"]}
    for kind in ("weight", "bias"):
        table[f"linear_y.{kind}"], table[f"linear_x.{kind}"] = w[f"{kind}_ih"].chunk(2)
        table[f"linear_out.{kind}"] = w[f"{kind}_ho"]
    peer = given(RecurrentGemmaRecurrentBlock(configured(lru_width=width), 0), table)
    x = randn(B, T, H)
    want = peer(x, positions(T), None, use_cache=False)[0]
    beside("Griffin", LIBRARY, "RecurrentGemmaRecurrentBlock", layer(x)[0], want)
    if width is None:  # its cache has room for H channels alone
        for first in (1, 5):
            peer.conv1d_state = None
            outputs = [peer(x[:, :first], positions(first), None)[0]]
            for t in range(first, T):
                outputs.append(peer(x[:, t : t + 1], positions(1, t + 1), None)[0])
            got, want = steps(layer, x), torch.cat(outputs, 1)
            beside("Griffin, steps", LIBRARY, "RecurrentGemmaRecurrentBlock", got, want)


@torch.no_grad()
def test_local_attention(beside):
    """Their code and ours see ``window`` steps; the authors' own code sees one more."""
    layer = moved(CausalAttention(H, 2, kv_heads=1, window=4, **F64))
    names = {"q_proj": layer.query, "k_proj": layer.key, "v_proj": layer.value}
    table = {f"{name}.weight": product.weight for name, product in names.items()}
    table |= {"o_proj.weight": layer.output.weight, "o_proj.bias": torch.zeros(H, **F64)}
    config = configured()
    peer = given(RecurrentGemmaAttention(config, 0), table)
    x = randn(B, T, H)
    mask = create_sliding_window_causal_mask(config, x, None, None, positions(T, 0))
    want = peer(x, positions(T, 0), mask)[0]
    beside("CausalAttention", LIBRARY, "RecurrentGemmaAttention", layer(x)[0], want)
    got = steps(layer, x)
    beside("CausalAttention, steps", LIBRARY, "RecurrentGemmaAttention", got, want)
