"""Matrix states beside the naive oracles of flash-linear-attention, which are torch alone.

The package itself wants Triton: the oracles are read file by file. They compute in float32 what
they are given, and scale queries by 1/√d.
"""

from __future__ import annotations

import pytest
import torch

import companion
from companion.cells.matrix import split_heads

from .helpers import B, load_file, moved, randn, weights

LIBRARY, F64 = "fla-core", {"dtype": torch.float64}
HEADS, D_K, D_V, T = 2, 4, 6, 64  # of their chunks, a multiple


def oracle(folder, function):
    return getattr(load_file(LIBRARY, f"fla/ops/{folder}/naive.py"), function)


class Memory(companion.MatrixCell):
    """No weights: the input is what the operation takes, head by head."""

    def __init__(self, input_size, hidden_size, bias=True, *, parts, **new):
        super().__init__(input_size, hidden_size)
        self.parts, self.state_size = parts, HEADS * D_K * D_V

    def prepare(self, x):
        return x

    def along(self, u, S, time):
        names, sizes = zip(*self.parts.items(), strict=True)
        blocks = u.split([HEADS * n for n in sizes], -1)
        rows = {n: split_heads(x, HEADS) for n, x in zip(names, blocks, strict=True)}
        if "g" in rows and rows["g"].shape[-1] == 1:
            rows["g"] = rows["g"].squeeze(-1)
        q, k, v, g = rows["q"] * D_K**-0.5, rows["k"], rows["v"], rows.get("g")
        if "a" in rows:
            y, S = time.delta(q, k, v, rows["a"], rows["b"], S, g)
        else:
            y, S = time.attend(q, k, v, S, g)
        return y.flatten(1), S


def run(form, start=None, **rows):
    """(B, T, h, d_v) and S of the rows (B, T, h, n)."""
    parts = {name: x.shape[-1] for name, x in rows.items()}
    cell = companion.Recurrence(
        Memory, HEADS * sum(parts.values()), HEADS * D_V, parts=parts, bias=False
    )
    x = torch.cat([r.flatten(2) for r in rows.values()], -1)
    y, S = cell(x, None if start is None else start.flatten(1).unsqueeze(0), form=form)
    return y.unflatten(2, (HEADS, D_V)), S.view(B, HEADS, D_K, D_V)


START = 0.5 * torch.randn(B, HEADS, D_K, D_V, generator=torch.Generator().manual_seed(1)).double()
forms = pytest.mark.parametrize("form", ["loop", "chunk"])


def rows():
    q, k, v = (randn(B, T, HEADS, n) for n in (D_K, D_K, D_V))
    return q, k / k.norm(dim=-1, keepdim=True), v / 2


def heads_first(*tensors):
    return [x.transpose(1, 2) for x in tensors]


def both(beside, ours, theirs, got, want):
    for name, a, b in zip(("", ", state"), got, want, strict=True):
        beside(f"{ours}{name}", LIBRARY, theirs, a, b)


@forms
def test_sum_of_outer_products(beside, form):
    q, k, v = rows()
    k = k / T**0.5  # nothing fades: theirs sums up in float32
    want = oracle("linear_attn", "naive_recurrent_linear_attn")(
        q, k, v, initial_state=START.float(), output_final_state=True
    )
    both(
        beside,
        f"attend, {form}",
        "naive_recurrent_linear_attn",
        run(form, START, q=q, k=k, v=v),
        want,
    )


@forms
def test_decay_of_a_head(beside, form):
    """Mamba-2's, the mLSTM's, and RetNet's where it is fixed."""
    q, k, v = rows()
    g = -torch.rand(B, T, HEADS, 1, **F64)
    for name in ("naive_recurrent_simple_gla", "naive_chunk_simple_gla"):
        want = oracle("simple_gla", name)(
            q, k, v, g.squeeze(-1), initial_state=START.float(), output_final_state=True
        )
        both(beside, f"attend, {form}", name, run(form, START, q=q, k=k, v=v, g=g), want)


@forms
def test_decay_of_each_entry_of_a_key(beside, form):
    """Gated linear attention's."""
    q, k, v = rows()
    g = -torch.rand(B, T, HEADS, D_K, **F64)
    want = oracle("gla", "naive_recurrent_gla")(
        q, k, v, g, initial_state=START.float(), output_final_state=True
    )
    both(
        beside,
        f"attend, {form}",
        "naive_recurrent_gla",
        run(form, START, q=q, k=k, v=v, g=g),
        want,
    )


@forms
def test_delta_rule(beside, form):
    """DeltaNet's: with a = −β k and b = k."""
    q, k, v = rows()
    beta = torch.rand(B, T, HEADS, 1, **F64)
    q_, k_, v_, beta_ = heads_first(q, k, v, beta)
    want, S = oracle("delta_rule", "delta_rule_recurrence")(
        q_, k_, v_, beta_, initial_state=START.float()
    )
    got = run(form, START, q=q, k=beta * k, v=v, a=-beta * k, b=k)
    both(beside, f"delta, {form}", "delta_rule_recurrence", got, (want.transpose(1, 2), S))


@forms
@pytest.mark.parametrize("of", ["a head", "an entry"])
def test_gated_delta_rule(beside, form, of):
    """Gated DeltaNet's, and Kimi's with a decay for each entry of a key: b = e^g k."""
    q, k, v = rows()
    beta = torch.rand(B, T, HEADS, 1, **F64)
    g = -torch.rand(B, T, HEADS, 1 if of == "a head" else D_K, **F64)
    folder, name = (
        ("gated_delta_rule", "naive_recurrent_gated_delta_rule")
        if of == "a head"
        else ("kda", "naive_recurrent_kda")
    )
    want = oracle(folder, name)(
        q,
        k,
        v,
        g=g.squeeze(-1) if of == "a head" else g,
        beta=beta.squeeze(-1),
        initial_state=START.float(),
        output_final_state=True,
    )
    got = run(form, START, q=q, k=beta * k, v=v, a=-beta * k, b=g.exp() * k, g=g)
    both(beside, f"delta, {form}", name, got, want)


@forms
def test_diagonal_plus_rank_one(beside, form):
    """RWKV-7's; its α is our b, its β our a."""
    q, k, v = rows()
    g, eta = -torch.rand(B, T, HEADS, D_K, **F64), torch.rand(B, T, HEADS, D_K, **F64)
    kappa = randn(B, T, HEADS, D_K)
    kappa = kappa / kappa.norm(dim=-1, keepdim=True)
    sent = heads_first(q, k, v, -kappa, eta * kappa, g)
    want, S = oracle("generalized_delta_rule/dplr", "dplr_recurrence")(
        *sent[:3], sent[3].float(), *sent[4:], initial_state=START.float()
    )
    got = run(form, START, q=q, k=k, v=v, a=eta * kappa, b=-kappa, g=g)
    both(beside, f"delta, {form}", "dplr_recurrence", got, (want.transpose(1, 2), S))


def test_elementwise(beside):
    """HGRN's, which is that of every cell of a scan."""
    x, g = randn(B, T, 5), -torch.rand(B, T, 5, **F64)
    h0 = randn(B, 5)
    want = oracle("hgrn", "naive_recurrent_hgrn")(x, g, h0, True)
    both(beside, "scan", "naive_recurrent_hgrn", companion.scan(g.exp(), x, h0), want)


@torch.no_grad()
def test_linear_attention(beside):
    """The whole layer; ε is 1e-6 of a sum of weights here, 1e-10 there."""
    layer = moved(companion.LinearAttention(8, 8, heads=2, **F64))
    x, w = randn(B, T, 8), weights(layer)
    q, k, v = (split_heads(p, 2) for p in layer.cell(0).prepare(x).chunk(3, -1))
    y, _ = oracle("linear_attn", "naive_recurrent_linear_attn")(q, k, v, normalize=True)
    want = y.flatten(2) @ w["weight_ho"].T + w["bias_ho"]
    beside("LinearAttention", LIBRARY, "naive_recurrent_linear_attn", layer(x)[0], want)


@torch.no_grad()
def test_retention(beside):
    """Without the turn, which their layer has and the oracle has not; its decay is ours."""
    layer = companion.RetNet(8, 8, heads=2)
    q, k, v = rows()
    want = oracle("retention", "naive_retention")(*heads_first(q, k, v)).transpose(1, 2)
    g = layer.cell(0).log_decays(q).view(HEADS, 1).expand(B, T, HEADS, 1)
    got, _ = run("chunk", q=q, k=k, v=v, g=g)
    beside("attend, RetNet's decay", LIBRARY, "naive_retention", got, want)
