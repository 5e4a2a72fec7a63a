"""How a gradient travels through time: norms against lag, Jacobians, Lyapunov exponents.

Everything here runs a layer step by step through its public ``step``, so it works for any cell and
any depth. The state of all layers is one vector :math:`s_t` (of an LSTM: hidden and cell state),
and :math:`J_t = \\partial s_t / \\partial s_{t-1}` is one square matrix. The layer runs in
evaluation mode, without dropout; afterwards it is in the mode it had.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor

from companion.cells.base import State, check_size, check_state, flat_state, map_state
from companion.run.teaching import from_vector, to_vector

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
        lag = self.lag.cpu()
        ax.semilogy(lag, self.state.cpu(), label=r"$\|\partial s_T / \partial s_t\|_2$")
        ax.semilogy(lag, self.loss.cpu(), label=r"$\|\partial L / \partial s_t\|_2$")
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
        step = torch.arange(1, len(self.radius) + 1)
        ax.plot(step, self.norm.cpu(), label="largest singular value")
        ax.plot(step, self.radius.cpu(), label="spectral radius")
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

    The first is autograd's, through the loop of steps; the second is the product of the steps'
    Jacobians. Steps and Jacobians have the dtype of the layer; products and norms are taken in
    float64, where one that overflows is inf.

    Where the output is a part of the state (:math:`y_t = h_t`), the loss speaks to that state,
    also at T. Where it is read out of the state inside the step, :math:`s_T` itself is used by
    nothing, and :math:`\partial L/\partial s_T = 0`.

    Args:
        layer: any sequence layer of the package that can run step by step.
        x: one sequence, (T, D).
        loss: a scalar function of the outputs (T, H); default: the sum of the last output, a loss
            that speaks at the last step alone.
        state: the state before the first step, without a batch dimension; default: the initial.

    Returns:
        The norms, for t = 0 … T.

    Raises:
        ValueError: if x is not one sequence of at least one step, state does not fit, the layer
            is bidirectional, loss is no scalar, not finite or ignores the outputs, or a state or a
            Jacobian is not finite.
        TypeError: if state has the wrong type, or loss gives no tensor.

    Source:
        Bengio, Simard and Frasconi (1994); Pascanu, Mikolov and Bengio (2013).

    Example:
        >>> import companion, torch
        >>> _ = torch.manual_seed(0)
        >>> rnn = companion.RNN(2, 8, recurrent_init=companion.spectral_radius(0.5))
        >>> flow = gradient_flow(rnn, torch.zeros(20, 2))
        >>> bool(flow.state[0] < 1e-4 < flow.state[-1])
        True
    """
    _check_sequence(x)
    with _measuring(layer):
        states, outputs = _run(layer, x, state)
        place = _place(layer, x[0])
        # where the output is a part of the state, the loss speaks to that part
        parts = outputs if place is None else [s[place] for s in states[1:]]
        y = torch.stack(parts).requires_grad_()
        grads = _loss_gradients(y, y[-1].sum() if loss is None else loss(y), states)
        J = _jacobians(states).double()
    # once a gradient is inf, the steps before it mix inf - inf and 0 * inf into NaN
    norms = [0.0 if g is None else float(g.double().norm()) for g in grads]
    norms = [n if math.isfinite(n) else math.inf for n in norms]
    exact: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}
    return GradientFlow(torch.tensor(norms, **exact), torch.tensor(_product_norms(J), **exact))


def jacobians(layer: Any, x: Tensor, state: State | None = None) -> Tensor:
    r"""The Jacobian :math:`J_t = \partial s_t / \partial s_{t-1}` of every step.

    The product :math:`J_T J_{T-1} \cdots J_{t+1}`, later steps on the left, is
    :math:`\partial s_T/\partial s_t`.

    Args:
        layer: any sequence layer of the package that can run step by step.
        x: one sequence, (T, D).
        state: the state before the first step, without a batch dimension; default: the initial.

    Returns:
        (T, n, n), with n numbers in the state, in the dtype of the layer.

    Raises:
        ValueError: if x is not one sequence of at least one step, state does not fit, the layer
            is bidirectional, or a state or a Jacobian is not finite.
        TypeError: if state has the wrong type.

    Example:
        >>> import companion, torch
        >>> jacobians(companion.RNN(2, 3), torch.zeros(5, 2)).shape
        torch.Size([5, 3, 3])
    """
    _check_sequence(x)
    with _measuring(layer):
        return _jacobians(_run(layer, x, state)[0])


def jacobian_norms(layer: Any, x: Tensor, state: State | None = None) -> JacobianNorms:
    """Singular values and spectral radius of every step's Jacobian.

    Args:
        layer: any sequence layer of the package that can run step by step.
        x: one sequence, (T, D).
        state: the state before the first step, without a batch dimension; default: the initial.

    Returns:
        Singular values (T, n) and spectral radii (T,), in float64, of Jacobians in the dtype of
        the layer.

    Raises:
        ValueError: if x is not one sequence of at least one step, state does not fit, the layer
            is bidirectional, or a state or a Jacobian is not finite.
        TypeError: if state has the wrong type.

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
        (n,) exponents in nats a step, largest first. A direction that dies at once (a Jacobian
        without full rank) has −inf in exact arithmetic; rounding mostly leaves a large negative
        number instead, whose value means nothing.

    Raises:
        ValueError: if x is not one sequence of at least one step, skip leaves no step, state does
            not fit, the layer is bidirectional, or a state or a Jacobian is not finite.
        TypeError: if state has the wrong type, or skip is no int.

    Source:
        Benettin et al. (1980): repeated QR decomposition.

    Example:
        A map that halves loses log 2 a step:

        >>> import math
        >>> J = 0.5 * torch.eye(2, dtype=torch.float64).expand(10, 2, 2)
        >>> [round(value, 4) for value in _exponents(J).tolist()], round(-math.log(2), 4)
        ([-0.6931, -0.6931], -0.6931)
    """
    _check_sequence(x)
    check_size("skip", skip, 0)
    if skip >= len(x):
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


@contextmanager
def _measuring(layer: Any) -> Iterator[None]:
    """Evaluation mode, with gradients whatever the caller's mode; restored afterwards."""
    modes = [(module, module.training) for module in layer.modules()]
    layer.eval()
    try:
        with torch.enable_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


def _initial(layer: Any) -> State:
    return cast(State, map_state(lambda s: s.detach().squeeze(1), layer.initial_state(1)))


def _step(layer: Any, x_t: Tensor, s: Tensor, like: State) -> tuple[Tensor, Tensor]:
    y_t, after = layer.step(x_t, from_vector(s, like))
    return y_t, to_vector(after)


def _run(layer: Any, x: Tensor, state: State | None) -> tuple[list[Tensor], list[Tensor]]:
    """States s_0 … s_T and outputs y_1 … y_T, each with the graph that leads to it."""
    like = _initial(layer)
    if state is not None:
        first = flat_state(like)[0]
        sizes = map_state(lambda s: s.shape[-1], like)
        check_state("state", state, sizes, tuple(first.shape[:-1]), first)
    states, outputs = [to_vector(like if state is None else state).detach()], []
    for t, x_t in enumerate(x, 1):
        # a state may depend on nothing that needs a gradient, the first one surely
        states[-1].requires_grad_()
        y_t, s = _step(layer, x_t, states[-1], like)
        if not s.isfinite().all():
            raise ValueError(f"x: expected states that stay finite, they overflow at step {t}")
        outputs.append(y_t)
        states.append(s)
    states[-1].requires_grad_()
    return states, outputs


def _jacobians(states: list[Tensor]) -> Tensor:
    one = torch.eye(len(states[0]), dtype=states[0].dtype, device=states[0].device)
    # row i of J is the gradient of number i of the next state; by autograd from the states we
    # have, so that each step is taken once, and by the same path of Python
    options: dict[str, Any] = {"is_grads_batched": True, "retain_graph": True}
    found = [
        torch.autograd.grad(after, before, one, allow_unused=True, **options)[0]
        for before, after in pairwise(states)
    ]
    J = torch.stack([torch.zeros_like(one) if J is None else J for J in found])
    if not (fine := J.isfinite().flatten(1).all(1)).all():
        t = fine.tolist().index(False) + 1
        raise ValueError(f"x: expected Jacobians that are finite, that of step {t} is not")
    return J


def _product_norms(J: Tensor) -> list[float]:
    """Largest singular values of J_T ... J_{t+1} for t = 0 ... T; inf where one overflows."""
    product = torch.eye(J.shape[-1], dtype=J.dtype, device=J.device)
    norms, power = [1.0], 0  # the product is 2^power times the one at hand, which stays near 1
    for J_t in J.flip(0):
        product = product @ J_t
        norm = float(torch.linalg.matrix_norm(product, 2))
        try:
            norms.append(math.ldexp(norm, power))
        except OverflowError:
            norms.append(math.inf)
        shift = min(math.frexp(norm)[1], 1000)
        product, power = product / 2.0**shift, power + shift  # a power of 2 rounds nothing
    return norms[::-1]


def _loss_gradients(y: Tensor, value: Any, states: list[Tensor]) -> tuple[Tensor | None, ...]:
    """The loss's gradient with respect to each state; None where it does not reach the loss."""
    if not isinstance(value, Tensor):
        raise TypeError(f"loss: expected a scalar tensor, got {type(value).__name__}")
    if value.dim():
        raise ValueError(f"loss: expected a scalar, got shape {tuple(value.shape)}")
    if not value.isfinite():
        raise ValueError(f"loss: expected a finite number, got {value.item()}")
    direct: Tensor | None = None
    if value.requires_grad:
        direct, *grads = torch.autograd.grad(
            value, [y, *states], retain_graph=True, allow_unused=True
        )
    if direct is None:
        raise ValueError("loss: expected a function of the outputs y, got one that ignores them")
    return tuple(grads)


def _place(layer: Any, x_t: Tensor) -> slice | None:
    """Where in the state vector the output is; None where it is no part of the state.

    Two numbers may be equal by chance at one state (3h and h at h = 0; 0 and 0 behind a relu), so
    we ask at several states without any pattern.
    """
    like = _initial(layer)
    s = to_vector(like)
    place = torch.arange(1, len(s) + 1, device=s.device)
    same: Tensor | None = None
    with torch.no_grad():
        for k in range(1, 6):
            s = (k * place).to(s.dtype).sin()
            y, after = _step(layer, x_t + s[0], s, like)
            if len(y) > len(after):
                return None
            windows = after.unfold(0, len(y), 1)
            here = torch.isclose(windows, y.to(windows.dtype), rtol=0, atol=0, equal_nan=True).all(
                1
            )
            same = here if same is None else same & here
    starts = cast(Tensor, same).nonzero().flatten().tolist()
    return slice(starts[-1], starts[-1] + len(y)) if starts else None
