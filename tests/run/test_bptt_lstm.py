"""The derived backward of the LSTM under every combination of its options."""

from __future__ import annotations

import contextlib
import itertools
import math

import pytest
import torch

import companion
from companion.run import bptt, bptt_lstm, bptt_lstm_options, products
from companion.run.packed import alive, before, last, previous

from ..helpers import assert_close, randn, wave

D, H = 3, 4
CHOICES = {
    "peephole": [False, True],
    "coupled": [False, True],
    "layer_norm": [False, True],
    "proj_size": [0, 2],
    "forget_gate": [True, False],
}
EVERY = [
    {name: value for name, value in zip(CHOICES, values, strict=True) if value != CHOICES[name][0]}
    for values in itertools.product(*CHOICES.values())
    if values[1] is False or values[4] is True  # i = 1 - f needs f
]
every_option = pytest.mark.parametrize("options", EVERY, ids=lambda o: "+".join(o) or "plain")
FEW = [
    {},
    {"peephole": True},
    {"coupled": True},
    {"layer_norm": True},
    {"peephole": True, "layer_norm": True, "proj_size": 2, "forget_gate": False},
]
few_options = pytest.mark.parametrize("options", FEW, ids=lambda o: "+".join(o) or "plain")


def lstm(D=D, H=H, num_layers=1, **options):
    """Weights so large that every gate bends, and gains that are not 1."""
    torch.manual_seed(0)
    layer = companion.LSTM(D, H, num_layers, **{"dtype": torch.float64, **options})
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.randn_like(p))
    return layer


def outputs_and_gradients(layer, x, state, form, **arguments):
    y, final = layer(x, state, form=form, **arguments)
    wanted = [x, *state, *layer.parameters()]
    return (y, *final, *torch.autograd.grad(wave(y, *final), wanted))


@every_option
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("T", [1, 2, 7, 33])
def test_equals_autograd_to_1e_10(options, bias, T):
    layer = lstm(num_layers=2, bias=bias, batch_first=True, bidirectional=True, **options)
    x = randn(4, T, D).requires_grad_()
    state = tuple(torch.randn_like(s).requires_grad_() for s in layer.initial_state(4))
    for arguments in (
        {},
        {"lengths": [0, T, T // 2, max(T - 1, 1)]},
        {"reset": torch.rand(4, T) < 0.3},
    ):
        loop, derived = (
            outputs_and_gradients(layer, x, state, form, **arguments) for form in ("loop", "bptt")
        )
        for a, b in zip(loop, derived, strict=True):
            assert_close(a, b, 1e-10 * max(1.0, a.abs().max().item()))


def test_there_are_24_combinations_and_the_plain_one_keeps_its_rule():
    assert len(EVERY) == 24
    for options in EVERY:
        rule = bptt.rule_of(lstm(**options).cell(0))
        assert (rule.forward is bptt_lstm.forward) == (not options)
        normed = rule.prepare is bptt_lstm_options.prepare_norm
        assert normed == ("layer_norm" in options)


def test_a_subclass_runs_the_loop():
    class Mine(companion.LSTMCell):
        pass

    layer = companion.Recurrence(Mine, D, H, peephole=True)
    with pytest.raises(ValueError, match="no backward is derived for Mine"):
        layer(torch.randn(2, 5, D), form="bptt")


@few_options
def test_gradgradcheck(options):
    layer = lstm(2, 3, bidirectional=True, batch_first=True, **options)
    x = randn(2, 3, 2).requires_grad_()
    state = tuple(torch.randn_like(s).requires_grad_() for s in layer.initial_state(2))
    names = [n for n, _ in layer.named_parameters()]
    weights = [p.detach().requires_grad_() for p in layer.parameters()]

    def run(x, h, c, *weights):
        named = dict(zip(names, weights, strict=True))
        arguments = {"lengths": [2, 3], "form": "bptt"}
        y, final = torch.func.functional_call(layer, named, (x, (h, c)), arguments)
        return (y, *final)

    assert torch.autograd.gradcheck(run, (x, *state, *weights))
    assert torch.autograd.gradgradcheck(run, (x, *state, *weights))


@every_option
def test_backward_twice_leaves_its_tape_alone(options):
    layer, x = lstm(**options), randn(5, 2, D).requires_grad_()
    y = layer(x)[0]
    first, second = (
        torch.autograd.grad(wave(y), [x, *layer.parameters()], retain_graph=True) for _ in range(2)
    )
    assert_close(first, second, 0)


@every_option
def test_no_rows_and_no_steps(options):
    layer = lstm(**options)
    for T, B in ((3, 0), (0, 2), (0, 0)):
        y, final = layer(torch.empty(T, B, D, dtype=torch.float64))
        assert y.shape == (T, B, layer.output_size)
        assert_close(final, layer.initial_state(B), 0)
        for g in torch.autograd.grad(wave(y, *final), list(layer.parameters())):
            assert (g == 0).all()


@few_options
def test_weights_alone_may_want_a_gradient_and_so_may_the_input_alone(options):
    layer, x = lstm(**options), randn(5, 2, D)
    everything = torch.autograd.grad(wave(layer(x.requires_grad_())[0]), [x, *layer.parameters()])
    alone = torch.autograd.grad(wave(layer(x.detach())[0]), list(layer.parameters()))
    assert_close(alone, everything[1:], 0)
    layer.requires_grad_(False)
    assert_close(torch.autograd.grad(wave(layer(x)[0]), x)[0], everything[0], 0)


@pytest.mark.parametrize(
    "options",
    [{}, {"peephole": True}, {"coupled": True, "proj_size": 120}, {"layer_norm": True}],
    ids=lambda o: "+".join(o) or "plain",
)
def test_float32_at_a_size_where_onednn_takes_over(options):
    layer, x = lstm(128, 136, dtype=torch.float32, **options), torch.randn(3, 64, 128)
    layer.reset_parameters()
    state = tuple(torch.randn_like(s).requires_grad_() for s in layer.initial_state(64))
    assert 64 * layer.weight_hh_l0.numel() >= products.WORTH
    x.requires_grad_()
    loop, derived = (outputs_and_gradients(layer, x, state, f) for f in ("loop", "bptt"))
    for a, b in zip(loop, derived, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-5 * max(1, a.abs().max().item()))


@few_options
def test_without_the_private_guard_the_values_stay(options, monkeypatch):
    layer, x = lstm(**options), randn(5, 2, D)
    found = []
    for _ in range(2):
        y = layer(x)[0]
        found.append((y, *torch.autograd.grad(wave(y), list(layer.parameters()))))
        monkeypatch.setattr(bptt, "below_autograd", contextlib.nullcontext)
    assert_close(*found, 0)


@few_options
def test_saturated_gates(options):
    layer, x = lstm(**options), 1e4 * randn(5, 2, D)
    x.requires_grad_()
    state = tuple(s.requires_grad_() for s in layer.initial_state(2))
    loop, derived = (outputs_and_gradients(layer, x, state, f) for f in ("loop", "bptt"))
    for a, b in zip(loop, derived, strict=True):
        assert b.isfinite().all()
        assert_close(a, b, 1e-10 * max(1.0, a.abs().max().item()))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [9, 5000])
def test_both_ways_to_the_tanh(n, dtype):
    values = [0.0, 1e-30, 1e-9, 1e-3, 0.5, -2.0, 20.0, -800.0, math.inf, -math.inf]
    a = torch.tensor(values * n, dtype=dtype)
    wanted = a.double().tanh()
    out = torch.empty_like(a)
    assert products.tanh_into(out, a) is out
    close = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 0}
    torch.testing.assert_close(out.double(), wanted, **close)
    torch.testing.assert_close(products.tanh_into(a, a).double(), wanted, **close)  # in place
    assert products.tanh_into(out, torch.full_like(a, math.nan)).isnan().all()


@pytest.mark.parametrize("sizes", [[3, 3, 3], [3, 2, 2, 1], [2], [2, 2], [3, 0], [0, 0]])
@pytest.mark.parametrize("S", [3, 4])
def test_what_stands_before_every_step(sizes, S):
    """By hand, for three or four sequences of which some have no step."""
    first, rows = randn(S, 2), randn(sum(sizes), 2)
    pieces = rows.split(sizes)
    expected = [first[: sizes[0]]]
    expected += [piece[:n] for piece, n in zip(pieces, sizes[1:], strict=False)]
    for got, want in zip(previous(first, pieces, sizes), expected, strict=True):
        assert torch.equal(got, want)
    assert torch.equal(before(first, rows, sizes), torch.cat(expected))
    buffer = torch.empty_like(rows)
    assert before(first, rows, sizes, out=buffer) is buffer
    assert torch.equal(buffer, torch.cat(expected))
    assert [p.shape[0] for p in alive(first, sizes)] == sizes
    assert all(torch.equal(p, first[: len(p)]) for p in alive(first, sizes))
    ends = first.clone()
    for piece in pieces:
        ends[: len(piece)] = piece
    assert torch.equal(last(first, pieces, sizes), ends)
