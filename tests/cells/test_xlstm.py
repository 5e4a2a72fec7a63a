"""mLSTM and sLSTM against sums over all steps, with gates as they are: no stabilizer."""

from __future__ import annotations

import pytest
import torch

import companion
from companion import MLSTMCell, SLSTMCell

from ..helpers import assert_close, randn, random_state, wave

H, B = 8, 2
OPEN = {"sigmoid": torch.sigmoid, "exp": torch.exp}


def mlstm(cell, x, C, n, m, heads, forget):
    """The equations without m: the true C and n are what is kept times e^m."""
    d = H // heads
    u = x @ cell.weight_ih.T + (0 if cell.bias_ih is None else cell.bias_ih)
    q, k, v, o, i, f = u.split([H, H, H, H, heads, heads], -1)
    i, f = torch.exp(i), OPEN[forget](f)
    C = C.unflatten(1, (heads, d, d)) * m.exp()[..., None, None]
    n = n.unflatten(1, (heads, d)) * m.exp()[..., None]
    rows = []
    for t in range(len(x)):
        q_t, k_t, v_t = (p[t].unflatten(-1, (heads, d)) for p in (q, k / d**0.5, v))
        outer = torch.einsum("bhd,bhe->bhde", k_t, v_t)
        C = f[t][..., None, None] * C + i[t][..., None, None] * outer
        n = f[t][..., None] * n + i[t][..., None] * k_t
        read = torch.einsum("bhde,bhd->bhe", C, q_t)
        weight = torch.einsum("bhd,bhd->bh", n, q_t).abs().clamp(min=1)
        rows.append(torch.sigmoid(o[t]) * (read / weight[..., None]).flatten(1))
    return torch.stack(rows), C, n


@pytest.mark.parametrize("form", ["loop", "chunk"])
@pytest.mark.parametrize("heads, forget, bias", [(1, "sigmoid", True), (2, "exp", False)])
def test_the_stabilizer_of_the_mlstm_cancels(form, heads, forget, bias):
    """To 1e-6 of the divisor, which the authors add and the equations do not have."""
    for T in (1, 2, 3, 7, 33, 64):
        torch.manual_seed(T)
        layer = companion.MLSTM(
            3, H, bias=bias, batch_first=False, dtype=torch.float64, heads=heads, forget=forget
        )
        state = random_state(layer, B)
        x = randn(T, B, 3)
        y, (C, n, m) = layer(x, state, form=form)
        z, C_true, n_true = mlstm(layer.cell(0), x, *(s[0] for s in state), heads, forget)
        assert (y - z).abs().max() < 1e-4 * max(1.0, z.abs().max().item())
        scale = m[0].exp()
        for ours, true in ((C, C_true), (n, n_true)):
            found = ours[0].unflatten(1, (heads, -1)) * scale[..., None]
            want = true.flatten(2)
            size = max(1.0, want.detach().abs().max().item())
            assert_close(found / size, want / size, 1e-10)


def slstm(cell, x, h, c, n, m, heads, forget):
    """The equations without m, R as one matrix with zeros between heads."""
    d = H // heads
    R = torch.cat([torch.block_diag(*block.split(d)) for block in cell.weight_hh.split(H)])
    c, n, rows = c * m.exp(), n * m.exp(), []
    for x_t in x:
        u = x_t @ cell.weight_ih.T + h @ R.T + (0 if cell.bias_ih is None else cell.bias_ih)
        z, i, f, o = u.chunk(4, -1)
        c = OPEN[forget](f) * c + torch.exp(i) * torch.tanh(z)
        n = OPEN[forget](f) * n + torch.exp(i)
        h = torch.sigmoid(o) * c / n
        rows.append(h)
    return torch.stack(rows), h, c, n


@pytest.mark.parametrize("heads, forget, bias", [(1, "exp", True), (4, "sigmoid", False)])
def test_the_stabilizer_of_the_slstm_cancels(heads, forget, bias):
    for T in (1, 2, 3, 7, 33):
        torch.manual_seed(T)
        layer = companion.SLSTM(
            3, H, bias=bias, batch_first=False, dtype=torch.float64, heads=heads, forget=forget
        )
        for state in (random_state(layer, B), layer.initial_state(B)):
            x = randn(T, B, 3).requires_grad_()
            y, (h, c, n, m) = layer(x, state)
            z, *ends = slstm(layer.cell(0), x, *(s[0] for s in state), heads, forget)
            wanted = [x, *layer.parameters()]
            ours = (y, h[0], (c * m.exp())[0], (n * m.exp())[0])
            ours += torch.autograd.grad(wave(y), wanted)
            theirs = (z, *ends, *torch.autograd.grad(wave(z), wanted))
            for a, b in zip(ours, theirs, strict=True):
                scale = max(1.0, b.detach().abs().max().item())
                assert_close(a / scale, b / scale, 1e-10)


@pytest.mark.parametrize("kind", ["MLSTM", "SLSTM"])
@pytest.mark.parametrize("gate", [-300.0, 300.0])
def test_input_gates_of_any_size_give_finite_numbers(kind, gate):
    """Case 28: e^±300 is no float32, and of what it weighs the mean is."""
    torch.manual_seed(0)
    layer = getattr(companion, kind)(3, 4, heads=1, forget="exp")
    where = slice(16, 17) if kind == "MLSTM" else slice(4, 8)
    with torch.no_grad():
        layer.bias_ih_l0[where] = gate
    x = torch.randn(2, 50, 3).requires_grad_()
    y, state = layer(x)
    y.sum().backward()
    for tensor in (y, *state, x.grad, *(p.grad for p in layer.parameters())):
        assert tensor.isfinite().all()
    if kind == "SLSTM" or gate > 0:
        assert y.abs().max() > 1e-3  # not because all vanished


def test_what_the_slstm_remembers_is_a_mean_of_what_came():
    """With f = i = 1 and the gate open, h is the mean of all tanh z."""
    cell = SLSTMCell(2, 2, heads=1, forget="exp", dtype=torch.float64)
    with torch.no_grad():
        for p in cell.parameters():
            p.zero_()
        cell.weight_ih[:2] = torch.eye(2)
        cell.bias_ih[6:] = 50.0
    x, state = randn(9, 1, 2), cell.initial_state(1)
    for t in range(9):
        h, state = cell.step(x[t], state)
        assert_close(h, torch.tanh(x[: t + 1]).mean(0), 1e-12)


def test_the_slstm_mixes_within_heads_only():
    torch.manual_seed(0)
    cell = SLSTMCell(3, H, heads=2, dtype=torch.float64)
    x, state = randn(1, 3), [randn(1, H) for _ in range(4)]
    state[2] = state[2].abs() + 1
    y, _ = cell.step(x, tuple(state))
    state[0] = state[0].clone()
    state[0][:, :4] += 1  # the first head's units
    z, _ = cell.step(x, tuple(state))
    assert (y != z)[:, :4].all() and (y == z)[:, 4:].all()


def test_noise_of_the_slstm_is_that_of_its_units():
    layer = companion.SLSTM(3, 4, recurrent_dropout=0.5, zoneout=0.2)
    x = torch.randn(2, 6, 3)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


def test_forget_gates_start_open():
    for cell, where in (
        (MLSTMCell(3, 8, heads=4), slice(36, 40)),
        (SLSTMCell(3, 4), slice(8, 12)),
    ):
        assert cell.bias_ih[where].tolist() == [3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize("kind", ["MLSTM", "SLSTM"])
@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"heads": 3}, ValueError, "hidden_size: expected a multiple of heads = 3, got 4"),
        ({"forget": "tanh"}, ValueError, "forget: expected one of .*got 'tanh'"),
        ({"forget": None}, ValueError, "forget: expected one of .*got None"),
    ],
)
def test_options_are_checked(kind, options, error, message):
    with pytest.raises(error, match=message):
        getattr(companion, kind)(3, 4, **options)


def test_what_they_print():
    assert repr(companion.MLSTM(3, 4, heads=4)) == "MLSTM(3, 4, heads=4)"
    assert repr(SLSTMCell(3, 4, forget="exp")) == "SLSTMCell(3, 4, forget=exp)"


@pytest.mark.parametrize("form", ["loop", "chunk"])
@pytest.mark.parametrize("forget", ["sigmoid", "exp"])
def test_where_the_mlstm_forgets_all_and_writes_nothing_gradients_are_finite(forget, form):
    """Both gates e^-100: so is the maximum, and e^100 is no float32. What is left is near 0."""
    torch.manual_seed(0)
    layer = companion.MLSTM(3, 4, heads=1, forget=forget)
    with torch.no_grad():
        layer.bias_ih_l0[16:] = -100.0
    x = torch.randn(2, 70, 3).requires_grad_()
    y, state = layer(x, form=form)
    grads = torch.autograd.grad(y.sum(), [x, *layer.parameters()])
    assert all(s.isfinite().all() for s in (y, *state, *grads))
    assert y.abs().max() < 1e-30


def test_a_negative_maximum_changes_nothing():
    """Against max(|nᵀq|, e^-m) as it is written, in float64, where e^100 is a number."""
    torch.manual_seed(0)
    layer = companion.MLSTM(3, 4, heads=1, dtype=torch.float64)
    with torch.no_grad():
        layer.bias_ih_l0[16:] = torch.tensor([-3.0, -2.0])
    x = randn(1, 6, 3)
    y, _ = layer(x)
    u = torch.nn.functional.linear(x[0], layer.weight_ih_l0, layer.bias_ih_l0)
    q, k, v, o, i, f = u.split([4, 4, 4, 4, 1, 1], -1)
    C, n, m = torch.zeros(4, 4).double(), torch.zeros(4).double(), torch.zeros(1).double()
    for t in range(6):
        log_f = torch.nn.functional.logsigmoid(f[t])
        before, m = m, torch.maximum(log_f + m, i[t])
        keep, write = torch.exp(log_f + before - m), torch.exp(i[t] - m)
        C = keep * C + write * torch.outer(k[t] / 2, v[t])
        n = keep * n + write * k[t] / 2
        weight = torch.maximum((n @ q[t]).abs(), torch.exp(-m)) + 1e-6
        assert_close(y[0, t], torch.sigmoid(o[t]) * (C.T @ q[t]) / weight, 1e-12)
    assert m < -1
