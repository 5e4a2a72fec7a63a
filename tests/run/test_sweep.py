"""The sweep: a linear cell over many steps at once equals its own step, whatever is cut how."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import companion
from companion.cells import LinearCell, flat_state, map_state
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


def test_a_block_counts_what_is_scanned_where_it_is_wider_than_what_is_prepared(monkeypatch):
    seen = []
    real = sweep.blocks
    monkeypatch.setattr(sweep, "blocks", lambda s, w, most: seen.append(w) or real(s, w, most))
    companion.S4D(3, 4, order=32)(torch.zeros(2, 5, 3), form="scan")  # prepares 4, scans 4 · 32
    companion.SRU(3, 4, gates_see_state=False)(torch.zeros(2, 5, 3))  # prepares 16, scans 4
    assert seen == [128, 16]


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


# ---------------------------------------------------------------- precision


class Leaky(LinearCell):
    """h_t = a h_{t-1} + u_t, and the output of the step before."""

    decay = 255 / 256  # exact in bfloat16

    def __init__(self, input_size, hidden_size, bias=True, **new):
        super().__init__(input_size, hidden_size)
        self.state_size = (hidden_size, hidden_size)
        self.weight_ih = self.weight(hidden_size, input_size, **new)
        self.reset_parameters()

    def prepare(self, x):
        return F.linear(x, self.weight_ih)

    def along(self, u, state, time):
        h, late = state
        hs, h = time.scan(self.factors(u), u, h)
        y, late = time.shift(hs, late)
        return y, (h, late)

    def factors(self, u):
        return torch.full_like(u, self.decay)


class Mixed(Leaky):
    """Under autocast the factors are bfloat16, the terms float32."""

    def along(self, u, state, time):
        return super().along(u.float(), state, time)

    def factors(self, u):
        return super().factors(u).bfloat16()


LEAKY = [
    (companion.QRNN, {"window": 1, "pooling": "f"}),
    (companion.QRNN, {"window": 3, "pooling": "ifo"}),
    (companion.SRU, {"gates_see_state": False}),
    (functools.partial(companion.Recurrence, Leaky), {}),
    (functools.partial(companion.Recurrence, Mixed), {}),
    (functools.partial(companion.Recurrence, Both), {}),
]


@pytest.mark.parametrize("block", [1, 40, 2**20])
@pytest.mark.parametrize("kind, options", LEAKY)
def test_autocast_keeps_the_running_state_in_float32(monkeypatch, block, kind, options):
    """However it is cut in blocks: the loop's values and dtypes, but for float32's rounding.

    A sum in bfloat16 would be off by some percent: its terms are a thousandth of it.
    """
    monkeypatch.setattr(sweep, "BLOCK", block)
    torch.manual_seed(0)
    layer, x = kind(3, 4, **options), torch.rand(2, 300, 3)
    if hasattr(layer, "bias_ih_l0"):
        layer.bias_ih_l0.data[4:8] = 6.0  # the forget gate: a slow leak
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = [flat(layer(x, form=form)) for form in ("scan", "loop")]
        found.append(flat(layer(x, lengths=[300, 170])))
        state, rows = None, []
        for t in range(0, 300, 50):
            y, state = layer(x[:, t : t + 50], state)
            rows.append(y)
        found.append((torch.cat(rows, 1), *flat_state(state)))
    for k, tensors in enumerate(found):
        for a, b in zip(tensors, found[1], strict=True):
            assert a.dtype == b.dtype
            a, b = (a[:1], b[:1]) if a.shape[1] == 300 else (a[:, :1], b[:, :1])
            torch.testing.assert_close(a, b, rtol=0.01 if k else 1e-4, atol=0.01 if k else 1e-4)
    assert all(s.dtype == torch.float32 for s in found[0][1:])


def test_what_is_prepared_always_has_a_graph(monkeypatch):
    """Of weights cast without one, older autocasts keep none for later casts (pytorch#112583)."""
    modes, prepare = [], Both.prepare

    def noted(self, x):
        modes.append(torch.is_grad_enabled())
        return prepare(self, x)

    monkeypatch.setattr(Both, "prepare", noted)
    companion.Recurrence(Both, 3, 4)(torch.randn(2, 7, 3), form="scan")
    assert modes and all(modes)


def flat(result):
    """Output and state in one tuple."""
    y, state = result
    return (y, *flat_state(state))


@pytest.mark.parametrize("block", [1, 40, 2**20])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("lengths", [None, [1000, 1000, 300]])
def test_half_precision_is_rounded_once_however_it_is_cut(monkeypatch, block, dtype, lengths):
    """h_T = 2 (1 - a^T), where a sum in bfloat16 stands still at 1: ½ ulp is 1/256 there."""
    monkeypatch.setattr(sweep, "BLOCK", block)
    layer = companion.Recurrence(Leaky, 1, 2, dtype=dtype)
    layer.weight_ih_l0.data.fill_(2 / 256)
    y, (h, late) = layer(torch.ones(3, 1000, 1, dtype=dtype), lengths=lengths)
    assert y.dtype == h.dtype == late.dtype == dtype
    exact = 2 - 2 * torch.tensor(255 / 256, dtype=torch.float64) ** torch.arange(1001)
    near = {"rtol": torch.finfo(dtype).eps, "atol": 0}
    want = exact[:1000].view(1, 1000, 1).expand(3, 1000, 2).clone()
    if lengths:
        want[2, 300:] = 0
    torch.testing.assert_close(y.double(), want, **near)
    for b, T in enumerate(lengths or [1000] * 3):
        torch.testing.assert_close(h[0, b].double(), exact[T].expand(2), **near)
        torch.testing.assert_close(late[0, b].double(), exact[T].expand(2), **near)


@pytest.mark.parametrize("name", ["qrnn", "sru_2017"])
def test_one_step_in_half_precision_is_the_sweep_over_it(name):
    torch.manual_seed(0)
    layer = companion.Recurrence(name, 3, 4, dtype=torch.bfloat16)
    state = map_state(torch.randn_like, layer.initial_state(50))
    x = torch.randn(50, 1, 3).bfloat16()
    for a, b in zip(flat(layer(x, state)), flat(layer(x, state, form="loop")), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kinds", itertools.product([torch.float32, torch.bfloat16], repeat=2))
@pytest.mark.parametrize("cell", [Leaky, Mixed])
def test_any_state_under_autocast_has_the_dtypes_of_the_loop(kinds, cell):
    torch.manual_seed(0)
    layer, x = companion.Recurrence(cell, 3, 4), torch.rand(2, 60, 3)
    state = tuple(torch.rand(1, 2, 4).to(d) for d in kinds)
    with torch.autocast("cpu", torch.bfloat16):
        found = [flat(layer(x, state, form=form)) for form in ("scan", "loop")]
    for a, b in zip(*found, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a.float(), b.float(), rtol=0.1, atol=0.1)


# ---------------------------------------------------------------- the two kinds of time are one


class Given(Leaky):
    """Does with time what a test says."""

    def __init__(self, input_size, hidden_size, does=None, bias=True, **new):
        super().__init__(input_size, hidden_size, **new)
        self.state_size, self.does = hidden_size, does

    def along(self, u, h, time):
        return self.does(u, h, time)


class InPlace(Leaky):
    """Changes all that is not its state."""

    def along(self, u, state, time):
        h, late = state
        before, late = time.shift(u, late)
        u.mul_(3)
        before.add_(1)
        a, b = torch.cos(before), before + u
        y, h = time.scan(a, b, h)
        y.mul_(2)
        a.zero_()
        b.zero_()
        return y, (h, late)


@pytest.mark.parametrize("lengths", [None, [7, 4]])
@pytest.mark.parametrize("T", [1, 7])
def test_what_time_gives_is_no_part_of_anything_else(lengths, T):
    layer = companion.Recurrence(InPlace, 3, 4, dtype=torch.float64)
    x, state = randn(2, T, 3), (randn(1, 2, 4), randn(1, 2, 4))
    kept = map_state(torch.clone, state)
    lengths = lengths and [min(n, T) for n in lengths]
    with torch.no_grad():
        found = [flat(layer(x, state, lengths=lengths, form=f)) for f in ("scan", "loop")]
        u = F.linear(x, layer.weight_ih_l0)
    for a, b in zip(*found, strict=True):
        assert_close(a, b)
    assert_close(state, kept, 0)
    h, late = (s[0, 0] for s in kept)
    for t in range(T):
        h = torch.cos(late + 1) * h + late + 1 + 3 * u[0, t]
        late = u[0, t]
        assert_close(found[0][0][0, t], 2 * h)
    assert_close((found[0][1][0, 0], found[0][2][0, 0]), (h, late))


FACTORS = {
    "(K,)": lambda u: u.new_tensor([0.1, 0.2, 0.3, 0.4]),
    "()": lambda u: u.new_tensor(0.5),
    "(1, K)": lambda u: u.new_tensor([[0.1, 0.2, 0.3, 0.4]]),
    "(N, 1)": lambda u: u[:, :1].sin(),
    "(1, 1)": lambda u: u.new_tensor([[0.5]]),
}


@pytest.mark.parametrize("lengths", [None, [60, 4, 33]])
@pytest.mark.parametrize("shape", FACTORS)
def test_factors_may_be_shared(shape, lengths):
    def does(u, h, time):
        return time.scan(FACTORS[shape](u), u, h)

    layer = companion.Recurrence(Given, 3, 4, does=does, dtype=torch.float64)
    x, state = randn(3, 60, 3).requires_grad_(), randn(1, 3, 4).requires_grad_()
    found = []
    for form in ("scan", "loop"):
        y, h = layer(x, state, lengths=lengths, form=form)
        wanted = [x, state, layer.weight_ih_l0]
        found.append((y, h, *torch.autograd.grad(wave(y, h), wanted)))
    for a, b in zip(*found, strict=True):
        assert_close(a, b, 1e-10)


@pytest.mark.parametrize("form", ["scan", "loop"])
@pytest.mark.parametrize(
    "does, message",
    [
        (
            lambda u, h, time: time.scan(u, u[:, :1], h),
            r"scan: b: expected shape \(N, K\) .*, 1\)",
        ),
        (lambda u, h, time: time.scan(u, u[:, 0], h), r"scan: b: expected shape \(N, K\)"),
        (lambda u, h, time: time.scan(u, u[1:], h), r"scan: b: expected shape \(N, K\)"),
        (lambda u, h, time: time.scan(u, u, h[:, :1]), r"scan: b: .*the state .*\(2, 1\)"),
        (lambda u, h, time: time.scan(u[:, :3], u, h), r"scan: a: expected shape \(\d+, 4\).*3\)"),
        (lambda u, h, time: time.scan(u[None], u, h), r"scan: a: expected .*got \(1, \d+, 4\)"),
        (lambda u, h, time: time.scan(u, h[:0], h[:0]), r"scan: b: |scan: a: "),
        (lambda u, h, time: time.shift(u[:, :1], h), r"shift: v: expected shape \(N, K\)"),
        (lambda u, h, time: time.shift(u, h[:, 0]), r"shift: v: .*the state .*\(2,\)"),
    ],
)
def test_shapes_are_checked_alike(form, does, message):
    layer = companion.Recurrence(Given, 3, 4, does=does)
    with pytest.raises(ValueError, match=f"^time.{message}"):
        layer(torch.zeros(2, 5, 3), form=form)


def test_a_mask_of_recurrent_dropout_acts_at_every_step():
    class Masked(Given):
        def along(self, u, h, time):
            return time.scan(torch.ones_like(u), u, self.recurrent(h))

    torch.manual_seed(0)
    layer = companion.Recurrence(Masked, 3, 50, recurrent_dropout=0.5, dtype=torch.float64)
    x = randn(1, 5, 3)
    with pytest.raises(ValueError, match="'scan' cannot run this: recurrent dropout is on"):
        layer(x, form="scan")
    y, _ = layer(x)
    u = F.linear(x, layer.weight_ih_l0)
    dropped = torch.isclose(y[:, 1], u[:, 1])  # m = 0 or 2, of one sequence
    assert 10 < dropped.sum() < 40
    m = torch.where(dropped, 0.0, 2.0)
    want = [u[:, 0]]
    for t in range(1, 5):
        want.append(m * want[-1] + u[:, t])
    assert_close(y, torch.stack(want, 1))
    assert_close(layer.eval()(x, form="scan")[0], u.cumsum(1))


def test_make_fx_records_the_loop():
    torch.manual_seed(0)
    layer = companion.SRU(3, 4, gates_see_state=False, dtype=torch.float64)
    x, z = randn(1, 48, 3), randn(1, 48, 3)  # as many steps as make chunks

    def loss(x):
        return layer(x)[0].sin().sum()

    for f in (lambda x: layer(x)[0], torch.func.grad(loss)):
        assert_close(make_fx(lambda *x: f(*x))(x)(z), f(z), 1e-10)  # noqa: B023
    with pytest.raises(ValueError, match="'scan' cannot run this: tracing records the loop"):
        make_fx(lambda x: layer(x, form="scan")[0])(x)


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


def test_a_vector_of_weights_is_no_product_of_theirs():
    x, w = torch.randn(2000, 1000), torch.randn(1000)
    with products.Products():
        found = F.linear(x, w)
    torch.testing.assert_close(found, (x.double() @ w.double()).float(), rtol=1e-4, atol=1e-4)


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
