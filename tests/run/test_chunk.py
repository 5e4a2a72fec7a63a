"""Chunks of matrix products equal the step they stand for, whatever is cut how."""

from __future__ import annotations

import math

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import companion
from companion.cells import MatrixCell, flat_state, map_state
from companion.cells.matrix import MATRIX_STEP, rotate
from companion.run import chunk

from ..helpers import assert_close, randn, random_state, wave

LENGTHS = [1, 2, 3, 7, 33, 64, 257]
MATRIX = [
    name
    for name, architecture in companion.ARCHITECTURES.items()
    if issubclass(architecture.cell, MatrixCell)
]


def relative(a, b, tol=1e-10):
    """Two tensors agree up to a part of the largest number in them."""
    scale = max(1.0, b.detach().abs().max().item()) if b.numel() else 1.0
    assert_close(a / scale, b / scale, tol)


def cut(monkeypatch, size, T):
    """Chunks of this size, also where each entry of a key has its own decay."""
    for name in ("CHUNK", "KEYED"):
        monkeypatch.setattr(chunk, name, T + 1 if size == "T+1" else size)


# ---------------------------------------------------------------- the layers


@pytest.mark.parametrize("kind", ["whole", "lengths", "reset"])
@pytest.mark.parametrize("name", MATRIX)
def test_chunks_are_the_loop_in_outputs_and_gradients(monkeypatch, name, kind):
    for T in LENGTHS:
        torch.manual_seed(T)
        layer = companion.Recurrence(name, 3, 8, dtype=torch.float64)
        x = randn(4, T, 3).requires_grad_()
        state = map_state(lambda s: s.requires_grad_(), random_state(layer, 4))
        options = {}
        if kind == "lengths":
            options["lengths"] = torch.tensor([0, T, T // 2, max(T - 1, 1)])
        if kind == "reset":
            options["reset"] = torch.rand(4, T) < 3 / T
        found = []
        for size in (None, 1, 3, 64, T + 1):  # None: the loop
            if size:
                monkeypatch.setattr(chunk, "CHUNK", size)
                monkeypatch.setattr(chunk, "KEYED", size)
            y, final = layer(x, state, form="chunk" if size else "loop", **options)
            wanted = [x, *flat_state(state), *layer.parameters()]
            grads = torch.autograd.grad(
                wave(y, *flat_state(final)), wanted, materialize_grads=True
            )
            found.append((y, *flat_state(final), *grads))
        for others in found[1:]:
            for a, b in zip(others, found[0], strict=True):
                relative(a, b)


@pytest.mark.parametrize("name", MATRIX)
def test_it_is_the_default_of_matrix_cells_and_of_no_others(monkeypatch, name):
    seen = []
    real = chunk.chunked
    forms = companion.run.FORMS
    monkeypatch.setitem(
        forms, "chunk", forms["chunk"]._replace(run=lambda *a: seen.append(1) or real(*a))
    )
    companion.Recurrence(name, 3, 4)(torch.zeros(1, 5, 3))
    companion.Recurrence("qrnn", 3, 4)(torch.zeros(1, 5, 3))
    assert len(seen) == 1
    with pytest.raises(ValueError, match="'scan' cannot run this: .*Cell is not linear in its"):
        companion.Recurrence(name, 3, 4)(torch.zeros(1, 5, 3), form="scan")


def test_refusals_say_why():
    x = torch.zeros(2, 5, 3)
    with pytest.raises(ValueError, match="'chunk' cannot run this: LSTMCell has no matrix"):
        companion.LSTM(3, 4, batch_first=True)(x, form="chunk")
    with pytest.raises(ValueError, match="'chunk' cannot run this: tracing records the loop"):
        layer = companion.LinearAttention(3, 4)
        make_fx(lambda x: layer(x, form="chunk")[0])(x)
    with pytest.raises(ValueError, match="recurrent_dropout: expected a cell whose update reads"):
        companion.Recurrence("retnet", 3, 4, recurrent_dropout=0.5)(x)


def test_a_cell_without_along_says_so():
    class Empty(MatrixCell):
        def __init__(self, input_size, hidden_size, bias=True, **new):
            super().__init__(input_size, hidden_size)

        def prepare(self, x):
            return x

    with pytest.raises(NotImplementedError, match="Empty has no along"):
        companion.Recurrence(Empty, 3, 3)(torch.zeros(1, 2, 3))


# ---------------------------------------------------------------- the operations alone

KINDS = {"none": None, "fixed": (2,), "head": (0, 2), "keyed": (0, 2, 4)}


def rows(kind, T, B, factor=1.0):
    """q, k, v, a, b, S and log decays of 2 heads, all wanting gradients."""
    q, k, a, b = (randn(T * B, 2, 4) / 2 for _ in range(4))
    v, S = randn(T * B, 2, 3), randn(B, 24)
    shape = KINDS[kind]
    g = None if shape is None else -factor * torch.rand(*(n or T * B for n in shape)).double()
    return [None if x is None else x.requires_grad_() for x in (q, k, v, a, b, S, g)]


def stepped(op, T, B, q, k, v, a, b, S, g, **options):
    """The operation of a step, one after the other."""
    outputs = []
    for t in range(T):
        now = slice(t * B, t * B + B)
        extra = (a[now], b[now]) if op == "delta" else ()
        g_t = g if g is None or g.dim() == 1 else g[now]
        y, S = getattr(MATRIX_STEP, op)(q[now], k[now], v[now], *extra, S, g_t, **options)
        outputs.append(y)
    return torch.cat(outputs), S


def chunked(op, T, B, q, k, v, a, b, S, g, **options):
    """The operation of many rows."""
    extra = (a, b) if op == "delta" else ()
    time = chunk.Chunks([B] * T, torch.device("cpu"))
    return getattr(time, op)(q, k, v, *extra, S, g, **options)


@pytest.mark.parametrize("size", [1, 3, 64, "T+1"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", ["attend", "delta"])
def test_operations_of_many_steps_are_those_of_one(monkeypatch, op, kind, size):
    for T in LENGTHS[:-1]:
        cut(monkeypatch, size, T)
        torch.manual_seed(T)
        given = rows(kind, T, 2)
        wanted = [x for x in given if x is not None]
        found = []
        for run in (chunked, stepped):
            y, S = run(op, T, 2, *given)
            grads = torch.autograd.grad(wave(y, S), wanted, materialize_grads=True)
            found.append((y, S, *grads))
        for p, q in zip(*found, strict=True):
            relative(p, q)


def test_an_outer_product_by_hand():
    """One head, two keys, one value; decays 1/2 and 1/4, written out."""
    q = torch.tensor([[[1.0, 0.0]], [[1.0, 2.0]]])
    k = torch.tensor([[[3.0, 0.0]], [[0.0, 5.0]]])
    v = torch.tensor([[[2.0]], [[1.0]]])
    S0, g = torch.tensor([[8.0, 4.0]]), torch.tensor([[0.5], [0.25]]).log()
    for run in (chunked, stepped):
        y, S = run("attend", 2, 1, q, k, v, None, None, S0, g)
        # S_1 = (4 + 6, 2), S_2 = (10/4, 2/4 + 5)
        torch.testing.assert_close(y.flatten(), torch.tensor([10.0, 2.5 + 2 * 5.5]))
        torch.testing.assert_close(S, torch.tensor([[2.5, 5.5]]))


@pytest.mark.parametrize("size", [1, 3, 64])
def test_a_turn_of_the_state_is_a_turn_of_queries_and_keys(monkeypatch, size):
    cut(monkeypatch, size, 0)
    torch.manual_seed(0)
    T, B, turn = 40, 2, torch.tensor([1.0, 0.3], dtype=torch.float64)
    q, k, v, _, _, S, g = rows("head", T, B)
    one = chunked("attend", T, B, q, k, v, None, None, S, g, turn=turn)
    two = stepped("attend", T, B, q, k, v, None, None, S, g, turn=turn)
    assert_close(one, two, 1e-10)
    # from S = 0, the products of what is turned by its position
    place = torch.arange(T, dtype=torch.float64).repeat_interleave(B)[:, None, None] * turn
    zero = torch.zeros_like(S)
    y, _ = chunked("attend", T, B, q, k, v, None, None, zero, g, turn=-turn)
    z, _ = chunked("attend", T, B, rotate(q, place), rotate(k, place), v, None, None, zero, g)
    assert_close(y, z, 1e-10)


def test_a_turn_is_exact_after_thousands(monkeypatch):
    """float32 has no digits for the fraction of 10,000 turns; the state at the end needs it."""
    T, turn = 20_000, torch.tensor([1.0, 0.3])
    k = torch.zeros(T, 1, 4)
    k[-2:] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    q, v, S = torch.ones(T, 1, 4), torch.ones(T, 1, 1), torch.zeros(1, 4)
    monkeypatch.setattr(chunk, "CHUNK", 1000)
    y, end = chunked("attend", T, 1, q, k, v, None, None, S, None, turn=turn)
    want = k[-1, 0] + rotate(k[-2, 0], turn)
    torch.testing.assert_close(end[0], want, rtol=0, atol=2e-6)
    torch.testing.assert_close(y[-1, 0, 0], want.sum(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["head", "keyed"])
@pytest.mark.parametrize("op", ["attend", "delta"])
def test_no_decay_is_too_strong(op, kind):
    """Decays to nothing, at once or over a chunk: no 0/0, no ∞ − ∞, also in the gradient."""
    torch.manual_seed(0)
    for factor in (30.0, 1000.0, math.inf):
        given = rows(kind, 70, 2, factor if factor < math.inf else 1.0)
        if factor == math.inf:
            g = given[-1].detach().clone()
            g[20:50] = -math.inf
            given[-1] = g.requires_grad_()
        wanted = [x for x in given if x is not None]
        found = []
        for run in (chunked, stepped):
            y, S = run(op, 70, 2, *given)
            grads = torch.autograd.grad(wave(y, S), wanted, materialize_grads=True)
            found.append((y, S, *grads))
        for p, q in zip(*found, strict=True):
            assert p.isfinite().all()
            relative(p, q)


def test_after_a_strong_decay_a_weak_one_is_exact():
    """Sums of logarithms whose differences would have lost it: −1e6, and then −0.001 a step."""
    T = 60
    g = torch.full((T, 1), -0.001)
    g[5] = -1e6
    q = k = torch.zeros(T, 1, 1)
    k = k.clone()
    k[6], q = 1.0, torch.ones(T, 1, 1)
    v = torch.ones(T, 1, 1)
    y, _ = chunked("attend", T, 1, q, k, v, None, None, torch.ones(1, 1), g)
    want = torch.exp(-0.001 * torch.arange(T - 6, dtype=torch.float64))
    torch.testing.assert_close(y[6:, 0, 0].double(), want, rtol=1e-6, atol=0)


def test_the_running_maximum():
    torch.manual_seed(0)
    for T in (1, 7, 64, 150):
        a, b = -torch.rand(T, 3).double(), randn(T, 3) * 3
        first = torch.tensor([[-math.inf, 0.0, 50.0]], dtype=torch.float64)
        time = chunk.Chunks([1] * T, torch.device("cpu"))
        ms, kept, last = time.peak(a, b, first)
        m, want, rests = first, [], []
        for t in range(T):
            before, m = m, torch.maximum(a[t] + m, b[t])
            want.append(m)
            rests.append(a[t] + before - m)
        assert_close((ms, kept, last), (torch.cat(want), torch.cat(rests), m), 1e-11)


@pytest.mark.parametrize("T", [1, 2, 63, 64, 65, 150])
def test_the_running_maximum_has_the_gradients_of_the_loop(T):
    """Of ties there are none; a row of −∞ is not written, a decay of −∞ leaves nothing."""
    torch.manual_seed(T)
    a, b, first = -torch.rand(2 * T, 3).double(), randn(2 * T, 3) * 3, randn(2, 3)
    a[T], b[T // 2] = -math.inf, -math.inf
    wanted = [x.requires_grad_() for x in (a, b, first)]
    found = []
    for time in (chunk.Chunks([2] * T, torch.device("cpu")), None):
        if time:
            ms, kept, last = time.peak(a, b, first)
        else:
            last, parts = first, []
            for t in range(T):
                m, k, last = MATRIX_STEP.peak(a[2 * t : 2 * t + 2], b[2 * t : 2 * t + 2], last)
                parts.append((m, k))
            ms, kept = (torch.cat(p) for p in zip(*parts, strict=True))
        loss = wave(ms.sin(), kept.exp(), last.cos())
        found.append((ms, kept.exp(), last, *torch.autograd.grad(loss, wanted)))
    for p, q in zip(*found, strict=True):
        assert p.isfinite().all()
        assert_close(p, q, 1e-11)


def test_of_small_logarithms_nothing_is_lost_between_large_ones():
    """m_t = b_t where a_t = −1e9: the sum of all a has no digits left for b."""
    a, b = torch.full((64, 3), -1e9), torch.randn(64, 3)
    ms, _, last = chunk.Chunks([1] * 64, torch.device("cpu")).peak(a, b, torch.zeros(1, 3))
    assert torch.equal(ms, b) and torch.equal(last, b[-1:])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"q": (6, 2)}, r"attend: q, v: expected \(N, h, d_k\) and .* N = 6, got \(6, 2\)"),
        ({"q": (5, 2, 4)}, r"attend: q, v: .*N = 6, got \(5, 2, 4\)"),
        ({"k": (6, 2, 3)}, r"attend: k: expected shape \(6, 2, 4\), got \(6, 2, 3\)"),
        ({"v": (6, 1, 3)}, r"attend: v: expected shape \(6, 2, 3\)|attend: v: .*got \(6, 1, 3\)"),
        ({"S": (2, 25)}, r"attend: state: expected shape \(2, 24\), got \(2, 25\)"),
        ({"g": (6, 3)}, r"attend: log_decay: expected shape \(2,\), \(6, 2\) or \(6, 2, 4\)"),
        ({"turn": (3,)}, r"attend: turn: expected \(d_k / 2,\) with d_k = 4, got \(3,\)"),
        ({"turn": (2,), "g": (6, 2, 4)}, "attend: turn: expected a decay that a whole head"),
    ],
)
def test_shapes_are_checked(change, message):
    shapes = {"q": (6, 2, 4), "k": (6, 2, 4), "v": (6, 2, 3), "S": (2, 24), "g": (6, 2)}
    tensors = {n: torch.zeros(s) for n, s in {**shapes, "turn": (2,), **change}.items()}
    time = chunk.Chunks([2, 2, 2], torch.device("cpu"))
    with pytest.raises(ValueError, match=f"^time.{message}"):
        time.attend(*tensors.values())


# ---------------------------------------------------------------- length and precision


@pytest.mark.parametrize("name", MATRIX)
def test_a_hundred_thousand_steps(name):
    """Finite, and as exact as float32 is: sums and decays neither overflow nor drift."""
    torch.manual_seed(0)
    layer = companion.Recurrence(name, 3, 4)
    exact = companion.Recurrence(name, 3, 4, dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(1, 100_000, 3) * 3
    with torch.no_grad():
        y, final = layer(x)
        want, _ = exact(x.double())
    assert all(s.isfinite().all() for s in (y, *flat_state(final)))
    assert (y - want).abs().max() < 1e-3 * want.abs().max()


@pytest.mark.parametrize("name", MATRIX)
def test_half_precision_states_have_its_dtype_and_sums_are_in_float32(name):
    torch.manual_seed(0)
    exact = companion.Recurrence(name, 3, 4, dtype=torch.float64)
    half = companion.Recurrence(name, 3, 4, dtype=torch.bfloat16)
    half.load_state_dict(exact.state_dict())
    exact.load_state_dict(half.state_dict())
    x = torch.randn(2, 300, 3).bfloat16()
    y, final = half(x, lengths=[300, 170])
    want, _ = exact(x.double(), lengths=[300, 170])
    assert y.dtype == torch.bfloat16 and all(s.dtype == y.dtype for s in flat_state(final))
    assert (y.double() - want).abs().mean() < 0.03 * want.abs().mean()


def test_autocast_multiplies_states_in_float32():
    torch.manual_seed(0)
    q, k, v, a, b, S, g = (x.detach().float() for x in rows("head", 100, 1, 0.01))
    with torch.autocast("cpu", torch.bfloat16):
        one = chunked("attend", 100, 1, q, k, v, a, b, S, g)
        two = chunked("delta", 100, 1, q, k, v, a / 4, b / 4, S, g)
    for found, op, f in ((one, "attend", 1), (two, "delta", 4)):
        want = stepped(op, 100, 1, q, k, v, a / f, b / f, S, g)
        for p, w in zip(found, want, strict=True):
            assert p.dtype == torch.float32
            torch.testing.assert_close(p, w, rtol=1e-4, atol=1e-4)
