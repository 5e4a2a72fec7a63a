"""The checks that find a bug before the training does, on one batch and in a second."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from companion.look.patient import MEMORIZED, Objective, Patient, is_sequence_layer
from companion.look.remedies import finding
from companion.look.report import Finding, Report
from companion.look.vitals import cut_rows, mapped, on_device, rows_of, undisturbed
from companion.train.truncated import tensors_in

__all__ = ["checkup"]

OFF = 0.2  # of the chance level: small random scores cost a few hundredths
EQUAL = 1e-4  # of the largest score: rounding in float32 is far below, a leak far above


def checkup(
    model: nn.Module,
    objective: Objective,
    batch: Any,
    *,
    chance: float | None = None,
    alone: Any = None,
    causal: bool = False,
    stateful: bool = False,
) -> Report:
    """Look for bugs before training: what must hold of any network, whatever it will learn.

    The gradient reaches each parameter; a few rows can be learned by heart; a row's scores are
    the same without its batch-mates. On demand: the loss begins at the chance level, and a change
    at the last step changes no score before it. The model stays as it is; a copy learns.

    Args:
        model: new, not trained.
        objective: as that of :class:`companion.train.Trainer`.
        batch: of it, the first tensor is the input, and is (B, T) or (B, T, ·).
        chance: loss of the best answer that ignores the input, such as log of the number of
            classes.
        alone: the last row as a batch of its own, padded as your loader pads it; by default cut
            out of the batch, with the padding that it has there.
        causal: whether scores (B, T, ·) must not know later inputs.
        stateful: whether the objective takes a state; it is given None.

    Returns:
        the findings, none if all is well.

    Raises:
        ValueError: if the batch has no row or no target, or no parameter can learn, or the
            objective does not return (loss, weight, ...), or the model cannot be copied; with
            ``causal``, if there are no scores for each step of the input.

    Example:
        >>> from companion.models import TextClassifier, classification_objective
        >>> model = TextClassifier(20, 3)
        >>> batch = torch.randint(20, (8, 5)), torch.full((8,), 5), torch.arange(8) % 3
        >>> checkup(model, classification_objective, batch, chance=1.0986)
        nothing found; looked at: gradients, a few rows learned by heart, a row alone, loss at \
the start
    """
    if chance is not None and not math.isfinite(chance):
        raise ValueError(f"chance: expected a finite number, got {chance!r}")
    if rows_of(batch) == 0:
        raise ValueError("batch: expected at least one row, got none")
    patient = Patient(model, objective, [batch], stateful)
    looked = ["gradients", "a few rows learned by heart", "a row alone"]
    found: list[Finding] = []
    seen = patient.vitals(batch)
    fault = None if math.isfinite(seen.loss) else patient.fault(batch)
    if seen.weight == 0 or (fault is not None and fault[0] == "batch without a target"):
        raise ValueError("batch: expected one with a target, got one in which nothing counts")
    # behind an output layer of zeros the gradient is 0 until its first step, and no longer
    if unreached := patient.asleep(batch, seen.unreached) if seen.unreached else []:
        evidence: dict[str, float | str] = {"parameters without one": ", ".join(unreached)}
        found.append(finding("unready", "gradient is cut", evidence))
    before, after = patient.learns(batch)
    if not after < MEMORIZED * before:
        evidence = {"loss before": before, "learned by heart": after}
        found.append(finding("unready", "not even a few rows can be learned", evidence))
    whole = _scores(patient, batch)
    if alone is None:  # the last: where time is taken for the batch, it knows the rows before it
        alone = cut_rows(batch, torch.tensor([(rows_of(batch) or 1) - 1]))
    row = _scores(patient, alone)
    if whole is not None and row is not None:
        steps = min(whole.shape[1], row.shape[1]) if whole.dim() > 2 else whole.shape[1]
        apart = _difference(whole[-1:, :steps], row[-1:, :steps])
        if apart > EQUAL:
            cause = "a row depends on its batch-mates"
            found.append(finding("unready", cause, {"scores differ by": apart}))
    if chance is not None:
        looked.append("loss at the start")
        if abs(seen.loss - chance) > OFF * abs(chance):
            evidence = {"loss": seen.loss, "by chance": chance}
            found.append(finding("unready", "loss at the start is not that of chance", evidence))
    if causal:
        looked.append("the past after a change of the future")
        apart = _leak(patient, batch, whole)
        if apart > EQUAL:
            cause = "the future leaks into the past"
            found.append(finding("unready", cause, {"scores differ by": apart}))
    return Report(tuple(found), tuple(looked))


def _scores(patient: Patient, batch: Any) -> Tensor | None:
    """What the model returns in evaluation; if only parts of it are called, its last layer."""
    caught: dict[bool, Tensor] = {}

    def keep(module: nn.Module, inputs: Any, output: Any) -> None:
        floats = (t for t in tensors_in(output) if t.is_floating_point() and t.dim() > 1)
        if (first := next(floats, None)) is not None:
            if module is not patient.model and getattr(module, "batch_first", True) is False:
                first = first.transpose(0, 1)
            caught[module is patient.model] = first

    watched = [m for m in patient.model.modules() if is_sequence_layer(m)]
    handles = [m.register_forward_hook(keep) for m in {patient.model, *watched}]
    try:
        with undisturbed(patient.model, training=False), torch.no_grad():
            patient.measure(batch)
    finally:
        for handle in handles:
            handle.remove()
    return caught.get(True, caught.get(False))


def _difference(a: Tensor, b: Tensor) -> float:
    scale = max(a.abs().max().item(), 1e-30) if a.numel() else 1.0
    return (a - b).abs().max().item() / scale if a.numel() else 0.0


def _leak(patient: Patient, batch: Any, scores: Tensor | None) -> float:
    x = next(tensors_in(on_device(patient.model, batch)))
    if scores is None or scores.dim() != 3 or scores.shape[:2] != x.shape[:2]:
        got = "none" if scores is None else str(tuple(scores.shape))
        raise ValueError(
            f"causal: expected scores (B, T, ·) for an input {tuple(x.shape)}, got {got}"
        )
    edited = x.clone()
    if x.is_floating_point():
        edited[:, -1] += 1
    else:  # another token that occurs in the batch
        tokens = x.unique()
        place = torch.searchsorted(tokens, x[:, -1].contiguous())
        edited[:, -1] = tokens[(place + 1) % len(tokens)]
    first = iter([edited])
    batch = mapped(batch, lambda t: next(first, t))
    after = _scores(patient, batch)
    assert after is not None
    return _difference(scores[:, :-1], after[:, :-1])
