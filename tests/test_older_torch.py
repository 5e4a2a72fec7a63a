"""What the package does for torch 2.3, the oldest it promises, tested in any: `make torchtext`."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch._vmap_internals import _vmap
from torch.nn import functional as F

from companion.cells import base
from companion.models import ctc, ctc_loss
from companion.run import tracing
from companion.train import runs


def test_the_old_vmap_is_seen_by_its_key():
    seen = []

    def look(t):
        seen.append((tracing.is_old_batched(t), tracing._has_old_key(t)))
        return t

    look(torch.ones(3))
    torch.vmap(look)(torch.ones(3))
    _vmap(look)(torch.ones(3))
    assert seen == [(False, False), (False, False), (True, True)]


@pytest.mark.filterwarnings("ignore:torch.is_autocast:DeprecationWarning")
def test_autocast_is_asked_for_with_and_without_a_device(monkeypatch):
    for known in {base.BY_DEVICE, False}:
        monkeypatch.setattr(base, "BY_DEVICE", known)
        assert not base.autocasting("cpu") and not base.autocasting("cuda")
        with torch.autocast("cpu", torch.bfloat16):
            assert base.autocasting("cpu") and not base.autocasting("cuda")


def test_functions_of_a_scheduler_are_left_out_at_any_depth():
    state = {"n": 1, "anneal_func": math.cos, "inner": [{"anneal_func": math.cos, "k": None}]}
    state |= {"milestones": Counter([3, 3, 5]), "anneal": "cos", "pair": (1, 2)}
    found = runs._without_functions(state)
    assert found == {
        "n": 1,
        "inner": [{"k": None}],
        "milestones": Counter([3, 3, 5]),
        "anneal": "cos",
        "pair": (1, 2),
    }
    assert type(found["milestones"]) is Counter and "anneal_func" in state
    # a function of the reader's own is not lost without a word: packing it is an error
    assert "mine" in runs._without_functions({"mine": math.cos})


@pytest.mark.parametrize("junk", [2.5, math.nan, math.inf])
def test_a_row_without_frames_costs_nothing_whatever_torch_finds_there(monkeypatch, junk):
    original = F.ctc_loss

    def reads_anything(log_probs, targets, frames, *rest):
        loss = original(log_probs, targets, frames, *rest)
        return torch.where(frames > 0, loss, loss * 0 + junk)

    monkeypatch.setattr(ctc.F, "ctc_loss", reads_anything)
    z = torch.randn(3, 4, 3, dtype=torch.float64).requires_grad_()
    loss = ctc_loss(z.log_softmax(-1), [[1], [], []], [4, 2, 0], reduction="none")
    assert loss[2] == 0 and (loss[:2] > 0).all()
    assert torch.autograd.grad(loss.sum(), z)[0].isfinite().all()
