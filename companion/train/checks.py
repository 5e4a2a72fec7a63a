"""What the trainer is given, checked where it is given: a wrong argument costs no epoch."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from companion.reproduce import check_seed
from companion.train.generators import Source
from companion.train.stopping import EarlyStopping

__all__ = [
    "check_checkpoint",
    "check_device",
    "check_entries",
    "check_fit",
    "check_options",
    "check_parts",
    "checked",
]


def check_parts(
    model: Any,
    objective: Any,
    optimizer: Any,
    scheduler: Any,
    step_scheduler: Any,
    early_stopping: Any,
    generators: Any,
) -> None:
    """Raise ``TypeError`` or ``ValueError`` for what cannot be a part of a trainer."""
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
    for name, part in {"scheduler": scheduler, "step_scheduler": step_scheduler}.items():
        stepped = callable(getattr(part, "step", None)) and not isinstance(part, type)
        if part is not None and not stepped:
            raise TypeError(
                f"{name} must be a learning rate scheduler made with the optimizer, "
                f"got {_what(part)}"
            )
        if getattr(part, "optimizer", optimizer) is not optimizer:
            raise ValueError(
                f"{name} sets the learning rate of another optimizer; make it with the one given"
            )
    if isinstance(step_scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise TypeError(
            "step_scheduler: ReduceLROnPlateau waits for a loss, and a step has none that means "
            "much; give it as scheduler"
        )
    if early_stopping is not None and not isinstance(early_stopping, EarlyStopping):
        raise TypeError(
            f"early_stopping must be a companion.train.EarlyStopping, got {_what(early_stopping)}"
        )
    several = isinstance(generators, Sequence)
    if not several or not all(isinstance(part, Source) for part in generators):
        raise TypeError(
            "generators must be a sequence of generators of torch, NumPy or Python's random, "
            f"got {_what(generators)}"
        )


def check_options(
    clip_norm: Any,
    accumulate: Any,
    precision: Any,
    max_bad_steps: Any,
    progress: Any,
    seed: Any,
    stateful: Any,
    own_batches: Any,
) -> None:
    """Raise ``TypeError`` or ``ValueError`` for an option that has no meaning."""
    if clip_norm is not None:
        is_number: bool = isinstance(clip_norm, Real) and not isinstance(clip_norm, bool)
        if not is_number:
            raise TypeError(f"clip_norm must be a number > 0 or None, got {_what(clip_norm)}")
        if not (clip_norm > 0 and math.isfinite(clip_norm)):
            raise ValueError(f"clip_norm must be a number > 0 or None, got {clip_norm!r}")
    _check_count("accumulate", accumulate)
    _check_count("max_bad_steps", max_bad_steps)
    if not isinstance(precision, str) or precision not in ("full", "bf16"):
        raise ValueError(f"precision must be 'full' or 'bf16', got {precision!r}")
    if progress is not None and not isinstance(progress, bool):
        raise TypeError(f"progress must be a bool or None, got {_what(progress)}")
    for name, value in {"stateful": stateful, "own_batches": own_batches}.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be a bool, got {_what(value)}")
    if seed is not None:
        check_seed(seed)


def check_device(device: Any) -> torch.device:
    """Return a device that is there, or raise ``TypeError`` or ``ValueError``."""
    if isinstance(device, bool) or not isinstance(device, torch.device | str | int):
        raise TypeError(f"device must be a torch.device or its name, got {_what(device)}")
    try:
        where = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device must be a torch.device or its name, got {device!r}") from error
    here = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (where.index or 0) >= here.get(where.type, math.inf):
        raise ValueError(f"device: {where} is not here; torch finds {here[where.type]} such")
    if where.type == "meta":
        raise ValueError(
            "device: tensors on meta hold no values, and nothing can be trained there"
        )
    return where


def check_fit(train: Any, valid: Any, epochs: Any) -> None:
    """Raise for batches that cannot be iterated ``epochs`` times, or where nothing can train."""
    if not torch.is_grad_enabled():
        raise RuntimeError(
            "fit: gradients are switched off here, by torch.no_grad or inference_mode; call it "
            "outside of that"
        )
    if isinstance(epochs, bool) or not isinstance(epochs, Integral):
        raise TypeError(f"epochs must be an int, got {type(epochs).__name__}: {epochs!r}")
    epochs = int(epochs)
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


def check_checkpoint(checkpoint: Any, every: Any, keep: Any, resume: Any) -> None:
    """Raise for a wish about checkpoints that has no meaning."""
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike):
        raise TypeError(f"checkpoint must be the path of a folder, got {_what(checkpoint)}")
    if checkpoint is not None and os.path.exists(checkpoint) and not os.path.isdir(checkpoint):
        raise NotADirectoryError(f"checkpoint: {checkpoint} is there, and is no folder")
    if every is not None:
        _check_count("every", every)
    _check_count("keep", keep)
    if not isinstance(resume, bool) and resume != "auto":
        raise ValueError(f"resume must be True, False or 'auto', got {resume!r}")
    if checkpoint is None and (every is not None or resume):
        name = "every" if every is not None else "resume"
        raise ValueError(f"{name}: there is no folder for checkpoints; say checkpoint=...")


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


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int, got {_what(value)}")
    if value < 1:
        raise ValueError(f"{name} must be >= 1, got {value!r}")


def _numbers(value: Any) -> bool:
    """Whether this is a dict of numbers, as metrics are."""
    if not isinstance(value, Mapping) or not value:
        return False
    return all(
        v.dim() == 0 if isinstance(v, Tensor) else isinstance(v, Real) for v in value.values()
    )


def _real(name: str, value: Any) -> float:
    """A number, or a tensor with one, as a float."""
    if isinstance(value, Tensor) and value.dim() != 0:
        raise TypeError(f"objective: {name} must be a number, got shape {tuple(value.shape)}")
    try:
        if isinstance(value, str | bytes | bytearray):
            raise TypeError("float would take its text")
        return float(value.item() if isinstance(value, Tensor) else value)
    except OverflowError as error:
        raise ValueError(f"objective: {name} is beyond the largest float") from error
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"objective: {name} must be a number, got {value!r:.60}") from error


def _what(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"{type(value).__name__}: {value!r:.60}"
