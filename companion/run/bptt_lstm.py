"""The derived backward of the plain LSTM; see ``bptt.py`` for what a rule is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from companion.cells.lstm import LSTMCell
from companion.run.packed import add_last, alive, before, last, previous
from companion.run.products import adder, outer, tanh_into

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward.grad_input


def covers(cell: LSTMCell) -> bool:
    """The equations without options."""
    optional = cell.proj_size or cell.peephole or cell.coupled or cell.layer_norm
    return cell.forget_gate and not optional


def forward(cell: LSTMCell, u: Tensor, sizes: list[int], h0: Tensor, c0: Tensor) -> Any:
    """All gates over u. One sigmoid serves the whole row, as its three parts would take longer."""
    N, H = len(u), c0.shape[1]
    add = adder(cell.weight_hh, sizes[0])
    y, c, candidates = (u.new_empty(N, H) for _ in range(3))
    ys, cs = y.split(sizes), c.split(sizes)
    steps = zip(
        u.split(sizes),
        *(gate.split(sizes) for gate in u.split(H, 1)),
        candidates.split(sizes),
        previous(h0, ys, sizes),
        previous(c0, cs, sizes),
        ys,
        cs,
        strict=True,
    )
    for a_t, i, f, a_g, o, g, h, c_before, h_t, c_t in steps:
        add(a_t, h)
        tanh_into(g, a_g)
        a_t.sigmoid_()
        torch.mul(f, c_before, out=c_t).addcmul_(i, g)
        tanh_into(h_t, c_t).mul_(o)
    u[:, 2 * H : 3 * H] = candidates
    return y, (last(h0, ys, sizes), last(c0, cs, sizes)), (u, c)


def backward(
    cell: LSTMCell,
    sizes: list[int],
    state: Sequence[Tensor],
    y: Tensor,
    tape: Sequence[Tensor],
    dy: Tensor,
    d_final: Sequence[Tensor],
) -> Any:
    """All local slopes for all steps at once; the loop keeps what must wait.

    δc_t = δh_t o (1 − tanh² c_t) + f_{t+1} δc_{t+1};  δa = slope · (δc, δc, δc, δh);
    δh_{t-1} = ∂L/∂h_{t-1} + W_hhᵀ δa_t.
    """
    (h0, c0), (gates, c) = state, tape
    N, H = c.shape
    i, f, g, o = gates.split(H, 1)
    k = torch.empty_like(gates)  # slopes; in the loop they become the gradient of a
    k_i, k_f, k_g, k_o = k.split(H, 1)
    sigmoid_backward(g, i, grad_input=k_i)
    z = before(c0, c, sizes)  # one buffer for all that is short-lived
    sigmoid_backward(z, f, grad_input=k_f)
    tanh_backward(i, g, grad_input=k_g)
    tanh_c = tanh_into(z, c)
    sigmoid_backward(tanh_c, o, grad_input=k_o)
    dh_dc = tanh_backward(o, tanh_c, grad_input=z)
    dh, dc = dy.clone(), d_final[1].clone()
    dhs = dh.split(sizes)
    dh0 = add_last(dhs, d_final[0], sizes)
    add = adder(cell.weight_hh.t().contiguous(), sizes[0])
    steps = zip(
        dhs,
        previous(dh0, dhs, sizes),
        alive(dc, sizes),
        alive(dc.unsqueeze(1), sizes),
        *(z.split(sizes) for z in (k, k.view(N, 4, H)[:, :3], k_o, f, dh_dc)),
        strict=True,
    )
    for dh_t, dh_before, dc_t, dc_3, k_t, k_ifg, k_o_t, f_t, dh_dc_t in reversed(list(steps)):
        dc_t.addcmul_(dh_t, dh_dc_t)
        k_ifg.mul_(dc_3)
        k_o_t.mul_(dh_t)
        dc_t.mul_(f_t)
        add(dh_before, k_t)
    return k, (dh0, dc), {"weight_hh": outer(k, before(h0, y, sizes, out=z))}
