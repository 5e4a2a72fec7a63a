"""The gradient of a vanilla RNN written out: in NumPy, and forward in time (RTRL)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from companion.cells.base import Cell, State, bind, flat_state

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
    """
    dx = np.empty_like(x)
    dW_ih, dW_hh, db = np.zeros_like(W_ih), np.zeros_like(W_hh), np.zeros(len(W_hh))
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

    No past state is kept, so memory does not grow with T; but :math:`M_t` has as many columns as
    there are weights, and each step multiplies it by a Jacobian: :math:`O(H^4)` operations for a
    vanilla cell.

    Args:
        cell: any cell; its weights are read, not changed.
        x: one sequence, (T, D).
        loss: ``loss(t, y_t)``, a scalar, for each step.
        state: each part (1, ·); default: the initial state.

    Returns:
        The gradient of Σ_t loss(t, y_t) for each weight by name, equal to BPTT's.

    Source:
        Williams and Zipser (1989).
    """
    if x.dim() != 2:
        raise ValueError(f"x: expected one sequence (T, D), got {tuple(x.shape)}")
    weights = {n: w.detach() for n, w in cell.weights().items()}
    absent = dict.fromkeys(cell.weight_names())
    parts = flat_state(cell.initial_state(1) if state is None else state)
    sizes = [p.numel() for p in parts]
    s = torch.cat([p.detach().flatten() for p in parts])

    def step(s: Tensor, weights: dict[str, Tensor], x_t: Tensor) -> tuple[Tensor, Tensor]:
        bound = bind(cell, {**absent, **weights})
        given = tuple(p.unsqueeze(0) for p in s.split(sizes))
        y, after = bound.step(x_t.unsqueeze(0), given if len(given) > 1 else cast(Any, given[0]))
        return y.squeeze(0), torch.cat([p.flatten() for p in flat_state(after)])

    influence = {n: s.new_zeros(len(s), w.numel()) for n, w in weights.items()}
    gradient = {n: torch.zeros_like(w) for n, w in weights.items()}
    for t, x_t in enumerate(x):
        jacobian = torch.func.jacrev(step, argnums=(0, 1))
        (y_s, y_w), (s_s, s_w) = jacobian(s, weights, x_t)
        y, s_next = step(s, weights, x_t)
        y = y.detach().requires_grad_()
        (dy,) = torch.autograd.grad(loss(t, y), y)
        for n, w in weights.items():
            through_state = y_s @ influence[n] + y_w[n].flatten(1)
            gradient[n] += (dy @ through_state).view_as(w)
            influence[n] = s_s @ influence[n] + s_w[n].flatten(1)
        s = s_next
    return gradient
