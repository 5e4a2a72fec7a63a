"""What the trainer is given, checked where it is given: a wrong argument costs no epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from companion.reproduce import check_seed

__all__ = ["check_entries", "check_fit", "check_options", "check_parts", "checked"]


def check_parts(model: Any, objective: Any, optimizer: Any, scheduler: Any) -> None:
    """Raise ``TypeError`` for what cannot be a model, objective, optimizer or scheduler."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {_what(model)}")
    if not callable(objective):
        raise TypeError(f"objective must be callable, got {type(objective).__name__}")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(
            f"optimizer must be a torch.optim.Optimizer over the model's parameters, "
            f"got {_what(optimizer)}"
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise TypeError("optimizer: LBFGS calls the objective itself and does not fit here")
    stepped = callable(getattr(scheduler, "step", None)) and not isinstance(scheduler, type)
    if scheduler is not None and not stepped:
        raise TypeError(
            f"scheduler must be a learning rate scheduler made with the optimizer, "
            f"got {_what(scheduler)}"
        )


def check_options(
    clip_norm: Any, max_bad_steps: Any, progress: Any, seed: Any, stateful: Any
) -> None:
    """Raise ``TypeError`` or ``ValueError`` for an option that has no meaning."""
    if clip_norm is not None:
        is_number: bool = isinstance(clip_norm, Real) and not isinstance(clip_norm, bool)
        if not is_number:
            raise TypeError(f"clip_norm must be a number > 0 or None, got {_what(clip_norm)}")
        if not (clip_norm > 0 and math.isfinite(clip_norm)):
            raise ValueError(f"clip_norm must be a number > 0 or None, got {clip_norm!r}")
    if isinstance(max_bad_steps, bool) or not isinstance(max_bad_steps, Integral):
        raise TypeError(f"max_bad_steps must be an int, got {_what(max_bad_steps)}")
    if max_bad_steps < 1:
        raise ValueError(f"max_bad_steps must be >= 1, got {max_bad_steps!r}")
    if progress not in (None, True, False):
        raise TypeError(f"progress must be a bool or None, got {_what(progress)}")
    if not isinstance(stateful, bool):
        raise TypeError(f"stateful must be a bool, got {_what(stateful)}")
    if seed is not None:
        check_seed(seed)


def check_fit(train: Any, valid: Any, epochs: Any) -> None:
    """Raise for batches that cannot be iterated ``epochs`` times."""
    if isinstance(epochs, bool) or not isinstance(epochs, int):
        raise TypeError(f"epochs must be an int, got {type(epochs).__name__}: {epochs!r}")
    if epochs < 0:
        raise ValueError(f"epochs must be >= 0, got {epochs}")
    for name, data in {"train": train, "valid": valid}.items():
        if data is None and name == "valid":
            continue
        if not hasattr(data, "__iter__") and not hasattr(data, "__getitem__"):
            kind = type(data).__name__
            raise TypeError(f"{name} must be an iterable of batches, got {kind}")
        if isinstance(data, Iterator) and epochs > 1:
            raise ValueError(
                f"{name} is a one-shot iterator ({type(data).__name__}): it would be empty "
                f"after the first of {epochs} epochs; give a list or a DataLoader"
            )


def check_entries(result: Any, stateful: bool) -> None:
    """Raise ``TypeError`` for what is not the tuple that an objective returns."""
    if not isinstance(result, tuple) or len(result) - stateful not in (2, 3):
        last = ", state" if stateful else ""
        got = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
        raise TypeError(
            f"objective must return (mean_loss, weight{last}) or "
            f"(mean_loss, weight, metrics{last}), got {got}"
        )
    if stateful and len(result) == 3 and _numbers(result[2]):
        raise TypeError(
            "objective must return its new state last: (mean_loss, weight, metrics, state), got "
            "a tuple of 3 that ends in metrics"
        )


def checked(
    loss: Any, weight: Any, metrics: Any = MappingProxyType({})
) -> tuple[Tensor, float, dict[str, float]]:
    """Return what an objective measured as a tensor and floats, or raise if it has no meaning."""
    if not isinstance(loss, Tensor) or not loss.is_floating_point():
        got = loss.dtype if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(f"objective: mean_loss must be a floating-point tensor, got {got}")
    if loss.dim() != 0:
        raise ValueError(
            f"objective: mean_loss must have no dimension, got shape {tuple(loss.shape)}; "
            "reduce it with .mean()"
        )
    count = _real("weight", weight)
    if not (count >= 0 and math.isfinite(count)):
        raise ValueError(f"objective: weight must be a finite number >= 0, got {count}")
    if not isinstance(metrics, Mapping):
        raise TypeError(f"objective: metrics must be a dict, got {type(metrics).__name__}")
    for name in metrics:
        if not isinstance(name, str) or name in ("", "loss"):
            raise ValueError(
                f"objective: a metric must be named by a str that is not '' or 'loss', "
                f"got {name!r}"
            )
    if torch.is_grad_enabled() and count > 0 and not loss.requires_grad:
        raise ValueError(
            "objective: mean_loss has no gradient; was it detached, or made under no_grad?"
        )
    return loss, count, {k: _real(f"metric {k!r}", v) for k, v in metrics.items()}


def _numbers(value: Any) -> bool:
    """Whether this is a dict of numbers, as metrics are."""
    if not isinstance(value, Mapping) or not value:
        return False
    return all(
        v.dim() == 0 if isinstance(v, Tensor) else isinstance(v, Real) for v in value.values()
    )


def _real(name: str, value: Any) -> float:
    """A number, or a tensor with one, as a float."""
    if isinstance(value, Tensor):
        if value.dim() != 0:
            raise TypeError(f"objective: {name} must be a number, got shape {tuple(value.shape)}")
        value = value.item()
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"objective: {name} must be a number, got {value!r}") from error


def _what(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"{type(value).__name__}: {value!r:.60}"
