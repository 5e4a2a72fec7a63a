"""Truncated backpropagation through time: carry the state on, cut its past off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["detached", "truncated_gradient"]


def detached(state: Any) -> Any:
    """The same numbers without their history, however the state is nested.

    Args:
        state: a tensor, ``None``, or tuples, named tuples, lists and mappings of such.

    Returns:
        The state, with every tensor detached; other values as they are.

    Example:
        >>> h = torch.ones(2, requires_grad=True) * 2
        >>> state = detached(((h, h), [h]))
        >>> state[0][1].requires_grad, state[1][0].requires_grad
        (False, False)
    """
    if isinstance(state, Tensor):
        return state.detach()
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*map(detached, state))
    if isinstance(state, tuple | list):
        return type(state)(map(detached, state))
    if isinstance(state, Mapping):
        return {key: detached(value) for key, value in state.items()}
    return state


def truncated_gradient(
    layer: nn.Module,
    x: Tensor,
    loss: Callable[[Tensor, int], Tensor],
    k: int,
    state: Any = None,
) -> tuple[dict[str, Tensor], Any]:
    r"""The gradient that truncated backpropagation through time uses instead of the true one.

    The sequence is cut into chunks of k steps. The state is carried from chunk to chunk, but no
    gradient flows back across a cut: of

    .. math::

        \frac{\partial L}{\partial \theta} = \sum_t \sum_{j \le t}
            \frac{\partial L_t}{\partial h_t} \frac{\partial h_t}{\partial h_j}
            \frac{\partial h_j}{\partial \theta}\Big|_{h_{j-1}}

    only the terms with t and j in the same chunk are kept. With k ≥ T this is the true gradient;
    otherwise it is biased, not merely noisy.

    Args:
        layer: a batch-first sequence layer of this package.
        x: (B, T, D).
        loss: ``loss(y, t)`` for the outputs (B, n, H) of a chunk whose first step is t (counted
            from 0): a scalar, summed over the steps.
        k: steps of a chunk; the last one may be shorter.
        state: the state before the first step; default: the initial state.

    Returns:
        The gradient for each parameter by name, and the final state, detached.

    Raises:
        ValueError: if k < 1 or x has not three dimensions.

    Source:
        Williams and Peng (1990); with one cut every k steps, their BPTT(k; k).

    Example:
        >>> import companion
        >>> rnn = companion.RNN(3, 4, batch_first=True)
        >>> gradient, _ = truncated_gradient(rnn, torch.ones(2, 7, 3), lambda y, t: y.sum(), k=3)
        >>> gradient["weight_hh_l0"].shape
        torch.Size([4, 4])
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ValueError(f"k: expected an int of at least 1, got {k!r}")
    if x.dim() != 3:
        raise ValueError(f"x: expected (B, T, D), got {tuple(x.shape)}")
    names = [name for name, _ in layer.named_parameters()]
    total = {name: torch.zeros_like(p) for name, p in layer.named_parameters()}
    for t in range(0, x.shape[1], k):
        y, state = layer(x[:, t : t + k], state)
        grads = torch.autograd.grad(loss(y, t), list(layer.parameters()), allow_unused=True)
        for name, g in zip(names, grads, strict=True):
            if g is not None:
                total[name] += g
        state = detached(state)
    return total, state
