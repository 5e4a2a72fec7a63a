"""What state space cells share: pairs of reals, discretizations, HiPPO, and many steps at once.

A cell that is linear in its state and its input, and the same at every step, is a convolution:

    h_t = A h_{t-1} + b v_t,   o_t = cᵀ h_t     gives     o_t = Σ_j (cᵀ A^j b) v_{t-j} + cᵀ A^t h_0

The classes :class:`Modes`, :class:`Diagonal` and :class:`Dense` know the three things this takes,
for K channels and T steps: the kernel, the response to a given state, and the final state. All
powers come from products alone, by doubling, so that what is run as a convolution, as a scan or
step by step has the same factors.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.cells.base import Cell
from companion.cells.linear import full

__all__ = [
    "TimeInvariantCell",
    "bilinear",
    "hippo_legs",
    "normal_plus_low_rank",
    "zero_order_hold",
]


def rate(log: Tensor) -> Tensor:
    """exp of what is learned as a logarithm, kept so far from 0 and ∞ that its square is neither.

    In float32 within 1e-19 and 8e18, beyond which nothing that decays or turns would differ.
    """
    log = full(log)
    limit = 0.49 * math.log(torch.finfo(log.dtype).max)
    return torch.exp(log.clamp(-limit, limit))


def check_real(dtype: Any) -> None:
    """Raise if the dtype is complex: what turns in the complex plane is real outside the cell."""
    if isinstance(dtype, torch.dtype) and dtype.is_complex:
        raise ValueError(f"dtype: expected a real one, since the cell pairs numbers, got {dtype}")


def complex_of(pairs: Tensor) -> Tensor:
    """(..., 2 N) real, each number's two parts side by side, as (..., N) complex."""
    # a view would do where strides allow it, which under vmap cannot be known
    return torch.complex(*full(pairs).unflatten(-1, (-1, 2)).unbind(-1))


def pairs_of(z: Tensor) -> Tensor:
    """(..., N) complex as (..., 2 N) real."""
    return torch.view_as_real(z).flatten(-2)


# ---------------------------------------------------------------- discretizations


def expm1(z: Tensor) -> Tensor:
    """exp(z) − 1 of complex numbers, to full precision also where z is small."""
    a, b = z.real, z.imag
    real = torch.expm1(a) * torch.cos(b) - 2 * torch.sin(b / 2) ** 2
    return torch.complex(real, torch.exp(a) * torch.sin(b))


def zero_order_hold(A: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
    """The input is constant between samples: Ā = exp(ΔA), B̄ = (exp(ΔA) − 1) / A, for B = 1."""
    return torch.exp(dt * A), expm1(dt * A) / A


def bilinear(A: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
    """Tustin's rule: Ā = (1 + ΔA/2) / (1 − ΔA/2), B̄ = Δ / (1 − ΔA/2), for B = 1."""
    below = 1 - dt * A / 2
    return (1 + dt * A / 2) / below, dt / below


DISCRETIZATIONS = {"zoh": zero_order_hold, "bilinear": bilinear}


# ---------------------------------------------------------------- HiPPO


def hippo_legs(order: int) -> tuple[Tensor, Tensor]:
    r"""The matrices of HiPPO-LegS, in float64.

    .. math::

        A_{nk} = -\begin{cases} \sqrt{(2n+1)(2k+1)} & n > k \\ n + 1 & n = k \\ 0 & n < k
        \end{cases} \qquad B_n = \sqrt{2n+1}, \qquad n, k = 0, \dots, N - 1

    Args:
        order: :math:`N`.

    Returns:
        A (N, N) and B (N,).

    Source:
        Gu et al. (2020), without the factor 1/t; Gu, Goel and Ré (2022).

    Example:
        >>> A, B = hippo_legs(2)
        >>> A.round(decimals=4).tolist(), B.round(decimals=4).tolist()
        ([[-1.0, -0.0], [-1.7321, -2.0]], [1.0, 1.7321])
    """
    n = torch.arange(order, dtype=torch.float64, device="cpu")
    B = torch.sqrt(2 * n + 1)
    return -(torch.outer(B, B).tril(-1) + torch.diag(n + 1)), B


def normal_plus_low_rank(order: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""HiPPO-LegS as a normal matrix minus one of rank one, in the basis of its eigenvectors.

    .. math:: A = V (\Lambda - P P^*) V^*, \qquad B = V B', \qquad P'_n = \sqrt{n + 1/2}

    Of each pair of conjugate eigenvalues, all :math:`-\tfrac12 \pm i \omega`, the one with
    :math:`\omega > 0` is returned, smallest first.

    Args:
        order: :math:`N`, even.

    Returns:
        In complex128, Λ, P = V* P' and V* B, (N/2,) each, and the columns of V, (N, N/2).

    Source:
        Gu, Goel and Ré (2022).
    """
    A, B = hippo_legs(order)
    P = B / math.sqrt(2)
    skew = A + torch.outer(P, P) + torch.eye(order, dtype=A.dtype, device="cpu") / 2
    omega, V = torch.linalg.eigh(-1j * skew)  # Hermitian
    omega, V = omega[order // 2 :], V[:, order // 2 :]
    return torch.complex(torch.full_like(omega, -0.5), omega), V.mH @ P.to(V), V.mH @ B.to(V), V


# ---------------------------------------------------------------- the recurrence, unrolled


def powers(z: Tensor, count: int) -> Tensor:
    """(..., count), z to the power of 0, 1, …, by doubling."""
    p = torch.ones_like(z).unsqueeze(-1)
    while p.shape[-1] < count:
        p, z = torch.cat([p, p * z.unsqueeze(-1)], -1), z * z
    return p[..., :count]


def krylov(A: Tensor, b: Tensor, count: int) -> Tensor:
    """(..., N, count), the columns b, A b, A² b, … by doubling."""
    columns = b.unsqueeze(-1)
    while columns.shape[-1] < count:
        columns, A = torch.cat([columns, A @ columns], -1), A @ A
    return columns[..., :count]


class Unrolled(Protocol):
    """What T steps of K channels do; time comes last."""

    kernel: Tensor  # (K, T)

    def response(self, state: Tensor) -> Tensor:
        """(S, K, T), what comes out of the state (S, state_size) alone."""

    def final(self, v: Tensor, state: Tensor) -> Tensor:
        """The state (S, state_size) after T steps that took in v (S, K, T)."""


class Modes:
    """K complex channels h_t = a h_{t-1} + v_t, all of whose states come out."""

    def __init__(self, a: Tensor, T: int) -> None:
        p = powers(a, T + 1)
        self.kernel, self.later = p[:, :T], p[:, 1:]

    def response(self, state: Tensor) -> Tensor:
        """a^t h_0."""
        return complex_of(state).unsqueeze(-1) * self.later

    def final(self, v: Tensor, state: Tensor) -> Tensor:
        """a^T h_0 + Σ_j a^j v_{T-j}."""
        driven = (v * self.kernel.flip(-1)).sum(-1)
        return pairs_of(driven + self.later[:, -1] * complex_of(state))


class Diagonal:
    """K real channels of n complex modes each: h_t = a h_{t-1} + b v_t, out comes 2 Re Σ c h_t.

    Time is cut in blocks of C steps: a^{iC + j} = a^{iC} a^j, so that of T powers only C + T/C are
    computed, and the sum over the modes is a product of matrices.

    Args:
        a, b, c: (K, n) complex.
        T: number of steps.
    """

    def __init__(self, a: Tensor, b: Tensor, c: Tensor, T: int) -> None:
        self.T, self.C = T, max(1, math.isqrt(T))
        self.a, self.b, self.c = a, b, c
        self.short = powers(a, self.C)  # (K, n, C)
        self.long = powers(self.short[..., -1] * a, -(-T // self.C))  # (K, n, blocks)
        self.kernel = self.seen((b * c)[None])[0]

    def seen(self, rows: Tensor) -> Tensor:
        """2 Re Σ rows a^t for t = 0, …: (R, K, n) -> (R, K, T)."""
        R, K, n = rows.shape
        left = rows.unsqueeze(-1) * self.long  # (R, K, n, blocks)
        left = pairs_of(left.conj().permute(1, 0, 3, 2).resolve_conj()).flatten(1, 2)
        right = torch.view_as_real(self.short).permute(0, 1, 3, 2).flatten(1, 2)  # (K, 2 n, C)
        out = 2 * (left @ right)  # Re(z w) is the inner product of the pairs of z̄ and w
        return out.view(K, R, -1)[..., : self.T].transpose(0, 1)

    def response(self, state: Tensor) -> Tensor:
        """2 Re Σ c a^t h_0."""
        return self.seen(self.c * self.a * complex_of(state).view(-1, *self.a.shape))

    def final(self, v: Tensor, state: Tensor) -> Tensor:
        """a^T h_0 + b Σ_j a^j v_{T-j}."""
        S, (K, n), blocks = v.shape[0], self.a.shape, self.long.shape[-1]
        back = F.pad(v.flip(-1), (0, blocks * self.C - self.T)).transpose(0, 1)
        back = back.reshape(K, S * blocks, self.C)
        right = torch.view_as_real(self.short).permute(0, 2, 1, 3).flatten(2)  # (K, C, 2 n)
        sums = complex_of(back @ right).view(K, S, blocks, n)
        driven = (sums * self.long.mT.unsqueeze(1)).sum(2).transpose(0, 1)  # (S, K, n)
        i, j = divmod(self.T - 1, self.C)
        end = self.long[..., i] * self.short[..., j] * self.a
        h = end * complex_of(state).view(S, K, n) + self.b * driven
        return pairs_of(h.flatten(1))


class Dense:
    """K real channels of a real state of n each: h_t = A h_{t-1} + b v_t, out comes Σ c h_t.

    Cut in blocks of time as :class:`Diagonal` is.

    Args:
        A: (K, n, n).
        b, c: (K, n).
        T: number of steps.
    """

    def __init__(self, A: Tensor, b: Tensor, c: Tensor, T: int) -> None:
        self.T, self.C = T, max(1, math.isqrt(T))
        self.A, self.b = A, b
        self.jump = torch.linalg.matrix_power(A, self.C)
        self.out = krylov(A.mT, c, self.C)  # (K, n, C), the columns (A^j)ᵀ c
        self.kernel = self.seen(b[None])[0]

    def seen(self, h: Tensor) -> Tensor:
        """Σ c A^t h for t = 0, …: (R, K, n) -> (R, K, T)."""
        R, K, _ = h.shape
        starts = krylov(self.jump, h, -(-self.T // self.C))  # (R, K, n, blocks)
        out = starts.permute(1, 0, 3, 2).flatten(1, 2) @ self.out
        return out.view(K, R, -1)[..., : self.T].transpose(0, 1)

    def response(self, state: Tensor) -> Tensor:
        """Σ c A^t h_0."""
        h = full(state).view(-1, *self.b.shape)
        return self.seen((self.A @ h.unsqueeze(-1)).squeeze(-1))

    def final(self, v: Tensor, state: Tensor) -> Tensor:
        """A^T h_0 + Σ_j A^j b v_{T-j}; blocks are joined in pairs, pairs of pairs, …"""
        S, (K, n), blocks = v.shape[0], self.b.shape, -(-self.T // self.C)
        back = F.pad(v.flip(-1), (0, blocks * self.C - self.T)).transpose(0, 1)
        into = krylov(self.A, self.b, self.C)  # (K, n, C)
        sums = back.reshape(K, S, blocks, self.C) @ into.mT.unsqueeze(1)  # (K, S, blocks, n)
        jump = self.jump.mT.unsqueeze(1)
        while sums.shape[2] > 1:
            sums = F.pad(sums, (0, 0, 0, sums.shape[2] % 2))
            sums, jump = sums[:, :, ::2] + sums[:, :, 1::2] @ jump, jump @ jump
        end = torch.linalg.matrix_power(self.A, self.T)
        h = (end @ full(state).view(S, K, n, 1)).squeeze(-1)
        return (h + sums[:, :, 0].transpose(0, 1)).flatten(1)


class TimeInvariantCell(Cell):
    """The base of cells that do the same at every step, linear in state and input.

    Such a cell can also be run as a convolution. What is convolved are K channels: ``enters``
    gives their inputs, ``unrolled`` what happens to them in T steps, ``leaves`` the output.
    """

    zoned = 0  # the output is not the state
    # whether a convolution beats a scan: where many modes share a kernel
    prefers_convolution: bool = True

    def enters(self, u: Tensor) -> Tensor:
        """What the channels take in: rows of ``prepare(x)``, (N, G) -> (N, K)."""
        raise NotImplementedError(f"{type(self).__name__} has no enters")

    def unrolled(self, T: int) -> Unrolled:
        """What T steps of the channels do."""
        raise NotImplementedError(f"{type(self).__name__} has no unrolled")

    def leaves(self, c: Tensor, u: Tensor, dtype: Any) -> Tensor:
        """The output (N, H), in this dtype, of what comes out of the channels, (N, K)."""
        raise NotImplementedError(f"{type(self).__name__} has no leaves")
