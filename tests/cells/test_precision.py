"""Gates near 1, decays near 0 and 1, steps beyond all measure: nothing is lost, nothing is NaN."""

from __future__ import annotations

import copy

import pytest
import torch

import companion
from companion import LRUCell
from companion.cells import flat_state
from companion.cells.state_space import rate

H = 4
# name: blocks of weights that are set to 0, and blocks of biases with their values
GATES = {
    "mingru": ([0], {0: 6.5}),
    "mingru_positive": ([0], {0: 6.5}),
    "minlstm": ([0, 1], {0: -6.5, 1: 6.5}),
    "qrnn": ([1, 4], {1: 6.5}),
    "qrnn_f": ([1, 3], {1: 6.5}),
    "qrnn_ifo": ([1, 5], {1: 6.5}),
    "sru_2017": ([1], {0: 6.5}),
}


def slow(name):
    """A layer whose decay is σ(6.5) = 0.9985 whatever comes in, or σ(9)⁴ = 0.9995."""
    torch.manual_seed(0)
    layer = companion.Recurrence(name, H, H)
    with torch.no_grad():
        if name in ("rglru", "griffin"):
            layer.weight_gates_l0.zero_()
            layer.decay_l0.fill_(9.0)
        else:
            zeros, biases = GATES[name]
            for k in zeros:
                layer.weight_ih_l0[k * H : (k + 1) * H] = 0
            for k, bias in biases.items():
                layer.bias_ih_l0[k * H : (k + 1) * H] = bias
    return layer.bfloat16()


@pytest.mark.parametrize("name", [*GATES, "rglru", "griffin"])
@pytest.mark.parametrize("how", ["bfloat16", "autocast"])
def test_a_gate_near_1_is_not_rounded_to_it(name, how):
    """In bfloat16 σ(6.5) is 1: nothing would be written, and nothing forgotten."""
    torch.manual_seed(0)
    layer = slow(name)
    x = (torch.randn(2, 3000, 4) + 1).bfloat16()
    want, last = copy.deepcopy(layer).double()(x.double())
    with torch.no_grad():
        if how == "bfloat16":
            y, h = layer(x, form="scan")
        else:
            with torch.autocast("cpu", torch.bfloat16):
                y, h = layer.float()(x.float(), form="scan")
    assert want.abs().max() > 0.1
    for a, b in ((y, want), (flat_state(h)[0], flat_state(last)[0])):
        b = b.detach()
        torch.testing.assert_close(a.double(), b, rtol=0, atol=0.02 * b.abs().max().item())


ZOH, BILINEAR = ({"order": 4, "discretization": d} for d in ("zoh", "bilinear"))
FAR = (-200.0, -60.0, 30.0, 200.0)
EXTREMES = [
    *(("s4d", o, w, FAR) for o in (ZOH, BILINEAR) for w in ("log_decay", "log_dt")),
    *(("s4d", o, "frequency", (0.0, 1e6, 1e18)) for o in (ZOH, BILINEAR)),
    ("s4", {"order": 4}, "log_decay", FAR),
    ("s4", {"order": 4}, "log_dt", FAR),
    ("s4", {"order": 4}, "P", (0.0, 1e3)),
    ("lru", {}, "nu_log", FAR),
    ("lru", {}, "theta_log", (-200.0, 10.0, 200.0)),
    *((name, {}, "decay", (-1e4, -100.0, 100.0, 1e4)) for name in ("rglru", "griffin")),
    *((name, {}, "bias_ih", (-1e4, 1e4)) for name in ("mingru", "mingru_positive", "minlstm")),
]


@pytest.mark.parametrize("name, options, weight, values", EXTREMES)
def test_no_weight_that_is_finite_gives_nan(name, options, weight, values):
    for value in values:
        torch.manual_seed(0)
        layer = companion.Recurrence(name, 2, 2, **options)
        with torch.no_grad():
            getattr(layer, weight + "_l0").fill_(value)
        x = torch.randn(1, 40, 2).requires_grad_()
        found = []
        for form in (None, "loop"):
            y, state = layer(x, form=form)
            ends = flat_state(state)
            assert all(t.isfinite().all() for t in (y, *ends)), value
            total = y.sum() + sum(t.sum() for t in ends)
            grads = torch.autograd.grad(total, [x, *layer.parameters()])
            assert all(g.isfinite().all() for g in grads), value
            found.append(y)
        scale = found[1].abs().max().item()
        torch.testing.assert_close(*found, rtol=0, atol=1e-4 * scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_rate_is_an_exponential_where_its_square_is_a_number(dtype):
    log = torch.tensor([-40.0, -1, 0, 2.5, 40], dtype=dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    torch.testing.assert_close(rate(log), torch.exp(log.to(wide)))
    far = torch.tensor([-1e6, 1e6], dtype=dtype)
    assert rate(far).dtype == wide
    assert (rate(far) ** 2 > 0).all() and (rate(far) ** 2).isfinite().all()


@pytest.mark.parametrize("r_min", [0.0, 0.5, 0.99999, 0.9999999])
def test_a_narrow_ring_of_the_lru_holds_every_draw(r_min):
    """1 − |λ|² down to 1e-13, which in float32 1 − |λ|² itself cannot tell from 0."""
    torch.manual_seed(0)
    cell = LRUCell(1, 1, order=50_000, r_min=r_min)
    nu, gamma = (w.detach().double() for w in (cell.nu_log, cell.gamma_log))
    assert nu.isfinite().all() and gamma.isfinite().all()
    missing = -torch.expm1(-2 * torch.exp(nu))  # 1 − |λ|²
    torch.testing.assert_close(torch.exp(2 * gamma), missing, rtol=2e-5, atol=0)
    # uniform in area: so is what is missing, from 0 to that of the inner rim
    share = (missing / (1 - r_min**2)).sort().values
    even = (torch.arange(50_000).double() + 0.5) / 50_000
    torch.testing.assert_close(share, even, rtol=0, atol=0.012)
