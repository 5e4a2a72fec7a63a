"""Mamba and the scan beside mambapy; its Mamba-2 wants CUDA."""

from __future__ import annotations

import pytest
import torch
from mambapy.mamba import MambaBlock, MambaConfig
from mambapy.pscan import pscan

import companion

from .helpers import B, T, given, moved, randn, steps, weights

LIBRARY, H = "mambapy", 8


@pytest.mark.parametrize("parallel", [False, True])
@torch.no_grad()
def test_mamba(beside, parallel):
    layer = moved(companion.Mamba(H, H, slots=5, rank=3, dtype=torch.float64))
    config = MambaConfig(
        d_model=H, n_layers=1, d_state=5, dt_rank=3, bias=True, pscan=parallel, use_cuda=False
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
    peer, x = given(MambaBlock(config), table), randn(B, T, H)
    theirs = f"MambaBlock, {'pscan' if parallel else 'sequential'}"
    if parallel:  # its sequential state starts in float32, which a product in float64 refuses
        beside("Mamba", LIBRARY, theirs, layer(x)[0], peer(x))
    else:
        layer, peer, x = layer.float(), peer.float(), x.float()
        beside("Mamba", LIBRARY, theirs, layer(x)[0], peer(x))
    cache, outputs = (None, x.new_zeros(B, 2 * H, 3)), []
    for x_t in x.unbind(1):
        y, cache = peer.step(x_t, cache)
        outputs.append(y)
    beside("Mamba, steps", LIBRARY, "MambaBlock.step", steps(layer, x), torch.stack(outputs, 1))


@pytest.mark.parametrize("length", [1, 2, 3, 64, 257])
def test_scan_and_its_gradient(beside, length):
    a, b = torch.rand(B, length, 3, 2).double(), randn(B, length, 3, 2)
    results = []
    for run in (lambda a, b: companion.scan(a, b)[0], pscan):
        p, q = a.clone().requires_grad_(), b.clone().requires_grad_()
        h = run(p, q)
        results.append((h.detach(), *torch.autograd.grad((h * h.detach().cos()).sum(), (p, q))))
    for name, got, want in zip(("scan", "scan, da", "scan, db"), *results, strict=True):
        if want.abs().max() > 0.1:  # of a single step, da is 0
            beside(f"{name}, T = {length}", LIBRARY, "pscan", got, want)
        else:
            assert length == 1 and not got.any() and not want.any()
