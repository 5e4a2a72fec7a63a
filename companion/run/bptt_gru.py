"""The derived backward of the GRU in both dialects; see ``bptt.py`` for what a rule is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from companion.cells.gru import GRUCell
from companion.run.packed import add_last, last, previous
from companion.run.products import adder, outer, product, tanh_into

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
tanh_backward = torch.ops.aten.tanh_backward


def forward(cell: GRUCell, u: Tensor, sizes: list[int], h0: Tensor) -> Any:
    """Gates r, z over u; candidates n and what the reset gate acts on are kept."""
    N, H = len(u), h0.shape[1]
    y, n, inner = (u.new_empty(N, H) for _ in range(3))
    ys = y.split(sizes)
    steps = zip(
        u[:, : 2 * H].split(sizes),
        *(gate.split(sizes) for gate in u.split(H, 1)),
        n.split(sizes),
        inner.split(sizes),
        previous(h0, ys, sizes),
        ys,
        strict=True,
    )
    step = _step_after(cell) if cell.reset_after else _step_before(cell, H)
    for rz, r, z, u_n, n_t, inner_t, h, h_t in steps:
        step(rz, r, u_n, n_t, inner_t, h)
        torch.lerp(n_t, h, z, out=h_t)  # n + z (h − n)
    return y, (last(h0, ys, sizes),), (u, n, inner)


def _step_after(cell: GRUCell) -> Any:
    def step(rz: Tensor, r: Tensor, u_n: Tensor, n: Tensor, inner: Tensor, h: Tensor) -> None:
        """n = tanh(u_n + r ⊙ inner), inner = W_hn h + b_hn."""
        a, two = product(h, cell.weight_hh, cell.bias_hh), rz.shape[1]
        rz.add_(a[:, :two]).sigmoid_()
        inner.copy_(a[:, two:])
        tanh_into(n, torch.addcmul(u_n, r, inner, out=n))

    return step


def _step_before(cell: GRUCell, H: int) -> Any:
    W_rz, W_n = cell.weight_hh.split([2 * H, H])
    b_rz, b_n = (None, None) if cell.bias_hh is None else cell.bias_hh.split([2 * H, H])

    def step(rz: Tensor, r: Tensor, u_n: Tensor, n: Tensor, inner: Tensor, h: Tensor) -> None:
        """n = tanh(u_n + W_hn inner + b_hn), inner = r ⊙ h."""
        rz.add_(product(h, W_rz, b_rz)).sigmoid_()
        torch.mul(r, h, out=inner)
        tanh_into(n, torch.add(u_n, product(inner, W_n, b_n), out=n))

    return step


def backward(
    cell: GRUCell,
    sizes: list[int],
    state: Sequence[Tensor],
    y: Tensor,
    tape: Sequence[Tensor],
    dy: Tensor,
    d_final: Sequence[Tensor],
) -> Any:
    """Local slopes for all steps at once; the loop keeps what must wait."""
    (h0,), (u, n, inner) = state, tape
    N, H = y.shape
    ys, (r, z, _) = y.split(sizes), u.split(H, 1)
    before = torch.cat(previous(h0, ys, sizes))
    k = y.new_empty(N, 3 * H)  # slopes against dh; in the loop they become gradients
    k_r, k_z, k_n = k.split(H, 1)
    slope_n = tanh_backward(1 - z, n)
    sigmoid_backward(before - n, z, grad_input=k_z)
    dh = dy.clone()
    dhs = dh.split(sizes)
    dh0 = add_last(dhs, d_final[0], sizes)
    earlier = previous(dh0, dhs, sizes)
    if cell.reset_after:
        torch.mul(slope_n, r, out=k_n)
        sigmoid_backward(slope_n * inner, r, grad_input=k_r)
        add = adder(cell.weight_hh.t().contiguous(), sizes[0])
        rows = (k, k.view(N, 3, H), z)
        later = list(zip(dhs, earlier, *(p.split(sizes) for p in rows), strict=True))
        for dh_t, dh_before, k_t, k_3, z_t in reversed(later):
            k_3.mul_(dh_t.unsqueeze(1))
            add(dh_before, k_t).addcmul_(dh_t, z_t)
        d_weight = {"weight_hh": outer(k, before), "bias_hh": k.sum(0)}
        k_n.copy_(slope_n.mul_(dh))  # k is now the gradient of u
        return k, (dh0,), d_weight
    k_n.copy_(slope_n)
    sigmoid_backward(before, r, grad_input=k_r)  # against the gradient of inner = r ⊙ h
    W_rz, W_n = cell.weight_hh.split([2 * H, H])
    add_rz, W_nt = adder(W_rz.t().contiguous(), sizes[0]), W_n.t().contiguous()
    parts = (k[:, : 2 * H], k.view(N, 3, H)[:, 1:], k_r, k_n, r, z)
    steps = zip(dhs, earlier, *(p.split(sizes) for p in parts), strict=True)
    for dh_t, dh_before, k_rz, k_zn, k_r_t, k_n_t, r_t, z_t in reversed(list(steps)):
        k_zn.mul_(dh_t.unsqueeze(1))
        d_inner = product(k_n_t, W_nt)
        k_r_t.mul_(d_inner)
        add_rz(dh_before, k_rz).addcmul_(dh_t, z_t).addcmul_(d_inner, r_t)
    d_hh = torch.cat([outer(k[:, : 2 * H], before), outer(k_n, inner)])
    return k, (dh0,), {"weight_hh": d_hh, "bias_hh": k.sum(0)}
