"""The derived backward of the LSTM with its options; see ``bptt.py`` for what a rule is.

The plain LSTM has a rule of its own (``bptt_lstm.py``), which is this one without the options;
read that first. Each option is a line or two where it acts, once forward and once backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from companion.cells.lstm import LSTMCell
from companion.run.bptt_lstm import sigmoid_backward, tanh_backward
from companion.run.packed import add_last, alive, before, last, previous
from companion.run.products import adder, outer, product, tanh_into, wide_zeros

EPS = 1e-5  # of torch's layer_norm
ROWS, ROWS_AND_GAIN = [True, False, False], [True, True, False]


def norm(a: Tensor, gain: Tensor, bias: Tensor | None = None) -> Any:
    """Normalized rows, and the mean and inverse deviation of each row."""
    return torch.native_layer_norm(a, a.shape[-1:], gain, bias, EPS)


def norm_backward(
    wanted: list[bool],
    d: Tensor,
    of: Sequence[Tensor],
    gain: Tensor,
    bias: Tensor | None = None,
) -> Any:
    """Gradients of rows, gain and bias where wanted.

    ``d`` is the gradient of what ``norm`` gave for the rows ``of[0]``, whose mean and inverse
    deviation follow.
    """
    a, mean, inverse = of
    return torch.ops.aten.native_layer_norm_backward.default(
        d, a, a.shape[-1:], mean, inverse, gain, bias, wanted
    )


def prepare_norm(cell: LSTMCell, x: Tensor) -> Any:
    """The product with the input, normalized; the biases come after that."""
    a = product(x, cell.weight_ih)
    bias = None if cell.bias_ih is None or cell.bias_hh is None else cell.bias_ih + cell.bias_hh
    u, mean, inverse = norm(a, cell.norm_ih, bias)
    return u, (a, mean, inverse)


def prepare_norm_backward(cell: LSTMCell, kept: Sequence[Tensor], du: Tensor) -> Any:
    """The gradients of that product, written over du, and of the gain."""
    d_gain = wide_zeros(cell.norm_ih)
    for rows in _rows([du, *kept], 128):  # a block at a time, which stays in the cache
        da, d_gain_rows, _ = norm_backward(ROWS_AND_GAIN, rows[0], rows[1:], cell.norm_ih)
        rows[0].copy_(da)
        d_gain += d_gain_rows
    return du, {"norm_ih": d_gain.to(cell.norm_ih.dtype)}


def forward(cell: LSTMCell, u: Tensor, sizes: list[int], h0: Tensor, c0: Tensor) -> Any:
    """All gates over u; a gate that sees c_t through a peephole waits for it."""
    N, H, n_gates = len(u), c0.shape[1], len(cell.gates)
    us, add = u.split(sizes), adder(cell.weight_hh, sizes[0])
    a_hs = alive(torch.empty_like(u[: sizes[0]]), sizes) if cell.layer_norm else us
    c, candidates = u.new_empty(N, H), u.new_empty(N, H)
    y, project = u.new_empty(N, h0.shape[1]), None
    if cell.proj_size:
        q, project = u.new_empty(sizes[0], H), adder(cell.weight_hr, sizes[0])
        y.zero_()
    see_if, see_o = (cell.weight_ch[:-1], cell.weight_ch[-1]) if cell.peephole else (None, None)
    ys, cs = y.split(sizes), c.split(sizes)
    *gates_if, a_g, o = u.split(H, 1)
    at_once = u[:, :-H] if cell.peephole else u  # the gates that do not wait for c_t
    steps = zip(
        us,
        a_hs,
        *(z.split(sizes) for z in (u.view(N, n_gates, H)[:, :-2], at_once)),
        *(z.split(sizes) for z in (gates_if[0], gates_if[-1], a_g, candidates, o)),
        previous(h0, ys, sizes),
        previous(c0, cs, sizes),
        previous(c0.unsqueeze(1), c.unsqueeze(1).split(sizes), sizes),
        cs,
        alive(q, sizes) if cell.proj_size else ys,
        ys,
        strict=True,
    )
    stats: list[Any] = []
    for a_t, a_h_t, a_if, first, i, f, a_g_t, g, o_t, h, c_before, c_seen, c_t, q_t, h_t in steps:
        if cell.layer_norm:
            normal, *of_rows = norm(add(a_h_t.zero_(), h), cell.norm_hh)
            a_t.add_(normal)
            stats.append(of_rows)
        else:
            add(a_t, h)
        if see_if is not None:
            a_if.addcmul_(c_seen, see_if)
        tanh_into(g, a_g_t)
        first.sigmoid_()
        if cell.coupled:
            torch.lerp(g, c_before, f, out=c_t)
        elif cell.forget_gate:
            torch.mul(f, c_before, out=c_t).addcmul_(i, g)
        else:
            torch.addcmul(c_before, i, g, out=c_t)
        if see_o is not None:
            o_t.addcmul_(c_t, see_o).sigmoid_()
        m_t = norm(c_t, *cell.norm_c)[0] if cell.layer_norm else c_t
        tanh_into(q_t, m_t).mul_(o_t)
        if project is not None:
            project(h_t, q_t)
    a_g.copy_(candidates)
    stats_h = map(torch.cat, zip(*stats, strict=True))
    return y, (last(h0, ys, sizes), last(c0, cs, sizes)), (u, c, *stats_h)


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

    δq_t = W_hrᵀ δh_t of q_t = o_t tanh c_t;  δc_t = slope δq_t + keep_{t+1} δc_{t+1}. Peepholes
    need no operator in the loop: what reaches c_t through a gate that sees it is in proportion to
    what reaches that gate, so that they only add to slope = ∂q_t/∂c_t and keep = ∂c_t/∂c_{t-1}.
    """
    (h0, c0), (gates, c, *stats_h) = state, tape
    N, H, n_gates = *c.shape, len(cell.gates)
    *gates_if, g, o = gates.split(H, 1)
    k = torch.empty_like(gates)  # slopes; in the loop they become the gradient of a
    *k_if, k_g, k_o = k.split(H, 1)
    z = before(c0, c, sizes)
    keep: Any = gates_if[-1] if cell.forget_gate else None
    if cell.coupled:
        sigmoid_backward(z - g, keep, grad_input=k_if[0])
        tanh_backward(1 - keep, g, grad_input=k_g)
    else:
        sigmoid_backward(g, gates_if[0], grad_input=k_if[0])
        tanh_backward(gates_if[0], g, grad_input=k_g)
        if keep is not None:
            sigmoid_backward(z, keep, grad_input=k_if[1])
    m, *of_c = norm(c, *cell.norm_c) if cell.layer_norm else (c,)
    tanh_c = tanh_into(m if cell.layer_norm else z, m)
    sigmoid_backward(tanh_c, o, grad_input=k_o)
    q = o * tanh_c if cell.proj_size else None
    slope = d_m = tanh_backward(o, tanh_c, grad_input=tanh_c)  # with layer norm: ∂q_t/∂m_t
    if cell.layer_norm:
        slope = None
    if cell.peephole:
        see_if, see_o = cell.weight_ch[:-1], cell.weight_ch[-1]
        slope = k_o * see_o if slope is None else slope.addcmul_(k_o, see_o)
        keep = torch.ones_like(c) if keep is None else keep.contiguous().clone()
        for k_s, see in zip(k_if, see_if, strict=True):
            keep.addcmul_(k_s, see)
    dh, dc = dy.clone(), d_final[1].clone()
    dhs = dh.split(sizes)
    dh0 = add_last(dhs, d_final[0], sizes)
    add = adder(cell.weight_hh.t().contiguous(), sizes[0])
    W_rh = cell.weight_hr.t().contiguous() if cell.proj_size else None
    h_before = before(h0, y, sizes, out=z if cell.layer_norm and q is None else None)
    # what W_hh h_{t-1} was, where it is normalized; in the loop, its gradient is written over it
    a_h = product(h_before, cell.weight_hh) if cell.layer_norm else k
    d_norm_hh: Any = wide_zeros(cell.norm_hh) if cell.layer_norm else None
    absent = [None] * len(sizes)
    steps = zip(
        dhs,
        previous(dh0, dhs, sizes),
        alive(dc, sizes),
        alive(dc.unsqueeze(1), sizes),
        *(p.split(sizes) for p in (k, k.view(N, n_gates, H)[:, :-1], k_o, a_h)),
        *(absent if p is None else p.split(sizes) for p in (slope, keep)),
        _rows([d_m, c, *of_c], sizes) if cell.layer_norm else absent,
        _rows(stats_h, sizes) if cell.layer_norm else absent,
        strict=True,
    )
    for dh_t, dh_1, dc_t, dc_3, k_t, k_c, k_o_t, a_h_t, slope_t, keep_t, n_c, n_h in reversed(
        list(steps)
    ):
        dq = dh_t if W_rh is None else product(dh_t, W_rh)
        if n_c is not None:
            d_m_t, *rows = n_c
            d_m_t.mul_(dq)
            dc_t.add_(norm_backward(ROWS, d_m_t, rows, cell.norm_c[0])[0])
        if slope_t is not None:
            dc_t.addcmul_(dq, slope_t)
        k_c.mul_(dc_3)
        k_o_t.mul_(dq)
        if keep_t is not None:
            dc_t.mul_(keep_t)
        if n_h is not None:
            d_a_h, d_gain, _ = norm_backward(ROWS_AND_GAIN, k_t, (a_h_t, *n_h), cell.norm_hh)
            a_h_t.copy_(d_a_h)
            d_norm_hh += d_gain
        add(dh_1, a_h_t)
    d_weight = {"weight_hh": outer(a_h, h_before)}
    if q is not None:
        d_weight["weight_hr"] = outer(dh, q)
    if cell.peephole:
        c_before = before(c0, c, sizes)
        seen = [*((k_s, c_before) for k_s in k_if), (k_o, c)]
        d_see = [torch.mul(k_s, c_s, out=keep).sum(0) for k_s, c_s in seen]
        d_weight["weight_ch"] = torch.stack(d_see)
    if cell.layer_norm:
        d_weight["norm_hh"] = d_norm_hh.to(cell.norm_hh.dtype)
        of_norm_c = norm_backward([False, True, True], d_m, (c, *of_c), *cell.norm_c)
        d_weight["norm_c"] = torch.stack(of_norm_c[1:])
    return k, (dh0, dc), d_weight


def _rows(tensors: Sequence[Tensor], sizes: list[int] | int) -> list[tuple[Tensor, ...]]:
    return list(zip(*(t.split(sizes) for t in tensors), strict=True))
