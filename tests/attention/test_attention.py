"""Attention against transcriptions of the papers, written as loops over single numbers."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from companion.attention import (
    AdditiveAttention,
    Attention,
    ConcatAttention,
    DotAttention,
    GeneralAttention,
    LocalAttention,
    MultiHeadAttention,
    masked_softmax,
)

B, T, S, D, M, K = 3, 4, 5, 6, 7, 8
MAKERS = {
    "additive": lambda: AdditiveAttention(D, M, K),
    "concat": lambda: ConcatAttention(D, M, K),
    "dot": lambda: DotAttention(D, D),
    "scaled dot": lambda: DotAttention(D, D, scaled=True),
    "general": lambda: GeneralAttention(D, M),
    "local": lambda: LocalAttention(GeneralAttention(D, M), 2),
    "multi-head": lambda: MultiHeadAttention(D, 2),
}
every = pytest.mark.parametrize("name", MAKERS)


def made(name):
    torch.manual_seed(0)
    attend = MAKERS[name]().double()
    width = getattr(attend, "memory_size", D)
    query = torch.randn(B, T, D, dtype=torch.float64)
    memory = torch.randn(B, S, width, dtype=torch.float64)
    return attend, query, memory


def some_valid():
    return torch.tensor([[True] * 5, [True, True, False, False, False], [False] * 5])


def softmax(numbers):
    shares = [math.exp(e - max(numbers)) for e in numbers]
    return [share / sum(shares) for share in shares]


def score(name, attend, q, m):
    """The score of one query and one memory, from the equation in the paper."""
    if name == "dot":
        return float(sum(a * b for a, b in zip(q, m, strict=True)))
    if name == "scaled dot":
        return float(sum(a * b for a, b in zip(q, m, strict=True))) / math.sqrt(len(q))
    if name == "general":
        return float(q @ (attend.key.weight @ m))
    if name == "additive":
        hidden = attend.query.weight @ q + attend.key.weight @ m
    else:
        hidden = attend.both.weight @ torch.cat([q, m])
    return sum(
        float(v) * math.tanh(h) for v, h in zip(attend.score.weight[0], hidden, strict=True)
    )


@pytest.mark.parametrize("name", ["additive", "concat", "dot", "scaled dot", "general"])
def test_the_equations_of_the_papers(name):
    attend, query, memory = made(name)
    valid = some_valid()
    with torch.no_grad():
        context, weights = attend(query, memory, valid)
        for b in range(B):
            there = valid[b].nonzero().flatten().tolist()
            for t in range(T):
                expected = torch.zeros(S, dtype=torch.float64)
                if there:
                    e = [score(name, attend, query[b, t], memory[b, s]) for s in there]
                    expected[there] = torch.tensor(softmax(e), dtype=torch.float64)
                torch.testing.assert_close(weights[b, t], expected, rtol=0, atol=1e-12)
                torch.testing.assert_close(context[b, t], expected @ memory[b])


def test_local_p_is_equation_10_of_luong():
    """Ten steps of memory and a window of 2: most weights are exactly 0."""
    attend, query, _ = made("local")
    memory = torch.randn(B, 10, M, dtype=torch.float64)
    lengths = torch.tensor([10, 6, 0])
    valid = torch.arange(10) < lengths[:, None]
    with torch.no_grad():
        _, weights = attend(query, memory, valid)
        for b in range(B):
            for t in range(T):
                q = query[b, t]
                inner = attend.place.weight[0] @ torch.tanh(attend.hidden.weight @ q)
                p = int(lengths[b]) / (1 + math.exp(-float(inner)))
                near = [s for s in range(int(lengths[b])) if abs(s - p) <= 2]
                expected = torch.zeros(10, dtype=torch.float64)
                e = [score("general", attend.inner, q, memory[b, s]) for s in near]
                for s, share in zip(near, softmax(e) if e else [], strict=True):
                    expected[s] = share * math.exp(-((s - p) ** 2) / (2 * 1.0**2))  # sigma = w / 2
                torch.testing.assert_close(weights[b, t], expected, rtol=0, atol=1e-12)
    assert 0 < weights[0].count_nonzero() <= 5 * T


def test_concat_is_additive_with_its_matrix_cut_in_two():
    concat, query, memory = made("concat")
    additive = AdditiveAttention(D, M, K).double()
    with torch.no_grad():
        additive.query.weight.copy_(concat.both.weight[:, :D])
        additive.key.weight.copy_(concat.both.weight[:, D:])
        additive.score.weight.copy_(concat.score.weight)
    for one, other in zip(concat(query, memory), additive(query, memory), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
def test_multi_head_is_torchs(bias):
    """Outputs, weights of each head, and all gradients; the weights load both ways."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(D, 3, bias=bias).double()
    theirs = torch.nn.MultiheadAttention(D, 3, bias=bias, batch_first=True).double()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.normal_()
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    valid = torch.tensor(
        [[True] * 5, [True, True, False, False, False], [False, True] * 2 + [True]]
    )
    causal = valid[:, None] & torch.ones(T, S, dtype=torch.bool).tril(1)
    causal[2, 0] = valid[2]
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    m = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    for mask in (None, valid, causal):
        if mask is None or mask.dim() == 2:
            options = {"key_padding_mask": None if mask is None else ~mask}
        else:
            options = {"attn_mask": ~mask.repeat_interleave(3, 0)}
        y, w = ours(x, m, mask)
        y0, w0 = theirs(x, m, m, average_attn_weights=False, **options)
        torch.testing.assert_close(y, y0, rtol=0, atol=1e-12)
        torch.testing.assert_close(w, w0, rtol=0, atol=1e-12)
        seed = torch.randn_like(y)
        got = torch.autograd.grad((y * seed).sum(), [x, m, *ours.parameters()])
        expected = torch.autograd.grad((y0 * seed).sum(), [x, m, *theirs.parameters()])
        named = dict(zip((n for n, _ in theirs.named_parameters()), expected[2:], strict=True))
        torch.testing.assert_close(got[:2], expected[:2], rtol=0, atol=1e-11)
        for (n, _), g in zip(ours.named_parameters(), got[2:], strict=True):
            torch.testing.assert_close(g, named[n], rtol=0, atol=1e-11)


@every
def test_gradients(name):
    attend, query, memory = made(name)
    valid = some_valid()
    query.requires_grad_()
    memory.requires_grad_()
    names = [n for n, _ in attend.named_parameters()]

    def f(query, memory, *weights):
        replaced = dict(zip(names, weights, strict=True))
        return tuple(torch.func.functional_call(attend, replaced, (query, memory, valid)))

    assert gradcheck(f, (query, memory, *attend.parameters()))


@every
def test_nothing_to_attend_to(name):
    """pytorch#41508, #160064: a row that is masked as a whole was NaN, and so was its gradient."""
    attend, query, memory = made(name)
    query.requires_grad_()
    context, weights = attend(query, memory, some_valid())
    assert not weights[2].any()
    bias = attend.out_proj.bias if name == "multi-head" else 0.0
    torch.testing.assert_close(context[2], torch.zeros_like(context[2]) + bias)
    context.square().sum().backward()
    assert query.grad.isfinite().all()
    assert all(w.grad.isfinite().all() for w in attend.parameters())


@every
def test_masked_memory_is_never_read(name):
    """pytorch#101967: NaN at masked keys leaked; OpenNMT-py#272: padding took part."""
    attend, query, memory = made(name)
    valid = some_valid()
    spoiled = memory.masked_fill(~valid[..., None], torch.nan).requires_grad_()
    for keys in (None, attend.prepare(spoiled)):
        context, weights = attend(query, spoiled, valid, keys)
        expected = attend(query, memory, valid)
        torch.testing.assert_close(context, expected.context, rtol=0, atol=0)
        torch.testing.assert_close(weights, expected.weights, rtol=0, atol=0)
    context, _ = attend(query, spoiled, valid)
    context.square().sum().backward()
    assert not spoiled.grad[~valid].any() and spoiled.grad.isfinite().all()
    alone = attend(query[1:2], memory[1:2, :2]).context  # without batch-mates and padding
    torch.testing.assert_close(attend(query, memory, valid).context[1:2], alone)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "local"])
def test_a_mask_for_each_query(name):
    """Left out: local attention, whose place depends on how much is valid."""
    attend, query, memory = made(name)
    mask = torch.ones(T, S, dtype=torch.bool).tril().expand(B, T, S)
    context, _ = attend(query, memory, mask)
    for t in range(T):
        own = attend(query[:, t : t + 1], memory[:, : t + 1]).context
        torch.testing.assert_close(context[:, t : t + 1], own)


@every
def test_one_query_at_a_time_and_prepared_keys(name):
    attend, query, memory = made(name)
    valid = some_valid()
    whole, keys = attend(query, memory, valid), attend.prepare(memory)
    for t in range(T):
        one = attend(query[:, t : t + 1], memory, valid, keys)
        torch.testing.assert_close(one.context[:, 0], whole.context[:, t])
        torch.testing.assert_close(one.weights[..., 0, :], whole.weights[..., t, :])


@every
@pytest.mark.parametrize(("b", "t", "s"), [(0, 4, 5), (3, 0, 5), (3, 4, 0), (1, 1, 1)])
def test_empty_sizes(name, b, t, s):
    attend, query, memory = made(name)
    query, memory = query[:b, :t], memory[:b, :s]
    for valid in (None, torch.ones(b, s, dtype=torch.bool)):
        context, weights = attend(query, memory, valid)
        assert context.shape == (b, t, memory.shape[2])
        assert weights.shape[-2:] == (t, s) and context.isfinite().all()


@pytest.mark.parametrize("how", ["autocast", "bfloat16"])
@torch.no_grad()
def test_local_attention_far_out_in_bfloat16(how):
    """bfloat16 holds one number in four at 1000: windows were empty, or one memory too wide."""
    torch.manual_seed(1)
    attend = LocalAttention(GeneralAttention(4, 6), 2)
    attend.place.weight *= 20
    query, memory = 3 * torch.randn(1, 20, 4), torch.randn(1, 1000, 6)
    if how == "autocast":
        with torch.autocast("cpu", dtype=torch.bfloat16):
            weights = attend(query, memory).weights
    else:
        attend = attend.bfloat16()
        weights = attend(query.bfloat16(), memory.bfloat16()).weights
        assert weights.dtype == torch.bfloat16
        attend = attend.float()
    places = attend.places(query, torch.ones(1, 1, 1000, dtype=torch.bool))
    assert places.max() > 900
    for row, place in zip(weights[0].float(), places.flatten().tolist(), strict=True):
        near = row.nonzero().flatten()
        assert 2 <= len(near) <= 5 and near[-1] - near[0] == len(near) - 1
        assert (near - place).abs().max() <= 2 + 8  # p itself is rounded to bfloat16


def test_masked_softmax_and_its_gradient():
    scores = torch.tensor([[1.0, torch.nan, 3.0], [torch.nan] * 3], requires_grad=True)
    valid = torch.tensor([[True, False, True], [False] * 3])
    share = 1 / (1 + math.exp(2))
    weights = masked_softmax(scores, valid)
    torch.testing.assert_close(weights, torch.tensor([[share, 0, 1 - share], [0, 0, 0]]))
    for wrong in (valid.float(), valid.tolist()):
        with pytest.raises(TypeError, match="valid: expected a tensor of bool"):
            masked_softmax(scores, wrong)
    weights[0, 0].backward()
    slope = share * (1 - share)
    torch.testing.assert_close(scores.grad, torch.tensor([[slope, 0, -slope], [0, 0, 0]]))


@every
def test_wrong_arguments_are_named(name):
    attend, query, memory = made(name)
    for arguments, error, message in [
        ((query[0], memory), ValueError, r"query: expected shape \(B, steps, 6\)"),
        ((query, memory[:2]), ValueError, "memory: expected a batch of 3.*got 2"),
        ((query, memory[..., :2]), ValueError, "memory: expected shape.*got"),
        ((query, memory.float()), ValueError, "memory: expected dtype torch.float64"),
        ((query.tolist(), memory), TypeError, "query: expected a tensor, got list"),
        ((query, memory, [[True]]), TypeError, "valid: expected a tensor of bool.*got list"),
        ((query, memory, torch.ones(B, S)), TypeError, "valid: expected.*got torch.float32"),
        ((query, memory, some_valid()[:, :2]), ValueError, r"valid: expected shape \(3, 5\)"),
    ]:
        with pytest.raises(error, match=message):
            attend(*arguments)


def test_wrong_options_are_named():
    for make, error, message in [
        (lambda: DotAttention(3, 4), ValueError, "memory_size: expected 3.*got 4"),
        (lambda: DotAttention(3, 3, scaled=1), TypeError, "scaled: expected True or False"),
        (lambda: AdditiveAttention(0, 4, 5), ValueError, "query_size: expected at least 1"),
        (lambda: ConcatAttention(3, 4, 0), ValueError, "hidden_size: expected at least 1"),
        (lambda: LocalAttention(torch.nn.Linear(2, 2), 2), TypeError, "inner: expected an Att"),
        (
            lambda: LocalAttention(LocalAttention(DotAttention(2, 2), 1), 1),
            TypeError,
            "inner: expected an Attention with a score of its own, got LocalAttention",
        ),
        (lambda: LocalAttention(DotAttention(2, 2), 0), ValueError, "window: expected at least 1"),
        (lambda: MultiHeadAttention(6, 4), ValueError, "embed_dim: expected a multiple of 4"),
        (lambda: MultiHeadAttention(6, 2, dropout=2.0), ValueError, "dropout: expected"),
    ]:
        with pytest.raises(error, match=message):
            make()
    with pytest.raises(NotImplementedError, match="scores"):
        Attention(2, 2)(torch.ones(1, 1, 2), torch.ones(1, 1, 2))
    attend, query, memory = made("general")
    with pytest.raises(ValueError, match=r"keys: expected what prepare\(memory\) gives"):
        attend(query, memory, None, memory[:, :2])
    with pytest.raises(ValueError, match=r"keys: expected dtype torch.float64"):
        attend(query, memory, None, attend.prepare(memory).float())
    attend, query, memory = made("multi-head")
    k, v = attend.prepare(memory)
    for keys, error, message in [
        (k, TypeError, "keys: expected the pair.*got Tensor"),
        ((k[:1], v[:1]), ValueError, r"keys: expected what.*\(3, 2, 5\).*got \(1, 2, 5, 3\)"),
        ((k[..., :2], v), ValueError, "keys: expected 3 features a head, got 2"),
    ]:
        with pytest.raises(error, match=message):
            attend(query, memory, None, keys)
