"""The selective scan that keeps no states: equal to a scan that keeps them all."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import companion
from companion.cells.linear import select
from companion.run import selective
from companion.run.scan import scan_steps

plain = partial(select, scan_steps)


def given(T, S, V, N, dtype=torch.float64):
    """dt, A, B, C, x, h0, of which each wants a gradient."""
    torch.manual_seed(T + S + V + N)
    shapes = [(T, S, V), (V, N), (T, S, N), (T, S, N), (T, S, V), (S, V, N)]
    dt, A, *rest = (torch.randn(shape, dtype=dtype) for shape in shapes)
    return [t.requires_grad_() for t in (dt.detach().abs(), -A.detach().abs(), *rest)]


def test_three_steps_by_hand():
    """One channel, one number of state: h = e^{-1} h + dt x B, y = C h."""
    dt, x = torch.ones(3, 1, 1), torch.tensor([1.0, 0.0, 2.0]).view(3, 1, 1)
    B, C = torch.full((3, 1, 1), 3.0), torch.full((3, 1, 1), 10.0)
    y, h = selective.Selective.apply(dt, -torch.ones(1, 1), B, C, x, torch.full((1, 1, 1), 2.0))
    e = torch.tensor(-1.0).exp()
    first = 2 * e + 3
    expected = torch.stack([first, first * e, first * e * e + 6])
    torch.testing.assert_close(y.flatten(), 10 * expected)
    torch.testing.assert_close(h.flatten(), expected[-1:])


@pytest.mark.parametrize("live", [1, 40, 2**18])  # blocks of one step, of some, of all
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (7, 2, 3, 4), (130, 1, 2, 3)])
def test_equal_to_a_scan_that_keeps_all_states(monkeypatch, live, shape):
    monkeypatch.setattr(selective, "LIVE", live)
    monkeypatch.setattr(selective, "LEAST", 1)
    inputs = given(*shape)
    found, expected = selective.Selective.apply(*inputs), plain(*inputs)
    torch.testing.assert_close(found, expected)
    weights = [torch.randn_like(t) for t in expected]
    torch.testing.assert_close(
        torch.autograd.grad(found, inputs, weights),
        torch.autograd.grad(expected, inputs, weights),
    )


def test_gradients_and_their_gradients(monkeypatch):
    monkeypatch.setattr(selective, "LIVE", 12)
    monkeypatch.setattr(selective, "LEAST", 1)
    inputs = given(5, 1, 2, 3)
    assert torch.autograd.gradcheck(selective.Selective.apply, inputs)
    assert torch.autograd.gradgradcheck(selective.Selective.apply, inputs)
    assert torch.autograd.gradcheck(selective.Selective.apply, inputs, check_batched_grad=True)


@pytest.mark.parametrize("run", [selective.Selective.apply, plain])
def test_one_input_may_depend_on_another(run):
    """x is counted once where dt, B and C are made of it: with and without a graph, in batches."""
    _, A, _, _, x, h0 = given(6, 2, 3, 3)
    y, _ = run(x.square(), A, x, x.cos(), x, h0)
    d = torch.randn(4, *y.shape, dtype=y.dtype)
    single = [torch.autograd.grad(y, (x, A), one, retain_graph=True) for one in d]
    for part, expected in zip(
        torch.autograd.grad(y, (x, A), d[0], create_graph=True), single[0], strict=True
    ):
        torch.testing.assert_close(part, expected)
    expected = torch.stack([dx for dx, _ in single])
    step = 1e-6  # of a difference of values, which no graph can count twice
    with torch.no_grad():
        more, less = (
            (run(z.square(), A, z, z.cos(), z, h0)[0] * d[0]).sum()
            for z in (x + step * d[0], x - step * d[0])
        )
    torch.testing.assert_close((more - less) / (2 * step), (expected[0] * d[0]).sum())
    for batched in (
        torch.autograd.grad(y, x, d, is_grads_batched=True, retain_graph=True)[0],
        torch.func.vmap(lambda one: torch.autograd.grad(y, x, one, retain_graph=True)[0])(d),
    ):
        torch.testing.assert_close(batched, expected)


def test_make_fx_of_a_backward_alone_takes_other_values():
    inputs = given(60, 1, 2, 3)
    y, h = selective.Selective.apply(*inputs)

    def backward(dy):
        return torch.autograd.grad((y, h), inputs, (dy, torch.ones_like(h)), retain_graph=True)

    graph = make_fx(backward)(torch.zeros_like(y.detach()))
    dy = torch.randn_like(y.detach())
    torch.testing.assert_close(graph(dy), backward(dy))


def test_only_some_are_wanted_and_only_one_is_used():
    """As in a layer that is frozen, or of which the last state alone counts."""
    dt, A, B, C, x, h0 = given(9, 2, 3, 4)
    y, h = selective.Selective.apply(dt.detach(), A, B.detach(), C, x, h0)
    for part, other in zip((y, h), plain(dt.detach(), A, B.detach(), C, x, h0), strict=True):
        found = torch.autograd.grad(
            part.square().sum(), (A, x), retain_graph=True, create_graph=True
        )
        expected = torch.autograd.grad(other.square().sum(), (A, x), retain_graph=True)
        torch.testing.assert_close(found, expected)


def test_a_decay_to_nothing_and_a_growth_are_exact():
    dt, A, B, C, x, h0 = (t.detach() for t in given(60, 1, 2, 3, torch.float32))
    for rates in (A * 1e30, -A):
        found, expected = selective.Selective.apply(dt, rates, B, C, x, h0), []
        h = h0
        for t in range(len(dt)):
            h = (dt[t].unsqueeze(-1) * rates).exp() * h
            h = h + (dt[t] * x[t]).unsqueeze(-1) * B[t].unsqueeze(-2)
            expected.append((h * C[t].unsqueeze(-2)).sum(-1))
        torch.testing.assert_close(found[0], torch.stack(expected), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(found[1], h, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("live", [1, 2**18])  # too wide for the cache, and not
def test_mamba_keeps_no_states(monkeypatch, live):
    """What autograd keeps, of all tensors together, is less than two thirds of all states."""
    monkeypatch.setattr(selective, "LIVE", live)
    layer, sizes = companion.Mamba(8, 8, slots=64), {}

    def note(tensor):
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        y, _ = layer(torch.randn(1, 256, 8), form="scan")
    assert y.requires_grad and sum(sizes.values()) < 256 * (16 * 64) * 4 * 2 / 3


def test_who_is_left_to_the_scan():
    inputs = [t.detach() for t in given(4, 1, 2, 3, torch.float32)]
    assert selective.suits(*inputs)
    assert not selective.suits(*(t.bfloat16() for t in inputs))
    assert not selective.suits(inputs[0].double(), *inputs[1:])
    assert not selective.suits(*(t.to("meta") for t in inputs))
    seen = []
    torch.func.vmap(lambda t: seen.append(selective.suits(t, *inputs[1:])) or t)(inputs[0])
    assert seen == [False]
