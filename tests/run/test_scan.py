"""The linear recurrence: every form is the loop, and the loop is a sum of products."""

from __future__ import annotations

import functools
import gc
import itertools
import math
import weakref

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import companion
from companion.run import scan_forms
from companion.run.scan import plain, scan_steps
from companion.run.scan_forms import FORMS

from ..helpers import assert_close, randn, wave

scan = companion.scan

every_form = pytest.mark.parametrize("form", FORMS)
directions = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
REAL, COMPLEX = torch.float64, torch.complex128


def by_products(a, b, h0):
    """h_t = sum over k <= t of (a_{k+1} ... a_t) b_k, with b_0 = h0: no recurrence at all."""
    B, T = b.shape[:2]
    b = torch.cat([h0[:, None], b], 1)
    states = [
        sum(a[:, k:t].prod(1) * b[:, k] for k in range(t + 1)) + torch.zeros_like(h0)
        for t in range(1, T + 1)
    ]
    return torch.stack(states, 1) if states else b[:, 1:]


def specification(a, b, h0, reverse=False):
    h, last = plain(a.transpose(0, 1), b.transpose(0, 1), h0, reverse=reverse)
    return h.transpose(0, 1), last


def draw(B, T, D=3, dtype=REAL, seed=0):
    torch.manual_seed(seed + T)
    shapes = [(B, T, D), (B, T, D), (B, D)]
    return [torch.randn(s, dtype=dtype).requires_grad_() for s in shapes]


def real(x):
    """A complex tensor as pairs of numbers, for :func:`wave`."""
    return torch.view_as_real(x) if x.is_complex() else x


def with_gradients(run, inputs):
    h, last = run(*inputs)
    grads = torch.autograd.grad(
        wave(real(h), real(last)), inputs, allow_unused=True, materialize_grads=True
    )
    return h, last, *grads


@pytest.fixture
def small(monkeypatch):
    """Chunks and segments of three steps, so that a short sequence has several."""
    monkeypatch.setattr(scan_forms, "chunk_length", lambda y: 3)
    monkeypatch.setattr(scan_forms, "SEGMENT", 3)


# ---------------------------------------------------------------- one function, however it is run


@directions
@pytest.mark.parametrize("T", [0, 1, 2, 3, 7, 12])
def test_the_loop_is_a_sum_of_products(T, reverse):
    a, b, h0 = draw(2, T)
    h, last = specification(a, b, h0, reverse)
    if reverse:
        assert_close(h.flip(1), by_products(a.flip(1), b.flip(1), h0))
    else:
        assert_close(h, by_products(a, b, h0))
    assert_close(last, h[:, 0 if reverse else -1] if T else h0, 0)


@every_form
@directions
@pytest.mark.parametrize("dtype", [REAL, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize("B, T", [(0, 0), (0, 3), (2, 0), *((2, T) for T in (1, 2, 3, 7, 33))])
def test_every_form_is_the_loop(form, reverse, dtype, B, T, small):
    """Outputs and all gradients; T need not be a power of two (case 9), rows may lack (case 3).

    Steps do not commute (case 24): a joining of neighbors in the wrong order fails here.
    """
    inputs = draw(B, T, dtype=dtype)
    found = with_gradients(lambda *x: scan(*x, reverse=reverse, form=form), inputs)
    expected = with_gradients(lambda *x: specification(*x, reverse), inputs)
    for x, y in zip(found, expected, strict=True):
        assert_close(x, y, 1e-10 * max([1.0, *y.detach().abs().flatten().tolist()]))


@every_form
@directions
@pytest.mark.parametrize("T", [48, 255, 1000, 4099])
def test_long_sequences_with_chunks_as_they_are(form, reverse, T):
    a, b, h0 = draw(2, T)
    inputs = [a.detach().sigmoid().requires_grad_(), b, h0]
    found = with_gradients(lambda *x: scan(*x, reverse=reverse, form=form), inputs)
    expected = with_gradients(lambda *x: specification(*x, reverse), inputs)
    for x, y in zip(found, expected, strict=True):
        assert_close(x, y, 1e-10)


@directions
def test_chunks_of_any_length(reverse):
    a, b, h0 = (x.detach() for x in draw(2, 13))
    for length in range(1, 15):
        h = b.transpose(0, 1).clone()
        scan_forms.chunks(a.transpose(0, 1), h, h0, reverse, length)
        assert_close(h.transpose(0, 1), specification(a, b, h0, reverse)[0])


@every_form
@pytest.mark.parametrize("cut", [0, 1, 20, 40])
def test_two_halves_with_the_state_carried_are_the_whole(form, cut):
    a, b, h0 = draw(2, 40)
    h, last = scan(a, b, h0, form=form)
    h1, state = scan(a[:, :cut], b[:, :cut], h0, form=form)
    h2, state = scan(a[:, cut:], b[:, cut:], state, form=form)
    assert_close(h, torch.cat([h1, h2], 1))
    assert_close(last, state)


def test_no_state_is_a_state_of_zeros_and_any_shape_will_do():
    a, b = torch.rand(2, 50), torch.randn(2, 50)
    assert torch.equal(scan(a, b)[0], scan(a, b, torch.zeros(2))[0])
    a, b, h0 = randn(2, 50, 3, 4), randn(2, 50, 3, 4), randn(2, 3, 4)
    h, last = scan(a, b, h0)
    flat = [x.flatten(-2) for x in (a, b, h0)]
    assert_close(h.flatten(-2), scan(*flat)[0], 1e-9 * h.abs().max().item())
    assert last.shape == (2, 3, 4)


@pytest.mark.parametrize(
    "T, K, form", [(47, 8, "loop"), (48, 8, "chunks"), (48, 4096, "loop"), (999, 4095, "chunks")]
)
def test_none_picks_one_of_the_forms(T, K, form):
    a, b = torch.rand(1, T, K), torch.randn(1, T, K)
    assert scan_forms.pick(b.transpose(0, 1)) == form
    assert torch.equal(scan(a, b)[0], scan(a, b, form=form)[0])


class Waiting(TorchDispatchMode):
    """Counts the multiply-adds, each of which waits for the one before."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__.startswith("addcmul")
        return func(*args, **(kwargs or {}))


def test_how_many_operators_wait_for_each_other():
    a, b = torch.rand(1024, 1, 2), torch.randn(1024, 1, 2)
    counts = {}
    for form in FORMS:
        with Waiting() as waiting:
            FORMS[form](a, b.clone(), torch.zeros(1, 2), False)
        counts[form] = waiting.count
    # 64 chunks of 16 steps; over the ends of 63 of them 9 chunks of 7 steps; over 8 of their ends
    # the loop. Each chunk is run twice, but for what would only copy its first step.
    assert [scan_forms.chunk_length(x) for x in (b, b[:63])] == [16, 7]
    chunks = (15 + 16) + (6 + 7) + 8
    assert counts == {"loop": 1024, "tree": 1 + 2 * 10, "chunks": chunks}


@pytest.mark.parametrize("a, b", [(1.0, 1e20), (1e-6, 1.0), (0.0, 1.0), (0.5, 1e12)])
def test_where_nothing_is_lost_the_loop_does_not_take_over(a, b):
    """Huge states, or products that vanish, but not a product that vanishes from a huge state."""
    a, b = torch.full((1024, 1, 2), a), torch.full((1024, 1, 2), b)
    for form, most in (("chunks", 60), ("tree", 21)):
        with Waiting() as waiting:
            FORMS[form](a, b.clone(), torch.zeros(1, 2), False)
        assert waiting.count <= most


# ---------------------------------------------------------------- numbers at their limits


@every_form
def test_a_step_that_forgets_is_exact(form):
    a, b = torch.rand(2, 100), torch.randn(2, 100)
    a[:, 7::13] = 0
    h, _ = scan(a, b, torch.full((2,), 1e30), form=form)
    assert torch.equal(h[:, 7::13], b[:, 7::13])
    assert torch.equal(scan(torch.zeros(2, 100), b, form=form)[0], b)


@every_form
@directions
@pytest.mark.parametrize("value", [10.0, -10.0, 1e30, 1e-30, -1.0, 1.0, -0.9])
def test_products_that_overflow_or_vanish(form, reverse, value):
    """a > 1: products leave the range of float32 where the states do not."""
    a, b = torch.full((1, 200, 2), value), torch.zeros(1, 200, 2)
    assert torch.equal(scan(a, b, reverse=reverse, form=form)[0], b)
    first, end = (-1, 0) if reverse else (0, -1)
    b[:, end] = 3.0
    leaves = a.requires_grad_(), b.requires_grad_()
    h, last = scan(a, b, reverse=reverse, form=form)
    assert torch.equal(h, b) and torch.equal(last, b[:, end])
    da, db = torch.autograd.grad(h[:, first].sum(), leaves)  # what comes later is no part of it
    assert torch.equal(da, torch.zeros_like(a)) and torch.equal(db[:, first], torch.ones(1, 2))
    assert db.sum() == 2


@every_form
@directions
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=["real", "complex"])
@pytest.mark.parametrize("pause", [1, 3, 40])
def test_products_that_vanish_between_states_that_do_not(form, reverse, dtype, pause):
    """States fall from 2^110 to 2^-50, which is a factor of 0 in float32, and rise to 2^70."""
    torch.manual_seed(pause)
    steps = torch.arange(2001)[:, None] - torch.randint(10, 1500, (20,))
    height = sum(h * (steps >= k * pause) for k, h in enumerate([-80.0, -80.0, 60.0, 60.0]))
    height = 110 + height.double()  # never a product of more than 2^120, which would be seen
    target = torch.exp2(height) * (1 + torch.rand(height.shape, dtype=REAL))
    h0, target = target[:1], target[1:]
    a = (target / torch.cat([h0, target[:-1]])).to(dtype)
    h0, a, b = h0.to(dtype), a[None], torch.zeros_like(a)[None]
    double = COMPLEX if dtype.is_complex else REAL
    want = h0.to(double)[:, None] * a.to(double).cumprod(1)  # never above 2^121
    if reverse:
        a, want = a.flip(1), want.flip(1)
    h, _ = scan(a, b, h0, reverse=reverse, form=form)
    torch.testing.assert_close(h.to(double), want, rtol=1e-4, atol=0)


@every_form
@directions
def test_an_infinite_state_stays_infinite_however_small_the_factors(form, reverse):
    a, b = torch.full((2, 200, 2), 1e-6), torch.ones(2, 200, 2)
    k = 150 if reverse else 50
    b[1, k, 0] = math.inf
    h, last = scan(a, b, reverse=reverse, form=form)
    assert last[1, 0] == math.inf and last.isfinite().sum() == 3
    assert (h[1, : k + 1, 0] if reverse else h[1, k:, 0]).isposinf().all()
    assert h.isposinf().sum() == (151 if reverse else 150) and not h.isnan().any()


def long(decay, dtype, form):
    """A hundred thousand steps and the gradients of their mean square."""
    torch.manual_seed(0)
    b = torch.randn(1, 100_000, 1).to(dtype).requires_grad_()
    a = torch.full_like(b, decay).float().to(dtype).detach().requires_grad_()
    h, _ = scan(a, b, form=form)
    return h.detach(), *torch.autograd.grad(h.square().mean(), (a, b))


@functools.cache
def long_exact(decay):
    return long(decay, torch.float64, "loop")


@every_form
@pytest.mark.parametrize("decay, tol", [(0.9, 1e-6), (0.9999, 1e-4)])
def test_a_hundred_thousand_steps_in_float32(form, decay, tol):
    """Cases 30, 31: a scan by quotients of cumulative products is not finite here."""
    for x, y in zip(long(decay, torch.float32, form), long_exact(decay), strict=True):
        torch.testing.assert_close(x.double(), y, rtol=0, atol=tol * y.abs().max().item())


@every_form
@pytest.mark.parametrize("where, value", itertools.product("abh", [math.nan, math.inf]))
def test_what_is_not_finite_stays_in_its_row(form, where, value):
    a, b, h0 = torch.rand(3, 100, 2), torch.randn(3, 100, 2), torch.randn(3, 2)
    clean, _ = scan(a, b, h0, form=form)
    if where == "h":
        h0[1, 0] = value
    else:
        {"a": a, "b": b}[where][1, 30, 0] = value
    leaves = [x.requires_grad_() for x in (a, b, h0)]
    h, _ = scan(a, b, h0, form=form)
    start = 0 if where == "h" else 30
    assert not h[1, start, 0].isfinite()
    torch.testing.assert_close(h[1, :start, 0], clean[1, :start, 0])
    kept = torch.ones(3, 2, dtype=torch.bool)
    kept[1, 0] = False
    torch.testing.assert_close(h.transpose(1, 2)[kept], clean.transpose(1, 2)[kept])
    for grad in torch.autograd.grad(h.sum(), leaves):
        rows = grad.transpose(1, 2)[kept] if grad.ndim == 3 else grad[kept]
        assert rows.isfinite().all()


@every_form
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_up_in_float32(form, dtype):
    ones = torch.ones(1, 1000, 1, dtype=dtype, requires_grad=True)
    h, last = scan(torch.ones_like(ones), ones, form=form)
    assert h.dtype == last.dtype == dtype
    assert last.item() == 1000  # a sum in bfloat16 would stay at 256
    (grad,) = torch.autograd.grad(last.sum(), ones)
    assert grad.dtype == dtype and (grad == 1).all()


def test_autocast_takes_mixed_precision():
    a, b = torch.rand(2, 60, 3, requires_grad=True), torch.randn(2, 60, 3, requires_grad=True)
    exact, _ = scan(a, b)
    with torch.autocast("cpu", torch.bfloat16):
        h, last = scan(a, b.bfloat16(), torch.zeros(2, 3, dtype=torch.float16))
        h.sum().backward()
    assert h.dtype == last.dtype == torch.float32
    torch.testing.assert_close(h, exact, rtol=0, atol=0.1)
    assert a.grad.dtype == b.grad.dtype == torch.float32


@every_form
@pytest.mark.parametrize("kinds", itertools.product([torch.float32, torch.bfloat16], repeat=3))
def test_steps_of_mixed_precision_are_those_of_the_widest(form, kinds):
    torch.manual_seed(0)
    leaves = [torch.rand(s).to(d) for s, d in zip([(60, 3), (60, 3), (3,)], kinds, strict=True)]
    leaves = [x.requires_grad_() for x in leaves]
    h, last = scan_steps(*leaves, form=form)
    want = torch.float32 if torch.float32 in kinds else torch.bfloat16
    assert h.dtype == last.dtype == want
    wide = [x.detach().double().requires_grad_() for x in leaves]
    exact, _ = scan_steps(*wide, form="loop")
    near = {"rtol": 1e-5 if want == torch.float32 else 2**-8, "atol": 1e-6}
    torch.testing.assert_close(h.double(), exact, **near)
    grads = torch.autograd.grad(h.float().sum(), leaves)
    for g, x, e in zip(grads, leaves, torch.autograd.grad(exact.sum(), wide), strict=True):
        assert g.dtype == x.dtype
        torch.testing.assert_close(g.double(), e, rtol=2**-7, atol=1e-5)


# ---------------------------------------------------------------- derivatives of every order


@every_form
@directions
@pytest.mark.parametrize("dtype", [REAL, COMPLEX], ids=["real", "complex"])
def test_derivatives_of_first_and_second_order(form, reverse, dtype, small):
    inputs = draw(1, 8, 1, dtype)

    def run(*x):
        return scan(*x, reverse=reverse, form=form)

    batched = {"check_batched_grad": True}
    forward = {"check_forward_ad": True, "check_batched_forward_grad": True}
    assert torch.autograd.gradcheck(run, inputs, **batched, **forward)
    assert torch.autograd.gradgradcheck(run, inputs, **batched, check_fwd_over_rev=True)


@every_form
@pytest.mark.parametrize("wanted", range(3), ids="abh")
def test_one_input_alone(form, wanted, small):
    inputs = [x.detach() for x in draw(2, 8)]
    inputs[wanted].requires_grad_()
    (one,) = torch.autograd.grad(wave(*scan(*inputs, form=form)), inputs[wanted])
    (same,) = torch.autograd.grad(wave(*specification(*inputs)), inputs[wanted])
    assert_close(one, same)
    assert torch.autograd.gradgradcheck(lambda *x: scan(*x, form=form), inputs)


@every_form
@directions
def test_one_output_alone(form, reverse, small):
    inputs = draw(2, 8)
    for k in range(2):
        found = torch.autograd.grad(wave(scan(*inputs, reverse=reverse, form=form)[k]), inputs)
        expected = torch.autograd.grad(wave(specification(*inputs, reverse)[k]), inputs)
        assert_close(found, expected)


@every_form
def test_function_transforms(form, small):
    a, b, h0 = (x.detach() for x in draw(4, 8))

    def loss(a, b, h0, run=scan, **options):
        h, last = run(a, b, h0, **options)
        return h.sin().sum() + last.square().sum()

    grad = torch.func.grad(lambda *x: loss(*x, form=form), (0, 1, 2))
    expected = torch.func.grad(lambda *x: loss(*x, run=specification), (0, 1, 2))

    def several(x, dim):
        return x if dim is None else torch.stack([x, 0.5 * x, 0.25 * x], dim)

    for dims in [(0, None, 0), (None, 1, None), (2, 2, 1)]:
        args = tuple(map(several, (a, b, h0), dims))
        found = torch.func.vmap(grad, dims)(*args)
        assert_close(found, torch.func.vmap(expected, dims)(*args), 1e-10)
    row = a[:1], b[:1], h0[:1]
    hessian = torch.func.hessian(lambda a: loss(a, *row[1:], form=form))(row[0])
    assert_close(hessian, torch.func.hessian(lambda a: loss(a, *row[1:], specification))(row[0]))


@every_form
def test_vmap_of_a_backward_alone(form, small):
    inputs = draw(2, 60)
    h, _ = scan(*inputs, form=form)

    def backward(dh):
        return torch.autograd.grad(h, inputs, dh, retain_graph=True)

    dh = torch.randn(3, *h.shape, dtype=h.dtype)
    expected = map(torch.stack, zip(*map(backward, dh), strict=True))
    assert_close(torch.func.vmap(backward)(dh), tuple(expected))


@every_form
def test_a_backward_may_be_repeated(form, small):
    inputs = draw(2, 8)
    h, _ = scan(*inputs, form=form)
    first = torch.autograd.grad(wave(h), inputs, retain_graph=True)
    assert_close(torch.autograd.grad(wave(h), inputs), first, 0)


@every_form
def test_checkpointing_and_saved_tensor_hooks(form, small):
    inputs = draw(2, 8)
    expected = torch.autograd.grad(wave(scan(*inputs, form=form)[0]), inputs)
    y = checkpoint(lambda *x: scan(*x, form=form)[0], *inputs, use_reentrant=False)
    assert_close(torch.autograd.grad(wave(y), inputs), expected)
    with torch.autograd.graph.save_on_cpu():
        y, _ = scan(*inputs, form=form)
    assert_close(torch.autograd.grad(wave(y), inputs), expected)


@every_form
def test_what_is_kept_for_the_backward(form):
    """Two operands of the three: a and h, or a and b and every sixteenth state."""
    inputs, kept = draw(2, 160), []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()), lambda x: x):
        scan(*inputs, form=form)
    operand, row = 2 * 160 * 3, 2 * 3
    extra = operand // 16 if form == "loop" else 0
    assert sum(kept) <= 2 * operand + row + extra
    fixed, kept = inputs[0].detach(), []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()), lambda x: x):
        scan(fixed, *inputs[1:], form=form)
    assert sum(kept) == operand  # a alone


@every_form
def test_nothing_outlives_the_graph(form):
    inputs = draw(2, 8)
    gc.disable()
    try:
        h, last = scan_steps(*inputs[:2], inputs[1][0] * 2, form=form)
        node = weakref.ref(h.grad_fn)
        del h, last
        assert node() is None
    finally:
        gc.enable()


# ---------------------------------------------------------------- what is given and returned


@every_form
def test_nothing_given_is_changed_and_what_is_returned_may_be(form, small):
    inputs = draw(2, 8)
    before = [x.detach().clone() for x in inputs]
    expected = torch.autograd.grad(2 * scan(*inputs, form=form)[0].sum(), inputs)
    h, last = scan(*inputs, form=form)
    last.add_(1)
    h.mul_(2)
    assert_close(torch.autograd.grad(h.sum(), inputs), expected)
    assert all(map(torch.equal, inputs, before))

    def changed(a):
        h, last = scan(a, *before[1:], form=form)
        last.add_(1)
        return h.mul_(2).sum()

    assert_close(torch.func.grad(changed)(before[0]), expected[0])
    h, last = scan(*before, form=form)
    h.add_(1)
    last.add_(1)
    assert all(map(torch.equal, inputs, before))


def test_steps_without_a_copy_say_when_they_are_changed():
    a, b, h0 = draw(2, 60)
    h, _ = scan_steps(a.transpose(0, 1), b.transpose(0, 1), h0, form="chunks")
    h.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        h.sum().backward()


@every_form
@pytest.mark.parametrize("shape", [(1, 60, 1), (2, 60, 1), (1, 1, 3), (1, 1, 1), (2, 1, 3)])
def test_factors_may_be_shared(form, shape):
    _, b, h0 = draw(2, 60)
    a = torch.rand(shape, dtype=REAL).requires_grad_()
    found = with_gradients(lambda *x: scan(*x, form=form), [a, b, h0])
    full = with_gradients(lambda a, *x: specification(a.expand(b.shape), *x), [a, b, h0])
    assert found[2].shape == shape
    for x, y in zip(found, full, strict=True):
        assert_close(x, y, 1e-10)


@every_form
@directions
def test_any_layout_in_memory(form, reverse, small):
    a, b, h0 = (x.detach() for x in draw(2, 8))
    expected = scan(a, b, h0, reverse=reverse, form=form)
    layouts = [
        lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
        lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
        lambda x: torch.stack([x, x], -1)[..., 0],
    ]
    for f in layouts:
        assert_close(scan(f(a), f(b), f(h0), reverse=reverse, form=form), expected)
    one = b[:1, :1].expand(b.shape)
    assert_close(scan(a, one, h0, form=form), scan(a, one.clone(), h0, form=form))


def test_inference_mode():
    a, b, h0 = (x.detach() for x in draw(2, 60))
    with torch.inference_mode():
        h, last = scan(a * 1, b * 1, h0)
    assert_close((h.clone(), last.clone()), scan(a, b, h0))


# ---------------------------------------------------------------- graphs that others record


@pytest.mark.filterwarnings("ignore:`torch.jit")
@directions
def test_tracing_records_the_loop(reverse):
    a, b = torch.rand(2, 60, 3), torch.randn(2, 60, 3)
    with pytest.warns(torch.jit.TracerWarning):
        traced = torch.jit.trace(lambda a, b: scan(a, b, reverse=reverse), (a, b))
    other = torch.rand(2, 60, 3)
    torch.testing.assert_close(traced(other, b), scan(other, b, reverse=reverse))
    with pytest.raises(ValueError, match="form: 'tree' cannot run this: tracing records the loop"):
        torch.jit.trace(lambda a, b: scan(a, b, form="tree"), (a, b))


def test_compile_and_export():
    a, b = torch.rand(2, 60, 3, requires_grad=True), torch.randn(2, 60, 3)

    class Layer(torch.nn.Module):
        def forward(self, a, b):
            return scan(a, b)

    h, last = torch.compile(scan, backend="eager", fullgraph=True)(a, b)
    torch.testing.assert_close((h, last), scan(a, b))
    torch.testing.assert_close(
        torch.autograd.grad(wave(h), a), torch.autograd.grad(wave(scan(a, b)[0]), a)
    )
    program = torch.export.export(Layer(), (a.detach(), b))
    torch.testing.assert_close(program.module()(a.detach(), b), scan(a.detach(), b))


@pytest.mark.parametrize("tracing_mode", ["real", "fake"])
def test_make_fx_records_the_loop(tracing_mode):
    a, b = torch.rand(2, 50, 3), torch.randn(2, 50, 3)

    def loss(a, b):
        h, last = scan(a, b)
        return h.sin().sum() + last.sum()

    other = torch.rand(2, 50, 3)
    for f in (scan, torch.func.grad(loss, (0, 1)), torch.func.vmap(scan)):
        graph = make_fx(lambda *x: f(*x), tracing_mode=tracing_mode)(a, b)  # noqa: B023
        torch.testing.assert_close(graph(other, b), f(other, b), rtol=1e-4, atol=1e-5)
    graph = make_fx(lambda *x: scan(*x), tracing_mode=tracing_mode, pre_dispatch=True)(a, b)
    torch.testing.assert_close(graph(other, b), scan(other, b), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="form: 'tree' cannot run this: tracing records the loop"):
        make_fx(lambda a, b: scan(a, b, form="tree"), tracing_mode=tracing_mode)(a, b)


@every_form
def test_make_fx_of_a_backward_alone(form):
    a, b, h0 = draw(2, 60)
    h, last = scan(a.sigmoid(), b, h0, form=form)

    def backward(dh):
        return torch.autograd.grad((h, last), (a, b, h0), (dh, dh[:, 0]), retain_graph=True)

    graph, dh = make_fx(backward)(torch.ones_like(h.detach())), torch.randn_like(h.detach())
    assert_close(graph(dh), backward(dh))


@every_form
def test_tensors_without_values(form):
    a = torch.empty(2, 60, 3, device="meta", requires_grad=True)
    h, last = scan(a, a, form=form)
    h.sum().backward()
    assert h.is_meta and h.shape == a.grad.shape == (2, 60, 3) and last.shape == (2, 3)
    with FakeTensorMode():
        a = torch.empty(2, 60, 3, requires_grad=True)
        h, last = scan(a, a, form=form)
        h.sum().backward()
    assert h.shape == a.grad.shape == (2, 60, 3) and last.shape == (2, 3)


# ---------------------------------------------------------------- bad input

X = torch.rand(2, 5, 3)


@pytest.mark.parametrize(
    "arguments, options, kind, message",
    [
        (([1.0], X), {}, TypeError, "a: expected a tensor, got list"),
        ((X, None), {}, TypeError, "b: expected a tensor, got NoneType"),
        ((0.9, X), {}, TypeError, "a: expected a tensor, got float"),
        ((X, X, 0.0), {}, TypeError, "h0: expected a tensor, got float"),
        (
            (X[0, 0], X[0, 0]),
            {},
            ValueError,
            r"b: expected at least 2 dimensions \(B, T, \.\.\.\)",
        ),
        ((X.long(), X.long()), {}, ValueError, "b: expected a floating-point or complex dtype"),
        ((X[:, :4], X), {}, ValueError, r"a: expected shape \(2, 5, 3\).*got \(2, 4, 3\)"),
        ((X, X[:1]), {}, ValueError, r"a: expected shape \(1, 5, 3\).*got \(2, 5, 3\)"),
        ((X[0], X), {}, ValueError, r"a: expected shape \(2, 5, 3\).*got \(5, 3\)"),
        ((X, X, X[:, 0, :2]), {}, ValueError, r"h0: expected shape \(2, 3\), got \(2, 2\)"),
        ((X, X, X[:1, 0]), {}, ValueError, r"h0: expected shape \(2, 3\), got \(1, 3\)"),
        ((X.double(), X), {}, ValueError, "a: expected dtype torch.float32.*got torch.float64"),
        ((X.bfloat16(), X), {}, ValueError, "a: expected dtype torch.float32.*got torch.bfloat16"),
        ((X, X, X[:, 0].double()), {}, ValueError, "h0: expected dtype torch.float32"),
        ((X.to("meta"), X), {}, ValueError, "a: expected it on cpu, where b is, got meta"),
        ((X, X, X[:, 0].to("meta")), {}, ValueError, "h0: expected it on cpu.*got meta"),
        ((X, X), {"form": "warp"}, ValueError, r"form: expected None or one of \['chunks', 'loop"),
        ((X, X), {"form": 3}, ValueError, "form: expected None or one of"),
        ((X, X), {"form": ["loop"]}, ValueError, "form: expected None or one of"),
        ((X, X), {"reverse": 1}, TypeError, "reverse: expected True or False, got 1"),
    ],
)
def test_bad_input_is_named(arguments, options, kind, message):
    with pytest.raises(kind, match=f"^{message}"):
        scan(*arguments, **options)
