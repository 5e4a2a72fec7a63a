"""Three orders in which h_t = a_t h_{t-1} + b_t can be computed.

Each form takes ``(a, y, h, reverse)``: a (T, ...), y (T, ...) that holds b and is overwritten by
the states, h (...) the state before the first step. None records a graph. The loop allocates
nothing, the chunks a fraction of a, and the tree twice as much as a takes.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable

import torch
from torch import Tensor

SEGMENT = 16  # steps the backward of the loop computes again at a time


def loop(a: Tensor, y: Tensor, h: Tensor, reverse: bool) -> None:
    """One step after another: T operators that wait for each other."""
    for a_t, y_t in _ordered(a, y, 0, reverse):
        h = y_t.addcmul_(a_t, h)


def kept(y: Tensor, reverse: bool) -> Tensor:
    """(n, ...), a copy of what each segment but the first to run starts from."""
    T = len(y)
    n = max(0, T - 1) // SEGMENT
    where = slice(T - n * SEGMENT, None) if reverse else slice(SEGMENT - 1, T - 1)
    return y[where][::SEGMENT].clone()


def loop_backward(
    a: Tensor, b: Tensor, h0: Tensor, starts: Tensor, d: Tensor, reverse: bool
) -> Tensor:
    """The backward of the loop: d holds ∂L/∂h and becomes δ, and ∂L/∂a is returned.

    The states are not kept, but computed again a segment at a time, which stays in the cache.
    That is faster than a copy of them all that the caller cannot change, and needs less memory.
    """
    T, da = len(d), torch.empty_like(d)
    a_conj = a.conj().resolve_conj()
    steps = _ordered(a, b, 0, reverse)
    deltas = _ordered(a_conj, d, 0, reverse)
    firsts = [h0, *(starts.unbind(0)[::-1] if reverse else starts.unbind(0))]
    scratch = d.new_empty(min(T, SEGMENT), *d.shape[1:])
    with torch.inference_mode():
        for k, h in reversed(list(enumerate(firsts))):
            begin, end = k * SEGMENT, min((k + 1) * SEGMENT, T)
            before = scratch[: end - begin]
            rows = before.unbind(0)[::-1] if reverse else before.unbind(0)
            rows[0].copy_(h)
            for (a_t, b_t), h, out in zip(steps[begin : end - 1], rows, rows[1:], strict=False):
                torch.addcmul(b_t, a_t, h, out=out)
            for t in range(end - 1, max(begin, 1) - 1, -1):
                a_t, d_t = deltas[t]
                deltas[t - 1][1].addcmul_(a_t, d_t)
            where = slice(T - end, T - begin) if reverse else slice(begin, end)
            torch.mul(d[where], before.conj(), out=da[where])
    return da


def chunks(a: Tensor, y: Tensor, h: Tensor, reverse: bool, length: int | None = None) -> None:
    """All chunks of time advance together, twice, step by step.

    The first time they find what each would end with from a zero state; a scan over these ends,
    whose a is the product of each chunk's, gives what each chunk starts from; the second time is
    the loop, for all chunks at once.
    """
    C = length or chunk_length(y)
    n = len(y) // C
    if n < 2:
        return loop(a, y, h, reverse)
    # what does not fill a chunk is run last
    a_rest, a_full = _cut(a, n * C, reverse)
    y_rest, y_full = _cut(y, n * C, reverse)
    A, Y = a_full.unflatten(0, (n, C)), y_full.unflatten(0, (n, C))
    # the chunk that is run last hands on nothing
    but_last = slice(1, None) if reverse else slice(-1)
    (a_c, y_c), *steps = _ordered(A[but_last], Y[but_last], 1, reverse)
    through, ends = a_c.clone(), y_c.clone()
    for a_c, y_c in steps:
        torch.addcmul(y_c, a_c, ends, out=ends)
        through.mul_(a_c)
    if not _finite(through):  # of a > 1; times a zero state it would be NaN
        return loop(a, y, h, reverse)
    FORMS[pick(ends)](through, ends, h, reverse)
    starts = torch.cat([ends, h[None]] if reverse else [h[None], ends])
    if not _small(starts) and _vanish(A[but_last], starts[but_last], reverse):
        return loop(a, y, h, reverse)
    for a_c, y_c in _ordered(A, Y, 1, reverse):
        starts = y_c.addcmul_(a_c, starts)
    loop(a_rest, y_rest, _first(y_full, 0, not reverse), reverse)


def tree(a: Tensor, y: Tensor, h: Tensor, reverse: bool) -> None:
    """Neighbors are joined in pairs, pairs of pairs …: 2 log2 T operators that wait.

    Two steps in turn are one step with (a' a, a' b + b'). Joining halves the length until one
    step is left; on the way back each first of a pair takes the state before it.
    """
    levels = [a]
    while len(levels[-1]) > 1:
        seconds, firsts, _, _ = _pairs(levels[-1], reverse)
        levels.append(seconds * firsts)
    if not all(map(_finite, levels[1:])):
        return loop(a, y, h, reverse)
    b = y.clone()  # for the loop: which states are huge is known only at the end
    _first(y, 0, reverse).addcmul_(_first(a, 0, reverse), h)
    rows = [y]
    for a_l in levels[:-1]:
        seconds, firsts, _, _ = _pairs(rows[-1], reverse)
        rows.append(seconds.addcmul_(_pairs(a_l, reverse)[0], firsts))
    for a_l, y_l in zip(reversed(levels[:-1]), reversed(rows[:-1]), strict=True):
        _, _, others, before = _pairs(y_l, reverse)
        others.addcmul_(_pairs(a_l, reverse)[2], before)
    if not _small(y) and any(_tiny(a_l).any() for a_l in levels[1:]):
        loop(a, y.copy_(b), h, reverse)


def _pairs(x: Tensor, reverse: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Seconds and firsts of the pairs; firsts but the very first, and the seconds before them."""
    T = len(x)
    if reverse:
        odd = T % 2
        return x[odd : T - 1 : 2], x[odd + 1 :: 2], x[1 - odd : T - 2 : 2], x[2 - odd : T - 1 : 2]
    return x[1::2], x[: T - 1 : 2], x[2::2], x[1 : T - 1 : 2]


FORMS: dict[str, Callable[[Tensor, Tensor, Tensor, bool], None]] = {
    "loop": loop,
    "chunks": chunks,
    "tree": tree,
}


def run(form: str, a: Tensor, y: Tensor, h: Tensor, reverse: bool) -> None:
    """Run one form."""
    if not y.numel() or y.is_meta:
        return
    if type(y) is not Tensor:  # a fake tensor has no value that a form could look at
        form = "loop"
    with torch.inference_mode():  # a tenth of an operator's overhead is bookkeeping for autograd
        FORMS[form](a, y, h, reverse)


def pick(y: Tensor) -> str:
    """The fastest form for y (T, ...).

    An operator costs some 2 µs whatever it does, and more only from a few thousand numbers. On
    narrow steps the loop spends 2 T µs on nothing else, and chunks are up to 150 times faster, on
    one thread as on two; on wide ones the memory is what waits, and chunks read it twice. Measured
    on the CPU over 60 shapes. The tree took 0.8 to 1.3 times as long as chunks where T is from 64
    to 16384 and K from 16 to 4096: less on the longest, more on the shortest.
    """
    T, K = _sizes(y)
    return "chunks" if T >= 48 and K < 4096 else "loop"


def chunk_length(y: Tensor) -> int:
    """How many steps a chunk has: few, as each costs three operators, but not too many chunks.

    About as many as were measured to be best, with the least rest: it is run step by step.
    """
    T, K = _sizes(y)
    best = 8 if T < 256 else 16 if K < 2048 else 32
    return min(range(best - best // 4, best + best // 2), key=lambda C: T % C)


def _sizes(y: Tensor) -> tuple[int, int]:
    return len(y), math.prod(y.shape[1:])


def _ordered(a: Tensor, y: Tensor, dim: int, reverse: bool) -> list[tuple[Tensor, Tensor]]:
    """Steps along ``dim`` in the order they are run."""
    steps = list(zip(a.unbind(dim), y.unbind(dim), strict=True))
    return steps[::-1] if reverse else steps


def _cut(x: Tensor, full: int, reverse: bool) -> tuple[Tensor, Tensor]:
    """What is run after the first ``full`` steps, and those."""
    return (x[: len(x) - full], x[len(x) - full :]) if reverse else (x[full:], x[:full])


def _first(x: Tensor, dim: int, reverse: bool) -> Tensor:
    """The step that is run first."""
    return x.select(dim, -1 if reverse else 0)


def _finite(x: Tensor) -> bool:
    """Whether no element is infinite or NaN, in one pass; a sum that overflows is no worse."""
    return cmath.isfinite(x.sum().item())


def _small(x: Tensor) -> bool:
    """Whether no element is NaN, infinite or beyond :func:`_most`.

    The norm, which no element exceeds, mostly tells, in a tenth of the time of a maximum.
    """
    return torch.linalg.vector_norm(x).item() <= _most(x) or bool((x.abs() <= _most(x)).all())


def _most(x: Tensor) -> float:
    """1 / ε², 1e14 in float32: of less than this, a product that vanished left below 1e-24."""
    return torch.finfo(x.dtype).eps ** -2


def _tiny(product: Tensor) -> Tensor:
    """Which products vanished, or lost their last digits on the way."""
    return product.abs() < torch.finfo(product.dtype).tiny


def _vanish(a: Tensor, starts: Tensor, reverse: bool) -> bool:
    """Whether a product of the first factors of a chunk (n, C, ...) loses a huge start (n, ...).

    The product of them all does not tell: what is lost may be hidden as it grows again.
    """
    products = (a.flip(1) if reverse else a).cumprod(1)
    huge = starts.abs() > _most(starts)
    return bool((_tiny(products).any(1) & huge).any())
