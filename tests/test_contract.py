"""The contract of ``architecture``: every registered architecture, in every form.

A new line in ``companion.ARCHITECTURES`` is tested here without a further line of test.
"""

from __future__ import annotations

import copy
import io
import math
import pickle

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn.utils import parametrize

from companion.cells import ARCHITECTURES, MambaCell, MatrixCell, flat_state, map_state

from .helpers import (
    D,
    H,
    assert_close,
    directions,
    every_architecture,
    every_case,
    make,
    randn,
    random_state,
    wave,
)


def row(state, b):
    """One batch row of a state."""
    return map_state(lambda s: s[:, b : b + 1], state)


# ---------------------------------------------------------------- one function, however it is run


@every_case
def test_forward_is_a_loop_of_steps(name, form):
    layer, x = make(name), randn(2, 7, D)
    start = state = random_state(layer, 2)
    y, final = layer(x, start, form=form)
    outputs = []
    for t in range(7):
        y_t, state = layer.step(x[:, t], state)
        outputs.append(y_t)
    assert_close(y, torch.stack(outputs, 1))
    assert_close(final, state)


@every_case
@pytest.mark.parametrize("split", [0, 1, 3, 6, 7])
def test_chunks_with_the_state_carried_are_the_whole(name, form, split):
    layer, x = make(name), randn(2, 7, D)
    start = random_state(layer, 2)
    y, final = layer(x, start, form=form)
    y1, state = layer(x[:, :split], start, form=form)
    y2, state = layer(x[:, split:], state, form=form)
    assert_close(y, torch.cat([y1, y2], 1))
    assert_close(final, state)


@every_case
@directions
@pytest.mark.parametrize("T", [1, 2, 33])
def test_forms_agree_in_outputs_and_gradients(name, form, bidirectional, T):
    layer = make(name, bidirectional=bidirectional)
    x, state = randn(3, T, D).requires_grad_(), random_state(layer, 3)
    lengths = torch.tensor([T, 0, (T + 1) // 2])
    wanted = [x, *layer.parameters()]
    found = []
    for f in ("loop", form):
        y, final = layer(x, state, lengths=lengths, form=f)
        grads = torch.autograd.grad(wave(y, *flat_state(final)), wanted)
        found.append((y, *flat_state(final), *grads))
    for a, b in zip(*found, strict=True):
        scale = max(1.0, a.detach().abs().max().item())  # a sum of all steps may have thousands
        assert_close(a / scale, b / scale)


@every_architecture
def test_no_state_is_the_initial_state(name):
    layer, x = make(name), randn(2, 5, D)
    assert_close(layer(x)[0], layer(x, layer.initial_state(2))[0], 0)
    assert_close(layer.step(x[:, 0])[0], layer(x)[0][:, 0])


# ---------------------------------------------------------------- lengths and resets


@every_case
@directions
def test_rows_with_lengths_are_separate_runs_and_padding_is_never_read(name, form, bidirectional):
    layer, lengths = make(name, bidirectional=bidirectional), torch.tensor([3, 0, 6, 5, 1])
    padding = torch.arange(6) >= lengths[:, None]
    x = randn(5, 6, D)
    x[padding] = math.nan
    x.requires_grad_()
    start = random_state(layer, 5)
    y, final = layer(x, start, lengths=lengths, form=form)
    weights = list(layer.parameters())
    grads = torch.autograd.grad(wave(y, *flat_state(final)), [x, *weights])
    assert all(g.isfinite().all() for g in grads)
    assert (grads[0][padding] == 0).all()
    assert (y[padding] == 0).all()
    for b, n in enumerate(lengths):
        y_b, final_b = layer(x[b : b + 1, :n].detach(), row(start, b), form="loop")
        assert_close(y[b : b + 1, :n], y_b)
        assert_close(row(final, b), final_b)
    assert_close(row(final, 1), row(start, 1), 0)  # length 0 keeps its state


@every_case
@directions
@settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(data=st.data())
def test_rows_packed_by_reset_are_separate_runs(name, form, bidirectional, data):
    B, T = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 6))
    lengths = data.draw(st.lists(st.integers(0, T), min_size=B, max_size=B))
    bools = st.lists(st.booleans(), min_size=T, max_size=T)
    reset = torch.tensor(data.draw(st.lists(bools, min_size=B, max_size=B)))
    layer = make(name, bidirectional=bidirectional, num_layers=1)
    x, start = randn(B, T, D), random_state(layer, B)
    y, final = layer(x, start, lengths=lengths, reset=reset, form=form)
    for b, n in enumerate(lengths):
        assert (y[b, n:] == 0).all()
        mine = row(start, b)
        zero = map_state(torch.zeros_like, mine)
        ends = list(map(torch.clone, flat_state(mine)))
        cuts = sorted({0, n} | {t for t in range(n) if reset[b, t]})
        parts = list(zip(cuts, cuts[1:], strict=False))
        for k, (i, j) in enumerate(parts):
            is_first, is_last = k == 0, k == len(parts) - 1
            forward = mine if is_first and not reset[b, 0] else zero
            backward = mine if is_last else zero
            state = forward
            if bidirectional:
                state = map_state(lambda p, q: torch.cat([p[:1], q[1:]]), forward, backward)
            y_k, final_k = layer(x[b : b + 1, i:j], state, form="loop")
            assert_close(y[b : b + 1, i:j], y_k)
            for end, value in zip(ends, flat_state(final_k), strict=True):
                if is_last:
                    end[0] = value[0]
                if bidirectional and is_first:
                    end[1] = value[1]
        assert_close(row(final, b), tuple(ends) if isinstance(final, tuple) else ends[0])


@every_case
@directions
@pytest.mark.parametrize("B, T", [(2, 0), (0, 3), (0, 0), (1, 1), (1, 33)])
def test_empty_and_single(name, form, bidirectional, B, T):
    layer, x = make(name, bidirectional=bidirectional), randn(B, T, D).requires_grad_()
    state = random_state(layer, B)
    variants = [
        {},
        {"lengths": torch.zeros(B, dtype=torch.long)},
        {"reset": torch.ones(B, T, dtype=torch.bool)},
    ]
    for options in variants:
        y, final = layer(x, state, form=form, **options)
        assert y.shape == (B, T, layer.output_size)
        if T == 0 or "lengths" in options:
            assert_close(final, state, 0)
        (gradient,) = torch.autograd.grad(wave(y, *flat_state(final)), x, allow_unused=True)
        assert gradient is None or gradient.shape == x.shape


# ---------------------------------------------------------------- what may depend on what


@every_case
def test_causal(name, form):
    layer, x = make(name), randn(3, 6, D)
    later = x.clone()
    later[:, 4:] = 9
    assert_close(layer(later, form=form)[0][:, :4], layer(x, form=form)[0][:, :4])


@every_case
@directions
def test_rows_do_not_depend_on_their_batch_mates(name, form, bidirectional):
    layer, x = make(name, bidirectional=bidirectional), randn(3, 6, D)
    other = x.clone()
    other[0] = 9
    for lengths in (None, torch.tensor([6, 2, 5])):
        y, z = (layer(v, lengths=lengths, form=form)[0] for v in (x, other))
        assert_close(y[1:], z[1:])


@every_case
def test_nothing_given_is_changed_and_what_is_returned_may_be(name, form):
    layer, x = make(name, bidirectional=True), randn(2, 4, D)
    state = random_state(layer, 2)
    x_before, state_before = x.clone(), map_state(torch.clone, state)
    weights_before = copy.deepcopy(layer.state_dict())
    y, final = layer(x, state, form=form)
    assert torch.equal(x, x_before)
    assert_close(state, state_before, 0)
    assert all(torch.equal(w, weights_before[k]) for k, w in layer.state_dict().items())
    want = torch.autograd.grad(2 * y.sum(), list(layer.parameters()), retain_graph=True)
    map_state(lambda s: s.add_(1), final)  # before backward
    y.mul_(2).sum().backward()
    assert_close(tuple(p.grad for p in layer.parameters()), want)
    assert_close(state, state_before, 0)


@every_architecture
def test_step_leaves_the_given_state(name):
    layer, x = make(name), randn(2, D)
    state = random_state(layer, 2)
    before = map_state(torch.clone, state)
    _, after = layer.step(x, state)
    map_state(lambda s: s.add_(1), after)
    assert_close(state, before, 0)


# ---------------------------------------------------------------- gradients


@every_architecture
@pytest.mark.parametrize("ragged", [False, True], ids=["whole", "ragged"])
def test_gradcheck_and_gradgradcheck(name, ragged):
    layer = make(name, num_layers=1, bidirectional=ragged)
    x = randn(3, 4, D).requires_grad_()
    state = map_state(lambda s: s.requires_grad_(), random_state(layer, 3))
    options = {}
    if ragged:
        reset = torch.zeros(3, 4, dtype=torch.bool)
        reset[1, 2] = True
        options = {"lengths": torch.tensor([2, 4, 0]), "reset": reset}
    names = [n for n, _ in layer.named_parameters()]
    weights = [p.detach().requires_grad_() for p in layer.parameters()]
    k = len(flat_state(state))

    def run(x, *rest):
        s = rest[:k] if isinstance(state, tuple) else rest[0]
        named = dict(zip(names, rest[k:], strict=True))
        y, final = torch.func.functional_call(layer, named, (x, s), options)
        return (y, *flat_state(final))

    inputs = (x, *flat_state(state), *weights)
    # where a state is many numbers a unit: of the Jacobian, one random product from each side
    many = issubclass(ARCHITECTURES[name].cell, MatrixCell | MambaCell)
    fast = many or sum(t.numel() for t in inputs) > 250
    assert torch.autograd.gradcheck(run, inputs, fast_mode=fast)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=fast)


@every_architecture
def test_per_sample_gradients_and_forward_mode(name):
    layer, x = make(name), randn(5, 4, D)
    weights = dict(layer.named_parameters())

    def loss(weights, x):
        return torch.func.functional_call(layer, weights, (x,))[0].sin().sum()

    every = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, x)
    for b in range(5):
        one = torch.autograd.grad(loss(weights, x[b]), list(weights.values()))
        assert_close(tuple(g[b] for g in every.values()), one)
    v, e = torch.randn_like(x), 1e-6
    _, slope = torch.func.jvp(lambda x: layer(x)[0], (x,), (v,))
    scale = max(1.0, slope.abs().max().item())
    want = (layer(x + e * v)[0] - layer(x - e * v)[0]) / (2 * e)
    assert_close(slope / scale, want / scale, 1e-7)


@every_architecture
def test_checkpointing_and_saved_tensor_hooks(name):
    from torch.utils.checkpoint import checkpoint

    layer, x = make(name), randn(2, 4, D).requires_grad_()
    (plain,) = torch.autograd.grad(wave(layer(x)[0]), x)
    y = checkpoint(lambda x: layer(x)[0], x, use_reentrant=False)
    assert_close(torch.autograd.grad(wave(y), x)[0], plain)
    with torch.autograd.graph.save_on_cpu():
        y = layer(x)[0]
    assert_close(torch.autograd.grad(wave(y), x)[0], plain)


class HalfDropped(torch.nn.Module):
    """A parametrization that draws anew each time the weight is read."""

    def forward(self, w):
        return torch.nn.functional.dropout(w, 0.5, self.training)


@every_case
@pytest.mark.parametrize("kind", ["weight_norm", "spectral_norm", "orthogonal", "dropped"])
def test_parametrized_weights(name, form, kind):
    # 9 steps, so that the slowest group of the clockwork moves and has a past when it does
    layer, x = make(name), randn(2, 9, D)
    weights = layer.cell(0).weights().items()
    matrices = [n for n, w in weights if n.startswith("weight") and w.dim() == 2 and len(w) > 1]
    for weight in matrices:
        if kind == "dropped":
            parametrize.register_parametrization(layer, weight + "_l0", HalfDropped())
        else:
            getattr(torch.nn.utils.parametrizations, kind)(layer, weight + "_l0")
    if kind == "spectral_norm":
        layer.eval()  # in training each read advances its power iteration
    found = []
    for f in ("loop", form):
        torch.manual_seed(3)
        y, _ = layer(x, form=f)
        found.append((y, torch.autograd.grad(wave(y), list(layer.parameters()))))
    assert_close(found[0][0], found[1][0])
    assert_close(found[0][1], found[1][1])
    assert all(g.abs().sum() > 0 for g in found[0][1])  # cases 37–39: the raw weight learns
    copy.deepcopy(layer)


# ---------------------------------------------------------------- precision and storage


@every_architecture
@pytest.mark.parametrize("dtype, tol", [(torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_other_precisions(name, dtype, tol):
    layer, x = make(name), randn(2, 5, D)
    y = layer(x)[0].detach()
    z, final = copy.deepcopy(layer).to(dtype)(x.to(dtype))
    assert z.dtype == dtype and all(s.dtype == dtype for s in flat_state(final))
    assert_close(z.double(), y, tol)
    z.sum().backward()


@every_architecture
def test_autocast(name):
    layer, x = make(name, dtype=torch.float32), randn(2, 5, D).float()
    y = layer(x)[0].detach()
    with torch.autocast("cpu", torch.bfloat16):
        z, _ = layer(x, lengths=[5, 3])
        layer.step(x[:, 0])
    scale = max(1.0, y.abs().max().item())
    assert_close(z[0].float() / scale, y[0] / scale, 5e-2)
    z.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in layer.parameters())


@every_architecture
def test_copies_and_files(name, tmp_path):
    layer, x = make(name, bidirectional=True), randn(2, 4, D)
    y = layer(x)[0]
    y.sum().backward()
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    fresh = make(name, seed=1, bidirectional=True)
    assert not torch.equal(fresh(x)[0], y)
    fresh.load_state_dict(torch.load(file, weights_only=True))
    for other in [*copies, fresh]:
        assert torch.equal(other(x)[0], y)
        assert list(other.state_dict()) == list(layer.state_dict())


@every_architecture
def test_meta_device(name):
    layer = make(name, device="meta")
    y, final = layer(torch.empty(2, 5, D, device="meta", dtype=torch.float64))
    assert y.shape == (2, 5, H) and y.is_meta and all(s.is_meta for s in flat_state(final))


@every_architecture
def test_the_cell_alone_is_the_layer(name):
    layer, cell = make(name, num_layers=1), None
    architecture = ARCHITECTURES[name]
    cell = architecture.cell(D, H, dtype=torch.float64, **architecture.options)
    cell.load_state_dict({k.removesuffix("_l0"): w for k, w in layer.state_dict().items()})
    x, state = randn(2, 6, D), cell.initial_state(2)
    outputs = []
    for t in range(6):
        y_t, state = cell.step(x[:, t], state)
        outputs.append(y_t)
    assert_close(layer(x)[0], torch.stack(outputs, 1))
    alone = cell(x[0, 0])
    assert_close(map_state(lambda s: s[0], cell(x[:, 0])), alone)


# ---------------------------------------------------------------- bad input


@every_architecture
def test_bad_input_is_named(name):
    layer, x = make(name), randn(2, 5, D)
    state = layer.initial_state(2)
    with pytest.raises(ValueError, match=r"x: expected last dimension 3 \(input_size\), got 2"):
        layer(randn(2, 5, 2))
    with pytest.raises(ValueError, match="x: expected 3 dimensions, or 2 .* got 4"):
        layer(randn(1, 2, 5, D))
    with pytest.raises(ValueError, match="x: expected dtype torch.float64.* got torch.float32"):
        layer(x.float())
    with pytest.raises(ValueError, match="x: expected dtype torch.float64.* got torch.int64"):
        layer(x.long())
    with pytest.raises(ValueError, match="x: expected it on cpu.* got meta"):
        layer(x.to("meta"))
    with pytest.raises(TypeError, match="x: expected a tensor, got list"):
        layer(x.tolist())
    with pytest.raises(ValueError, match=r"state.*: expected shape \(2, 2, .*got \(2, 3, "):
        layer(x, layer.initial_state(3))
    with pytest.raises(ValueError, match="state.*: expected dtype torch.float64"):
        layer(x, map_state(lambda s: s.float(), state))
    with pytest.raises(TypeError, match="state: expected"):
        layer(x, list(flat_state(state)))
    with pytest.raises(TypeError, match="state: expected"):
        layer(x, state[0] if isinstance(state, tuple) else (state,))
    with pytest.raises(ValueError, match="form: expected None or one of"):
        layer(x, form="warp")
    for bad, kind in [
        ([5], ValueError),
        ([5, 6], ValueError),
        ([5, -1], ValueError),
        ([5.0, 2.0], TypeError),
        ([True, False], TypeError),
        ("ab", TypeError),
        (5, ValueError),
    ]:
        with pytest.raises(kind, match="lengths: expected"):
            layer(x, lengths=bad)
    with pytest.raises(TypeError, match="reset: expected a tensor of dtype torch.bool"):
        layer(x, reset=torch.zeros(2, 5))
    with pytest.raises(ValueError, match=r"reset: expected shape \(2, 5\).* got \(5, 2\)"):
        layer(x, reset=torch.zeros(5, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="x_t: expected"):
        layer.step(x)
    with pytest.raises(ValueError, match="bidirectional layer cannot run step by step"):
        make(name, bidirectional=True).step(x[:, 0])


@every_architecture
def test_unbatched_and_time_first(name):
    layer, x = make(name, bidirectional=True), randn(2, 5, D)
    other = make(name, bidirectional=True, batch_first=False)
    state = random_state(layer, 2)
    lengths, reset = torch.tensor([4, 5]), torch.zeros(2, 5, dtype=torch.bool)
    reset[0, 2] = reset[1, 0] = True
    y, final = layer(x, state, lengths=lengths, reset=reset)
    z, final_z = other(x.transpose(0, 1), state, lengths=lengths, reset=reset.t())
    assert_close(y, z.transpose(0, 1), 0)
    assert_close(final, final_z, 0)
    for b in range(2):
        one = map_state(lambda s: s[:, b], state)  # noqa: B023
        y_b, final_b = layer(x[b], one, lengths=int(lengths[b]), reset=reset[b])
        assert_close(y_b, y[b])
        assert_close(final_b, map_state(lambda s: s[:, b], final))  # noqa: B023
    streaming = make(name)
    y_t, after = streaming.step(x[0, 0], map_state(lambda s: s[:, 0], streaming.initial_state(1)))
    whole = streaming.step(x[:1, 0], streaming.initial_state(1))
    assert_close(y_t, whole[0][0])
    assert_close(after, map_state(lambda s: s[:, 0], whole[1]))
