"""The selective scan: states that are read and thrown away, a cache's worth at a time.

A state space whose matrices depend on the input has V·N numbers of state a step, of which V leave.
To keep them for the backward takes N times the memory of all else, and to fetch them again takes
most of the time. So states are computed in blocks that fit into the cache, only those between two
blocks are kept, and the backward computes a block again: the authors of Mamba do the same in the
memory of a GPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from companion.cells.linear import select, unrounded
from companion.run.products import is_batched
from companion.run.scan import scan_steps
from companion.run.scan_forms import pick, run
from companion.run.tracing import is_old_batched, is_traced

LIVE = 2**18  # numbers of state in a block, of which the backward holds three
LEAST = 4  # steps of a block, however wide: of all states at most one in so many is kept


def suits(*tensors: Tensor) -> bool:
    """Whether :class:`Selective` can run these, rather than a scan that keeps all states."""
    return (
        all(type(t) is Tensor or type(t) is torch.nn.Parameter for t in tensors)
        and all(t.device.type == "cpu" and not is_old_batched(t) for t in tensors)
        and tensors[0].dtype in (torch.float32, torch.float64)
        and all(t.dtype == tensors[0].dtype for t in tensors)
        and tensors[0].numel() > 0
        and not is_traced()
        and not torch._C._are_functorch_transforms_active()
        and torch.autograd.forward_ad._current_level < 0
    )


class Selective(torch.autograd.Function):
    r"""h_t = e^{Δ_t A} ⊙ h_{t-1} + (Δ_t x_t) B_tᵀ and y_t = h_t C_t, time first.

    With :math:`\delta_t = \partial L / \partial h_t`, from all later steps as well, and
    :math:`\gamma_t = \delta_t \odot h_{t-1} \odot e^{\Delta_t A}`, the gradient of
    :math:`\Delta_t A`,

    .. math::

        \delta_t &= \bar y_t C_t^\top + e^{\Delta_{t+1} A} \odot \delta_{t+1}, \qquad
        \bar C_t = h_t^\top \bar y_t, \quad \bar B_t = \delta_t^\top (\Delta_t x_t), \\
        \bar u_t &= \delta_t B_t, \quad \bar x_t = \Delta_t \bar u_t, \quad
        \bar \Delta_t = x_t \bar u_t + (\gamma_t \odot A) 1, \quad
        \bar A = \sum_t \Delta_t \gamma_t .
    """

    @staticmethod
    def forward(
        ctx: Any, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, x: Tensor, h0: Tensor
    ) -> tuple[Tensor, Tensor]:
        """dt, x (T, S, V), A (V, N), B, C (T, S, N), h0 (S, V, N) -> (T, S, V), (S, V, N)."""
        rates, h = _rows_last(A), _rows_last(h0)  # V last: operators run over whole rows
        u, y, starts = dt * x, torch.empty_like(x), []
        hs, a = _scratch(dt, rates, 2)
        with unrounded(dt):
            for at in _blocks(dt, len(hs)):
                starts.append(h)
                states = _states(dt[at], rates, B[at], u[at], h, a, hs)
                torch.matmul(C[at].unsqueeze(2), states, out=y[at].unsqueeze(2))
                h = states[-1].clone()
        ctx.save_for_backward(dt, A, B, C, x, h0, torch.stack(starts))
        return y, h.mT.contiguous()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Of each of the six, in their order."""
        dt, A, B, C, x, h0, starts = ctx.saved_tensors
        dy, d_last = grads
        with unrounded(starts):
            if torch.is_grad_enabled() or any(map(is_batched, grads)) or is_traced():
                return _recorded(ctx, (dt, A, B, C, x, h0), grads)
            return _derived(dt, A, B, C, x, starts, dy, d_last)


def _derived(
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    x: Tensor,
    starts: Tensor,
    dy: Tensor,
    d_last: Tensor,
) -> tuple[Tensor, ...]:
    """The gradients of (dt, A, B, C, x, h0), block by block from the end; no graph."""
    rates, d_h = _rows_last(A), _rows_last(d_last)
    u, du = dt * x, torch.empty_like(x)
    d_dt, dB, dC = (torch.empty_like(t) for t in (dt, B, C))
    dA = torch.zeros_like(rates)
    hs, a, d = _scratch(dt, rates, 3)
    for at, h in zip(reversed(_blocks(dt, len(hs))), reversed(starts.unbind(0)), strict=True):
        states = _states(dt[at], rates, B[at], u[at], h, a, hs)
        n, dy_t = len(states), dy[at]
        kept, delta = a[:n], d[:n]
        torch.matmul(states, dy_t.unsqueeze(3), out=dC[at].unsqueeze(3))
        torch.mul(C[at].unsqueeze(3), dy_t.unsqueeze(2), out=delta)
        delta[-1] += d_h
        run(pick(delta), kept[1:], delta[:-1], delta[-1], True)
        torch.matmul(delta, u[at].unsqueeze(3), out=dB[at].unsqueeze(3))
        torch.matmul(B[at].unsqueeze(2), delta, out=du[at].unsqueeze(2))
        kept.mul_(delta)  # what reaches the state before; with that state, Δ A
        d_h = kept[0].clone()
        kept[0].mul_(h)
        kept[1:].mul_(states[:-1])
        torch.sum(torch.mul(kept, rates, out=delta), 2, out=d_dt[at])
        dA += kept.mul_(dt[at].unsqueeze(2)).sum((0, 1))
    d_dt.addcmul_(du, x)
    return d_dt, dA.mT, dB, dC, du.mul_(dt), d_h.mT


def _recorded(ctx: Any, inputs: tuple[Tensor, ...], grads: tuple[Tensor, ...]) -> Any:
    """The gradients with a graph of their own, for gradients of gradients and batches of them."""
    with torch.enable_grad():
        alias = [t.view_as(t) for t in inputs]  # one may depend on another: these do not
        needed = [t for t, needs in zip(alias, ctx.needs_input_grad, strict=True) if needs]
        dt, A, B, C, x, h0 = alias
        outputs = select(scan_steps, dt, A, B, C, x, h0)
        found = iter(
            torch.autograd.grad(outputs, needed, grads, create_graph=True, allow_unused=True)
        )
    return tuple(next(found) if needs else None for needs in ctx.needs_input_grad)


def _states(
    dt: Tensor, rates: Tensor, B: Tensor, u: Tensor, h: Tensor, a: Tensor, hs: Tensor
) -> Tensor:
    """All states (n, S, N, V) of a block, written to ``hs``, and the decays to ``a``."""
    n = len(dt)
    torch.mul(dt.unsqueeze(2), rates, out=a[:n]).exp_()
    torch.mul(B.unsqueeze(3), u.unsqueeze(2), out=hs[:n])
    run(pick(hs[:n]), a[:n], hs[:n], h, False)
    return hs[:n]


def _rows_last(t: Tensor) -> Tensor:
    return t.mT.contiguous()


def _scratch(dt: Tensor, rates: Tensor, many: int) -> Tensor:
    """Room for so many times the states of a block."""
    T, S = dt.shape[:2]
    length = min(T, max(LEAST, LIVE // (S * rates.numel())))
    return dt.new_empty(many, length, S, *rates.shape)


def _blocks(dt: Tensor, length: int) -> list[slice]:
    return [slice(t, min(t + length, len(dt))) for t in range(0, len(dt), length)]
