"""A nonlinear cell evaluated in parallel: all steps at once, by Newton's method (for teaching)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, cast

import torch
from torch import Tensor

from companion.cells.base import Cell, check_state, check_tensor
from companion.cells.linear import unrounded
from companion.checks import check_number, check_size
from companion.run.scan import scan_steps

__all__ = ["NewtonRun", "newton"]


class NewtonRun(NamedTuple):
    """What :func:`newton` found, and how.

    Args:
        y: outputs, (B, T, H).
        state: the state after the last step, (B, N).
        residuals: after each iteration the largest :math:`|h_t - f(h_{t-1}, x_t)|` of all
            sequences; the first is that of the guess, the last is within the tolerance.
    """

    y: Tensor
    state: Tensor
    residuals: list[float]

    @property
    def iterations(self) -> int:
        """How many times a linear recurrence was solved."""
        return len(self.residuals) - 1


def newton(
    cell: Cell,
    x: Tensor,
    state: Tensor | None = None,
    *,
    jacobian: str = "full",
    tolerance: float | None = None,
    max_iterations: int = 100,
) -> NewtonRun:
    r"""Run a nonlinear cell over a sequence without waiting for any step.

    The states are the root of T equations :math:`h_t - f(h_{t-1}, x_t) = 0`. About a guess
    :math:`\hat h` all of them are linear,

    .. math::

        h_t = J_t h_{t-1} + \big( f(\hat h_{t-1}, x_t) - J_t \hat h_{t-1} \big), \qquad
        J_t = \frac{\partial f}{\partial h}(\hat h_{t-1}, x_t),

    a linear recurrence, which a scan solves in :math:`\log_2 T` steps; what it gives is the next
    guess. This is Newton's method: near the root the number of right digits doubles with each
    iteration. Each iteration also makes at least one more step exact, so that T are enough, in
    exact arithmetic; it pays where a few are. Where the cell forgets its past that is so; where
    nearby states part (a largest Lyapunov exponent above 0), products of :math:`J_t` grow without
    bound, and the iteration takes as many rounds as there are steps, or overflows.

    With ``jacobian="diagonal"`` only the diagonal of :math:`J_t` is used: the scan is elementwise,
    its cost no longer cubic in N, its convergence linear.

    What is found solves the equations to within the tolerance. Where nearby states part, that
    fixes the states no better than a loop does that rounds in another order.

    Gradients are exact, of first order: at the root a last linear recurrence, with the full
    :math:`J_t`, has the derivatives of the whole. Autocast is off inside: it would round more than
    any residual should be.

    Args:
        cell: a cell whose state is one tensor, such as a GRU's or a vanilla RNN's; of a layer,
            ``layer.cell(0)``.
        x: (B, T, D).
        state: the state before the first step, (B, N); ``None``: the initial one.
        jacobian: ``"full"`` or ``"diagonal"``.
        tolerance: the largest residual at the end; ``None``: :math:`\epsilon^{3/4}`, which is
            2e-12 in float64 and 6e-6 in float32, times the largest number in the states before
            and after the step where that is above 1.
        max_iterations: give up after this many.

    Returns:
        Outputs, the final state, and the residuals of the iterations.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        ArithmeticError: if the iteration did not converge, or left the finite numbers.

    Source:
        Lim et al., "Parallelizing non-linear sequential models over the sequence length" (2024);
        Gonzalez et al., "Towards scalable and stable parallelization of nonlinear RNNs" (2024),
        for the diagonal and that T iterations are enough.

    Example:
        >>> import companion, torch
        >>> layer = companion.GRU(3, 4, batch_first=True, dtype=torch.float64)
        >>> x = torch.randn(2, 500, 3, dtype=torch.float64)
        >>> run = newton(layer.cell(0), x)
        >>> torch.allclose(run.y, layer(x)[0]), run.iterations < 20
        (True, True)
    """
    _check(cell, x, jacobian, tolerance, max_iterations)
    own, B = cell._own(), x.shape[0]
    if state is not None:
        check_state("state", state, cell.state_size, (B,), own)
    with unrounded(x):
        if own is not None:  # autocast lets others in
            x, state = x.to(own.dtype), None if state is None else state.to(own.dtype)
        h0 = cast(Tensor, cell.initial_state(B, x)) if state is None else state
        return _run(cell, x, h0, jacobian == "diagonal", tolerance, max_iterations)


def _run(
    cell: Cell, x: Tensor, h0: Tensor, diagonal: bool, tolerance: float | None, most: int
) -> NewtonRun:
    """What :func:`newton` does with arguments that fit together."""
    B, T = x.shape[:2]
    if T == 0 or B == 0:
        return NewtonRun(x.new_empty(B, T, cell.output_size), h0.clone(), [0.0])
    u = cell.prepare(x.transpose(0, 1))  # (T, B, G)
    with torch.no_grad():
        h, residuals = _root(
            lambda before: _step(cell, u, before)[1],
            lambda before: _jacobians(cell, u, before),
            h0,
            T,
            diagonal,
            tolerance,
            most,
        )
    if torch.is_grad_enabled():
        h = _Once.apply(_attached(cell, u, h0, h))
    y, after = _step(cell, u, _before(h, h0))
    return NewtonRun(y.transpose(0, 1), after[-1], residuals)


def _root(
    f: Callable[[Tensor], Tensor],
    jacobians: Callable[[Tensor], Tensor],
    h0: Tensor,
    T: int,
    diagonal: bool,
    tolerance: float | None,
    most: int,
) -> tuple[Tensor, list[float]]:
    """The states (T, B, N) with h_t = f(h_{t-1}), and the residuals on the way."""
    h, residuals = h0.new_zeros(T, *h0.shape), list[float]()
    while True:
        before = _before(h, h0)
        value = f(before)
        residual = (h - value).abs().amax(-1)  # of each step of each sequence
        residuals.append(residual.max().item())
        if not math.isfinite(residuals[-1]):
            _give_up(residuals, "the states are no longer finite", diagonal)
        allowed = residual.new_tensor(tolerance or torch.finfo(h.dtype).eps ** 0.75)
        if tolerance is None:  # relative, but to no other step and no other sequence
            allowed = allowed * torch.maximum(before.abs(), value.abs()).amax(-1).clamp(min=1)
        if (residual <= allowed).all():
            return h, residuals
        if len(residuals) > most:
            _give_up(residuals, f"the residual is {residuals[-1]:.1e}", diagonal)
        J = jacobians(before)
        if diagonal:
            J = J.diagonal(dim1=-2, dim2=-1)
            h, _ = scan_steps(J, value - J * before, h0)
        else:
            h = matrix_scan(J, value - (J @ before.unsqueeze(-1)).squeeze(-1), h0)


def _give_up(residuals: list[float], what: str, diagonal: bool) -> NoReturn:
    """Raise, saying what happened and what may help."""
    finite = [r for r in residuals if math.isfinite(r)]
    if not finite:
        raise ArithmeticError(
            "newton: one step of the cell from zero states is not finite; look for infinity or "
            "NaN in x, in the state and in the weights"
        )
    course = f"from {finite[0]:.1e}, {min(finite):.1e} at the least"
    other = "try jacobian='full', or " if diagonal else ""
    raise ArithmeticError(
        f"newton: no convergence: after {len(residuals) - 1} iterations {what} ({course}). Where "
        "nearby states part (a largest Lyapunov exponent above 0) products of Jacobians grow "
        f"without bound; {other}run the loop, or pieces of the sequence one after the other"
    )


def matrix_scan(A: Tensor, b: Tensor, h0: Tensor) -> Tensor:
    r"""Every :math:`h_t = A_t h_{t-1} + b_t`, where :math:`A_t` is a matrix, by doubling.

    Two steps in turn are one, :math:`(A' A, A' b + b')`. In each of :math:`\log_2 T` rounds every
    step takes in what the one as far back as has been joined so far stands for.

    Args:
        A: (T, B, N, N).
        b: (T, B, N).
        h0: (B, N).

    Returns:
        (T, B, N).
    """
    first = b[:1] + (A[:1] @ h0.unsqueeze(-1)).squeeze(-1)
    h, far = torch.cat([first, b[1:]]), 1
    while far < len(h):
        h = torch.cat([h[:far], h[far:] + (A[far:] @ h[:-far].unsqueeze(-1)).squeeze(-1)])
        A = torch.cat([A[:far], A[far:] @ A[:-far]])
        far *= 2
    return h


def _attached(cell: Cell, u: Tensor, h0: Tensor, h: Tensor) -> Tensor:
    """The same states with the gradient of the recurrence: one more Newton step from the root."""
    before = _before(h, h0.detach())
    with torch.no_grad():
        J = _jacobians(cell, u, before)
        known = (J @ before.unsqueeze(-1)).squeeze(-1)
    return matrix_scan(J, _step(cell, u, before)[1] - known, h0)


class _Once(torch.autograd.Function):
    """The identity, whose gradient has none: that of :func:`_attached` would be wrong."""

    @staticmethod
    def forward(ctx: Any, h: Tensor) -> Tensor:
        return h.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return cast(Tensor, _Never.apply(*grads))


class _Never(torch.autograd.Function):
    """The identity, which cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, d: Tensor) -> Tensor:
        return d.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        raise RuntimeError(
            "newton: its gradient is of first order only; run the loop to differentiate it again"
        )


def _step(cell: Cell, u: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """The cell's update of all steps at once: outputs (T, B, H) and states (T, B, N)."""
    y, after = cell.update(u.flatten(0, 1), before.flatten(0, 1))
    return y.unflatten(0, u.shape[:2]), after.unflatten(0, u.shape[:2])


def _jacobians(cell: Cell, u: Tensor, before: Tensor) -> Tensor:
    """∂h_t / ∂h_{t-1} of every step, (T, B, N, N)."""

    def one(h: Tensor, u_t: Tensor) -> Tensor:
        return cell.update(u_t.unsqueeze(0), h.unsqueeze(0))[1].squeeze(0)

    every = torch.func.vmap(torch.func.jacfwd(one))(before.flatten(0, 1), u.flatten(0, 1))
    return every.unflatten(0, u.shape[:2])


def _before(h: Tensor, h0: Tensor) -> Tensor:
    """What every step starts from."""
    return torch.cat([h0.unsqueeze(0), h[:-1]])


def _check(cell: Any, x: Any, jacobian: Any, tolerance: Any, most: Any) -> None:
    """Raise unless the arguments of :func:`newton` fit together."""
    if not isinstance(cell, Cell):
        raise TypeError(f"cell: expected a Cell, such as layer.cell(0), got {type(cell).__name__}")
    if not isinstance(cell.state_size, int):
        raise ValueError(
            f"cell: expected one whose state is one tensor, got {type(cell).__name__}, "
            f"which has {len(cell.state_size)}"
        )
    check_tensor("x", x, cell._own())
    if x.dim() != 3 or x.shape[-1] != cell.input_size:
        raise ValueError(f"x: expected (B, T, {cell.input_size}), got {tuple(x.shape)}")
    if not isinstance(jacobian, str) or jacobian not in ("full", "diagonal"):
        raise ValueError(f"jacobian: expected 'full' or 'diagonal', got {jacobian!r}")
    if tolerance is not None:
        check_number("tolerance", tolerance)
        if tolerance <= 0:
            raise ValueError(f"tolerance: expected a number above 0, got {tolerance}")
    check_size("max_iterations", most)
