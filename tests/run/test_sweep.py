"""The sweep: a linear cell over many steps at once equals its own step, whatever is cut how."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import companion
from companion.cells import LinearCell, flat_state
from companion.run import products, sweep

from ..helpers import assert_close, randn, wave


class Both(LinearCell):
    """Every operation of time there is, one after another: a scan of a shift of a scan."""

    def __init__(self, input_size, hidden_size, bias=True, **new):
        super().__init__(input_size, hidden_size)
        self.state_size = (hidden_size, 2 * hidden_size, hidden_size)
        self.weight_ih = self.weight(2 * hidden_size, input_size, **new)
        self.reset_parameters()

    def prepare(self, x):
        return F.linear(x, self.weight_ih)

    def along(self, u, state, time):
        h, v, g = state
        before, v = time.shift(u, v)
        a, b = (u + before).chunk(2, -1)
        hs, h = time.scan(torch.cos(a), b, h)
        gs, g = time.scan(torch.sin(b), hs * a, g)
        return gs + hs, (h, v, g)


def both(layer, x, state, **options):
    """Outputs and all gradients of the loop and of the sweep."""
    found = []
    for form in ("loop", "scan"):
        y, final = layer(x, state, form=form, **options)
        wanted = [x, *flat_state(state), *layer.parameters()]
        found.append(
            (y, *final, *torch.autograd.grad(wave(y, *final), wanted, materialize_grads=True))
        )
    return found


@pytest.mark.parametrize("block", [1, 40, 2**18])
@pytest.mark.parametrize("T", [1, 2, 3, 7, 33])
@pytest.mark.parametrize("kind", ["whole", "lengths", "reset"])
def test_equals_the_loop(monkeypatch, block, T, kind):
    monkeypatch.setattr(sweep, "BLOCK", block)
    torch.manual_seed(T)
    layer = companion.Recurrence(Both, 3, 4, 2, bidirectional=True, dtype=torch.float64)
    x = randn(5, T, 3).requires_grad_()
    state = tuple(torch.randn_like(s).requires_grad_() for s in layer.initial_state(5))
    options = {}
    if kind == "lengths":
        options["lengths"] = torch.tensor([0, T, T // 2, max(T - 1, 1), 1])
    if kind == "reset":
        options["reset"] = torch.rand(5, T) < 0.3
    for a, b in zip(*both(layer, x, state, **options), strict=True):
        assert_close(a, b, 1e-10 * max(1.0, a.abs().max().item()))


@pytest.mark.parametrize("B, T", [(0, 3), (2, 0), (0, 0)])
def test_nothing_to_run(B, T):
    layer = companion.Recurrence(Both, 3, 4, 2, dtype=torch.float64)
    x, state = randn(B, T, 3).requires_grad_(), layer.initial_state(B)
    state = tuple(s.requires_grad_() for s in state)
    for a, b in zip(*both(layer, x, state), strict=True):
        assert torch.equal(a, b)


def test_it_is_the_default_of_linear_cells_and_of_no_others():
    x = torch.randn(2, 5, 3)
    y, z = companion.QRNN(3, 4)(x)[0], companion.GRU(3, 4, batch_first=True)(x)[0]
    assert "ScanBackward" in graph(y) and "ScanBackward" not in graph(z)
    with pytest.raises(ValueError, match="'scan' cannot run this: GRUCell is not linear in its"):
        companion.GRU(3, 4)(x, form="scan")


def test_a_step_of_its_own_is_not_swept_over():
    class Squashed(Both):
        def update(self, u_t, state):
            y, state = super().update(u_t, state)
            return torch.tanh(y), state

    layer, x = companion.Recurrence(Squashed, 3, 4), torch.randn(2, 5, 3)
    with pytest.raises(ValueError, match="form: 'scan' cannot run this: Squashed is not linear"):
        layer(x, form="scan")
    assert (layer(x)[0].abs() < 1).all()


def test_a_cell_without_along_says_so():
    class Empty(LinearCell):
        def __init__(self, input_size, hidden_size, bias=True, **new):
            super().__init__(input_size, hidden_size)

        def prepare(self, x):
            return x

    with pytest.raises(NotImplementedError, match="Empty has no along"):
        companion.Recurrence(Empty, 3, 3)(torch.zeros(1, 2, 3))


@pytest.mark.parametrize(
    "sizes, width, most",
    [
        ([3] * 10, 5, 60),
        ([3, 3, 1], 1, 1e9),
        ([1000] + [1] * 500, 1, 1e9),
        ([8, 7, 5, 4, 2, 1], 1, 9),
    ],
)
def test_blocks_hold_every_step_once_and_are_mostly_rows(sizes, width, most):
    cut = sweep.blocks(sizes, width, most)
    assert sum(cut, []) == sizes
    for block in cut:
        assert 2 * sum(block) >= block[0] * len(block)
        assert len(block) == 1 or block[0] * len(block) * width <= most


def test_one_long_row_among_many_short_ones_is_not_padded():
    """Dense, 2000 sequences of 300 steps: 600,000 rows for 2299."""
    layer = companion.QRNN(2, 3, dtype=torch.float64)
    x, lengths = randn(2000, 300, 2), torch.ones(2000, dtype=torch.long)
    lengths[7] = 300
    seen = []
    real = sweep.scan_steps

    def counted(a, b, h0):
        seen.append(a.shape[0] * a.shape[1])
        return real(a, b, h0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "scan_steps", counted)
        y, _ = layer(x, lengths=lengths)
    assert sum(seen) == 2299
    assert_close(y[7], layer(x[7:8], form="loop")[0][0])


def test_precisions_may_mix_under_autocast():
    layer, x = companion.QRNN(3, 4, window=3), torch.randn(2, 5, 3)
    state = tuple(torch.randn_like(s) for s in layer.initial_state(2))
    with torch.autocast("cpu", torch.bfloat16):
        y, z = layer(x, state)[0], layer(x, state, form="loop")[0]
    torch.testing.assert_close(y.float(), z.float(), rtol=0.05, atol=0.05)


# ---------------------------------------------------------------- the product with the input


def graph(y):
    """Names of the functions behind a tensor."""
    names, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        names.add(node.name())
        todo += [n for n, _ in node.next_functions if n is not None]
    return names


@pytest.mark.skipif(not products.ONEDNN, reason="torch has no oneDNN operator here")
def test_large_products_run_by_onednn_and_small_ones_as_ever():
    torch.manual_seed(0)
    layer = companion.SRU(128, 128, gates_see_state=False)
    large, small = (torch.randn(2, T, 128).requires_grad_() for T in (50, 2))
    assert "_LinearBackward" in graph(layer(large)[0])
    assert "_LinearBackward" not in graph(layer(small)[0])
    found = []
    for form in ("loop", "scan"):
        y, c = layer(large, form=form)
        found.append((y, c, *torch.autograd.grad(wave(y, c), [large, *layer.parameters()])))
    for a, b in zip(*found, strict=True):
        scale = max(1.0, a.detach().abs().max().item())
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.skipif(not products.ONEDNN, reason="torch has no oneDNN operator here")
def test_their_gradients_have_gradients_alone_and_in_batches():
    torch.manual_seed(0)
    x, w = torch.randn(300, 100).requires_grad_(), torch.randn(100, 100).requires_grad_()
    b = torch.randn(100).requires_grad_()
    found = []
    for mode in (products.Products(), torch.enable_grad()):
        with mode:
            y = F.linear(x, w, b)
        (dx,) = torch.autograd.grad(y.tanh().sum(), x, create_graph=True)
        again = torch.autograd.grad(dx.square().sum(), [x, w, b], retain_graph=True)
        v = torch.eye(3)[:, :, None].expand(3, 3, 100)
        batch = torch.autograd.grad(y[:3], [x, w, b], v, is_grads_batched=True)
        found.append((dx, *again, *batch))
    for p, q in zip(*found, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-3 * q.abs().max().item())


@pytest.mark.parametrize("context", ["vmap", "jvp", "autocast", "complex"])
def test_where_they_cannot_run_the_plain_product_does(context):
    torch.manual_seed(0)
    x, w = torch.randn(300, 100), torch.randn(100, 100)

    def run():
        if context == "vmap":
            per_row = torch.func.grad(lambda w, x: F.linear(x, w).sin().sum())
            return torch.func.vmap(per_row, (None, 0))(w, x.view(1, 300, 100))
        if context == "jvp":
            return torch.func.jvp(lambda x: F.linear(x, w), (x,), (torch.ones_like(x),))[1]
        if context == "autocast":
            with torch.autocast("cpu", torch.bfloat16):
                return F.linear(x, w)
        return F.linear(x + 1j, w + 0j)

    want = run()
    with products.Products():
        found = run()
    assert found.dtype == want.dtype
    torch.testing.assert_close(found, want)
