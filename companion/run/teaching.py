"""The gradient of a vanilla RNN written out: in NumPy, and forward in time (RTRL)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from companion.cells.base import Cell, State, check_state, flat_state

__all__ = ["numpy_backward", "numpy_forward", "rtrl"]

Array = NDArray[np.float64]


def numpy_forward(x: Array, h0: Array, W_ih: Array, W_hh: Array, b: Array) -> Array:
    r"""The vanilla RNN in NumPy, all states.

    .. math:: h_t = \tanh(W_{ih} x_t + W_{hh} h_{t-1} + b)

    Args:
        x: inputs, (T, B, D).
        h0: first state, (B, H).
        W_ih, W_hh, b: weights (H, D), (H, H), (H,).

    Returns:
        States :math:`h_0, \dots, h_T`, (T + 1, B, H).

    Example:
        >>> h = numpy_forward(np.ones((2, 1, 1)), np.zeros((1, 1)), np.ones((1, 1)),
        ...                   np.ones((1, 1)), np.zeros(1))
        >>> h[:, 0, 0].round(4)  # 0, tanh 1, tanh(1 + tanh 1)
        array([0.    , 0.7616, 0.9427])
    """
    h = np.empty((len(x) + 1, *h0.shape))
    h[0] = h0
    for t in range(len(x)):
        h[t + 1] = np.tanh(x[t] @ W_ih.T + h[t] @ W_hh.T + b)
    return h


def numpy_backward(
    x: Array, h: Array, dh: Array, W_ih: Array, W_hh: Array
) -> tuple[Array, Array, Array, Array, Array]:
    r"""Backpropagation through time in NumPy.

    .. math::

        \delta_t = (1 - h_t^2) \odot \Big(\frac{\partial L}{\partial h_t}\Big|_{\text{direct}}
                   + W_{hh}^\top \delta_{t+1}\Big), \qquad
        \frac{\partial L}{\partial W_{hh}} = \sum_t \delta_t h_{t-1}^\top

    Args:
        x: inputs, (T, B, D).
        h: states from :func:`numpy_forward`, (T + 1, B, H).
        dh: what the loss at each step says about that step's state alone, (T, B, H).
        W_ih, W_hh: weights (H, D), (H, H).

    Returns:
        Gradients of x, h0, W_ih, W_hh and b.

    Example:
        >>> x, one = np.zeros((2, 1, 1)), np.ones((1, 1))
        >>> h = numpy_forward(x, 0 * one, one, one, np.zeros(1))  # stays 0, where tanh has slope 1
        >>> dx, dh0, *_ = numpy_backward(x, h, np.ones((2, 1, 1)), one, 0.5 * one)
        >>> dx[:, 0, 0], dh0.item()  # x_2 reaches one loss, x_1 also the second, by 0.5
        (array([1.5, 1. ]), 0.75)
    """
    dx = np.empty(x.shape)
    dW_ih, dW_hh, db = np.zeros(W_ih.shape), np.zeros(W_hh.shape), np.zeros(len(W_hh))
    back = np.zeros_like(h[0])  # what the later steps say about this state
    for t in reversed(range(len(x))):
        delta = (1 - h[t + 1] ** 2) * (dh[t] + back)
        dW_ih += delta.T @ x[t]
        dW_hh += delta.T @ h[t]
        db += delta.sum(0)
        dx[t] = delta @ W_ih
        back = delta @ W_hh
    return dx, back, dW_ih, dW_hh, db


def rtrl(
    cell: Cell, x: Tensor, loss: Callable[[int, Tensor], Tensor], state: State | None = None
) -> dict[str, Tensor]:
    r"""Real-time recurrent learning: the exact gradient, carried forward in time.

    With all weights in one vector :math:`\theta` and the state in one vector :math:`s`,

    .. math::

        M_t = \frac{\partial s_t}{\partial s_{t-1}} M_{t-1}
              + \frac{\partial s_t}{\partial \theta}\Big|_{s_{t-1}}, \qquad
        \frac{\partial L}{\partial \theta} = \sum_t \frac{\partial L_t}{\partial y_t} \Big(
            \frac{\partial y_t}{\partial s_{t-1}} M_{t-1}
            + \frac{\partial y_t}{\partial \theta}\Big|_{s_{t-1}} \Big) .

    :math:`M_0 = \partial s_0 / \partial \theta` is 0 unless the initial state is learned. No past
    state is kept, so memory does not grow with T; but :math:`M_t` has as many columns as there are
    weights, and each step multiplies it by a Jacobian: :math:`O(H^4)` operations for a vanilla
    cell.

    Args:
        cell: any cell, also one bound by a layer; its weights and buffers are read, not changed.
        x: one sequence, (T, D).
        loss: ``loss(t, y_t)``, a scalar, for each step t = 0 … T − 1; a constant where it is
            silent. Called once a step.
        state: each part (1, ·), held fixed; default: the initial state.

    Returns:
        The gradient of Σ_t loss(t, y_t) for each weight by name, equal to BPTT's.

    Raises:
        ValueError: if x is not one sequence, state does not fit, or loss is no scalar.
        TypeError: if state has the wrong type, or loss gives no tensor.

    Source:
        Williams and Zipser (1989).

    Example:
        >>> import companion
        >>> _ = torch.manual_seed(0)
        >>> cell, x = companion.RNNCell(2, 3), torch.randn(5, 2)
        >>> gradient = rtrl(cell, x, lambda t, y: y.sum())
        >>> h, total = cell.initial_state(1), 0.0
        >>> for x_t in x:
        ...     h = cell(x_t[None], h)
        ...     total = total + h.sum()
        >>> total.backward()
        >>> torch.allclose(gradient["weight_hh"], cell.weight_hh.grad, atol=1e-5)
        True
    """
    if x.dim() != 2:
        raise ValueError(f"x: expected one sequence (T, D), got {tuple(x.shape)}")
    machine = _Machine(cell)
    weights = {n: w.detach() for n, w in machine.named_parameters()}
    like = machine(x)  # the initial state
    if state is not None:
        check_state("state", state, cell.state_size, (1,), flat_state(like)[0])

    def run(weights: dict[str, Tensor], *args: Any) -> Any:
        buffers = {n: b.clone() for n, b in machine.named_buffers()}
        return torch.func.functional_call(machine, (weights, buffers), args)

    def start(weights: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        s = to_vector(run(weights, x) if state is None else state)
        return s, s

    def step(s: Tensor, weights: dict[str, Tensor], x_t: Tensor) -> tuple[Any, Any]:
        y, after = run(weights, x_t.unsqueeze(0), from_vector(s, like))
        both = y.squeeze(0), to_vector(after)
        return both, both  # to differentiate, and as they are: one evaluation gives both

    if not weights:
        return {}
    influence, s = torch.func.jacrev(start, has_aux=True)(weights)
    influence = {n: M.flatten(1) for n, M in influence.items()}
    gradient = {n: torch.zeros_like(w) for n, w in weights.items()}
    for t, x_t in enumerate(x):
        jacobian = torch.func.jacrev(step, argnums=(0, 1), has_aux=True)
        ((y_s, y_w), (s_s, s_w)), (y, s) = jacobian(s, weights, x_t)
        dy = _slope(loss, t, y)
        for n, w in weights.items():
            if dy is not None:
                through_state = y_s @ influence[n] + y_w[n].flatten(1)
                gradient[n] += (dy @ through_state).view_as(w)
            influence[n] = s_s @ influence[n] + s_w[n].flatten(1)
    return {n.removeprefix("cell."): g for n, g in gradient.items()}


class _Machine(nn.Module):
    """A cell as one function of its weights; a bound cell gets weights of its own again."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        if cell._lent is not None:
            lent, cell = cell, object.__new__(type(cell))
            cell.__dict__.update(lent.__dict__, _lent=None, _parameters={})
            for n in lent.weight_names():
                w = cell.__dict__.pop(n)
                cell._parameters[n] = None if w is None else nn.Parameter(w.detach())
        self.cell = cell

    def forward(self, x: Tensor, state: State | None = None) -> Any:
        if state is None:
            own = self.cell._own()
            return self.cell.initial_state(1, x if own is None else own)
        return self.cell.step(x, state)


def _slope(loss: Callable[[int, Tensor], Tensor], t: int, y: Tensor) -> Tensor | None:
    """What the loss at step t says about its output; None where it is silent."""
    with torch.enable_grad():
        y = y.detach().requires_grad_()
        value = loss(t, y)
        if not isinstance(value, Tensor):
            raise TypeError(
                f"loss: expected a scalar tensor, got {type(value).__name__} at t = {t}"
            )
        if value.dim():
            raise ValueError(f"loss: expected a scalar, got shape {tuple(value.shape)} at t = {t}")
        if not value.requires_grad:
            return None
        return torch.autograd.grad(value, y, allow_unused=True)[0]


def to_vector(state: State) -> Tensor:
    """All tensors of a state in one vector."""
    return torch.cat([part.flatten() for part in flat_state(state)])


def from_vector(vector: Tensor, like: State) -> State:
    """The state whose :func:`to_vector` this is, in the shapes of ``like``."""
    shapes = [part.shape for part in flat_state(like)]
    pieces = vector.split([shape.numel() for shape in shapes])
    parts = tuple(p.view(shape) for p, shape in zip(pieces, shapes, strict=True))
    return parts if isinstance(like, tuple) else parts[0]
