"""LSTM and GRU options against direct transcriptions of their papers' equations."""

from __future__ import annotations

import math

import pytest
import torch

import companion
from companion import GRUCell, LSTMCell, convert_gates
from companion.cells import flat_state

from ..helpers import assert_close, randn, wave

D, H, B = 3, 4, 2


def layer_norm(a, gain, bias=0.0):
    centered = a - a.mean(-1, keepdim=True)
    return gain * centered / (centered.square().mean(-1, keepdim=True) + 1e-5).sqrt() + bias


def lstm(cell, x, h, c, peephole=False, coupled=False, layer_norm_=False, forget=True, proj=False):
    """One step, one gate at a time."""
    names = "fgo" if coupled else "ifgo" if forget else "igo"
    zero = torch.zeros(len(names) * H).double()
    b = zero if cell.bias_ih is None else cell.bias_ih + cell.bias_hh
    w_x, w_h = x @ cell.weight_ih.T, h @ cell.weight_hh.T
    if layer_norm_:
        w_x, w_h = layer_norm(w_x, cell.norm_ih), layer_norm(w_h, cell.norm_hh)
    a = dict(zip(names, (w_x + w_h + b).split(H, 1), strict=True))
    sees = (
        dict(zip([n for n in names if n != "g"], cell.weight_ch, strict=True)) if peephole else {}
    )
    f = torch.sigmoid(a["f"] + sees.get("f", 0) * c) if forget else torch.ones_like(c)
    i = 1 - f if coupled else torch.sigmoid(a["i"] + sees.get("i", 0) * c)
    c = f * c + i * torch.tanh(a["g"])
    o = torch.sigmoid(a["o"] + sees.get("o", 0) * c)  # sees the new c
    h = o * torch.tanh(layer_norm(c, *cell.norm_c) if layer_norm_ else c)
    return (h @ cell.weight_hr.T if proj else h), c


OPTIONS = [
    {},
    {"bias": False},
    {"peephole": True},
    {"coupled": True},
    {"coupled": True, "peephole": True},
    {"forget_gate": False},
    {"forget_gate": False, "peephole": True},
    {"layer_norm": True},
    {"proj_size": 2},
    {"peephole": True, "coupled": True, "layer_norm": True, "proj_size": 2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_lstm_options_are_their_equations(options):
    torch.manual_seed(0)
    cell = LSTMCell(D, H, dtype=torch.float64, **options)
    with torch.no_grad():
        for p in cell.parameters():
            p.copy_(torch.randn_like(p))
    x, state = randn(5, B, D), (randn(B, cell.output_size), randn(B, H))
    switches = {
        "peephole": cell.peephole,
        "coupled": cell.coupled,
        "layer_norm_": cell.layer_norm,
        "forget": cell.forget_gate,
        "proj": bool(cell.proj_size),
    }
    found = []
    for step in (lambda x, s: cell.step(x, s)[1], lambda x, s: lstm(cell, x, *s, **switches)):
        s = state
        for x_t in x:
            s = step(x_t, s)
        found.append((*s, *torch.autograd.grad(wave(*s), list(cell.parameters()))))
    assert_close(*found, 1e-10)


@pytest.mark.parametrize("reset_after", [True, False])
def test_gru_dialects_are_their_equations(reset_after):
    torch.manual_seed(0)
    cell = GRUCell(D, H, dtype=torch.float64, reset_after=reset_after)
    x, h = randn(B, D), randn(B, H)
    W_r, W_z, W_n = cell.weight_ih.split(H)
    U_r, U_z, U_n = cell.weight_hh.split(H)
    b_r, b_z, b_n = cell.bias_ih.split(H)
    d_r, d_z, d_n = cell.bias_hh.split(H)
    r = torch.sigmoid(x @ W_r.T + b_r + h @ U_r.T + d_r)
    z = torch.sigmoid(x @ W_z.T + b_z + h @ U_z.T + d_z)
    inner = r * (h @ U_n.T + d_n) if reset_after else (r * h) @ U_n.T + d_n
    want = (1 - z) * torch.tanh(x @ W_n.T + b_n + inner) + z * h
    assert_close(cell(x, h), want, 1e-14)


def test_forget_bias_stands_in_one_vector():
    for options in ({}, {"coupled": True}):
        lstm = companion.LSTM(D, H, 2, bidirectional=True, forget_bias=3.0, **options)
        at = slice(0, H) if options else slice(H, 2 * H)
        for k, end in [(k, e) for k in (0, 1) for e in ("", "_reverse")]:
            assert (getattr(lstm, f"bias_ih_l{k}{end}")[at] == 3).all()
            assert (getattr(lstm, f"bias_hh_l{k}{end}")[at] == 0).all()
        lstm.reset_parameters()
        assert (lstm.bias_ih_l0[at] == 3).all()


def test_recurrent_init_acts_on_each_gate():
    for layer in (
        companion.LSTM(D, H, recurrent_init="orthogonal"),
        companion.GRU(D, H, recurrent_init="orthogonal"),
    ):
        for block in layer.weight_hh_l0.detach().split(H):
            torch.testing.assert_close(block @ block.T, torch.eye(H))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"proj_size": H}, "proj_size: expected less than 4, got 4"),
        ({"proj_size": -1}, "proj_size: expected at least 0"),
        ({"coupled": True, "forget_gate": False}, "coupled: expected False"),
        ({"forget_bias": 1.0, "forget_gate": False}, "forget_bias: expected None"),
        ({"forget_bias": 1.0, "bias": False}, "forget_bias: expected None"),
    ],
)
def test_options_that_exclude_each_other(options, message):
    with pytest.raises(ValueError, match=message):
        companion.LSTM(D, H, **options)


@pytest.mark.parametrize("options", OPTIONS[2:], ids=str)
def test_a_layer_with_options_runs_on_ragged_rows(options):
    torch.manual_seed(0)
    layer = companion.LSTM(
        D, H, 2, batch_first=True, bidirectional=True, dtype=torch.float64, **options
    )
    x = randn(3, 6, D)
    y, final = layer(x, lengths=[6, 0, 3])
    for b, n in ((0, 6), (2, 3)):
        y_b, final_b = layer(x[b : b + 1, :n], form="loop")
        assert_close(y[b : b + 1, :n], y_b)
        assert_close(tuple(s[:, b : b + 1] for s in flat_state(final)), flat_state(final_b))


def test_gate_orders_there_and_back():
    for cell, n in (("lstm", 4), ("gru", 3)):
        w = torch.randn(n * 2, 5)
        for a in ("torch", "keras", "onnx"):
            for b in ("torch", "keras", "onnx"):
                there = convert_gates(w, cell, a, b)
                assert torch.equal(convert_gates(there, cell, b, a), w)
                assert torch.equal(convert_gates(w.T, cell, a, b, dim=1), there.T)
    w = torch.arange(4)
    assert convert_gates(w, "lstm", "torch", "onnx").tolist() == [0, 3, 1, 2]  # i o f g
    assert convert_gates(w, "lstm", "torch", "keras").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("rnn", "torch", "onnx"), "cell: expected one of"),
        (("gru", "jax", "onnx"), "source: expected one of"),
        (("gru", "torch", "jax"), "target: expected one of"),
        (("lstm", "torch", "onnx"), "w: expected 4 equal blocks in dimension 0, got 6"),
        (("gru", "torch", "onnx", 1), "dim: expected a dimension of w"),
    ],
)
def test_gate_orders_name_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        convert_gates(torch.zeros(6), *arguments)


# ---------------------------------------------------------------- chrono initialization


def test_chrono_draws_memories_of_one_to_the_longest_lag():
    torch.manual_seed(0)
    n, longest = 1000, 50
    lstm = companion.LSTM(D, n, num_layers=2, bidirectional=True, chrono=longest)
    for end in ("_l0", "_l1_reverse"):
        i, f, _, _ = getattr(lstm, "bias_ih" + end).detach().split(n)
        other_i, other_f, _, _ = getattr(lstm, "bias_hh" + end).detach().split(n)
        lag = f.exp()  # log U(1, T − 1)
        assert 0.999 < lag.min() and lag.max() < longest - 0.999
        assert abs(lag.mean() - longest / 2) < 2 and abs(lag.std() - (longest - 2) / 12**0.5) < 1.5
        assert torch.equal(i, -f) and not other_i.any() and not other_f.any()
    gru = companion.GRU(D, n, chrono=longest)
    r, z, _ = gru.bias_ih_l0.detach().split(n)
    lag = z.exp()
    assert 0.999 < lag.min() and lag.max() < longest - 0.999 and abs(lag.mean() - longest / 2) < 2
    assert not gru.bias_hh_l0.detach().split(n)[1].any() and r.abs().max() <= n**-0.5
    coupled = companion.LSTM(D, n, coupled=True, chrono=longest).bias_ih_l0.detach()[:n]
    assert 0 <= coupled.min() and coupled.max() <= math.log(longest - 1) + 1e-6


def test_chrono_must_make_sense():
    for make, options, message in [
        (
            companion.LSTM,
            {"chrono": 2},
            "chrono: expected more than 2 steps, got 2",
        ),
        (companion.GRU, {"chrono": math.inf}, "chrono: expected a finite number"),
        (companion.LSTM, {"chrono": 9, "forget_bias": 1.0}, "chrono: expected None where forget"),
        (companion.LSTM, {"chrono": 9, "bias": False}, "chrono: expected None"),
        (companion.LSTM, {"chrono": 9, "forget_gate": False}, "chrono: expected None"),
        (companion.GRU, {"chrono": 9, "bias": False}, "chrono: expected None where there is no"),
    ]:
        with pytest.raises(ValueError, match=message):
            make(D, H, **options)
    with pytest.raises(TypeError, match="chrono: expected a number, got str"):
        companion.GRU(D, H, chrono="long")
