"""Matrix-valued linear recurrences in blocks of matrix products.

Within a chunk of C steps every output is a sum over the chunk's own steps and what the state at
its start gives; only that state goes from chunk to chunk. So T steps are T / C chunks side by
side, O(C) more arithmetic a step, and T / C small steps that wait.

Decays enter as sums of logarithms over steps j < l ≤ i, never as quotients of products: whatever
is exponentiated is at most 0 where the decays are, so that nothing overflows, at any T.

A product with 0 does not stop NaN or ∞: a step that is not finite reaches all outputs of its chunk
and of those after it, also outputs before the step. The loop shows where it came from.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.cells.base import Cell, State
from companion.cells.linear import full, promoted, unrounded, widest
from companion.cells.matrix import MatrixCell, check_heads, rotate
from companion.run.scan import scan_steps
from companion.run.sweep import Packed, sweep
from companion.run.tracing import hindered

CHUNK = 64  # steps of a chunk where a head decays as a whole
KEYED = 8  # where each entry of a key has a decay of its own: C d_k numbers for each step


def attend(q: Tensor, k: Tensor, v: Tensor, S: Tensor, g: Tensor | None) -> tuple[Tensor, Tensor]:
    """S_t = diag(e^g_t) S_{t-1} + k_t v_tᵀ and y_t = q_tᵀ S_t, time first.

    Args:
        q, k: (T, B, h, d_k).
        v: (T, B, h, d_v).
        S: (B, h, d_k, d_v), the state before the first step.
        g: (T, B, h) or (T, B, h, d_k), log decays; ``None``: 0.

    Returns:
        (T, B, h, d_v) and the last state.
    """
    T, C = len(q), _length(g)
    q, k, v = (_cut(x, C) for x in (q, k, v))
    within = Decays(None if g is None else _cut(g, C))
    starts, S = _carry(within.through(k), within.to_end(k).mT @ v, S)
    y = within.pairs(q, k) @ v + within.from_start(q) @ starts
    return _join(y, T), S


def delta(
    q: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, S: Tensor, g: Tensor | None
) -> tuple[Tensor, Tensor]:
    """S_t = (diag(e^g_t) + a_t b_tᵀ) S_{t-1} + k_t v_tᵀ; arguments and returns of :func:`attend`.

    With e_t = S_{t-1}ᵀ b_t, what a chunk reads, the state is a sum of outer products again,
    S_t = diag(e^g_t) S_{t-1} + a_t e_tᵀ + k_t v_tᵀ, and the e of a chunk solve a triangular system
    (the UT transform), whose right side is linear in the state at its start: e = W S + U.
    """
    T, C = len(q), _length(g)
    q, k, v, a, b = (_cut(x, C) for x in (q, k, v, a, b))
    within = Decays(None if g is None else _cut(g, C))
    before = within.before()
    right = torch.cat([before.from_start(b), before.pairs(b, k) @ v], -1)
    system = torch.eye(q.shape[-2], dtype=q.dtype, device=q.device) - before.pairs(b, a)
    solved = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
    W, U = solved.split([b.shape[-1], v.shape[-1]], -1)
    a_end, k_end, through = within.to_end(a).mT, within.to_end(k).mT, within.through(k)
    d_k = k.shape[-1]
    kept = torch.diag_embed(through.expand(*k.shape[:3], d_k, 1).squeeze(-1)) + a_end @ W
    added = a_end @ U + k_end @ v
    starts = []
    for M, c in zip(kept.unbind(0), added.unbind(0), strict=True):
        starts.append(S)
        S = M @ S + c
    start = torch.stack(starts)
    e = W @ start + U
    y = within.pairs(q, k) @ v + within.pairs(q, a) @ e + within.from_start(q) @ start
    return _join(y, T), S


def peak(a: Tensor, b: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    """m_t = max(a_t + m_{t-1}, b_t) and what each step starts from, time first, (T, B, K).

    Which of the two is larger is found first; with that it is a scan, whose factors are 1 and 0.
    """
    with torch.no_grad():
        keeps = _keeps(a, b, m)
    first = m.clamp(min=torch.finfo(m.dtype).min)  # 0 times −∞ is no number
    found, _ = scan_steps(keeps.to(b.dtype), torch.where(keeps, a, b), first)
    return found, torch.cat([m[None], found[:-1]])


def _keeps(a: Tensor, b: Tensor, m: Tensor) -> Tensor:
    """Where a_t + m_{t-1} ≥ b_t, for all steps at once.

    Steps join in pairs: m ↦ max(a + m, b) after another of its kind is one again, with a sum of
    two a. Nothing is subtracted, as the sum of all a would be from each b: where a is large, that
    leaves nothing of b.
    """
    T, C = len(a), min(CHUNK, len(a))
    fill = (0, 0, 0, 0, 0, -T % C)
    A, M = F.pad(a, fill).unflatten(0, (-1, C)), F.pad(b, fill).unflatten(0, (-1, C))
    reach = 1  # steps of their chunk that A and M have, up to their own
    while reach < C:
        joined = torch.maximum(A[:, reach:] + M[:, :-reach], M[:, reach:])
        M = torch.cat([M[:, :reach], joined], 1)
        A = torch.cat([A[:, :reach], A[:, reach:] + A[:, :-reach]], 1)
        reach *= 2
    starts = [m]
    for A_end, M_end in zip(A[:-1, -1], M[:-1, -1], strict=True):
        starts.append(torch.maximum(A_end + starts[-1], M_end))
    found = torch.maximum(A + torch.stack(starts)[:, None], M).flatten(0, 1)[:T]
    return a + torch.cat([m[None], found[:-1]]) >= b


class Decays:
    """What is left between steps of chunks: log decays (n, B, h, C) or (n, B, h, C, d_k)."""

    def __init__(self, g: Tensor | None, left: Tensor | None = None, strict: bool = False) -> None:
        self.g, self.strict = g, strict
        self.keyed = g is not None and g.dim() == 5
        if g is not None and left is None:
            # (…, C_i, C_j): the sum of g over j < l ≤ i; no difference of sums, where a decay to
            # nothing would leave ∞ − ∞, and a strong one nothing of those after it
            C = g.shape[3]
            seen = torch.ones(C, C, dtype=torch.bool, device=g.device).tril()
            here = seen.tril(-1)
            if self.keyed:
                seen, here = seen.unsqueeze(-1), here.unsqueeze(-1)
            steps = g.unsqueeze(4).expand(*g.shape[:4], C, *g.shape[4:])
            sums = steps.masked_fill(~here, 0.0).cumsum(3)
            left = sums.masked_fill(~seen, -torch.inf).exp()
        self.left = left

    def before(self) -> Decays:
        """The same as a step finds them: what was written up to the step before."""
        return Decays(self.g, None if self.left is None else _later(self.left, 0.0), strict=True)

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """(n, B, h, C, C): x_i against what is left at step i of y_j, 0 where j comes later."""
        if self.left is None:
            return (x @ y.mT).tril(-1 if self.strict else 0)
        if self.keyed:
            return (x.unsqueeze(4) * y.unsqueeze(3) * self.left).sum(-1)
        return (x @ y.mT) * self.left

    def from_start(self, x: Tensor) -> Tensor:
        """x_i times what is left at step i of the state at the start."""
        if self.g is None:
            return x
        left = self.g.cumsum(3).exp()
        if self.strict:
            left = _later(left, 1.0)
        return x * (left if self.keyed else left.unsqueeze(-1))

    def to_end(self, y: Tensor) -> Tensor:
        """What is left at the end of y_j."""
        if self.left is None:
            return y
        left = self.left[:, :, :, -1]
        return y * (left if self.keyed else left.unsqueeze(-1))

    def through(self, like: Tensor) -> Tensor:
        """(n, B, h, d_k or 1, 1): what a chunk leaves of the state at its start."""
        if self.g is None:
            return like.new_ones(*like.shape[:3], 1, 1)
        left = self.g.sum(3).exp()
        return left.unsqueeze(-1) if self.keyed else left[..., None, None]


def _later(x: Tensor, first: float) -> Tensor:
    """Each step of a chunk (n, B, h, C, ...) as the next one finds it."""
    return torch.cat([torch.full_like(x[:, :, :, :1], first), x[:, :, :, :-1]], 3)


def _carry(through: Tensor, added: Tensor, S: Tensor) -> tuple[Tensor, Tensor]:
    """The states (n, B, h, d_k, d_v) chunks start from, and the last."""
    states, last = scan_steps(through.expand(added.shape), added, S)
    return torch.cat([S[None], states[:-1]]), last


def _length(g: Tensor | None) -> int:
    return KEYED if g is not None and g.dim() == 4 else CHUNK


def _cut(x: Tensor, C: int) -> Tensor:
    """(T, B, h, ...) as chunks (n, B, h, C, ...), the last filled up with zeros."""
    T = len(x)
    C = min(C, T)
    x = F.pad(x, (0, 0) * (x.dim() - 1) + (0, -T % C)) if T % C else x
    return x.unflatten(0, (-1, C)).movedim(1, 3)


def _join(y: Tensor, T: int) -> Tensor:
    return y.movedim(3, 1).flatten(0, 1)[:T]


def _turned(angle: Tensor) -> Tensor:
    """The angle without its whole turns: float32 has few digits of thousands of them."""
    return angle.remainder(2 * math.pi)


class Chunks(Packed):
    """Time as packed rows have it, for matrix states as well; see ``sweep.py``.

    A padded row writes nothing and does not decay, so that it hands on what it gets.
    """

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        state: Tensor,
        log_decay: Tensor | None = None,
        turn: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        check_heads("attend", self.N, state, q, k, v, log_decay, turn)
        kind = widest(q.dtype, k.dtype, v.dtype, self.seen(state))
        rows, S, g = self.ready((q, k, v), state, log_decay)
        if turn is not None:  # every step turns q and k instead, and the end turns S
            steps = torch.arange(1, self.T + 1, dtype=torch.float64, device=turn.device)
            angle = _turned(steps[:, None] * turn.double())[:, None, None]
            angle = angle.to(rows[0].dtype)
            rows[:2] = [rotate(x, -angle) for x in rows[:2]]
        with unrounded(q):
            y, S = attend(rows[0], rows[1], rows[2], S, g)
        if turn is not None:
            angle = _turned(self.steps().double()[:, None] * turn.double()).to(S.dtype)
            S = rotate(S.mT, angle[:, None, None]).mT
        return self.rows(y).to(kind), S.flatten(1).to(widest(kind, state.dtype))

    def delta(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        a: Tensor,
        b: Tensor,
        state: Tensor,
        log_decay: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        check_heads("delta", self.N, state, q, k, v, log_decay, None, a, b)
        kind = widest(q.dtype, k.dtype, v.dtype, a.dtype, b.dtype, self.seen(state))
        rows, S, g = self.ready((q, k, v, a, b), state, log_decay)
        with unrounded(q):
            y, S = delta(rows[0], rows[1], rows[2], rows[3], rows[4], S, g)
        return self.rows(y).to(kind), S.flatten(1).to(widest(kind, state.dtype))

    def peak(self, a: Tensor, b: Tensor, first: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, b, m = promoted(full(a).expand(b.shape), full(b), full(first))
        a_steps = self.dense(a, 0.0)
        ms, before = peak(a_steps, self.dense(b, -torch.inf), m)
        rest, last = a_steps + before - ms, ms[-1].clone()
        ms, rest = (self.rows(x) for x in (ms, rest))
        return ms, rest, last

    @staticmethod
    def held(cell: Cell) -> int:
        """Numbers of state for each row: none, states are given at the starts of chunks alone."""
        return 0

    def ready(
        self, rows: tuple[Tensor, ...], state: Tensor, log_decay: Tensor | None
    ) -> tuple[list[Tensor], Tensor, Tensor | None]:
        """Dense rows, state and decays of one dtype, time first."""
        h, d_k, d_v = rows[0].shape[1], rows[0].shape[2], rows[2].shape[2]
        if log_decay is not None and log_decay.dim() == 1:
            log_decay = log_decay.expand(self.N, h)
        known = () if log_decay is None else (full(log_decay),)
        *dense, S = promoted(*map(full, rows), *known, full(state))
        dense = [self.dense(x.flatten(1), 0.0).unflatten(2, x.shape[1:]) for x in dense]
        g = dense.pop() if known else None
        return dense, S.unflatten(1, (h, d_k, d_v)), g

    def steps(self) -> Tensor:
        """(S,) how many steps each sequence has."""
        alive = torch.tensor(self.sizes, device="cpu")
        return (alive[:, None] > torch.arange(self.S, device="cpu")).sum(0).to(self.device)


def refuses(cell: Cell, x: Tensor) -> str | None:
    """Why this form cannot honor a call, or ``None``."""
    if not isinstance(cell, MatrixCell) or type(cell).update is not MatrixCell.update:
        return f"{type(cell).__name__} has no matrix for a state that outer products add to"
    return hindered(cell)


def chunked(cell: Any, x: Tensor, sizes: list[int], state: State) -> tuple[Tensor, State]:
    """Run a matrix cell block by block of steps; arguments and returns of :func:`loop`."""
    return sweep(cell, x, sizes, state, Chunks)
