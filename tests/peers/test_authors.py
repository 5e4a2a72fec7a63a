"""RetNet, RWKV-7 and the sLSTM beside their authors' code, the minimal cells beside a package."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import companion

from .helpers import B, T, given, load_class, load_file, moved, randn, steps, weights

H, F64 = 8, {"dtype": torch.float64}

os.environ |= {"RWKV_V7_ON": "1", "RWKV_CUDA_ON": "0"}

import rwkv.model  # noqa: E402
from minGRU_pytorch.minGRU import minGRU  # noqa: E402
from minGRU_pytorch.minLSTM import minLSTM  # noqa: E402
from torchscale.component.multiscale_retention import MultiScaleRetention  # noqa: E402


def retention(scale, eps):
    """Ours, theirs, and its positions; values are ``scale`` times as large, its ε is ``eps``."""
    options = SimpleNamespace(
        multiway=False,
        layernorm_eps=eps,
        decoder_embed_dim=H,
        decoder_retention_heads=2,
        recurrent_chunk_size=4,
    )
    layer = moved(companion.RetNet(H, H, bias=False, norm="rms", normalize_score=True, **F64))
    with torch.no_grad():
        layer.weight_ih_l0[2 * H : 4 * H] *= scale
    w = weights(layer)
    blocks = w["weight_ih"].split([H, H, 2 * H, 2 * H])
    table = {f"{n}_proj.weight": block for n, block in zip("qkvg", blocks, strict=True)}
    table["out_proj.weight"] = w["weight_ho"]
    peer = given(MultiScaleRetention(options, H, 2 * H, 2), table)
    path = "torchscale/architecture/retnet.py"
    positions = load_class("torchscale", path, "RetNetRelPos", torch=torch, nn=nn)(options)
    return layer, peer, positions.double()


@torch.no_grad()
def test_retention_at_once(beside):
    """The code has the root mean square for the paper's group norm: our ``norm="rms"``."""
    layer, peer, positions = retention(1, 1e-5)
    x = randn(B, T, H)
    beside("RetNet", "torchscale", "parallel_forward", layer(x)[0], peer(x, positions(T)))


@torch.no_grad()
def test_retention_in_chunks_and_steps(beside):
    """Their forms divide by different numbers, which the norm undoes where ε counts nothing."""
    layer, peer, positions = retention(1e5, 1e-12)
    x, memory, outputs = randn(B, 12, H), {}, []
    got = layer(x)[0]
    theirs = peer(x, positions(12, chunkwise_recurrent=True), chunkwise_recurrent=True)
    beside("RetNet", "torchscale", "chunk_recurrent_forward", got, theirs)
    for t in range(12):
        now = positions(t + 1, activate_recurrent=True)
        outputs.append(peer(x[:, t : t + 1], now, incremental_state=memory))
    theirs = torch.cat(outputs, 1)
    beside("RetNet, steps", "torchscale", "recurrent_forward", steps(layer, x), theirs)


@pytest.mark.parametrize("function", ["RWKV_x070_TMix_seq", "RWKV_x070_TMix_one"])
@torch.no_grad()
def test_rwkv7(beside, function):
    """The first layer of theirs, which mixes no values of another; their μ is 1 − ours."""
    R = 3
    layer = moved(companion.RWKV7(H, H, bias=False, heads=2, rank=R))  # theirs mixes in float32
    w = weights(layer)
    r, k, v, decay, rate, gate = w["weight_ih"].split([H, H, H, R, R, R])
    x_r, x_k, x_v, x_w, x_a, x_g = 1 - w["mix"]
    none = torch.empty(0)
    sent = dict(x_r=x_r, x_w=x_w, x_k=x_k, x_v=x_v, x_a=x_a, x_g=x_g)
    sent |= dict(w0=w["bias_decay"], w1=decay.T, w2=w["weight_decay"].T)
    sent |= dict(a0=w["bias_rate"], a1=rate.T, a2=w["weight_rate"].T)
    sent |= dict(v0=none, v1=none, v2=none, g1=gate.T, g2=w["weight_gate"].T)
    sent |= dict(k_k=w["key_scale"], k_a=w["key_rate"], r_k=w["bonus"])
    sent |= dict(R_=r.T, K_=k.T, V_=v.T, O_=w["weight_ho"].T)
    sent |= dict(ln_w=w["gain"], ln_b=w["bias_norm"])
    mix = getattr(rwkv.model, function)
    x, state, before = torch.randn(1, T, H), torch.zeros(2, H // 2, H // 2), torch.zeros(H)
    if function.endswith("seq"):
        y = mix(0, 2, H // 2, x[0].clone(), before, none, state, **sent)[0][None]
        beside("RWKV7", "rwkv", function, layer(x)[0], y)
    else:
        outputs = []
        for x_t in x[0]:
            y, before, state, _ = mix(0, 2, H // 2, x_t, before, none, state, **sent)
            outputs.append(y)
        beside("RWKV7, steps", "rwkv", function, steps(layer, x), torch.stack(outputs)[None])


@torch.no_grad()
def test_slstm(beside):
    """Their gates are in the order i, f, z, o; ours z, i, f, o."""
    vanilla = load_file("xlstm", "xlstm/blocks/slstm/src/vanilla/__init__.py")
    layer = moved(companion.SLSTM(H, H, heads=2, **F64))
    order = [1, 2, 0, 3]
    w = {n: torch.cat([p.chunk(4)[k] for k in order]) for n, p in weights(layer).items()}
    # (4 H, d) as (heads, 4 d, d)
    R = w["weight_hh"].view(4, 2, H // 2, H // 2).transpose(0, 1).flatten(1, 2)
    x = randn(B, T, H)
    states, _, _ = vanilla.slstm_forward(
        (x @ w["weight_ih"].T).transpose(0, 1),
        torch.zeros(4, B, H, **F64),
        R,
        w["bias_ih"],
        vanilla.slstm_pointwise_function_registry["slstm"],
    )
    want = states[0, 1:].transpose(0, 1)
    beside("SLSTM", "xlstm", "slstm_forward", layer(x)[0], want)
    beside("SLSTM, steps", "xlstm", "slstm_forward", steps(layer, x), want)


@pytest.mark.parametrize("theirs", [minGRU, minLSTM])
@torch.no_grad()
def test_minimal(beside, theirs):
    """The paper's z writes where ours keeps; a state that is given passes g in their minLSTM."""
    if theirs is minGRU:
        layer = moved(companion.MinGRU(H, H, bias=False, positive=True, **F64))
        z, n = weights(layer)["weight_ih"].chunk(2)
        table = {"to_hidden_and_gate.weight": torch.cat([n, -z])}
    else:
        layer = moved(companion.MinLSTM(H, H, bias=False, positive=True, **F64))
        i, f, g = weights(layer)["weight_ih"].chunk(3)
        table = {"to_hidden_and_f_i_gate.weight": torch.cat([g, f, i])}
    peer, x, before, outputs = given(theirs(H), table), randn(B, T, H), None, []
    ours, library = type(layer).__name__, "minGRU-pytorch"
    beside(ours, library, theirs.__name__, layer(x)[0], peer(x))
    for x_t in x.split(1, 1):
        y, before = peer(x_t, before, return_next_prev_hidden=True)
        outputs.append(y)
    beside(f"{ours}, steps", library, theirs.__name__, steps(layer, x), torch.cat(outputs, 1))
