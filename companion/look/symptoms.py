"""Symptoms that are measured on a model: one answer to everything, forgetting, time, memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from companion.look.flow import gradient_flow
from companion.look.patient import Patient, Vitals
from companion.look.remedies import finding
from companion.look.report import Finding
from companion.look.vitals import cut_rows, rows_of, saved_bytes, seconds_of, undisturbed

__all__ = ["constant", "long_dependency", "memory_full", "slow_steps"]

Evidence = dict[str, float | str]

ONE_CLASS = 0.99  # share of one class among the predictions
LEARNED = 0.95  # of the loss of somebody who knows the shares of the classes and no more
MAJORITY = 0.6  # a class so frequent that to name it always is a tempting answer
SATURATED, MOST = 0.95, 0.9  # |tanh| at which its slope is below 0.1; and of so many outputs
SAME = 1e-2  # spread of the scores between rows, for each unit of their spread within one
PADDING = 0.5  # share of steps at the end that hold one and the same vector
TOLD = 0.8  # of the rows in other classes than the largest: whoever errs in fewer tells them apart
VANISHED = 1e-3  # what a perturbation leaves behind; a round number, not a measured one
REACH = 1e-2  # the effective memory ends where a hundredth is left
WAITING = 0.5  # share of a step's time spent on fetching its batch
DENORMAL, COSTLY = 0.01, 1.25  # share of the numbers, and what they add to the time
LOOP, LOOP_STEPS = 4, 16  # operations for each step of time, over so many steps: a Python loop
WIDER, HARDLY = 4, 2.0  # so many times the rows, and less than so many times the time


def constant(seen: Sequence[Vitals], lowest: float = math.inf) -> list[Finding]:
    """One class for everything, though there are several to be told apart.

    Where most rows are of that class, a network may be right in it: it is, if it finds some of the
    others, or if its ``lowest`` loss is below that of the classes' shares.
    """
    rated = [v for v in seen if v.scores is not None and v.target is not None]
    rated = [v for v in rated if not v.target.is_floating_point()]  # type: ignore[union-attr]
    if not rated:
        return []
    scores = torch.cat([v.scores.flatten(0, -2) for v in rated])  # type: ignore[union-attr]
    target = torch.cat([v.target.flatten() for v in rated])  # type: ignore[union-attr]
    scores, target = scores[target >= 0], target[target >= 0]  # -100: to be ignored
    if not len(target) or not bool((target != target[0]).any()) or not scores.isfinite().all():
        return []
    predicted = scores.argmax(-1)
    favorite = predicted.mode().values
    share = (predicted == favorite).double().mean().item()
    if share < ONE_CLASS:
        return []
    majority = (target == target.mode().values).double().mean().item()
    spread = scores.std(0).mean().item() / max(scores.mean(0).std().item(), 1e-30)
    evidence: Evidence = {
        "share of one class, predicted": share,
        "largest share, true": majority,
        "spread of the scores between rows": spread,
    }
    read = _padding_read(seen[0])
    y = seen[0].y
    saturated = 0.0 if y is None else (y.abs() > SATURATED).double().mean().item()
    if read > PADDING:
        cause = "padding in the last state"
        evidence["steps of padding that are read"] = read
    elif saturated > MOST:
        cause = "saturation"
        evidence["outputs at their limit"] = saturated
    elif majority > MAJORITY and bool(favorite == target.mode().values):
        cause = "unbalanced classes"
        shares = target.unique(return_counts=True)[1].double() / len(target)
        errors = (predicted != target).double().mean().item()
        learned = lowest < LEARNED * -(shares * shares.log()).sum().item()
        if learned or errors < TOLD * (1 - majority):
            return []
    else:
        cause = "inputs make no difference" if spread < SAME else "one class wins everywhere"
    return [finding("constant", cause, evidence)]


def _padding_read(seen: Vitals) -> float:
    """Mean share of steps at the end that hold one vector and still get a gradient."""
    if seen.x is None or seen.x_grad is None or seen.x.shape[1] < 2:
        return 0.0
    same = (seen.x == seen.x[:, -1:]).all(-1)  # (B, T)
    run = same.flip(1).long().cumprod(1)  # 1 as long as nothing else has come
    run[run.sum(1) == 1] = 0  # the last step is like itself
    read = seen.x_grad.abs().sum(-1).flip(1) > 0
    return (run * read).double().mean().item()


def long_dependency(seen: Vitals, lag: int) -> list[Finding]:
    """What has happened to a perturbation of the state after so many steps."""
    if seen.layer is None or seen.x is None:
        return []
    if seen.x.shape[1] <= lag:
        evidence: Evidence = {"steps in a batch": seen.x.shape[1], "to remember": lag}
        return [finding("lag", "pieces too short", evidence)]
    layer: Any = seen.layer
    if isinstance(layer, nn.RNNBase):
        from companion import from_torch  # not at the top: what is above look imports it

        layer = from_torch(layer)
    if not hasattr(layer, "step") or getattr(layer, "bidirectional", False):
        return []
    norms = gradient_flow(layer, seen.x[0, -lag - 1 :]).state.flip(0)  # by lag, from 0
    kept = norms[lag].item()
    reach = int((norms >= REACH).nonzero().max())
    if kept >= VANISHED:
        return []
    evidence = {"steps to remember": lag, "left of the state then": kept}
    return [finding("lag", "vanishing gradient", {**evidence, "effective memory": reach})]


def slow_steps(patient: Patient, seen: Vitals, history: Any) -> list[Finding]:
    """Where the time of a step goes: fetching, numbers near 0, a loop, or rows too few."""
    model, batches = patient.model, patient.batches
    few = list(itertools.islice(batches, 4))
    fetch = seconds_of(lambda: list(itertools.islice(batches, len(few)))) / len(few)
    rows, many = rows_of(few[0]), math.inf
    parameters = [p for p in model.parameters() if p.requires_grad]

    def step(batch: Any) -> None:
        torch.autograd.grad(patient.measure(batch)[0], parameters, allow_unused=True)

    with undisturbed(model, training=True), torch.enable_grad():
        one = seconds_of(lambda: step(few[0]))
        flushed = one
        if seen.denormal > DENORMAL:  # so they are not flushed yet
            torch.set_flush_denormal(True)
            try:
                flushed = seconds_of(lambda: step(few[0]))
            finally:
                torch.set_flush_denormal(False)
        if rows:
            wide = cut_rows(few[0], torch.arange(rows).repeat(WIDER))
            many = seconds_of(lambda: step(wide))
    T = 0 if seen.x is None else seen.x.shape[1]
    causes: dict[str, Evidence] = {}
    if fetch > WAITING * (fetch + one):
        causes["waiting for data"] = {"seconds to fetch a batch": fetch}
    if one > COSTLY * flushed:  # some processors do not mind them
        numbers: Evidence = {"share of the numbers": seen.denormal, "time if flushed": flushed}
        causes["denormal numbers"] = numbers
    if T >= LOOP_STEPS and seen.nodes > LOOP * T:
        causes["Python loop over time"] = {"operations for a step of time": seen.nodes / T}
    if many < HARDLY * one:
        causes["batches too small"] = {f"time of {WIDER} times the rows": many / one}
    common: Evidence = {"seconds for a step": one}
    if history is not None and history.seconds and history.grad_norm:
        common["in the run"] = sum(history.seconds) / len(history.grad_norm)
    return [finding("slow", cause, {**common, **numbers}) for cause, numbers in causes.items()]


def memory_full(patient: Patient, batch: Any, seen: Vitals, limit: int) -> list[Finding]:
    """What the forward pass keeps, and how it grows with the steps."""
    kept = saved_bytes(patient.model, lambda: patient.measure(batch))
    if kept <= limit:
        return []
    evidence: Evidence = {"bytes kept by a step": kept, "there are": limit}
    if seen.layer is None or seen.x is None or (T := seen.x.shape[1]) < 2:
        return [finding("memory", "too much at once", evidence)]
    whole, half = (_layer_bytes(seen.layer, x) for x in (seen.x, seen.x[:, : T // 2]))
    slope = (whole - half) / (T - T // 2)
    evidence |= {"for a step of time": slope, "steps of time": T}
    cause = "memory grows with the steps" if slope * T > kept / 2 else "too much at once"
    return [finding("memory", cause, evidence)]


def _layer_bytes(layer: nn.Module, x: Tensor) -> int:
    x = x.transpose(0, 1) if getattr(layer, "batch_first", True) is False else x
    return saved_bytes(layer, lambda: layer(x.detach().requires_grad_()))
