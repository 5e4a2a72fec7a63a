"""The convolution: the sum it stands for, and the loop it must equal, whatever ends where."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import companion
import companion.models
from companion.cells import flat_state, map_state
from companion.run.conv import causal_convolution, fast_length

from ..helpers import assert_close, randn, wave

LINEAR = {
    "s4d": {"order": 6},
    "s4": {"order": 6},
    "lru": {"order": 5},
    "rglru": {},
    "mingru": {},
    "mingru_positive": {},
    "minlstm": {},
}
FORMS = {"s4d": ["conv", "scan"], "s4": ["conv"], "lru": ["conv", "scan"]}
CASES = [(name, form) for name in LINEAR for form in FORMS.get(name, ["scan"])]


def both(layer, x, state, form, **options):
    """Outputs and all gradients of the loop and of another form."""
    found = []
    for f in ("loop", form):
        y, final = layer(x, state, form=f, **options)
        wanted = [x, state, *layer.parameters()]
        grads = torch.autograd.grad(wave(y, final), wanted, materialize_grads=True)
        found.append((y, final, *grads))
    return zip(*found, strict=True)


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33, 64, 257])
@pytest.mark.parametrize("kind", ["whole", "lengths", "reset", "both"])
@pytest.mark.parametrize("name, form", CASES)
def test_every_form_of_a_linear_cell_equals_the_loop(name, form, kind, T):
    torch.manual_seed(T)
    layer = companion.Recurrence(
        name, 3, 4, 2, bidirectional=True, dtype=torch.float64, **LINEAR[name]
    )
    x = randn(5, T, 3).requires_grad_()
    state = torch.randn_like(layer.initial_state(5)).requires_grad_()
    options = {}
    if kind in ("lengths", "both"):
        options["lengths"] = torch.tensor([0, T, T // 2, max(T - 1, 1), 1])
    if kind in ("reset", "both"):
        options["reset"] = torch.rand(5, T) < 0.1
    for a, b in both(layer, x, state, form, **options):
        assert_close(b, a, 1e-10 * max(1.0, a.abs().max().item()))


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33, 64, 257])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_it_is_the_sum(T, dtype):
    torch.manual_seed(T)
    k, v = (torch.randn(*s, T, dtype=dtype, requires_grad=True) for s in [(3,), (2, 3)])
    steps = torch.arange(T)
    toeplitz = torch.where(steps >= steps[:, None], k[:, (steps - steps[:, None]).abs()], 0)
    want = (v.unsqueeze(-2) @ toeplitz).squeeze(-2)  # [j, t] is k_{t-j}
    found = causal_convolution(k, v)
    assert_close(found, want, 1e-12 * T)
    real = [torch.view_as_real(y) if y.is_complex() else y for y in (want, found)]
    for a, b in zip(*(torch.autograd.grad(wave(y), [k, v]) for y in real), strict=True):
        assert_close(a, b, 1e-11 * T)


def test_its_gradients_have_gradients():
    k, v = randn(2, 5).requires_grad_(), randn(2, 2, 5).requires_grad_()
    assert torch.autograd.gradcheck(causal_convolution, (k, v))
    assert torch.autograd.gradgradcheck(causal_convolution, (k, v))


def test_fast_lengths():
    good = sorted(m << a for a in range(12) for m in (1, 3, 5))
    for n in range(1, 2000):
        assert fast_length(n) == next(g for g in good if g >= n)


def graph(y):
    """Names of the functions behind a tensor."""
    names, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        names.add(node.name())
        todo += [n for n, _ in node.next_functions if n is not None]
    return names


def test_it_is_the_default_where_many_modes_share_a_kernel():
    x = torch.randn(2, 5, 3)
    for kind in (companion.S4D, companion.S4):
        assert "FftR2CBackward0" in graph(kind(3, 3, order=4)(x)[0])
    names = graph(companion.LRU(3, 3)(x)[0])
    assert "ScanBackward" in names and not any("Fft" in n for n in names)


def test_what_it_refuses():
    x = torch.randn(2, 5, 3)
    for layer in (companion.GRU(3, 4, batch_first=True), companion.RGLRU(3, 4)):
        with pytest.raises(ValueError, match="'conv' cannot run this: .* is not the same at"):
            layer(x, form="conv")
    with pytest.raises(ValueError, match="'scan' cannot run this: S4Cell is not linear"):
        companion.S4(3, 4, order=2)(x, form="scan")
    with pytest.raises(ValueError, match="recurrent_dropout: expected a cell whose update"):
        companion.Recurrence("s4d", 3, 4, order=2, recurrent_dropout=0.5)(x)
    with pytest.raises(ValueError, match="zoneout: expected 0 for S4DCell"):
        companion.Recurrence("s4d", 3, 4, order=2, zoneout=0.5)


def test_make_fx_records_the_loop():
    torch.manual_seed(0)
    layer = companion.S4D(3, 3, order=4, dtype=torch.float64)
    x, z = randn(1, 6, 3), randn(1, 6, 3)
    assert_close(make_fx(lambda x: layer(x)[0])(x)(z), layer(z)[0], 1e-12)
    with pytest.raises(ValueError, match="'conv' cannot run this: tracing records the loop"):
        make_fx(lambda x: layer(x, form="conv")[0])(x)


def test_one_kernel_for_all_pieces_of_one_length(monkeypatch):
    """Lengths 9, 6 and 3 make three pieces of three steps."""
    layer, made = companion.S4D(2, 2, order=4, dtype=torch.float64), []
    unrolled = companion.S4DCell.unrolled
    monkeypatch.setattr(
        companion.S4DCell, "unrolled", lambda self, T: made.append(T) or unrolled(self, T)
    )
    x = randn(3, 9, 2)
    y, _ = layer(x, lengths=[9, 6, 3])
    assert made == [3]
    assert_close(y[0], layer(x[:1], form="loop")[0][0])


@pytest.mark.parametrize("name", ["s4d", "s4", "lru"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("lengths", [None, [60, 60, 17]])
def test_half_precision_is_rounded_once_however_it_is_cut(name, dtype, lengths):
    """What the same weights give in float32 and x has exactly, but for the last rounding."""
    torch.manual_seed(0)
    layer = companion.Recurrence(name, 4, 4, order=8, dtype=dtype)
    wide = companion.Recurrence(name, 4, 4, order=8)
    wide.load_state_dict(layer.state_dict())
    x, state = torch.randn(3, 60, 4).to(dtype), torch.randn_like(layer.initial_state(3))
    y, h = layer(x, state, lengths=lengths, form="conv")
    z, e = wide(x.float(), state.float(), lengths=lengths, form="conv")
    assert y.dtype == h.dtype == dtype
    eps = torch.finfo(dtype).eps
    if name != "lru":  # whose product with B is rounded before
        torch.testing.assert_close(y.float(), z, rtol=eps, atol=1e-4)
        torch.testing.assert_close(h.float(), e, rtol=eps, atol=1e-4)
    torch.testing.assert_close(y.float(), z, rtol=0, atol=8 * eps * z.abs().max().item())


@pytest.mark.parametrize("name", ["s4d", "s4"])
@pytest.mark.parametrize("form", ["conv", "loop", None])
def test_autocast_rounds_nothing_inside(name, form):
    """Where D = H no product of weights and inputs is there to be rounded."""
    torch.manual_seed(0)
    layer, x = companion.Recurrence(name, 4, 4, order=8), torch.randn(2, 100, 4)
    want = layer(x, form=form)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x, form=form)
    for a, b in zip(found, want, strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6 * b.abs().max().item())


@pytest.mark.parametrize("name", ["s4d", "s4", "lru"])
def test_autocast_keeps_the_state_in_float32(name):
    torch.manual_seed(0)
    layer, x = companion.Recurrence(name, 3, 4, order=8), torch.rand(2, 300, 3)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = [layer(x, form=form) for form in ("conv", "loop")]
        found.append(layer(x, lengths=[300, 170], form="conv"))
    y, h = found[1]
    for z, e in found:
        assert z.dtype == y.dtype and e.dtype == h.dtype == torch.float32
        torch.testing.assert_close(z[:1], y[:1], rtol=0.02, atol=0.02 * y.abs().max().item())
        torch.testing.assert_close(e[:, :1], h[:, :1], rtol=0.01, atol=0.01)


def test_23_the_convolution_is_the_recurrence_in_float32():
    """s4#52, #115, #135, #158: off by 1e-2. Here: relative to the largest output, 1e-5."""
    for name in ("s4d", "s4", "lru"):
        torch.manual_seed(0)
        layer, x = companion.Recurrence(name, 4, 4, order=16), torch.randn(2, 1000, 4)
        found = [layer(x, form=form) for form in ("conv", "loop")]
        for a, b in zip(*(flat_state(f) for f in found), strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-5 * b.abs().max().item())


def test_the_given_state_is_left_and_parts_join():
    torch.manual_seed(0)
    for name in ("s4d", "s4", "lru"):
        layer = companion.Recurrence(name, 3, 4, 2, order=6, dtype=torch.float64)
        x = randn(2, 40, 3)
        y, final = layer(x, form="conv")
        state, rows = None, []
        for piece in x.split([1, 13, 0, 26], 1):
            y_k, state = layer(piece, state, form="conv")
            rows.append(y_k)
        assert_close(torch.cat(rows, 1), y)
        assert_close(state, final)
        kept = map_state(torch.clone, state)
        layer(x, state, form="conv")
        assert torch.equal(state, kept)


@pytest.mark.parametrize("name, forms", [("s4d", ("scan", "loop")), ("s4", ("loop",))])
def test_what_comes_later_rounds_only_the_convolution(name, forms):
    """As documented: 1e9 at the end leaves 1e9 ε in the first outputs, NaN leaves NaN."""
    torch.manual_seed(0)
    layer, x = companion.Recurrence(name, 4, 4, order=8), torch.randn(1, 60, 4)
    want = layer(x, form="loop")[0][:, :50]
    for value, error in ((1e9, 1e9 * torch.finfo(torch.float32).eps), (torch.nan, None)):
        late = x.clone()
        late[:, 50:] = value
        for form in forms:
            torch.testing.assert_close(layer(late, form=form)[0][:, :50], want, rtol=0, atol=1e-5)
        y = layer(late, form="conv")[0][:, :50]
        off = (y - want).abs().max().item()
        assert y.isnan().all() if error is None else error / 1e3 < off < error * 1e3


@pytest.mark.parametrize("cell", ["s4d", "s4", "lru", "rglru", "mingru", "minlstm"])
def test_a_language_model_read_in_parts_is_the_whole(cell):
    torch.manual_seed(0)
    model = companion.models.LanguageModel(20, 8, 8, cell=cell, num_layers=2).double().eval()
    tokens = torch.randint(0, 20, (3, 30))
    whole, _ = model(tokens)
    first, state = model(tokens[:, :13])
    second, _ = model(tokens[:, 13:], state)
    assert_close(torch.cat([first, second], 1), whole)
