"""The derived backward: equal to autograd wherever it runs, and giving way where it cannot."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils import parametrize

import companion
from companion.cells import flat_state
from companion.run import FORMS, bptt, products

from ..helpers import assert_close, randn, wave


def both(layer, x, state=None, **options):
    """Outputs and all gradients of the loop and of the derived form."""
    found = []
    wanted = [x, *([] if state is None else flat_state(state)), *layer.parameters()]
    for form in ("loop", "bptt"):
        y, final = layer(x, state, form=form, **options)
        grads = torch.autograd.grad(wave(y, *flat_state(final)), wanted)
        found.append((y, *flat_state(final), *grads))
    return found


@pytest.mark.parametrize("T", [1, 2, 7, 63, 200])
@pytest.mark.parametrize("phi", ["tanh", "relu"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["whole", "lengths", "reset"])
def test_equals_autograd_to_1e_10(T, phi, bias, kind):
    torch.manual_seed(T)
    layer = companion.RNN(3, 4, 2, phi, bias, True, 0.0, True, dtype=torch.float64)
    x, state = randn(4, T, 3).requires_grad_(), randn(4, 4, 4).requires_grad_()
    options = {}
    if kind == "lengths":
        options["lengths"] = torch.tensor([0, T, T // 2, max(T - 1, 1)])
    if kind == "reset":
        options["reset"] = torch.rand(4, T) < 0.2
    for a, b in zip(*both(layer, x, state, **options), strict=True):
        assert_close(a, b, 1e-10 * max([1.0, *a.detach().abs().flatten().tolist()]))


def test_it_is_the_default():
    layer, x = companion.RNN(3, 4), torch.randn(5, 2, 3)
    assert list(FORMS)[-2:] == ["bptt", "loop"]  # those before are for other cells
    default, named = layer(x)[0], layer(x, form="bptt")[0]
    assert default.grad_fn.name() == named.grad_fn.name()


def test_float32_at_a_size_where_onednn_takes_over():
    torch.manual_seed(0)
    layer, x = companion.RNN(128, 256), torch.randn(3, 64, 128).requires_grad_()
    assert 64 * 256 * 256 >= products.WORTH
    for a, b in zip(*both(layer, x), strict=True):
        scale = max(1.0, a.detach().abs().max().item())
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.skipif(not products.ONEDNN, reason="torch has no oneDNN operator here")
@pytest.mark.parametrize("rows", [1, 37])
def test_onednn_products_are_the_plain_products(rows):
    torch.manual_seed(0)
    n = int(products.WORTH) // rows // 64 + 1
    x, w, b, k = torch.randn(rows, 64), torch.randn(n, 64), torch.randn(n), torch.randn(rows, n)
    with torch.no_grad():
        torch.testing.assert_close(products.product(x, w, b), x @ w.t() + b, rtol=1e-4, atol=1e-4)
        out = torch.zeros(rows, n)
        torch.testing.assert_close(
            products.adder(w, rows)(out, x), x @ w.t(), rtol=1e-4, atol=1e-4
        )
        torch.testing.assert_close(products.outer(k, x), k.t() @ x, rtol=1e-4, atol=1e-4)


def test_without_onednn_the_values_stay(monkeypatch):
    torch.manual_seed(0)
    layer, x = companion.RNN(128, 256), torch.randn(3, 64, 128)
    y = layer(x)[0]
    monkeypatch.setattr(products, "ONEDNN", False)
    torch.testing.assert_close(layer(x)[0], y, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- giving way


def refused(layer, x, context):
    """Inside ``context`` the named form refuses, and the default runs all the same."""
    with context:
        y, _ = layer(x)
        with pytest.raises(ValueError, match="form: 'bptt' cannot run this: "):
            layer(x, form="bptt")
    return y


def test_autocast_runs_the_loop():
    layer, x = companion.RNN(3, 4), torch.randn(5, 2, 3)
    y = refused(layer, x, torch.autocast("cpu", torch.bfloat16))
    torch.testing.assert_close(y.float(), layer(x)[0], rtol=0.05, atol=0.05)


def test_forward_mode_runs_the_loop():
    from torch.autograd import forward_ad

    layer, x = companion.RNN(3, 4, dtype=torch.float64), randn(5, 2, 3)
    v, e = torch.randn_like(x), 1e-6
    with forward_ad.dual_level():
        slope = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, v))[0]).tangent
    assert_close(slope, (layer(x + e * v)[0] - layer(x - e * v)[0]) / (2 * e), 1e-7)
    refused(layer, x, forward_ad.dual_level())


def test_a_cell_with_another_update_runs_the_loop():
    class Sine(companion.RNNCell):
        def update(self, u_t, h):
            h = torch.sin(u_t + torch.nn.functional.linear(h, self.weight_hh))
            return h, h

    layer, x = companion.Recurrence(Sine, 3, 4), torch.randn(2, 5, 3)
    assert bptt.refuses(layer.cell(0), x) == "no backward is derived for Sine with these options"
    h, outputs = torch.zeros(2, 4), []
    for t in range(5):
        h = layer.step(x[:, t], h[None])[0]
        outputs.append(h)
    torch.testing.assert_close(layer(x)[0], torch.stack(outputs, 1))
    with pytest.raises(ValueError, match="no backward is derived for Sine"):
        layer(x, form="bptt")


# ---------------------------------------------------------------- what autograd users do


def test_double_backward_where_input_state_and_weights_share_a_graph():
    layer = companion.RNN(4, 4, dtype=torch.float64)

    def f(z):
        w = torch.outer(z.sin(), z.cos())
        named = dict(layer.named_parameters())
        named["weight_hh_l0"] = w
        x = (w * 0.5).expand(3, 4, 4)
        return torch.func.functional_call(layer, named, (x, w[None]))[0]

    z = randn(4).requires_grad_()
    assert torch.autograd.gradgradcheck(f, (z,))


def test_gradient_penalty_trains():
    torch.manual_seed(0)
    layer, x = companion.RNN(3, 4, dtype=torch.float64), randn(5, 2, 3).requires_grad_()
    grads = []
    for form in ("loop", "bptt"):
        (g,) = torch.autograd.grad(layer(x, form=form)[0].sin().sum(), x, create_graph=True)
        grads.append(torch.autograd.grad(g.square().sum(), list(layer.parameters())))
    assert_close(*grads)


def test_hooks_see_the_gradients_and_may_change_them():
    layer, x = companion.RNN(3, 4, dtype=torch.float64), randn(5, 2, 3)
    plain = torch.autograd.grad(layer(x)[0].sum(), layer.weight_hh_l0)[0]
    seen = []
    handle = layer.weight_hh_l0.register_hook(lambda g: seen.append(g.clone()) or 2 * g)
    doubled = torch.autograd.grad(layer(x)[0].sum(), layer.weight_hh_l0)[0]
    handle.remove()
    assert_close(doubled, 2 * plain)
    assert len(seen) == 1


def test_backward_twice_leaves_its_tape_alone():
    layer, x = companion.RNN(3, 4, dtype=torch.float64), randn(5, 2, 3)
    y = layer(x)[0]
    first = torch.autograd.grad(y.sum(), list(layer.parameters()), retain_graph=True)
    second = torch.autograd.grad(y.sum(), list(layer.parameters()))
    assert_close(first, second, 0)


def test_only_what_needs_a_gradient_gets_one():
    layer, x = companion.RNN(3, 4), torch.randn(5, 2, 3)
    layer.weight_ih_l0.requires_grad_(False)
    layer(x)[0].sum().backward()
    assert layer.weight_ih_l0.grad is None and layer.weight_hh_l0.grad is not None
    layer.requires_grad_(False)
    assert not layer(x)[0].requires_grad
    x.requires_grad_()
    layer(x)[0].sum().backward()
    assert x.grad is not None


def test_a_weight_read_through_a_parametrization_is_computed_once():
    class Counted(torch.nn.Module):
        calls = 0

        def forward(self, w):
            Counted.calls += 1
            return w * 2

    layer, x = companion.RNN(3, 4), torch.randn(20, 2, 3)
    parametrize.register_parametrization(layer, "weight_hh_l0", Counted(), unsafe=True)
    Counted.calls = 0
    layer(x)
    assert Counted.calls == 1


def test_complex_weights_run_the_loop():
    torch.manual_seed(0)
    rnn = companion.RNN(3, 4, dtype=torch.complex128)
    x = torch.randn(5, 2, 3, dtype=torch.complex128)
    grads = []
    for form in (None, "loop"):
        y, _ = rnn(x, form=form)
        grads.append(torch.autograd.grad((y.abs() ** 2).sum(), list(rnn.parameters())))
    assert_close(*grads, 0)
    with pytest.raises(ValueError, match="derived for real numbers"):
        rnn(x, form="bptt")


def test_an_infinite_gradient_does_not_pass_a_dead_unit():
    torch.manual_seed(0)
    rnn = companion.RNN(1, 6, nonlinearity="relu", dtype=torch.float64)
    x = randn(4, 2, 1)
    assert (rnn(x)[0] == 0).any()
    grads = []
    for form in ("loop", "bptt"):
        y = rnn(x, form=form)[0]
        grads.append(torch.autograd.grad(y.sqrt().sum(), list(rnn.parameters())))
    torch.testing.assert_close(*grads, equal_nan=True)
    assert torch.isfinite(grads[0][-1]).any()


@pytest.mark.parametrize("phi", ["tanh", "relu"])
def test_batched_gradients(phi):
    rnn = companion.RNN(2, 3, nonlinearity=phi, dtype=torch.float64)
    x = randn(4, 1, 2)
    jacobian, hessian = torch.autograd.functional.jacobian, torch.autograd.functional.hessian
    found = [
        (
            jacobian(lambda x, f=form: rnn(x, form=f)[0], x, vectorize=True),
            hessian(lambda x, f=form: rnn(x, form=f)[0].sin().sum(), x, vectorize=True),
        )
        for form in ("loop", "bptt")
    ]
    assert_close(*found)
    x.requires_grad_()
    y = rnn(x)[0]
    rows = torch.eye(y.numel(), dtype=torch.float64).view(-1, *y.shape)
    batched = torch.autograd.grad(y, x, rows, is_grads_batched=True, retain_graph=True)[0]
    one = torch.stack([torch.autograd.grad(y, x, r, retain_graph=True)[0] for r in rows])
    assert_close(batched, one)
    mapped = torch.vmap(lambda r: torch.autograd.grad(y, x, r, retain_graph=True)[0])(rows)
    assert_close(mapped, one)


@pytest.mark.parametrize("change", ["relu_", "mul_", "index"])
def test_outputs_may_be_changed_in_place_before_backward(change):
    rnn, x = companion.RNN(3, 4, batch_first=True, dtype=torch.float64), randn(2, 5, 3)
    found = []
    for form in ("loop", "bptt"):
        y, _ = rnn(x, form=form)
        if change == "index":
            y[0] = 0
        else:
            getattr(y, change)(*([2] if change == "mul_" else []))
        found.append(torch.autograd.grad(wave(y), list(rnn.parameters())))
    assert_close(*found)


def test_products_read_a_bias_with_any_stride():
    torch.manual_seed(0)
    x, w = torch.randn(16, 400), torch.randn(640, 400)
    with torch.no_grad():
        for b in (torch.randn(1280)[::2], torch.randn(1).expand(640)):
            assert products.product(x, w, b).allclose(x @ w.t() + b, rtol=1e-4, atol=1e-3)


def test_fake_tensors_meet_plain_products():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        rnn, x = companion.RNN(128, 256), torch.empty(3, 64, 128)
        assert rnn(x)[0].shape == (3, 64, 256)


@pytest.mark.parametrize("phi", ["tanh", "relu"])
def test_gradcheck_two_layers_two_directions_lengths_and_resets(phi):
    torch.manual_seed(1)
    layer = companion.RNN(2, 3, 2, phi, True, True, 0.0, True, dtype=torch.float64)
    x, h0 = randn(3, 4, 2).requires_grad_(), randn(4, 3, 3).requires_grad_()
    reset = torch.zeros(3, 4, dtype=torch.bool)
    reset[0, 2] = reset[2, 0] = True
    names = [n for n, _ in layer.named_parameters()]
    weights = [p.detach().requires_grad_() for p in layer.parameters()]

    def run(x, h0, *weights):
        named = dict(zip(names, weights, strict=True))
        options = {"lengths": [4, 0, 3], "reset": reset, "form": "bptt"}
        return torch.func.functional_call(layer, named, (x, h0), options)

    assert torch.autograd.gradcheck(run, (x, h0, *weights))
    assert torch.autograd.gradgradcheck(run, (x, h0, *weights))
