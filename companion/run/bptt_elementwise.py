"""The derived backward of cells whose state is elementwise; see ``bptt.py`` for what a rule is.

What such a step does to the gradient of its state is one factor for each unit, known for all steps
once the forward has run. The forward has to wait, since it is not linear; the backward is linear
always: a scan from the last step to the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from companion.cells.indrnn import IndRNNCell
from companion.cells.sru import SRUCell
from companion.run.packed import add_last, last, previous
from companion.run.products import product, wide_zeros

sigmoid_backward = torch.ops.aten.sigmoid_backward
tanh_backward = torch.ops.aten.tanh_backward.grad_input
threshold_backward = torch.ops.aten.threshold_backward.grad_input


def add_before(d: Tensor, d_early: Tensor, sizes: list[int], S: int) -> Tensor:
    """d_{t-1} += d_early_t, in place; what falls to s_0 (S, H)."""
    d_first = d.new_zeros(S, d.shape[1])
    d_first[: sizes[0]] = d_early[: sizes[0]]
    if sizes[0] == sizes[-1]:
        d[: len(d) - sizes[0]] += d_early[sizes[0] :]
    else:
        for early, piece in zip(d_early.split(sizes)[1:], d.split(sizes), strict=False):
            piece[: len(early)] += early
    return d_first


def carry_back(factor: Tensor, d: Tensor, d_last: Tensor, sizes: list[int]) -> Tensor:
    """d_{t-1} += factor_t ⊙ d_t from the last step to the first, in place; what falls to s_0."""
    ds = d.split(sizes)
    d_first = add_last(ds, d_last, sizes)
    steps = zip(factor.split(sizes), ds, previous(d_first, ds, sizes), strict=True)
    with torch.inference_mode():
        for factor_t, d_t, before in reversed(list(steps)):
            before.addcmul_(factor_t, d_t)
    return d_first


# ---------------------------------------------------------------- IndRNN


# from the gradient of φ(a) to that of a, in place, given φ(a)
THROUGH = {
    "relu": lambda d, y: threshold_backward(d, y, 0, grad_input=d),
    "tanh": lambda d, y: tanh_backward(d, y, grad_input=d),
    "identity": lambda d, y: d,
}


def indrnn_forward(cell: IndRNNCell, a: Tensor, sizes: list[int], h0: Tensor) -> Any:
    """h_t = φ(a_t + u ⊙ h_{t-1}), written over a."""
    phi = {"relu": torch.relu_, "tanh": torch.tanh_, "identity": lambda a: a}[cell.nonlinearity]
    u, hs = cell.bounded(), a.split(sizes)
    with torch.inference_mode():  # a tenth of a small operator's time is bookkeeping for autograd
        for h_t, h in zip(hs, previous(h0, hs, sizes), strict=True):
            phi(h_t.addcmul_(u, h))
    return a, (last(h0, hs, sizes),), ()


def indrnn_backward(
    cell: IndRNNCell,
    sizes: list[int],
    state: Sequence[Tensor],
    y: Tensor,
    tape: Sequence[Tensor],
    dy: Tensor,
    d_final: Sequence[Tensor],
) -> Any:
    """δh_{t-1} = ∂L/∂h_{t-1} + u ⊙ φ'(a_t) ⊙ δh_t;  ∂L/∂u = Σ_t φ'(a_t) δh_t h_{t-1}."""
    (h0,), u, dh, d_u = state, cell.bounded(), dy.clone(), wide_zeros(state[0])
    dhs, ys, through = dh.split(sizes), y.split(sizes), THROUGH[cell.nonlinearity]
    dh0 = add_last(dhs, d_final[0], sizes)
    d_us = [d_u if n == len(d_u) else d_u[:n] for n in sizes]
    steps = zip(dhs, ys, previous(h0, ys, sizes), previous(dh0, dhs, sizes), d_us, strict=True)
    with torch.inference_mode():
        for dh_t, h_t, h, before, d_u_t in reversed(list(steps)):
            through(dh_t, h_t)  # now the gradient of what is inside φ
            before.addcmul_(u, dh_t)
            d_u_t.addcmul_(dh_t, h)
    return dh, (dh0,), {"weight_hh": d_u.sum(0).to(u.dtype)}


# ---------------------------------------------------------------- SRU


def sru_prepare(cell: SRUCell, x: Tensor) -> Any:
    """Candidate, both gates and the highway."""
    u = product(x, cell.weight_ih)
    u = u if cell.projects else torch.cat([u, cell.alpha * x], 1)
    if cell.bias_ih is not None:
        u[:, cell.hidden_size : 3 * cell.hidden_size] += cell.bias_ih
    return u, ()


def sru_prepare_backward(cell: SRUCell, kept: Sequence[Tensor], du: Tensor) -> Any:
    """Biases of the gates alone."""
    return du, {"bias_ih": du[:, cell.hidden_size : 3 * cell.hidden_size].sum(0)}


def sru_forward(cell: SRUCell, u: Tensor, sizes: list[int], c0: Tensor) -> Any:
    """f_t and c_t wait; r_t, which sees c_{t-1} and which nothing waits for, comes after."""
    v_f, v_r = cell.weight_ch
    candidate, f, r, skip = u.chunk(4, 1)
    c = torch.empty_like(candidate, memory_format=torch.contiguous_format)
    cs = c.split(sizes)
    steps = zip(candidate.split(sizes), f.split(sizes), previous(c0, cs, sizes), cs, strict=True)
    with torch.inference_mode():
        for candidate_t, f_t, before, c_t in steps:
            f_t.addcmul_(v_f, before).sigmoid_()
            torch.lerp(candidate_t, before, f_t, out=c_t)
    r.addcmul_(v_r, torch.cat(previous(c0, cs, sizes))).sigmoid_()
    g = torch.tanh(c) if cell.nonlinearity == "tanh" else c
    return torch.lerp(skip, g, r), (last(c0, cs, sizes),), (u, c)


def sru_backward(
    cell: SRUCell,
    sizes: list[int],
    state: Sequence[Tensor],
    y: Tensor,
    tape: Sequence[Tensor],
    dy: Tensor,
    d_final: Sequence[Tensor],
) -> Any:
    """δc_{t-1} = what h_{t-1} and r_t say + (f_t + v_f (c_{t-1} − W x_t) f_t (1 − f_t)) δc_t."""
    (c0,), (u, c) = state, tape
    v_f, v_r = cell.weight_ch
    candidate, f, r, skip = u.chunk(4, 1)
    before = torch.cat(previous(c0, c.split(sizes), sizes))
    g = torch.tanh(c) if cell.nonlinearity == "tanh" else c
    d_r = sigmoid_backward(dy * (g - skip), r)  # of what is inside the sigmoid
    slope_f = sigmoid_backward(before - candidate, f)
    dc = dy * r
    if cell.nonlinearity == "tanh":
        tanh_backward(dc, g, grad_input=dc)
    dc0 = add_before(dc, d_r * v_r, sizes, len(c0))
    dc0 += carry_back(torch.addcmul(f, slope_f, v_f), dc, d_final[0], sizes)
    d_f = slope_f.mul_(dc)
    parts, d_skip = [dc * (1 - f), d_f, d_r], dy * (1 - r)
    gradients = {"weight_ch": torch.stack([(d_f * before).sum(0), (d_r * before).sum(0)])}
    if cell.projects:
        parts.append(d_skip)
    else:  # no product leads from the highway to the input
        gradients["x"] = d_skip.mul_(cell.alpha)
    return torch.cat(parts, 1), (dc0,), gradients
