"""The linear recurrence h_t = a_t h_{t-1} + b_t, elementwise, and its derivatives.

Its backward is a linear recurrence as well, from the last step to the first, and so is its
forward derivative: one in-place kernel (``scan_forms.py``) serves all three.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from companion.cells.base import CASTABLE, autocasting
from companion.cells.linear import HALVES, promoted
from companion.checks import check_flag
from companion.run.products import is_batched
from companion.run.scan_forms import FORMS, kept, loop_backward, pick, run
from companion.run.tracing import is_old_batched, is_traced

__all__ = ["scan"]

DTYPES = (*CASTABLE, torch.float64, torch.complex64, torch.complex128)


def scan(
    a: Tensor,
    b: Tensor,
    h0: Tensor | None = None,
    *,
    reverse: bool = False,
    form: str | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Run a linear recurrence along time, elementwise.

    .. math::

        h_t = a_t \odot h_{t-1} + b_t, \qquad t = 1, \dots, T .

    With :math:`\delta_t` the gradient that reaches :math:`h_t` from its own output and from all
    later steps, the derived backward is the same recurrence from the end:

    .. math::

        \delta_t = \frac{\partial L}{\partial h_t} + \bar a_{t+1} \odot \delta_{t+1}, \qquad
        \frac{\partial L}{\partial b_t} = \delta_t, \qquad
        \frac{\partial L}{\partial a_t} = \delta_t \odot \bar h_{t-1}, \qquad
        \frac{\partial L}{\partial h_0} = \bar a_1 \odot \delta_1 ,

    where the bar, the complex conjugate, leaves real numbers alone. No form divides, so that
    :math:`a_t = 0` is exact, and a step that forgets everything may follow any other.

    Args:
        a: (B, T, ...), the factors. A size may be 1 where that of ``b`` is not: a decay that is
            fixed in time is (1, 1, D).
        b: (B, T, ...), the terms; floating point or complex, as ``a`` is. float16 and bfloat16
            are summed up in float32, and under autocast may mix with it, which gives float32.
        h0: (B, ...), the state before the first step; ``None``: zeros.
        reverse: run from step T to step 1; ``h0`` is then what comes after step T.
        form: ``"loop"``, ``"chunks"`` (chunks of time side by side) or ``"tree"`` (neighbors
            joined in pairs, after Blelloch); ``None`` picks the fastest. All give the same up to
            rounding. Where a product of factors overflows, or vanishes next to a state beyond
            1e14 (1e32 in float64), the loop takes over. What remains: a state that shrinks below
            1e-24 (1e-276) and grows again may be lost, as in the loop below 1e-38 (1e-308).

    Returns:
        ``h`` (B, T, ...), all states, and (B, ...), the state after the step run last.

    Raises:
        TypeError: if something is no tensor, or ``reverse`` no bool.
        ValueError: if a shape, dtype or device does not fit, or there is no such form.

    Source:
        Blelloch, "Prefix sums and their applications", CMU-CS-90-190 (1990); Martin and Cundy,
        "Parallelizing linear recurrent neural nets over sequence length", ICLR 2018.

    Example:
        A bank account: half is spent each day, and one coin comes in.

        >>> import companion, torch
        >>> h, last = companion.scan(torch.full((1, 4), 0.5), torch.ones(1, 4))
        >>> h
        tensor([[1.0000, 1.5000, 1.7500, 1.8750]])
        >>> last
        tensor([1.8750])
    """
    check_flag("reverse", reverse)
    _check(a, b, h0, form)
    if h0 is None:
        h0 = b.new_zeros((b.shape[0], *b.shape[2:]))
    a_steps, b_steps = a.expand(b.shape).transpose(0, 1), b.transpose(0, 1)
    h, last = scan_steps(a_steps, b_steps, h0, reverse=reverse, form=form, own=True)
    return h.transpose(0, 1), last


def scan_steps(
    a: Tensor,
    b: Tensor,
    h0: Tensor,
    *,
    reverse: bool = False,
    form: str | None = None,
    own: bool = False,
) -> tuple[Tensor, Tensor]:
    """:func:`scan`, time first, for code that has checked its arguments.

    Args:
        a: (T, ...), of the shape of ``b``; dtypes that differ are promoted.
        b: (T, ...).
        h0: (...).
        reverse: run from step T to step 1.
        form: as in :func:`scan`.
        own: whether the caller may change ``h`` in place. Else a backward that needs all states
            keeps it without a copy, and autograd raises if it was changed.

    Returns:
        ``h`` (T, ...), all states, and the last one (...), which the caller may always change.
    """
    a, b, h0 = promoted(a, b, h0)
    if b.dtype in HALVES:
        h, last = scan_steps(a.float(), b.float(), h0.float(), reverse=reverse, form=form)
        return h.to(b.dtype), last.to(b.dtype)
    tracing = is_traced()
    if tracing and form not in (None, "loop"):
        raise ValueError(f"form: {form!r} cannot run this: tracing records the loop instead")
    if tracing or any(map(is_old_batched, (a, b, h0))):  # it knows no rule of ours
        return plain(a, b, h0, reverse=reverse)
    form = form or pick(b)
    h, last, _ = Scan.apply(a, b, h0, reverse, form)
    is_kept = form != "loop" and a.requires_grad and h.requires_grad
    return (h.clone() if own and is_kept else h), last


def plain(a: Tensor, b: Tensor, h: Tensor, *, reverse: bool = False) -> tuple[Tensor, Tensor]:
    """The specification: arguments and returns of :func:`scan_steps`, a graph of every step."""
    states = []
    steps = list(zip(a.unbind(0), b.unbind(0), strict=True))
    for a_t, b_t in reversed(steps) if reverse else steps:
        h = a_t * h + b_t
        states.append(h)
    if not states:
        return b.clone(), h.clone()
    return torch.stack(states[::-1] if reverse else states), h


class Scan(torch.autograd.Function):
    """The recurrence with its three derivatives, each a recurrence again."""

    @staticmethod
    def forward(
        a: Tensor, b: Tensor, h0: Tensor, reverse: bool, form: str
    ) -> tuple[Tensor, Tensor, Tensor]:
        y = b.clone()
        run(form, a, y, h0, reverse)
        last = y[0 if reverse else -1] if len(y) else h0
        return y, last.clone(), kept(y, reverse) if form == "loop" else y.new_empty(0)

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        a, b, h0, ctx.reverse, ctx.form = inputs
        h, _, starts = output
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(starts)
        if not ctx.needs_input_grad[0]:
            ctx.save_for_backward(a, None, None, None)
        elif ctx.form == "loop":
            ctx.save_for_backward(a, b, h0, starts)
        else:
            ctx.save_for_backward(a, None, h0, h)
        ctx.save_for_forward(a, h0, h)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        a, b, h0, states = ctx.saved_tensors
        dh, d_last, _ = grads
        if dh is None:
            dh = torch.zeros_like(a) if d_last is None else d_last.new_zeros(a.shape)
        if d_last is None:
            d_last = dh.new_zeros(a.shape[1:])
        if not len(dh):
            return dh, dh, d_last, None, None
        if not (torch.is_grad_enabled() or any(map(is_batched, (dh, d_last))) or is_traced()):
            da, d, dh0 = _derived(ctx, a, b, h0, states, dh, d_last)
        else:  # create_graph=True, a batch of gradients, or a backward alone that is recorded
            if b is not None:
                states, _ = scan_steps(a, b, h0, reverse=ctx.reverse, form=ctx.form)
            da, d, dh0 = _recorded(ctx, a, h0, states, dh, d_last)
        return da, d, dh0, None, None

    @staticmethod
    def jvp(
        ctx: Any, da: Tensor | None, db: Tensor | None, dh0: Tensor | None, *_: None
    ) -> tuple[Tensor, Tensor, None]:
        """dh_t = a_t dh_{t-1} + (da_t h_{t-1} + db_t)."""
        a, h0, h = ctx.saved_tensors
        db = torch.zeros_like(h) if db is None else db
        if da is not None:
            db = db + da * _before(h, h0, ctx.reverse)
        dh0 = torch.zeros_like(h0) if dh0 is None else dh0
        return *scan_steps(a, db, dh0, reverse=ctx.reverse, form=ctx.form), None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], a: Tensor, b: Tensor, h0: Tensor, *options: Any
    ) -> tuple[Any, Any]:
        """Elementwise: the new dimension joins the batch."""

        def placed(x: Tensor, old: int | None, new: int) -> Tensor:
            x = x.unsqueeze(new) if old is None else x.movedim(old, new)
            return x.expand(*x.shape[:new], info.batch_size, *x.shape[new + 1 :])

        dims = zip((a, b, h0), in_dims[:3], (1, 1, 0), strict=True)
        found = Scan.apply(*(placed(*d) for d in dims), *options)
        return found, (1, 0, 1 if found[2].ndim > 1 else None)


def _derived(
    ctx: Any,
    a: Tensor,
    b: Tensor | None,
    h0: Tensor | None,
    states: Tensor | None,
    dh: Tensor,
    d_last: Tensor,
) -> tuple[Tensor | None, Tensor, Tensor]:
    """Gradients of (a, b, h0), over a copy of dh; no graph."""
    reverse, d = ctx.reverse, dh.clone()
    first, last = (-1, 0) if reverse else (0, -1)
    early, late = slice(-1), slice(1, None)
    before, after = (late, early) if reverse else (early, late)  # all steps but one
    d[last] += d_last
    if b is not None and h0 is not None and states is not None:
        da = loop_backward(a, b, h0, states, d, reverse)
        return da, d, a[first].conj() * d[first]
    a = a.conj().resolve_conj()
    run(ctx.form, a[after], d[before], d[last], not reverse)
    if h0 is None or states is None:
        return None, d, a[first] * d[first]
    da = torch.empty_like(d)
    torch.mul(d[after], states[before].conj(), out=da[after])
    torch.mul(d[first], h0.conj(), out=da[first])
    return da, d, a[first] * d[first]


def _recorded(
    ctx: Any, a: Tensor, h0: Tensor | None, h: Tensor | None, dh: Tensor, d_last: Tensor
) -> tuple[Tensor | None, Tensor, Tensor]:
    """The same out of place, for gradients of gradients and for batches of them."""
    reverse, a, form = ctx.reverse, a.conj(), None if is_traced() else ctx.form
    if reverse:
        end = dh[:1] + d_last
        d = torch.cat([end, scan_steps(a[:-1], dh[1:], end[0], form=form)[0]])
    else:
        end = dh[-1:] + d_last
        d = torch.cat([scan_steps(a[1:], dh[:-1], end[0], reverse=True, form=form)[0], end])
    first = -1 if reverse else 0
    da = None if h is None or h0 is None else d * _before(h, h0, reverse).conj()
    return da, d, a[first] * d[first]


def _before(h: Tensor, h0: Tensor, reverse: bool) -> Tensor:
    """The state each step starts from."""
    return torch.cat([h[1:], h0[None]] if reverse else [h0[None], h[:-1]])


def _check(a: Any, b: Any, h0: Any, form: Any) -> None:
    """Raise unless the arguments of :func:`scan` fit together."""
    if form is not None and form not in tuple(FORMS):  # also what has no hash
        raise ValueError(f"form: expected None or one of {sorted(FORMS)}, got {form!r}")
    for name, x in (("a", a), ("b", b), ("h0", h0)):
        if not isinstance(x, Tensor) and not (name == "h0" and x is None):
            raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}")
    if b.ndim < 2:
        raise ValueError(f"b: expected at least 2 dimensions (B, T, ...), got {b.ndim}")
    if b.dtype not in DTYPES:
        raise ValueError(f"b: expected a floating-point or complex dtype, got {b.dtype}")
    if a.ndim != b.ndim or any(n not in (1, m) for n, m in zip(a.shape, b.shape, strict=True)):
        raise ValueError(
            f"a: expected shape {tuple(b.shape)}, as b has, or with sizes of 1, "
            f"got {tuple(a.shape)}"
        )
    rows = (b.shape[0], *b.shape[2:])
    if h0 is not None and h0.shape != rows:
        raise ValueError(f"h0: expected shape {rows}, got {tuple(h0.shape)}")
    for name, x in (("a", a), ("h0", h0)):
        if x is None:
            continue
        if x.device != b.device:
            raise ValueError(f"{name}: expected it on {b.device}, where b is, got {x.device}")
        mixed = x.dtype in CASTABLE and b.dtype in CASTABLE and autocasting(b.device.type)
        if x.dtype != b.dtype and not mixed:
            raise ValueError(f"{name}: expected dtype {b.dtype}, as b has, got {x.dtype}")
