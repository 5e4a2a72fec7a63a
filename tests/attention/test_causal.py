"""Attention to the past: one function, however it is run; and what it must not see."""

from __future__ import annotations

import pytest
import torch

from companion.attention import CausalAttention, MultiHeadAttention, rotated
from tests.helpers import assert_close

F64 = {"dtype": torch.float64}
OPTIONS = {
    "plain": {"rotary": False},
    "rotary": {},
    "shared": {"kv_heads": 1},
    "window": {"window": 3},
    "window 1": {"window": 1},
    "all": {"kv_heads": 2, "window": 4, "bias": True},
}
options = pytest.mark.parametrize("given", OPTIONS.values(), ids=OPTIONS.keys())
B, T, E = 3, 11, 16
LENGTHS = [11, 4, 0]


def layer(**given):
    torch.manual_seed(0)
    made = CausalAttention(E, 4, **given, **F64)
    for w in made.parameters():
        if w.dim() == 1:
            torch.nn.init.normal_(w)
    return made


def sequence(seed=1, T=T):
    return torch.randn(B, T, E, generator=torch.Generator().manual_seed(seed), **F64)


def resets():
    cuts = torch.zeros(B, T, dtype=torch.bool)
    cuts[0, [0, 5, 6]] = True
    cuts[1, [2, 7]] = True  # 7 is padding
    cuts[2, 3] = True
    return cuts


def transcription(net, x, lengths=None, cuts=None):
    """Row by row, query by query, from the equation; no cache, no mask."""
    n, kv, d = net.num_heads, net.kv_heads, net.head_size
    y = torch.zeros_like(x)
    for b in range(len(x)):
        start = 0
        for t in range(x.shape[1] if lengths is None else lengths[b]):
            start = t if cuts is not None and cuts[b, t] else start
            first = start if net.window is None else max(start, t - net.window + 1)
            heads = []
            for i in range(n):
                j = i // (n // kv)
                q = net.query(x[b, t])[i * d : (i + 1) * d]
                scores, values = [], []
                for s in range(first, t + 1):
                    k = net.key(x[b, s])[j * d : (j + 1) * d]
                    angle = torch.tensor(float(t - s), **F64) / 10000 ** (
                        torch.arange(d // 2, **F64) / (d // 2)
                    )
                    if net.rotary:  # only the difference of the positions counts
                        a, c = q[: d // 2], q[d // 2 :]
                        turned = torch.cat(
                            [
                                a * angle.cos() - c * angle.sin(),
                                a * angle.sin() + c * angle.cos(),
                            ]
                        )
                    else:
                        turned = q
                    scores.append(turned @ k / d**0.5)
                    values.append(net.value(x[b, s])[j * d : (j + 1) * d])
                heads.append(torch.stack(scores).softmax(0) @ torch.stack(values))
            y[b, t] = net.output(torch.cat(heads))
    return y


@options
@pytest.mark.parametrize("form", ["parallel", "loop"])
def test_it_is_the_equation(given, form):
    net, x = layer(**given), sequence()
    assert_close(net(x, form=form)[0], transcription(net, x))
    got = net(x, lengths=LENGTHS, reset=resets(), form=form)[0]
    assert_close(got, transcription(net, x, LENGTHS, resets()))


@options
def test_forms_agree_with_a_past_lengths_and_resets_and_so_do_their_gradients(given):
    net = layer(**given)
    found = []
    for form in ("parallel", "loop"):
        x, past = sequence().requires_grad_(), sequence(2).requires_grad_()
        cache = net(past, lengths=[5, 11, 2])[1]
        y, after = net(x, cache, lengths=LENGTHS, reset=resets(), form=form)
        later, _ = net(sequence(3, 2), after)
        inputs = (x, past, *net.parameters())
        weight = torch.randn(later.shape, generator=torch.Generator().manual_seed(4), **F64)
        grads = torch.autograd.grad((y**2).sum() + (later * weight).sum(), inputs)
        found.append((y, later, after.steps, *grads))
    for one, other in zip(*found, strict=True):
        assert_close(one, other)


@options
@pytest.mark.parametrize("cut", [0, 1, 4, 10, 11])
def test_any_split_with_the_cache_carried_is_the_whole(given, cut):
    net, x = layer(**given), sequence()
    whole, last = net(x)
    first, cache = net(x[:, :cut])
    second, after = net(x[:, cut:], cache)
    assert_close(torch.cat([first, second], 1), whole)
    for one, other in zip(after, last, strict=True):
        assert_close(one, other)


@options
def test_steps_are_the_whole_and_leave_the_given_cache_alone(given):
    net, x = layer(**given), sequence()
    whole, _ = net(x)
    cache = None
    for t in range(T):
        before = None if cache is None else [part.detach().clone() for part in cache]
        y, after = net.step(x[:, t], cache)
        assert_close(y, whole[:, t])
        if cache is not None:
            assert all(torch.equal(a, b) for a, b in zip(before, cache, strict=True))
        cache = after
        if net.window is not None:
            assert cache.keys.shape[1] < max(net.window, 1) + 1


@options
def test_rows_packed_by_resets_are_separate_runs_and_their_caches_too(given):
    net, x = layer(**given), sequence()
    y, cache = net(x, net(sequence(2))[1], lengths=LENGTHS, reset=resets())
    for rows in (slice(0, 5), slice(5, 6), slice(6, 11)):
        assert_close(y[:1, rows], net(x[:1, rows])[0])
    alone = net(x[:1, 6:])[1]
    live = cache.positions[0] >= 0
    assert_close(cache.keys[0, live], alone.keys[0])
    assert cache.positions[0, live].tolist() == alone.positions[0].tolist()
    assert cache.steps.tolist() == [5, 2, 11]


@options
def test_padding_is_never_read(given):
    net, x = layer(**given), sequence()
    spoiled = x.clone()
    for b, n in enumerate(LENGTHS):
        spoiled[b, n:] = torch.nan
    spoiled.requires_grad_()
    y, cache = net(spoiled, lengths=LENGTHS)
    assert_close(y, net(x, lengths=LENGTHS)[0])
    assert all((y[b, n:] == 0).all() for b, n in enumerate(LENGTHS))
    assert not any(part.isnan().any() for part in cache[:2])
    after, _ = net(sequence(3, 4), cache)
    grads = torch.autograd.grad(y.sum() + after.sum(), (spoiled, *net.parameters()))
    assert all(g.isfinite().all() for g in grads)


@options
def test_nothing_later_is_seen_and_no_other_row(given):
    net, x = layer(**given), sequence()
    y = net(x)[0]
    changed = x.clone()
    changed[:, 6:] += 1
    assert_close(net(changed)[0][:, :6], y[:, :6])
    assert_close(net(x[1:2])[0], y[1:2])


def test_a_window_sees_that_many_steps_and_no_more():
    net, x = layer(window=3), sequence().requires_grad_()
    (g,) = torch.autograd.grad(net(x)[0][:, 8].sum(), x)
    assert (g.abs().sum((0, 2)) > 0).nonzero()[:, 0].tolist() == [6, 7, 8]


def test_without_rotation_it_is_multi_head_attention_under_a_causal_mask():
    net = layer(rotary=False)
    other = MultiHeadAttention(E, 4, bias=False, **F64)
    parts = [net.query.weight, net.key.weight, net.value.weight]
    other.load_state_dict(
        {"in_proj_weight": torch.cat(parts), "out_proj.weight": net.output.weight}
    )
    x = sequence()
    mask = torch.ones(T, T, dtype=torch.bool).tril().expand(B, T, T)
    assert_close(net(x)[0], other(x, x, mask).context)


def test_a_rotation_keeps_norms_and_its_products_depend_on_the_distance_alone():
    q, k = sequence()[:, :, None], sequence(2)[:, :, None]
    steps = torch.arange(T).expand(B, T)
    far = steps + 1000
    assert_close(rotated(q, steps).norm(dim=-1), q.norm(dim=-1))
    near = torch.einsum("bihd,bjhd->bij", rotated(q, steps), rotated(k, steps))
    assert_close(torch.einsum("bihd,bjhd->bij", rotated(q, far), rotated(k, far)), near)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (2, 1)])
@pytest.mark.parametrize("form", [None, "loop"])
def test_empty_batches_and_sequences(shape, form):
    net = layer(window=2)
    x = torch.zeros(*shape, E, **F64)
    y, cache = net(x, form=form, reset=torch.ones(shape, dtype=torch.bool))
    assert y.shape == x.shape
    assert cache.steps.tolist() == [shape[1]] * shape[0] or shape[1] == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_dtypes_and_autocast(dtype):
    net = layer().to(dtype)
    y, cache = net(sequence().to(dtype), lengths=LENGTHS)
    assert y.dtype == cache.keys.dtype == dtype
    reference, _ = layer()(sequence(), lengths=LENGTHS)
    torch.testing.assert_close(
        y.double(), reference, atol=0.05 if dtype == torch.bfloat16 else 1e-5, rtol=0
    )


def test_dropout_acts_while_training_alone():
    net, x = layer(dropout=0.5), sequence()
    assert not torch.equal(net(x)[0], net(x)[0])
    net.eval()
    assert_close(net(x)[0], net(x, form="loop")[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda net, x, c: net(x[..., :3]), r"x: expected \(B, T, 16\), got \(3, 11, 3\)"),
        (lambda net, x, c: net(x.float()), "x: expected dtype torch.float64"),
        (lambda net, x, c: net(x, form="scan"), "form: expected one of parallel, loop"),
        (lambda net, x, c: net(x, x), "state: expected a Cache, got Tensor"),
        (lambda net, x, c: net(x[:2], c), r"state.keys: expected shape \(2, 11, 4, 4\)"),
        (
            lambda net, x, c: net(x, c._replace(keys=c.keys.float())),
            "state.keys: expected dtype torch.float64",
        ),
        (lambda net, x, c: net(x, c._replace(steps=c.steps[:1])), r"state.steps: expected shape"),
        (
            lambda net, x, c: net(x, c._replace(steps=c.steps.double())),
            "state.steps: expected a tensor of int64, got torch.float64",
        ),
        (
            lambda net, x, c: net(x, c._replace(positions=[0])),
            "state.positions: expected a tensor of int64, got list",
        ),
        (lambda net, x, c: net(x, lengths=[1, 2]), "lengths: expected shape"),
        (
            lambda net, x, c: rotated(x[:, :, None, :3], torch.zeros(B, T)),
            r"x: expected shape \(B, T, n, d\) with d even, got \(3, 11, 1, 3\)",
        ),
        (
            lambda net, x, c: rotated(x[:, :, None], torch.zeros(T)),
            r"position: expected shape \(3, 11\), got \(11,\)",
        ),
        (
            lambda net, x, c: rotated(x[:, :, None].long(), torch.zeros(B, T)),
            "x: expected a floating-point tensor, got torch.int64",
        ),
        (
            lambda net, x, c: rotated(x[:, :, None], torch.zeros(B, T), -1.0),
            "base: expected a number above 0, got -1.0",
        ),
        (lambda net, x, c: net.step(x), r"x_t: expected \(B, 16\)"),
        (lambda net, x, c: CausalAttention(16, 3), "embed_dim: expected a multiple of 3 heads"),
        (lambda net, x, c: CausalAttention(16, 4, kv_heads=3), "kv_heads: expected a divisor"),
        (lambda net, x, c: CausalAttention(12, 4), "even number of features"),
        (lambda net, x, c: CausalAttention(16, window=0), "window: expected at least 1"),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    net, x = layer(), sequence()
    cache = net(x)[1]
    with pytest.raises((TypeError, ValueError), match=message):
        change(net, x, cache)


def test_gradients_are_right():
    net = CausalAttention(4, 2, window=2, **F64)
    x = torch.randn(2, 5, 4, **F64).requires_grad_()
    reset = torch.tensor([[False, False, True, False, False], [True] + [False] * 4])
    torch.autograd.gradcheck(lambda x: net(x, lengths=[5, 3], reset=reset)[0], x)


def test_it_runs_on_meta_and_says_what_it_is():
    net = CausalAttention(8, 4, kv_heads=2, window=3, rotary=False)
    assert repr(net).startswith("CausalAttention(\n  8, 4, kv_heads=2, window=3, rotary=False")
    net = CausalAttention(8, 4, device="meta")
    y, cache = net(torch.empty(2, 7, 8, device="meta"))
    assert y.shape == (2, 7, 8) and cache.keys.shape == (2, 7, 4, 2)
    assert net.step(torch.empty(2, 8, device="meta"))[0].shape == (2, 8)
