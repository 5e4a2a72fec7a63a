"""Modules of torch.nn become ours and go back."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import companion

from .helpers import D, H, assert_close, flat_state, randn

OURS = {n: getattr(companion, n) for n in ("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell")}
MODULES = [
    (nn.RNN, {"nonlinearity": "relu", "bias": False}),
    (nn.RNN, {"num_layers": 2, "batch_first": True}),
    (nn.LSTM, {"num_layers": 2, "dropout": 0.3, "bidirectional": True, "proj_size": 2}),
    (nn.LSTM, {}),
    (nn.GRU, {"num_layers": 3, "dropout": 0.1, "batch_first": True}),
    (nn.RNNCell, {"nonlinearity": "relu"}),
    (nn.LSTMCell, {"bias": False}),
    (nn.GRUCell, {}),
]


@pytest.mark.parametrize("kind, options", MODULES, ids=lambda v: getattr(v, "__name__", ""))
def test_there_and_back(kind, options):
    theirs = kind(D, H, dtype=torch.float64, **options).eval()
    first = next(iter(theirs.parameters())).requires_grad_(False)
    drawn = torch.get_rng_state()
    ours = companion.from_torch(theirs)
    back = companion.to_torch(ours)
    assert torch.equal(torch.get_rng_state(), drawn)  # nothing was drawn
    assert type(ours) is OURS[kind.__name__] and type(back) is kind
    assert repr(ours) == repr(theirs) == repr(back)
    x = randn(5, 2, D) if isinstance(theirs, nn.RNNBase) else randn(5, D)
    for other in (ours, back):
        for a, b in zip(_flat(theirs(x)), _flat(other(x)), strict=True):
            assert_close(a, b)
        assert not other.training
        assert [p.requires_grad for p in other.parameters()] == [
            p.requires_grad for p in theirs.parameters()
        ]
    with torch.no_grad():
        first += 1  # a copy, not the same weights
    assert not torch.equal(first, next(iter(ours.parameters())))
    if options.get("dropout"):
        assert ours.dropout == back.dropout == options["dropout"]


def _flat(value):
    if isinstance(value, torch.Tensor):
        return (value,)
    return tuple(t for part in value for t in flat_state(part))


def test_of_a_parametrized_weight_the_value_is_taken():
    layer = companion.weight_drop(companion.LSTM(D, H), 0.5).eval()
    theirs = companion.to_torch(layer)
    x = torch.randn(5, 2, D)
    assert_close(theirs(x)[0], layer(x)[0], 1e-6)
    normed = torch.nn.utils.parametrizations.weight_norm(nn.GRUCell(D, H), "weight_hh")
    h = torch.randn(2, H)
    assert_close(companion.from_torch(normed)(x[0], h), normed(x[0], h), 1e-6)


def test_tied_weights_are_copied_apart():
    theirs = nn.LSTM(H, H, 2)
    theirs.weight_hh_l1 = theirs.weight_hh_l0
    x = torch.randn(5, 2, H)
    ours = companion.from_torch(theirs)
    assert_close(ours(x)[0], theirs(x)[0], 1e-6)
    ours.weight_hh_l1 = ours.weight_hh_l0
    assert_close(companion.to_torch(ours)(x)[0], theirs(x)[0], 1e-6)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_of_a_weight_that_a_hook_computes_the_value_is_taken():
    pruned, normed = nn.LSTM(D, H), nn.LSTM(D, H)
    prune.l1_unstructured(pruned, "weight_hh_l0", 0.5)
    nn.utils.weight_norm(normed, "weight_hh_l0")
    for theirs in (pruned, normed):
        x = torch.randn(5, 2, D)
        assert_close(companion.from_torch(theirs)(x)[0], theirs(x)[0], 1e-6)


def test_no_random_mask_is_frozen_in():
    layer = companion.weight_drop(companion.LSTM(D, H), 0.5).train()
    theirs = companion.to_torch(layer)
    raw = layer.parametrizations.weight_hh_l0.original
    assert torch.equal(theirs.weight_hh_l0, raw) and theirs.training and layer.training
    assert theirs.weight_hh_l0.requires_grad


@pytest.mark.parametrize(
    "layer, option",
    [
        (companion.LSTM(D, H, peephole=True), "peephole"),
        (companion.LSTM(D, H, coupled=True), "coupled"),
        (companion.LSTM(D, H, layer_norm=True), "layer_norm"),
        (companion.LSTM(D, H, forget_gate=False), "forget_gate"),
        (companion.LSTM(D, H, recurrent_dropout=0.5), "recurrent_dropout"),
        (companion.GRU(D, H, reset_after=False), "reset_after"),
        (companion.RNN(D, H, zoneout=0.5), "zoneout"),
        (companion.LSTMCell(D, H, proj_size=2), "proj_size"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_torch_lacks_is_named(layer, option):
    with pytest.raises(ValueError, match=f"layer: torch.nn.* has no {option}="):
        companion.to_torch(layer)


def test_other_modules_are_refused():
    with pytest.raises(TypeError, match="module: expected one of torch's RNN, .*got Linear"):
        companion.from_torch(nn.Linear(D, H))
    with pytest.raises(TypeError, match="layer: expected one of companion's RNN, .*got LSTM"):
        companion.to_torch(nn.LSTM(D, H))
    with pytest.raises(TypeError, match="got Recurrence"):
        companion.to_torch(companion.Recurrence("rnn", D, H))
