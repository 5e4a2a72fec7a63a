"""Truncated backpropagation through time: carry the state on, cut its past off."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set, ValuesView
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from companion.checks import check_size

__all__ = ["compact", "detached", "state_rows", "tensors_in", "truncated_gradient"]


def detached(state: Any) -> Any:
    """The same numbers without their history, however the state is nested.

    Args:
        state: a tensor, ``None``, or tuples, named tuples, lists, mappings and dataclasses of
            such.

    Returns:
        The state, with every tensor detached; other values as they are. Containers keep their
        type, but mappings that are neither a ``dict`` nor a ``UserDict`` become a ``dict``. The
        given state is unchanged.

    Raises:
        TypeError: if there are tensors in another container (a set, a deque) or in an attribute
            of another object, where they would keep their history, or may be in an iterator.

    Example:
        >>> h = torch.ones(2, requires_grad=True) * 2
        >>> state = detached(((h, h), [h]))
        >>> state[0][1].requires_grad, state[1][0].requires_grad
        (False, False)
    """
    new: Any
    if isinstance(state, Tensor):
        return state.detach()
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*map(detached, state))
    if isinstance(state, tuple | list):
        return type(state)([detached(value) for value in state])
    if isinstance(state, Mapping):
        new = copy.copy(state) if isinstance(state, dict | UserDict) else {}
        for key, value in state.items():
            new[key] = detached(value)
        return new
    if is_dataclass(state) and not isinstance(state, type):
        new = copy.copy(state)
        for field in fields(state):
            object.__setattr__(new, field.name, detached(getattr(state, field.name)))
        return new
    if isinstance(state, Iterator):  # reading it would use it up
        raise TypeError(f"state: cannot look for tensors in a {type(state).__name__}; give a list")
    if any(True for _ in tensors_in(state)):
        raise TypeError(f"state: cannot detach the tensors in a {type(state).__name__}")
    return state


def compact(state: Any) -> Any:
    """The same numbers as :func:`detached`, in tensors of their own, contiguous in memory.

    A state may be a view of all outputs, which it would keep in memory. And sums over values that
    lie otherwise in memory may be rounded otherwise: one read from a checkpoint is contiguous.
    """
    own = torch.contiguous_format
    return _map(detached(state), lambda t: t.clone(memory_format=own))


def state_rows(state: Any, rows: int | Tensor, dim: int = 1) -> Any:
    """The state of some rows of a batch, for a batch that has only these rows, or others' order.

    Args:
        state: tensors however nested, each with the batch along ``dim``, or ``None``.
        rows: how many, from the first on; or their indices (n,), integers.
        dim: where the batch is: 1 in the states of this package and of torch, (layers, B, H).

    Returns:
        The state in the same containers, without its history.

    Raises:
        TypeError: if ``rows`` is neither an int nor a tensor of indices, or :func:`detached`
            cannot take the state.
        ValueError: if ``rows`` is below 0, or a tensor of the state has not these rows.

    Example:
        >>> h, c = torch.zeros(2, 8, 5), torch.zeros(2, 8, 5)
        >>> [tuple(t.shape) for t in state_rows((h, c), 3)]
        [(2, 3, 5), (2, 3, 5)]
    """
    if isinstance(rows, bool) or not isinstance(rows, int | Tensor):
        raise TypeError(f"rows: expected an int or a tensor of indices, got {type(rows).__name__}")
    if isinstance(rows, Tensor) and (
        rows.dim() != 1 or rows.dtype not in (torch.int64, torch.int32)
    ):
        raise TypeError(
            f"rows: expected indices (n,) of int64, got {tuple(rows.shape)} of {rows.dtype}"
        )
    if isinstance(rows, int):
        check_size("rows", rows, 0)
    index = torch.arange(rows) if isinstance(rows, int) else rows
    least, most = (int(index.min()), int(index.max())) if index.numel() else (0, -1)

    def pick(tensor: Tensor) -> Tensor:
        if not -tensor.dim() <= dim < tensor.dim():
            raise ValueError(f"state: expected a dimension {dim}, got {tuple(tensor.shape)}")
        if least < 0 or most >= tensor.shape[dim]:
            raise ValueError(
                f"state: {tuple(tensor.shape)} has {tensor.shape[dim]} rows along dimension "
                f"{dim}, row {least if least < 0 else most} was asked for; only None, the state "
                "of the start, fits every batch"
            )
        return tensor.index_select(dim, index.to(tensor.device))

    return _map(detached(state), pick)


def _map(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A copy of what :func:`detached` returned, with every tensor changed."""
    new: Any
    if isinstance(state, Tensor):
        return change(state)
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*(_map(value, change) for value in state))
    if isinstance(state, tuple | list):
        return type(state)([_map(value, change) for value in state])
    if isinstance(state, Mapping):
        new = copy.copy(state)
        for key, value in state.items():
            new[key] = _map(value, change)
        return new
    if is_dataclass(state) and not isinstance(state, type):
        new = copy.copy(state)
        for field in fields(state):
            object.__setattr__(new, field.name, _map(getattr(state, field.name), change))
        return new
    return state


def tensors_in(value: Any, objects: int = 1) -> Iterator[Tensor]:
    """Every tensor in a state, also in containers and attributes that ``detached`` refuses.

    Args:
        value: the state.
        objects: how many objects deep to look into attributes.
    """
    if isinstance(value, Tensor):
        yield value
        return
    inside: list[Any] = []
    if isinstance(value, Mapping):
        inside = list(value.values())
    elif isinstance(value, Sequence | Set | ValuesView):
        inside = [] if isinstance(value, str | bytes | range) else list(value)
    elif is_dataclass(value) and not isinstance(value, type):
        inside = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, partial):
        inside = [value.func, *value.args, *value.keywords.values()]
    elif objects and not isinstance(value, type):
        inside, objects = list(getattr(value, "__dict__", {}).values()), objects - 1
    for part in inside:
        yield from tensors_in(part, objects)


@torch.enable_grad()
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
            from 0): a scalar, summed over the steps. A chunk whose loss has no gradient adds
            nothing.
        k: steps of a chunk; the last one may be shorter.
        state: the state before the first step, whose history is cut off too; default: the
            initial state.

    Returns:
        The gradient for each parameter that requires one, by name, and the final state, detached.

    Raises:
        TypeError: if k is no int, the layer is no module, x no tensor, or the loss no tensor.
        ValueError: if k < 1, x has not three dimensions, or the layer is not batch-first, or reads
            its chunks in both directions; or if the loss is no scalar.

    Source:
        Williams and Peng (1990); with one cut every k steps, their BPTT(k; k).

    Example:
        >>> import companion
        >>> rnn = companion.RNN(3, 4, batch_first=True)
        >>> gradient, _ = truncated_gradient(rnn, torch.ones(2, 7, 3), lambda y, t: y.sum(), k=3)
        >>> gradient["weight_hh_l0"].shape
        torch.Size([4, 4])
    """
    check_size("k", k)
    _check_reader(layer, x)
    weights = {name: p for name, p in layer.named_parameters() if p.requires_grad}
    total = {name: torch.zeros_like(p) for name, p in weights.items()}
    if x.shape[1] == 0:
        return total, detached(layer(x, state)[1])
    for t in range(0, x.shape[1], k):
        y, state = layer(x[:, t : t + k], detached(state))
        chunk_loss = _scalar(loss(y, t))
        if weights and chunk_loss.requires_grad:
            grads = torch.autograd.grad(chunk_loss, list(weights.values()), allow_unused=True)
            for name, g in zip(weights, grads, strict=True):
                if g is not None:
                    total[name] += g
    return total, detached(state)


def _check_reader(layer: Any, x: Any) -> None:
    """Raise unless the layer reads x in chunks of time."""
    if not isinstance(layer, nn.Module):
        raise TypeError(f"layer: expected a torch.nn.Module, got {type(layer).__name__}")
    if not isinstance(x, Tensor):
        raise TypeError(f"x: expected a tensor (B, T, D), got {type(x).__name__}")
    if x.dim() != 3:
        raise ValueError(f"x: expected (B, T, D), got {tuple(x.shape)}")
    if not getattr(layer, "batch_first", True):
        raise ValueError("layer: expected batch_first=True; x is cut along dimension 1")
    if getattr(layer, "bidirectional", False):
        raise ValueError(
            "layer: expected one direction; backwards, a state goes to the chunk before"
        )


def _scalar(loss: Any) -> Tensor:
    if not isinstance(loss, Tensor):
        raise TypeError(f"loss: expected it to give a tensor, got {type(loss).__name__}")
    if loss.dim() != 0:
        raise ValueError(f"loss: expected a scalar, got shape {tuple(loss.shape)}")
    return loss
