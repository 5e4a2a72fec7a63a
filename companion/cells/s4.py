"""S4: a state space model whose matrix is diagonal plus one of rank one, as HiPPO's is."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import stored_weight
from companion.cells.linear import full, unrounded, widest
from companion.cells.s4d import check_order, check_steps
from companion.cells.state_space import (
    Dense,
    TimeInvariantCell,
    Unrolled,
    check_real,
    complex_of,
    normal_plus_low_rank,
    pairs_of,
    rate,
)
from companion.checks import check_flag, check_size


class S4Cell(TimeInvariantCell):
    r"""The structured state space cell: each feature drives a system that starts as HiPPO-LegS.

    .. math::

        h'(t) &= A h(t) + B v(t), \qquad A = \Lambda - P P^*, \quad
        \Lambda = \mathrm{diag}(-\exp a + i \omega) \\
        \bar A &= (I - \tfrac{\Delta}{2} A)^{-1} (I + \tfrac{\Delta}{2} A), \qquad
        \bar B = (I - \tfrac{\Delta}{2} A)^{-1} \Delta B \\
        h_t &= \bar A h_{t-1} + \bar B v_t, \qquad c_t = 2\, \mathrm{Re}(C h_t), \qquad
        y_t = c_t + D v_t

    for each of H features :math:`v` on its own, :math:`v_t = x_t` where D = H, else
    :math:`v_t = W x_t + b`. Numbers come in conjugate pairs, of which N/2 are kept. At the start A
    is HiPPO-LegS in the basis of the eigenvectors of its normal part: in that of the Legendre
    polynomials, :math:`A_{nk} = -\sqrt{(2n+1)(2k+1)}` below the diagonal and :math:`-(n+1)` on it.
    Unlike S4D's, the oscillators act on one another: :math:`\bar A` is a full matrix.

    A sum of a matrix with negative real part and one that is negative semidefinite, A is stable
    whatever the weights are, and :math:`\bar A` lengthens no vector.

    It runs as a convolution unless ``form="loop"`` is asked for; see :class:`companion.S4DCell`
    for what that means for rounding and for NaN.

    With Re and Im side by side the system is real, :math:`A = \Lambda - 2 p p^\top` with
    :math:`2 \times 2` blocks in Λ, and so are the state and all that is computed.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of features, :math:`H`.
        bias: whether :math:`b` exists, where D ≠ H.
        device, dtype: of the weights.
        order: :math:`N`, even.
        dt_min, dt_max: :math:`\Delta` starts log-uniform between these; the memory of a feature is
            of the order of :math:`1 / \Delta` steps.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        ``log_dt`` (H,); ``log_decay``, which is a, and ``frequency``, which is ω, (H, N/2); ``P``,
        ``B`` and ``C`` (H, N), pairs of real and imaginary part; ``D`` (H,); where D ≠ H,
        ``weight_ih`` (H, D) and ``bias_ih`` (H,); input (B, D), output (B, H), state (B, HN),
        pairs as well.

    Source:
        Gu, Goel and Ré (2022); P on both sides, which keeps A stable, from Goel et al. (2022); the
        start of Δ, C and D from the authors' code (state-spaces/s4, models/s4/s4.py), in which all
        but C and D learn without weight decay and, on request, at a rate of their own.

    Example:
        >>> cell = S4Cell(4, 4, order=8)
        >>> y, h = cell.step(torch.zeros(2, 4), cell.initial_state(2))
        >>> y.shape, h.shape
        (torch.Size([2, 4]), torch.Size([2, 32]))
    """

    recurrent_weights = ()  # none that a `recurrent_init` could fill

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        order: int = 64,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_flag("bias", bias)
        check_real(dtype)
        check_order(order)
        check_steps(dt_min, dt_max)
        self.bias, self.order, self.dt_min, self.dt_max = bias, order, dt_min, dt_max
        projects = input_size != hidden_size
        self.state_size = hidden_size * order
        H, n, new = hidden_size, order // 2, dict[str, Any](device=device, dtype=dtype)
        self.log_dt = self.weight(H, **new)
        self.log_decay = self.weight(H, n, **new)
        self.frequency = self.weight(H, n, **new)
        self.P = self.weight(H, order, **new)
        self.B = self.weight(H, order, **new)
        self.C = self.weight(H, order, **new)
        self.D = self.weight(H, **new)
        self.weight_ih = self.weight(H, input_size, **new) if projects else None
        self.bias_ih = self.weight(H, **new) if projects and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Δ log-uniform; Λ, P and B of HiPPO-LegS; C complex Gaussian, D Gaussian."""
        super().reset_parameters()  # of the projection
        eigenvalues, P, B, _ = normal_plus_low_rank(self.order)
        with torch.no_grad():
            stored_weight(self, "log_dt").uniform_(math.log(self.dt_min), math.log(self.dt_max))
            stored_weight(self, "log_decay").copy_(torch.log(-eigenvalues.real))
            stored_weight(self, "frequency").copy_(eigenvalues.imag)
            stored_weight(self, "P").copy_(pairs_of(P))
            stored_weight(self, "B").copy_(pairs_of(B))
            nn.init.normal_(stored_weight(self, "C"), std=math.sqrt(0.5))
            nn.init.normal_(stored_weight(self, "D"))

    def prepare(self, x: Tensor) -> Tensor:
        """v_t, for all steps at once."""
        return x if self.weight_ih is None else F.linear(x, self.weight_ih, self.bias_ih)

    def continuous(self) -> Tensor:
        """A, real, (H, N, N)."""
        decay, frequency, P = rate(self.log_decay), full(self.frequency), full(self.P)
        turn = torch.stack([-decay, -frequency, frequency, -decay], -1)  # of each pair
        blocks = torch.diag_embed(
            turn.unflatten(-1, (2, 2)).permute(0, 2, 3, 1)
        )  # (H, 2, 2, n, n)
        A = blocks.permute(0, 3, 1, 4, 2).flatten(3).flatten(1, 2)
        return A - 2 * P.unsqueeze(-1) * P.unsqueeze(-2)

    def discrete(self) -> tuple[Tensor, Tensor]:
        """Ā (H, N, N) and B̄ (H, N), bilinear."""
        A, dt = self.continuous(), rate(self.log_dt).view(-1, 1, 1)
        eye = torch.eye(self.order, dtype=A.dtype, device=A.device)
        right = torch.cat([eye + dt / 2 * A, dt * full(self.B).unsqueeze(-1)], -1)
        AB = torch.linalg.solve(eye - dt / 2 * A, right)
        return AB[..., :-1], AB[..., -1]

    def seen(self) -> Tensor:
        """c (H, N), with which 2 Re(C h) is an inner product with the pairs of h."""
        re, im = full(self.C).unflatten(-1, (-1, 2)).unbind(-1)
        return 2 * torch.stack([re, -im], -1).flatten(-2)

    def update(self, u_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """h_t = Ā h_{t-1} + B̄ v_t."""
        A, B = self.discrete()
        before, v = full(h).view(-1, *B.shape), self.enters(u_t).unsqueeze(-1)
        with unrounded(h):
            after = torch.einsum("kij,skj->ski", A, before) + B * v
        dtype = widest(u_t.dtype, h.dtype)
        c = (self.seen() * after).sum(-1)
        return self.leaves(c, u_t, dtype), after.flatten(1).to(dtype)

    def enters(self, u: Tensor) -> Tensor:
        """v itself."""
        return full(u)

    def unrolled(self, T: int) -> Unrolled:
        """Each feature is a channel with N numbers of state."""
        return Dense(*self.discrete(), self.seen(), T)

    def leaves(self, c: Tensor, u: Tensor, dtype: Any) -> Tensor:
        """c + D v."""
        return (c + full(self.D) * full(u)).to(dtype)

    def generated_kernel(self, T: int) -> Tensor:
        r"""The kernel as the paper computes it: from its generating function, in Cauchy products.

        .. math::

            \hat k(z) = \sum_{j=0}^{T-1} k_j z^j
                      = c^\top (I - \bar A^T z^T) (I - \bar A z)^{-1} \bar B

        At the T-th roots of unity :math:`z^T = 1`, so that :math:`\tilde c = (I - \bar A^T)^\top
        c` is the same for all of them, and a Fourier transform leads back to k. The inverse of a
        diagonal matrix plus one of rank one is known (Woodbury); with

        .. math::

            q_{XY} = \sum_n \frac{\bar X_n Y_n}{\tfrac{2}{\Delta} (1 - z) - \lambda_n (1 + z)},
            \qquad
            \hat k = 2 \Big( q_{CB} - (1 + z) \frac{q_{CP}\, q_{PB}}{1 + (1 + z)\, q_{PP}} \Big) .

        Multiplied by 1 + z, unlike in the paper, it holds at z = −1 as well.

        The form ``"conv"`` takes powers of :math:`\bar A` in its place, which give the response
        to a given state and the final state as well.

        Args:
            T: number of steps.

        Returns:
            :math:`k_0, \dots, k_{T-1}`, (H, T).

        Example:
            >>> cell = S4Cell(4, 4, order=8, dtype=torch.float64)
            >>> by_powers = cell.unrolled(100).kernel
            >>> torch.allclose(cell.generated_kernel(100), by_powers, atol=1e-12)
            True
        """
        check_size("T", T)
        A, _ = self.discrete()
        c = self.seen()
        c = c - (torch.linalg.matrix_power(A, T).mT @ c.unsqueeze(-1)).squeeze(-1)
        C, P, B = complex_of(c) / 2, complex_of(self.P), complex_of(self.B)
        dt = rate(self.log_dt).view(-1, 1, 1)
        angles = -2 * math.pi / T * torch.arange(T // 2 + 1, dtype=dt.dtype, device=dt.device)
        z = torch.polar(torch.ones_like(angles), angles)
        eigenvalues = torch.complex(-rate(self.log_decay), full(self.frequency))
        above, below = 2 / dt * (1 - z), 1 + z
        first = above - eigenvalues.unsqueeze(-1) * below  # (H, n, T // 2 + 1)
        second = above - eigenvalues.conj().unsqueeze(-1) * below

        def q(X: Tensor, Y: Tensor) -> Tensor:
            w = (X.conj() * Y).unsqueeze(-1)
            return (w / first + w.conj() / second).sum(1)

        spectrum = 2 * (q(C, B) - below * q(C, P) * q(P, B) / (1 + below * q(P, P)))
        return torch.fft.irfft(spectrum, T)
