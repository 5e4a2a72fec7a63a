"""How a gradient travels through time: norms against lag, Jacobians, Lyapunov exponents.

Everything here runs a layer step by step through its public ``step``, so it works for any cell and
any depth. The state of all layers is one vector :math:`s_t` (of an LSTM: hidden and cell state),
and :math:`J_t = \\partial s_t / \\partial s_{t-1}` is one square matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from companion.cells.base import State, flat_state, map_state

__all__ = [
    "GradientFlow",
    "JacobianNorms",
    "gradient_flow",
    "jacobian_norms",
    "jacobians",
    "lyapunov_exponents",
]


@dataclass(frozen=True)
class GradientFlow:
    """Norms of a gradient against the lag :math:`T - t`.

    Attributes:
        loss: (T + 1,) the 2-norm of :math:`\\partial L / \\partial s_t`, for t = 0 … T.
        state: (T + 1,) the 2-norm (largest singular value) of
            :math:`\\partial s_T / \\partial s_t`, for t = 0 … T; 1 at t = T.
    """

    loss: Tensor
    state: Tensor

    @property
    def lag(self) -> Tensor:
        """(T + 1,) the lags T, T − 1, …, 0 of the entries."""
        return torch.arange(len(self.loss) - 1, -1, -1, device=self.loss.device)

    def plot(self, ax: Any = None) -> Any:
        """Draw both norms against the lag, on a logarithmic axis; return the axes."""
        import matplotlib.pyplot as plt

        ax = plt.gca() if ax is None else ax
        ax.semilogy(self.lag, self.state, label=r"$\|\partial s_T / \partial s_t\|_2$")
        ax.semilogy(self.lag, self.loss, label=r"$\|\partial L / \partial s_t\|_2$")
        ax.set(xlabel="lag $T - t$ (steps)", ylabel="norm")
        ax.legend()
        return ax


@dataclass(frozen=True)
class JacobianNorms:
    """What single steps do to a perturbation of the state.

    Attributes:
        singular: (T, n) singular values of each :math:`J_t`, largest first.
        radius: (T,) spectral radius (largest absolute eigenvalue) of each :math:`J_t`.
    """

    singular: Tensor
    radius: Tensor

    @property
    def norm(self) -> Tensor:
        """The largest singular value of each step, (T,), which is how much it can stretch."""
        return self.singular[:, 0]

    def plot(self, ax: Any = None) -> Any:
        """Draw largest singular value and spectral radius of each step; return the axes."""
        import matplotlib.pyplot as plt

        ax = plt.gca() if ax is None else ax
        step = torch.arange(1, len(self.radius) + 1, device=self.radius.device)
        ax.plot(step, self.norm, label="largest singular value")
        ax.plot(step, self.radius, label="spectral radius")
        ax.axhline(1.0, color="0.6", linewidth=0.8, zorder=0)
        ax.set(xlabel="step $t$", ylabel="of $J_t$", ylim=(0, None))
        ax.legend()
        return ax


def gradient_flow(
    layer: Any,
    x: Tensor,
    loss: Callable[[Tensor], Tensor] | None = None,
    state: State | None = None,
) -> GradientFlow:
    r"""Norms of :math:`\partial L/\partial s_t` and :math:`\partial s_T/\partial s_t`.

    Both are exact: the first by autograd through the loop of steps, the second as the product of
    the steps' Jacobians, in float64.

    Args:
        layer: any sequence layer of the package that can run step by step.
        x: one sequence, (T, D).
        loss: a scalar function of the outputs (T, H); default: the sum of the last output, a loss
            that speaks at the last step alone.
        state: the state before the first step, without a batch dimension; default: the initial.

    Returns:
        The norms, for t = 0 … T.

    Raises:
        ValueError: if x is not one sequence of at least one step, or loss is no scalar.

    Example:
        >>> import companion, torch
        >>> _ = torch.manual_seed(0)
        >>> rnn = companion.RNN(2, 8, recurrent_init=companion.spectral_radius(0.5))
        >>> flow = gradient_flow(rnn, torch.zeros(20, 2))
        >>> bool(flow.state[0] < 1e-4 < flow.state[-1])
        True
    """
    _check_sequence(x)
    states, outputs = [_start(layer, state).requires_grad_()], []
    for x_t in x:
        y_t, s, end = _step(layer, x_t, states[-1])
        own = s[end - len(y_t) : end]
        # where the output is the top layer's hidden state, the loss speaks to that state
        outputs.append(own if torch.equal(own, y_t) else y_t)
        states.append(s)
    y = torch.stack(outputs)
    value = y[-1].sum() if loss is None else loss(y)
    if value.dim():
        raise ValueError(f"loss: expected a scalar, got shape {tuple(value.shape)}")
    # a state may not reach the loss at all (the last cell state, say): then its gradient is 0
    grads = torch.autograd.grad(value, states, allow_unused=True)
    norms = [0.0 if g is None else float(g.norm()) for g in grads]
    product = torch.eye(len(states[0]), dtype=torch.float64, device=x.device)
    spectral = [1.0]
    for J in jacobians(layer, x, state).double().flip(0):
        product = product @ J
        spectral.append(float(torch.linalg.matrix_norm(product, 2)))
    exact: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}
    return GradientFlow(torch.tensor(norms, **exact), torch.tensor(spectral[::-1], **exact))


def jacobians(layer: Any, x: Tensor, state: State | None = None) -> Tensor:
    r"""The Jacobian :math:`J_t = \partial s_t / \partial s_{t-1}` of every step.

    The product :math:`J_T J_{T-1} \cdots J_{t+1}`, later steps on the left, is
    :math:`\partial s_T/\partial s_t`.

    Args:
        layer: any sequence layer of the package that can run step by step.
        x: one sequence, (T, D).
        state: the state before the first step, without a batch dimension; default: the initial.

    Returns:
        (T, n, n), with n numbers in the state.

    Raises:
        ValueError: if x is not one sequence of at least one step.

    Example:
        >>> import companion, torch
        >>> jacobians(companion.RNN(2, 3), torch.zeros(5, 2)).shape
        torch.Size([5, 3, 3])
    """
    _check_sequence(x)
    states = [_start(layer, state)]
    with torch.no_grad():
        for x_t in x:
            states.append(_step(layer, x_t, states[-1])[1])

    def step(x_t: Tensor, s: Tensor) -> Tensor:
        return _step(layer, x_t, s)[1]

    every = torch.func.vmap(torch.func.jacrev(step, argnums=1))
    return every(x, torch.stack(states[:-1])).detach()


def jacobian_norms(layer: Any, x: Tensor, state: State | None = None) -> JacobianNorms:
    """Singular values and spectral radius of every step's Jacobian.

    Args:
        layer: any sequence layer of the package that can run step by step.
        x: one sequence, (T, D).
        state: the state before the first step, without a batch dimension; default: the initial.

    Returns:
        Both, in float64.

    Raises:
        ValueError: if x is not one sequence of at least one step.

    Example:
        >>> import companion, torch
        >>> rnn = companion.RNN(2, 8, recurrent_init="orthogonal")
        >>> norms = jacobian_norms(rnn, torch.zeros(5, 2))
        >>> bool((norms.norm <= 1 + 1e-5).all() and (norms.radius <= norms.norm + 1e-5).all())
        True
    """
    J = jacobians(layer, x, state).double()
    return JacobianNorms(torch.linalg.svdvals(J), torch.linalg.eigvals(J).abs().max(-1).values)


def lyapunov_exponents(layer: Any, x: Tensor, state: State | None = None, skip: int = 0) -> Tensor:
    r"""Mean logarithmic rates at which perturbations of the state grow along a sequence.

    .. math:: J_t Q_{t-1} = Q_t R_t, \qquad
              \lambda_i = \frac{1}{T} \sum_t \log |(R_t)_{ii}|

    A positive largest exponent means that neighboring states part exponentially (and gradients
    explode) on average; if all are negative they meet again (and gradients vanish).

    Args:
        layer: any sequence layer of the package that can run step by step.
        x: one sequence, (T, D).
        state: the state before the first step, without a batch dimension; default: the initial.
        skip: first steps that are run but not counted.

    Returns:
        (n,) exponents in nats a step, largest first; −inf where a direction dies at once.

    Raises:
        ValueError: if x is not one sequence of at least one step, or skip leaves no step.

    Source:
        Benettin et al. (1980): repeated QR decomposition.

    Example:
        A map that halves loses log 2 a step:

        >>> import math
        >>> J = 0.5 * torch.eye(2, dtype=torch.float64).expand(10, 2, 2)
        >>> [round(value, 4) for value in _exponents(J).tolist()], round(-math.log(2), 4)
        ([-0.6931, -0.6931], -0.6931)
    """
    if not 0 <= skip < len(x):
        raise ValueError(f"skip: expected 0 to {len(x) - 1}, got {skip}")
    J = jacobians(layer, x, state).double()
    return _exponents(J, skip)


def _exponents(J: Tensor, skip: int = 0) -> Tensor:
    Q = torch.eye(J.shape[-1], dtype=J.dtype, device=J.device)
    total = torch.zeros(J.shape[-1], dtype=J.dtype, device=J.device)
    for t, J_t in enumerate(J):
        Q, R = torch.linalg.qr(J_t @ Q)
        if t >= skip:
            total += R.diagonal().abs().log()
    return (total / (len(J) - skip)).sort(descending=True).values


# ---------------------------------------------------------------- the state as one vector


def _check_sequence(x: Tensor) -> None:
    if x.dim() != 2 or len(x) == 0:
        raise ValueError(f"x: expected one sequence (T, D) with T >= 1, got {tuple(x.shape)}")


def _start(layer: Any, state: State | None) -> Tensor:
    if state is None:
        state = cast(State, map_state(lambda s: s.squeeze(1), layer.initial_state(1)))
    return torch.cat([s.detach().flatten() for s in flat_state(state)])


def _step(layer: Any, x_t: Tensor, s: Tensor) -> tuple[Tensor, Tensor, int]:
    """The output, the next state vector, and where in it the top layer's first part ends."""
    like = layer.initial_state(1)
    shapes = [p.squeeze(1).shape for p in flat_state(like)]
    pieces = s.split([z.numel() for z in shapes])
    parts = tuple(p.view(z) for p, z in zip(pieces, shapes, strict=True))
    y_t, after = layer.step(x_t, parts if isinstance(like, tuple) else parts[0])
    return y_t, torch.cat([p.flatten() for p in flat_state(after)]), shapes[0].numel()
