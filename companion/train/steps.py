"""One step of the optimizer: what the objective measures, and the gradient that comes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from companion.train.batches import Buffers, to_device
from companion.train.checks import check_entries, checked
from companion.train.epochs import Epoch
from companion.train.history import Skipped
from companion.train.truncated import compact, tensors_in

if TYPE_CHECKING:
    from companion.train.trainer import Trainer

__all__ = ["TrainingDiverged", "measure", "take_step"]

Named = Sequence[tuple[str, Tensor]]


class TrainingDiverged(FloatingPointError):
    """Several steps in a row had a loss or gradient that is not finite."""


def take_step(trainer: Trainer, group: list[tuple[int, Any]], epoch: Epoch) -> None:
    """Take one step along the mean gradient of some batches, weighted as their losses are.

    Args:
        trainer: what is trained, and how.
        group: the batches with their numbers; in one of several processes there may be none.
        epoch: that they are of.
    """
    trainer.optimizer.zero_grad()
    before, measured, empty, fault = Buffers(trainer.model), [], [], None
    for number, batch in group:
        epoch.mean.batches += 1
        undo = before if number == group[0][0] else Buffers(trainer.model)
        loss, weight, metrics = measure(trainer, batch)
        if weight == 0:  # nothing to learn from, and a mean over nothing may be NaN
            undo.restore()
            empty.append(Skipped(epoch.number, number, "weight 0"))
            continue
        epoch.mean.usable += 1
        value = loss.item()
        if not math.isfinite(value):
            fault = Skipped(epoch.number, number, f"loss {value} is not finite")
            break
        measured.append((value, weight, metrics))
        (loss * (weight / measured[0][1])).backward()  # of one batch: exactly its own gradient
    whole, faults, skipped = trainer.processes.sums(
        sum(weight for _, weight, _ in measured), fault is not None, len(empty)
    )
    if skipped:
        trainer.history.skipped += sorted(sum(trainer.processes.gather(empty), []))
    if faults:
        return _bad_step(trainer, before, fault)
    if whole == 0:
        return
    named = trainer.named
    trainer.processes.mean_gradient(named, measured[0][1] / whole if measured else 0.0)
    if all(p.grad is None for _, p in named):
        raise ValueError(
            "objective: mean_loss has a gradient, but for no parameter that the optimizer holds; "
            "does the objective call the model that it is given?"
        )
    norm = _gradient_norm(named, to_be_clipped=trainer.clip_norm is not None)
    if not math.isfinite(norm):
        reason = f"gradient of {_culprit(named)} is not finite"
        return _bad_step(trainer, before, Skipped(epoch.number, epoch.read, reason))
    if trainer.clip_norm is not None:
        nn.utils.clip_grad_norm_(trainer.parameters, trainer.clip_norm)
    trainer.optimizer.step()
    if trainer.step_scheduler is not None:
        trainer.step_scheduler.step()
    trainer.processes.spread(trainer.model.buffers())
    trainer._bad.clear()
    trainer.history.grad_norm.append(norm)
    for entry in measured:
        epoch.mean.add(*entry)


def measure(trainer: Trainer, batch: Any) -> tuple[Tensor, float, dict[str, float]]:
    """Call the objective, carry its state on, and check what it returns.

    Args:
        trainer: with the objective.
        batch: as it was read.

    Returns:
        mean loss, weight, and metrics.
    """
    batch, before = to_device(batch, trainer.device), trainer._state
    given = (batch, before) if trainer.stateful else (batch,)
    shapes = [tuple(t.shape) for t in tensors_in(batch)] if trainer.stateful else None
    try:
        with _precision(trainer):
            result = trainer.objective(trainer.model, *given)
    except (IndexError, RuntimeError, ValueError) as error:
        if before is not None and trainer._shapes not in (None, shapes):
            error.add_note(
                f"The state given here is that after a batch of shapes {trainer._shapes}; this "
                f"batch has {shapes}. If it has fewer rows, pick the state's that go on with "
                "companion.train.state_rows, or leave it out (drop_last=True)."
            )
        raise
    check_entries(result, trainer.stateful)
    if trainer.stateful:
        result, trainer._state = result[:-1], compact(result[-1])
    loss, weight, metrics = checked(*result)
    if weight == 0 and any(bool(t.isnan().any()) for t in tensors_in(trainer._state)):
        trainer._state = before  # a mean over nothing is NaN, and so may be what it led to
    else:
        trainer._shapes = shapes
    return loss, weight, metrics


def _precision(trainer: Trainer) -> AbstractContextManager[Any]:
    if trainer.precision == "full":
        return nullcontext()
    return torch.autocast(trainer.device.type, torch.bfloat16)


def _bad_step(trainer: Trainer, before: Buffers, fault: Skipped | None) -> None:
    """Undo a step that is not finite, record it, stop after several."""
    fault = min(filter(None, trainer.processes.gather(fault)))
    trainer._state = None  # what led to this step may be in it
    trainer._bad.append(fault.reason.removesuffix(" is not finite"))
    trainer.history.skipped.append(fault)
    trainer.optimizer.zero_grad()
    before.restore()
    if len(trainer._bad) >= trainer.max_bad_steps:
        reasons, trainer._bad = trainer._bad, []
        raise TrainingDiverged(_explanation(trainer, reasons, fault))


def _gradient_norm(named: Named, *, to_be_clipped: bool) -> float:
    """Return the 2-norm of the whole gradient, 0 if there is none.

    Args:
        named: parameters with their names.
        to_be_clipped: whether a gradient that torch cannot clip is an error.

    Raises:
        TypeError: if it is to be clipped, and one is sparse.
    """
    for name, p in named:
        if to_be_clipped and p.grad is not None and p.grad.is_sparse:
            raise TypeError(
                f"clip_norm: the gradient of {name} is sparse, which torch cannot clip; "
                "take clip_norm=None, or make the layer with sparse=False"
            )
    gradients = [p.grad for _, p in named if p.grad is not None]
    norms = [torch.linalg.vector_norm(_dense(g)).to(gradients[0].device) for g in gradients]
    return torch.linalg.vector_norm(torch.stack(norms)).item() if norms else 0.0


def _culprit(named: Named) -> str:
    """Name the first parameter whose gradient is not finite, looked at before clipping."""
    for name, parameter in named:
        if parameter.grad is not None and not _dense(parameter.grad).isfinite().all():
            return name
    return "all parameters together (its norm overflows)"


def _explanation(trainer: Trainer, reasons: Sequence[str], last: Skipped) -> str:
    """Say why a run was stopped, and what may help."""
    norms = trainer.history.grad_norm
    weights = [
        name for name, parameter in trainer.named if not parameter.detach().isfinite().all()
    ]
    return (
        f"{len(reasons)} steps in a row were not finite, the last in epoch {last.epoch}, batch "
        f"{last.batch}. First of them: {reasons[0]}. Gradient norm of the last good step: "
        f"{f'{norms[-1]:.3g}' if norms else 'there was none'}. Parameters: "
        f"{f'{weights[0]} is not finite' if weights else 'all finite'}. Try a smaller learning "
        f"rate (now {trainer.optimizer.param_groups[0]['lr']:g}), clip_norm (now "
        f"{trainer.clip_norm}), and look for NaN or inf in the batch and for log(0), division by "
        "0 or an overflowing exp in the model or objective."
    )


def _dense(gradient: Tensor) -> Tensor:
    return gradient.coalesce().values() if gradient.is_sparse else gradient
