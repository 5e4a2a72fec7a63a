"""The clockwork network against a direct transcription of Koutník et al. (2014)."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils import parametrize

import companion
from companion import ClockworkRNNCell
from companion.run import bptt_clockwork

from ..helpers import assert_close, randn, wave

D, B = 3, 2


def transcription(layer, x, h, time, periods):
    """y_t = tanh(W_H y_{t-1} + W_I x_t) in the block-rows with t mod T_i = 0; the rest is kept.

    W_H is put together from its blocks first: block-upper-triangular, groups by rising period.
    """
    H = h.shape[1]
    n = H // len(periods)
    rows = []
    for i in range(len(periods)):
        block = getattr(layer, f"weight_hh{i}_l0")
        rows.append(torch.cat([torch.zeros(n, i * n, dtype=x.dtype), block], 1))
    W_H, outputs = torch.cat(rows), []
    for s, x_t in enumerate(x.unbind(1)):
        a = torch.tanh(h @ W_H.T + x_t @ layer.weight_ih_l0.T + layer.bias_ih_l0)
        moves = torch.tensor(
            [[(t + s) % periods[k // n] == 0 for k in range(H)] for t in time], dtype=torch.bool
        ).view(len(time), H)
        h = torch.where(moves, a, h)
        outputs.append(h)
    return torch.stack(outputs, 1), h


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33])
@pytest.mark.parametrize("form", ["loop", "bptt"])
@pytest.mark.parametrize("periods", [(1,), (3,), (1, 2), (2, 3), (1, 2, 4, 8), (1, 4, 6)], ids=str)
@pytest.mark.parametrize("time", [(0, 0), (5, 5), (1, 6), (-3, 2)], ids=str)
def test_it_is_its_equations(T, form, periods, time):
    torch.manual_seed(T)
    H = 2 * len(periods)
    layer = companion.ClockworkRNN(D, H, periods=periods, dtype=torch.float64)
    x, h0 = randn(B, T, D).requires_grad_(), randn(1, B, H).requires_grad_()
    clock = torch.tensor(time, dtype=torch.float64).view(1, B, 1)
    y, (h, after) = layer(x, (h0, clock), form=form)
    z, g = transcription(layer, x, h0[0], time, periods)
    assert_close((y, h[0]), (z, g), 1e-10)
    cycle = next(n for n in range(1, 100) if all(n % p == 0 for p in periods))
    assert after.flatten().tolist() == [(t + T) % cycle for t in time]
    wanted = [x, h0, *layer.parameters()]
    want = torch.autograd.grad(wave(z, g), wanted, allow_unused=True)
    assert_close(
        torch.autograd.grad(wave(y, h), wanted),
        tuple(torch.zeros_like(w) if v is None else v for v, w in zip(want, wanted, strict=True)),
        1e-10,
    )


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33])
@pytest.mark.parametrize("kind", ["whole", "lengths", "reset"])
@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("periods", [(1, 2, 4, 8), (2, 3)])
def test_one_clock_for_all_is_the_loop(T, kind, start, periods):
    """The states of the contract are random, and so are its clocks: here all rows share one."""
    torch.manual_seed(T)
    layer = companion.ClockworkRNN(
        D, 8, 2, periods=periods, bidirectional=True, dtype=torch.float64
    )
    x, h0 = randn(4, T, D).requires_grad_(), randn(4, 4, 8).requires_grad_()
    clock = torch.full((4, 4, 1), float(start), dtype=torch.float64, requires_grad=True)
    options = {}
    if kind == "lengths":
        options["lengths"] = torch.tensor([0, T, T // 2, max(T - 1, 1)])
    if kind == "reset" and not start:
        options["reset"] = torch.rand(4, T) < 0.2
    found = []
    for form in ("loop", "bptt"):
        y, final = layer(x, (h0, clock), form=form, **options)
        wanted = [x, h0, clock, *layer.parameters()]
        found.append((y, *final, *torch.autograd.grad(wave(y, *final), wanted)))
    assert_close(*found, 1e-10)
    assert all(bptt_clockwork.starts(layer.cell(0), (h0[0], c)) for c in clock)


def test_the_derived_backward_is_what_runs_from_the_initial_state():
    layer, x = companion.ClockworkRNN(D, 8), torch.randn(B, 5, D)
    y, _ = layer(x)
    names, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        names.add(node.name())
        todo += [n for n, _ in node.next_functions if n is not None]
    assert "BPTTBackward" in names and "TanhBackward0" not in names
    mixed = torch.zeros(1, B, 8), torch.tensor([[[0.0], [1.0]]])
    assert not bptt_clockwork.starts(layer.cell(0), tuple(s[0] for s in mixed))
    layer(x, mixed, form="bptt")  # by the loop


def test_second_derivatives_with_one_clock():
    layer = companion.ClockworkRNN(D, 8, periods=(1, 2), dtype=torch.float64)
    x, found = randn(B, 5, D).requires_grad_(), []
    for form in ("loop", "bptt"):
        y, (h, _) = layer(x, lengths=[5, 3], form=form)
        grads = torch.autograd.grad(wave(y, h), [x, *layer.parameters()], create_graph=True)
        norm = sum(g.square().sum() for g in grads)
        found.append(torch.autograd.grad(norm, [x, *layer.parameters()]))
    assert_close(*found)


def test_groups_move_when_their_period_divides_the_time():
    layer = companion.ClockworkRNN(D, 8)
    y, _ = layer(torch.randn(1, 17, D))
    moved = (y[0, 1:] != y[0, :-1]).view(16, 4, 2).all(-1)
    for i, period in enumerate((1, 2, 4, 8)):
        assert moved[:, i].tolist() == [t % period == 0 for t in range(1, 17)]
    assert (y[0, 0] != 0).all()  # all groups move at the first step


def test_a_group_hears_itself_and_the_slower_ones():
    layer = companion.ClockworkRNN(D, 8, dtype=torch.float64)
    clock = torch.zeros(1, 1, 1, dtype=torch.float64)
    J = torch.autograd.functional.jacobian(
        lambda h: layer(torch.zeros(1, 1, D).double(), (h, clock))[1][0].flatten(), randn(1, 1, 8)
    ).view(4, 2, 4, 2)
    heard = (J != 0).permute(0, 2, 1, 3).flatten(2).all(-1)
    assert heard.tolist() == [[j >= i for j in range(4)] for i in range(4)]
    assert (J.permute(0, 2, 1, 3)[~heard] == 0).all()
    # no weight is stored that is never used: of 8 · 8, those on and above the block diagonal
    assert sum(p.numel() for n, p in layer.named_parameters() if "hh" in n) == 2 * (8 + 6 + 4 + 2)


def test_the_gradient_passes_a_resting_group_unchanged():
    layer = companion.ClockworkRNN(D, 4, periods=(1, 8), dtype=torch.float64)
    clock = torch.ones(1, 1, 1, dtype=torch.float64)
    h0 = randn(1, 1, 4).requires_grad_()
    for form in ("loop", "bptt"):
        y, _ = layer(randn(1, 7, D), (h0, clock), form=form)  # times 1 to 7: group 1 rests
        (gradient,) = torch.autograd.grad(y[0, -1, 2:].sum(), h0)
        assert gradient.flatten().tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("form", ["loop", "bptt"])
def test_parametrized_blocks(form):
    class Half(torch.nn.Module):
        def forward(self, w):
            return w / 2

    layer = companion.ClockworkRNN(D, 8, dtype=torch.float64)
    plain = companion.ClockworkRNN(D, 8, dtype=torch.float64)
    plain.load_state_dict(layer.state_dict())
    for i in range(4):
        parametrize.register_parametrization(layer, f"weight_hh{i}_l0", Half())
        with torch.no_grad():
            getattr(plain, f"weight_hh{i}_l0").div_(2)
    x = randn(B, 17, D)
    y, z = layer(x, form=form)[0], plain(x, form="loop")[0]
    assert_close(y, z)
    wave(y).backward()
    wave(z).backward()
    for i in range(4):
        original = layer.parametrizations[f"weight_hh{i}_l0"].original
        assert_close(2 * original.grad, getattr(plain, f"weight_hh{i}_l0").grad)


def test_a_dtype_that_cannot_count_the_cycle_is_named():
    cell = ClockworkRNNCell(D, 4, periods=(1, 257), dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="multiple of at most 256, to which torch.bfloat16.* 257"):
        cell(torch.zeros(1, D, dtype=torch.bfloat16))
    layer = companion.ClockworkRNN(D, 4, periods=(1, 2**24 + 1))
    with pytest.raises(ValueError, match="at most 16777216, to which torch.float32 counts"):
        layer(torch.zeros(1, 2, D))
    time = torch.full((1, 1), 255.0, dtype=torch.bfloat16)
    cell = ClockworkRNNCell(D, 4, periods=(1, 256), dtype=torch.bfloat16)
    _, time = cell(torch.zeros(1, D, dtype=torch.bfloat16), (time.new_zeros(1, 4), time))
    assert time.item() == 0


@pytest.mark.parametrize(
    "H, periods, kind, message",
    [
        (6, (1, 2, 4, 8), ValueError, "hidden_size: expected a multiple of 4.*got 6"),
        (4, (), ValueError, "periods: expected increasing numbers from 1"),
        (4, (0, 1), ValueError, "periods: expected increasing numbers from 1"),
        (4, (2, 1), ValueError, r"periods: expected increasing .*got \(2, 1\)"),
        (4, (1, 1), ValueError, "periods: expected increasing"),
        (4, (1, 2.0), TypeError, "periods: expected a list of whole numbers"),
        (4, 2, TypeError, "periods: expected a list of whole numbers, got 2"),
        (4, (True, 2), TypeError, "periods: expected a list of whole numbers"),
    ],
)
def test_options_are_checked(H, periods, kind, message):
    with pytest.raises(kind, match=message):
        companion.ClockworkRNN(D, H, periods=periods)


def test_what_it_prints():
    assert repr(ClockworkRNNCell(3, 4)) == "ClockworkRNNCell(3, 4)"
    text = repr(ClockworkRNNCell(3, 4, False, periods=[1, 2]))
    assert text == "ClockworkRNNCell(3, 4, bias=False, periods=(1, 2))"
