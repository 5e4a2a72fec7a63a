"""S4D and S4 against the continuous systems they sample, HiPPO, and the papers' formulas."""

from __future__ import annotations

import math

import pytest
import torch

import companion
from companion import S4Cell, S4DCell
from companion.cells.state_space import (
    Dense,
    Diagonal,
    Modes,
    bilinear,
    complex_of,
    expm1,
    hippo_legs,
    krylov,
    normal_plus_low_rank,
    pairs_of,
    powers,
    zero_order_hold,
)

from ..helpers import assert_close, randn, wave

B = 2


def system(cell):
    """Of an S4D cell: A, C (H, N/2) complex, Δ (H, 1), D (H,)."""
    A = -torch.exp(cell.log_decay) + 1j * cell.frequency
    C = cell.C[:, ::2] + 1j * cell.C[:, 1::2]
    return A, C, torch.exp(cell.log_dt)[:, None], cell.D


def s4d(x, h, cell):
    """The equations, one step after another; h (B, H, N/2) complex."""
    A, C, dt, D = system(cell)
    if cell.discretization == "zoh":
        a, b = torch.exp(dt * A), (torch.exp(dt * A) - 1) / A
    else:
        a, b = (1 + dt * A / 2) / (1 - dt * A / 2), dt / (1 - dt * A / 2)
    outputs = []
    for x_t in x.unbind(1):
        h = a * h + b * x_t[..., None]
        outputs.append(2 * (C * h).sum(-1).real + D * x_t)
    return torch.stack(outputs, 1), h


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33, 64, 257])
@pytest.mark.parametrize("form", ["loop", "scan", "conv"])
@pytest.mark.parametrize("discretization", ["zoh", "bilinear"])
@pytest.mark.parametrize("frequencies", ["lin", "inv", "legs"])
def test_s4d_is_its_equations(T, form, discretization, frequencies):
    torch.manual_seed(T)
    options = {"order": 6, "discretization": discretization, "frequencies": frequencies}
    layer = companion.S4D(3, 3, dt_max=1.0, dtype=torch.float64, **options)
    x, h0 = randn(B, T, 3).requires_grad_(), randn(1, B, 18).requires_grad_()
    y, h = layer(x, h0, form=form)
    wanted = [x, h0, *layer.parameters()]
    z, e = s4d(x, torch.view_as_complex(h0[0].view(B, 3, 3, 2)), layer.cell(0))
    e = torch.view_as_real(e).reshape(1, B, 18)
    assert_close((y, h), (z, e), 1e-12)
    for a, c in zip(
        torch.autograd.grad(wave(y, h), wanted),
        torch.autograd.grad(wave(z, e), wanted),
        strict=True,
    ):
        assert_close(a, c, 1e-11 * max(1.0, c.abs().max().item()))


def test_the_kernel_is_the_papers():
    """k_j = 2 Re Σ C B̄ Ā^j, with the powers as exponentials."""
    torch.manual_seed(0)
    cell = S4DCell(3, 3, order=8, dtype=torch.float64)
    A, C, dt, _ = system(cell)
    j = torch.arange(100)
    E = torch.exp((dt * A)[..., None] * j)
    want = 2 * ((C * (torch.exp(dt * A) - 1) / A)[..., None] * E).sum(1).real
    assert_close(cell.unrolled(100).kernel, want, 1e-12)


def test_frequencies_are_those_of_the_paper():
    n, N = torch.arange(4, dtype=torch.float64), 8
    found = {f: S4DCell(1, 1, order=N, frequencies=f) for f in ("lin", "inv", "legs")}
    for cell in found.values():
        assert_close(cell.log_decay.detach().exp(), torch.full((1, 4), 0.5), 1e-6)
    assert_close(found["lin"].frequency.detach()[0], (math.pi * n).float(), 1e-5)
    want = N / math.pi * (N / (2 * n + 1) - 1)
    assert_close(found["inv"].frequency.detach()[0], want.float(), 1e-5)
    A, _ = hippo_legs(N)
    P = torch.sqrt(torch.arange(N) + 0.5)
    eigenvalues = torch.linalg.eigvals(A + P.outer(P).double())
    assert_close(eigenvalues.real, torch.full((N,), -0.5, dtype=torch.float64), 1e-6)
    upper = eigenvalues.imag[eigenvalues.imag > 0].sort().values
    assert_close(found["legs"].frequency.detach()[0], upper.float(), 1e-4)


def test_a_zero_order_hold_is_exact_for_steps():
    """Each sample twice at half the step: every second state is that of the whole step."""
    torch.manual_seed(0)
    layer = companion.S4D(2, 2, order=8, dtype=torch.float64)
    half = companion.S4D(2, 2, order=8, dtype=torch.float64)
    half.load_state_dict(layer.state_dict())
    with torch.no_grad():
        half.log_dt_l0.sub_(math.log(2))
    x = randn(B, 20, 2)
    y, h = layer(x)
    z, e = half(x.repeat_interleave(2, 1))
    assert_close(h, e, 1e-13)
    assert_close(y, z[:, 1::2], 1e-12)


def test_both_discretizations_approach_the_integral():
    """h'(t) = A h + v with v(t) = cos t, h(0) = 0: h(1) is known; bilinear errs as Δ²."""
    A = torch.tensor([-0.5 + 3j], dtype=torch.complex128)
    exact = ((A * torch.exp(A) - A * math.cos(1) + math.sin(1)) / (A**2 + 1)).item()
    errors = {}
    for steps in (100, 200):
        dt = torch.tensor([1 / steps], dtype=torch.float64)
        for rule in (zero_order_hold, bilinear):
            a, b = rule(A, dt)
            h = torch.zeros(1, dtype=torch.complex128)
            for k in range(steps):
                h = a * h + b * math.cos((k + 0.5) / steps)  # the middle of the step
            errors[rule, steps] = abs(h.item() - exact)
    for rule in (zero_order_hold, bilinear):
        assert errors[rule, 100] < 1e-3
        assert errors[rule, 100] / errors[rule, 200] == pytest.approx(4, rel=0.05)


def test_expm1_keeps_its_digits():
    z = torch.tensor([1e-9 + 2e-9j, -0.5 + 3j, 1e-12j, 0j], dtype=torch.complex128)
    want = z + z**2 / 2
    assert (expm1(z) - want)[[0, 2]].abs().max() < 1e-24
    assert_close(expm1(z)[1], torch.exp(z[1]) - 1, 1e-15)
    assert expm1(z)[3] == 0


# ---------------------------------------------------------------- HiPPO and S4


def test_hippo_legs():
    A, b = hippo_legs(3)
    r = math.sqrt
    want = [[-1, 0, 0], [-r(3), -2, 0], [-r(5), -r(15), -3]]
    assert_close(A, torch.tensor(want, dtype=torch.float64), 1e-14)
    assert_close(b, torch.tensor([1, r(3), r(5)], dtype=torch.float64), 1e-14)


def test_hippo_remembers_a_signal():
    """The state of h' = (A h + B f) / t holds the Legendre coefficients of f on [0, t]."""
    N, steps = 8, 4000
    A, b = hippo_legs(N)
    h, eye = torch.zeros(N, dtype=torch.float64), torch.eye(N, dtype=torch.float64)
    f = torch.cos(3 * (torch.arange(steps) + 0.5) / steps).double()
    for k in range(1, steps):  # trapezoids: a step from k to k + 1
        right = (eye + A / (2 * k)) @ h + b * f[k] / k
        h = torch.linalg.solve(eye - A / (2 * (k + 1)), right)
    s = torch.linspace(-0.9, 1, 50, dtype=torch.float64)  # the very first steps are too long
    basis = [torch.ones_like(s), s]
    for n in range(1, N - 1):
        basis.append(((2 * n + 1) * s * basis[-1] - n * basis[-2]) / (n + 1))
    found = (h * b) @ torch.stack(basis)
    assert_close(found, torch.cos(3 * (s + 1) / 2), 0.01)


@pytest.mark.parametrize("N", [2, 8, 64])
def test_hippo_is_normal_plus_low_rank(N):
    A, b = hippo_legs(N)
    lam, P, b_v, V = normal_plus_low_rank(N)
    assert (lam.imag > 0).all() and (lam.imag.diff() > 0).all()
    V, lam = torch.cat([V, V.conj()], 1), torch.cat([lam, lam.conj()])
    P, b_v = torch.cat([P, P.conj()]), torch.cat([b_v, b_v.conj()])
    assert_close(V @ V.mH, torch.eye(N, dtype=V.dtype), 1e-12)
    assert_close((V @ (lam.diag() - P.outer(P.conj())) @ V.mH).real, A, 1e-10)
    assert_close((V @ b_v).real, b, 1e-10)


def legendre(cell):
    """Of an S4 cell: A, B and every row of C in the basis of the Legendre polynomials, real."""
    N = cell.order
    A, b = hippo_legs(N)
    *_, V = normal_plus_low_rank(N)
    C = torch.view_as_complex(cell.C.detach().view(-1, N // 2, 2)) @ V.mH
    return A, b, 2 * C.real


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33, 64, 257])
@pytest.mark.parametrize("form", ["loop", "conv"])
def test_at_the_start_s4_is_hippo_legs(T, form):
    """The recurrence of the paper with HiPPO's own matrix."""
    torch.manual_seed(T)
    N, layer = 8, companion.S4(2, 2, order=8, dt_max=1.0, dtype=torch.float64)
    cell = layer.cell(0)
    A, b, C = legendre(cell)
    x, eye, outputs = randn(B, T, 2), torch.eye(N, dtype=torch.float64), []
    h = torch.zeros(B, 2, N, dtype=torch.float64)
    for x_t in x.unbind(1):
        parts = []
        for k, dt in enumerate(cell.log_dt.detach().exp()):
            left = torch.linalg.inv(eye - dt / 2 * A)
            A_d, b_d = left @ (eye + dt / 2 * A), left @ b * dt
            parts.append(h[:, k] @ A_d.T + b_d * x_t[:, k : k + 1])
        h = torch.stack(parts, 1)
        outputs.append((C * h).sum(-1) + cell.D.detach() * x_t)
    assert_close(layer(x, form=form)[0].detach(), torch.stack(outputs, 1), 1e-11)


@pytest.mark.parametrize("T", [1, 2, 3, 7, 33, 64, 257])
def test_all_kernels_of_s4_are_one(T):
    """Powers of a matrix one by one, in blocks, and the generating function, z = −1 included."""
    torch.manual_seed(T)
    cell = S4Cell(3, 3, order=8, dt_max=1.0, dtype=torch.float64)
    with torch.no_grad():
        for w in cell.parameters():
            w.add_(0.3 * torch.randn_like(w))
    A, h = cell.discrete()
    one_by_one = []
    for _ in range(T):
        one_by_one.append((cell.seen() * h).sum(-1))
        h = (A @ h[..., None])[..., 0]
    want = torch.stack(one_by_one, -1)
    found = [cell.unrolled(T).kernel, cell.generated_kernel(T)]
    weights = list(cell.parameters())
    grads = torch.autograd.grad(wave(want), weights, allow_unused=True)
    for kernel in found:
        assert_close(kernel, want, 1e-11)
        for a, c in zip(
            torch.autograd.grad(wave(kernel), weights, allow_unused=True), grads, strict=True
        ):
            assert (a is None) == (c is None)  # D is no part of it
            if a is not None:
                assert_close(a, c, 1e-9 * max(1.0, c.abs().max().item()))


def test_s4_is_a_dense_matrix_with_a_complex_meaning():
    """Λ − P P* on numbers and their conjugates is the real matrix on pairs."""
    torch.manual_seed(0)
    cell = S4Cell(1, 1, order=6, dtype=torch.float64)
    with torch.no_grad():
        for w in cell.parameters():
            w.add_(torch.randn_like(w))
    lam = -torch.exp(cell.log_decay) + 1j * cell.frequency
    lam, P = lam[0].detach(), complex_of(cell.P.detach())[0]
    h = torch.randn(3, dtype=torch.complex128)
    both = torch.cat([h, h.conj()])
    P2 = torch.cat([P, P.conj()])
    want = torch.cat([lam, lam.conj()]) * both - P2 * (P2.conj() * both).sum()
    assert_close(pairs_of(want[:3]), cell.continuous().detach()[0] @ pairs_of(h), 1e-13)
    c = (torch.view_as_complex(cell.C.detach().view(3, 2)) * h).sum()
    assert_close(2 * c.real, cell.seen().detach()[0] @ pairs_of(h), 1e-13)


def test_no_weight_can_make_s4_unstable():
    torch.manual_seed(0)
    cell = S4Cell(20, 20, order=16, dtype=torch.float64)
    with torch.no_grad():
        for w in cell.parameters():
            w.add_(2 * torch.randn_like(w))
        assert torch.linalg.matrix_norm(cell.discrete()[0], 2).max() <= 1 + 1e-12


@pytest.mark.parametrize(
    "make", [lambda: companion.S4D(2, 2, order=8), lambda: companion.S4(2, 2, order=8)]
)
def test_100_000_steps(make):
    """The convolution in float32 against float64: relative to the largest output of a channel."""
    torch.manual_seed(0)
    layer, x = make(), torch.randn(1, 100_000, 2).requires_grad_()
    y, h = layer(x)
    (dx,) = torch.autograd.grad(y.square().mean() + h.sum(), x)
    assert dx.isfinite().all()
    exact, last = layer.double()(x.double())
    torch.testing.assert_close(y.double(), exact, rtol=0, atol=1e-3 * exact.abs().max().item())
    torch.testing.assert_close(h.double(), last, rtol=0, atol=1e-3 * last.abs().max().item())


# ---------------------------------------------------------------- many steps at once


def test_powers_and_krylov():
    torch.manual_seed(0)
    z = torch.randn(2, 3, dtype=torch.complex128)
    A, b = randn(2, 3, 3), randn(2, 3)
    for count in (1, 2, 3, 7, 8):
        assert_close(powers(z, count), z[..., None] ** torch.arange(count), 1e-12)
        columns = [torch.linalg.matrix_power(A, k) @ b[..., None] for k in range(count)]
        assert_close(krylov(A, b, count), torch.cat(columns, -1), 1e-12)


@pytest.mark.parametrize("T", [1, 2, 3, 4, 7, 16, 17, 33, 257])
@pytest.mark.parametrize("kind", ["modes", "diagonal", "dense"])
def test_unrolled_is_the_recurrence(kind, T):
    torch.manual_seed(T)
    K, n, S = 3, 4, 2
    if kind == "dense":
        A, b, c, h = randn(K, n, n), randn(K, n), randn(K, n), randn(S, K * n)
        A = 0.95 * A / torch.linalg.matrix_norm(A, 2)[:, None, None]
        what, state = Dense(A, b, c, T), h.view(S, K, n)
        v = randn(S, K, T)
    else:
        n = 1 if kind == "modes" else n
        a = 0.9 * torch.exp(1j * randn(K, n))
        b, c = (torch.randn(K, n, dtype=torch.complex128) for _ in range(2))
        h, v = randn(S, 2 * K * n), randn(S, K, T)
        state = torch.view_as_complex(h.view(S, K, n, 2))
        what = Diagonal(a, b, c, T)
        if kind == "modes":
            v = torch.randn(S, K, T, dtype=torch.complex128)
            what, b, c = Modes(a[:, 0], T), torch.ones_like(b), torch.ones_like(c)
    outputs = []
    for t in range(T):
        turned = (A @ state[..., None])[..., 0] if kind == "dense" else a * state
        state = turned + b * v[..., t, None]
        out = (c * state).sum(-1)
        outputs.append(2 * out.real if kind == "diagonal" else out)
    found = what.response(h)
    for t in range(T):
        found[..., t:] += v[..., t, None] * what.kernel[..., : T - t]
    assert_close(found, torch.stack(outputs, -1), 1e-11)
    last = state.flatten(1)
    assert_close(what.final(v, h), pairs_of(last) if last.is_complex() else last, 1e-11)


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    "kind, options, error, message",
    [
        (companion.S4D, {"order": 7}, ValueError, "order: expected an even number, .* got 7"),
        (companion.S4, {"order": 0}, ValueError, "order: expected at least 2, got 0"),
        (companion.S4D, {"frequencies": "log"}, ValueError, "frequencies: expected one of"),
        (companion.S4D, {"discretization": None}, ValueError, "discretization: expected one of"),
        (companion.S4, {"dt_min": 0.0}, ValueError, "dt_min, dt_max: expected 0 < dt_min"),
        (companion.S4D, {"dt_min": 0.2}, ValueError, "dt_min, dt_max: .* got 0.2, 0.1"),
        (companion.S4, {"dt_max": "1"}, TypeError, "dt_max: expected a number, got str"),
        (companion.S4, {"dtype": torch.complex64}, ValueError, "dtype: expected a real one"),
        (companion.S4D, {"recurrent_init": "identity"}, TypeError, "recurrent_init"),
    ],
)
def test_options_are_checked(kind, options, error, message):
    with pytest.raises(error, match=message):
        kind(3, 4, **options)


def test_what_they_print():
    assert repr(S4DCell(4, 4)) == "S4DCell(4, 4)"
    text = repr(companion.S4D(3, 4, order=8, frequencies="inv", discretization="bilinear"))
    assert text == "S4D(3, 4, order=8, frequencies=inv, discretization=bilinear)"
    assert repr(companion.S4(3, 4, dt_min=0.01)) == "S4(3, 4, dt_min=0.01)"
