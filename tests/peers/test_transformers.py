"""Mamba, Mamba-2, RWKV-4, mLSTM and the gated delta rule beside transformers' paths in torch."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

import companion

from .helpers import B, T, given, moved, randn, steps, weights

for name in ("fla", "xlstm"):  # where they are found, they take the place of what is in torch
    sys.modules[name] = None  # type: ignore[assignment]

from transformers import DynamicCache  # noqa: E402
from transformers.models.mamba.modeling_mamba import MambaConfig, MambaMixer  # noqa: E402
from transformers.models.mamba2.modeling_mamba2 import Mamba2Config, Mamba2Mixer  # noqa: E402
from transformers.models.olmo_hybrid.modeling_olmo_hybrid import (  # noqa: E402
    OlmoHybridConfig,
    OlmoHybridGatedDeltaNet,
)
from transformers.models.qwen3_next.modeling_qwen3_next import (  # noqa: E402
    Qwen3NextConfig,
    Qwen3NextGatedDeltaNet,
)
from transformers.models.rwkv.modeling_rwkv import RwkvConfig, RwkvSelfAttention  # noqa: E402
from transformers.models.xlstm.modeling_xlstm import xLSTMConfig, xLSTMLayer  # noqa: E402

LIBRARY, H, F64 = "transformers", 8, {"dtype": torch.float64}


def with_cache(peer, x, config, first):
    """The peer on ``first`` steps at once, then step by step from its cache."""
    cache = DynamicCache(config=config)
    outputs = [peer(x[:, :first], cache=cache)]
    outputs += [peer(x_t[:, None], cache=cache) for x_t in x[:, first:].unbind(1)]
    return torch.cat(outputs, 1)


@torch.no_grad()
def compared(beside, layer, peer, x, config, note=""):
    """Whole, and in steps: theirs all by the cache, and from a cache that five at once left."""
    ours, theirs = type(layer).__name__, type(peer).__name__ + note
    beside(ours, LIBRARY, theirs, layer(x)[0], peer(x))
    got = steps(layer, x)
    for first, how in ((1, "cache"), (5, "prefix, cache")):
        want = with_cache(peer, x, config, first)
        beside(f"{ours}, steps", LIBRARY, f"{theirs}, {how}", got, want)


def test_mamba(beside):
    """The code's Euler step for B; the paper's, which we call ``"zoh"``, no peer has."""
    layer = moved(companion.Mamba(H, H, slots=5, rank=3, **F64))
    config = MambaConfig(
        hidden_size=H, state_size=5, time_step_rank=3, use_bias=True, num_hidden_layers=1
    )
    w = weights(layer)
    table = {
        "in_proj.weight": w["weight_ih"],
        "in_proj.bias": w["bias_ih"],
        "conv1d.weight": w["weight_conv"].unsqueeze(1),
        "conv1d.bias": w["bias_conv"],
        "x_proj.weight": w["weight_x"],
        "dt_proj.weight": w["weight_dt"],
        "dt_proj.bias": w["bias_dt"],
        "A_log": w["log_a"],
        "D": w["skip"],
        "out_proj.weight": w["weight_ho"],
        "out_proj.bias": w["bias_ho"],
    }
    compared(beside, layer, given(MambaMixer(config, 0), table), randn(B, T, H), config)


@pytest.mark.parametrize("chunk", [4, 256])
def test_mamba2(beside, chunk):
    layer = moved(companion.Mamba2(H, H, heads=4, slots=6, **F64))
    config = Mamba2Config(
        hidden_size=H,
        num_heads=4,
        head_dim=2 * H // 4,
        state_size=6,
        n_groups=1,
        chunk_size=chunk,
        use_bias=True,
        num_hidden_layers=1,
    )
    w = weights(layer)
    table = {
        "in_proj.weight": w["weight_ih"],
        "in_proj.bias": w["bias_ih"],
        "conv1d.weight": w["weight_conv"].unsqueeze(1),
        "conv1d.bias": w["bias_conv"],
        "dt_bias": w["bias_dt"],
        "A_log": w["log_a"],
        "D": w["skip"],
        "norm.weight": w["gain"],
        "out_proj.weight": w["weight_ho"],
        "out_proj.bias": w["bias_ho"],
    }
    peer = given(Mamba2Mixer(config, 0), table)
    compared(beside, layer, peer, randn(B, T, H), config, f", chunk {chunk}")


@torch.no_grad()
def test_rwkv4(beside):
    layer = moved(companion.RWKV(H, H, bias=False, **F64))
    peer = RwkvSelfAttention(RwkvConfig(hidden_size=H, num_hidden_layers=1))
    w = weights(layer)
    table = {
        "time_decay": w["log_rate"],
        "time_first": w["bonus"],
        "output.weight": w["weight_ho"],
    }
    blocks = w["weight_ih"].chunk(3)
    for name, block, mix in zip(("key", "value", "receptance"), blocks, w["mix"], strict=True):
        table |= {f"{name}.weight": block, f"time_mix_{name}": mix.view(1, 1, H)}
    given(peer, table)
    x = randn(B, T, H)
    beside("RWKV", LIBRARY, "RwkvSelfAttention", layer(x)[0], peer(x)[0])
    rows = []
    for row in x.split(1):  # one by one: a step of several mixes each with all
        state = [torch.zeros(1, H, 1, **F64) for _ in range(5)]
        state[4] -= 1e30  # its logarithm of nothing
        outputs = []
        for x_t in row.split(1, 1):
            y, state = peer(x_t, state, use_cache=True)
            outputs.append(y)
        rows.append(torch.cat(outputs, 1))
    beside("RWKV, steps", LIBRARY, "RwkvSelfAttention", steps(layer, x), torch.cat(rows))


@pytest.mark.parametrize("mode", ["inference", "train"])
@torch.no_grad()
def test_mlstm(beside, mode):
    """Without what the paper's cell does not have: soft caps of the gates, norm, projection.

    They scale the query, key and bias together, where the paper's bias comes after the scale.
    """
    layer = moved(companion.MLSTM(H, H, heads=2, **F64))
    config = xLSTMConfig(
        hidden_size=H,
        num_heads=2,
        qk_dim_factor=1.0,
        use_bias=True,
        mode=mode,
        chunk_size=4,
        gate_soft_cap=1e9,
        autocast_kernel_dtype="float32",
    )
    peer = xLSTMLayer(config)
    names = {"q": H, "k": H, "v": H, "ogate_preact": H, "igate_preact": 2, "fgate_preact": 2}
    w, table = weights(layer), {}
    for kind in ("weight", "bias"):
        parts = w[f"{kind}_ih"].split(list(names.values()))
        table |= {f"{n}.{kind}": part for n, part in zip(names, parts, strict=True)}
    peer.multihead_norm, peer.out_proj = nn.Flatten(2), nn.Identity()
    given(peer, table)
    x = randn(B, 12, H)
    beside("MLSTM", LIBRARY, f"xLSTMLayer, {mode}", layer(x)[0], peer(x)[0])
    if mode == "inference":
        state, outputs = None, []
        for x_t in x.unbind(1):
            y, state = peer(x_t[:, None], state)
            outputs.append(y)
        beside("MLSTM, steps", LIBRARY, "xLSTMLayer", steps(layer, x), torch.cat(outputs, 1))


def delta(**options):
    """A layer of V = 2 H, and the options that transformers' two models of it share."""
    layer = moved(companion.DeltaNet(H, H, bias=False, heads=2, expand=2, gated=True, **options))
    shared = dict(
        hidden_size=H,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=H // 2,
        linear_value_head_dim=H,
        linear_conv_kernel_dim=4,
        rms_norm_eps=1e-5,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
    )
    w = weights(layer)
    table = {
        "conv1d.weight": w["weight_conv"].unsqueeze(1),
        "A_log": w["log_a"],
        "dt_bias": w["bias_dt"],
    }
    names, sizes = ("q", "k", "v", "b", "a", "g"), (H, H, 2 * H, 2, 2, 2 * H)
    blocks = dict(zip(names, w["weight_ih"].split(sizes), strict=True))
    return layer, shared, table, blocks


def test_gated_deltanet_of_qwen(beside):
    layer, shared, table, blocks = delta(**F64)
    config, w = Qwen3NextConfig(**shared), weights(layer)
    table |= {"norm.weight": w["gain"], "out_proj.weight": w["weight_ho"]}
    for name, parts in (("qkvz", "qkvg"), ("ba", "ba")):  # head by head there
        heads = [blocks[part].view(2, -1, H) for part in parts]
        table[f"in_proj_{name}.weight"] = torch.cat(heads, 1).flatten(0, 1)
    peer = given(Qwen3NextGatedDeltaNet(config, 0), table)
    compared(beside, layer, peer, randn(B, 70, H), config)  # more than its chunk of 64


@pytest.mark.parametrize("negative, steps", [(False, 70), (True, 20)])
def test_gated_deltanet_of_olmo(beside, negative, steps):
    """What does not fade keeps what float32 lost: fewer steps."""
    layer, shared, table, blocks = delta(negative_eigenvalues=negative, **F64)
    config, w = OlmoHybridConfig(**shared, linear_allow_neg_eigval=negative), weights(layer)
    table |= {"o_norm.weight": w["gain"], "o_proj.weight": w["weight_ho"]}
    table |= {f"{name}_proj.weight": block for name, block in blocks.items()}
    peer = given(OlmoHybridGatedDeltaNet(config, 0), table)
    note = ", negative" if negative else ""
    compared(beside, layer, peer, randn(B, steps, H), config, note)
