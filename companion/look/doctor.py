"""What ails a training run, told from its history and from measurements on a few batches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from torch import nn

from companion.look.patient import LEARN_RATE, MEMORIZED, Objective, Patient, Vitals
from companion.look.remedies import finding
from companion.look.report import Finding, Report
from companion.look.symptoms import constant, long_dependency, memory_full, slow_steps
from companion.look.vitals import rows_of

if TYPE_CHECKING:
    from companion.train.history import History

__all__ = ["doctor"]

FEW_EPOCHS = 3  # two points have no shape
LAST_STEPS = 5  # max_bad_steps of the trainer: after so many it stops
EXPLODED = 100.0  # gradient norms of a healthy run spread over a factor of ten or so
LEARNED = 0.05  # of the chance level: a network that learns is soon further below it
SOME = 0.8  # of the chance level: a bad beginning is forgiven to a run that has come below it
RISEN = 0.1  # of the loss at the start: more than a restless epoch
RESTLESS = 2.0  # times a rise from which the loss has come back
OVERFITTED = 0.05  # relative rise of the validation loss above its best
STILL_FALLING = 0.02  # of the loss at the start, within the last third of the epochs
BATCHES = 8  # enough to see whether all predictions are one

Evidence = dict[str, float | str]


def doctor(
    history: History | None = None,
    *,
    model: nn.Module | None = None,
    objective: Objective | None = None,
    batches: Iterable[Any] | None = None,
    stateful: bool = False,
    chance: float | None = None,
    baseline: float | None = None,
    lag: int | None = None,
    slow: bool = False,
    memory: int | None = None,
) -> Report:
    """Say what ails a training run, as far as measurements tell.

    From the history alone: a loss that is not finite, a training loss that rises, a validation
    loss that rises while training goes on. With ``chance``: that nothing was learned. With model,
    objective and batches: why. What cannot be seen is not guessed at; the report names what was
    looked at. Whether padding is read is looked at only where one class has all but a hundredth
    of the predictions: a network that remembers may read it and do well enough to hide it.

    Args:
        history: of the run; None: only the model is looked at.
        model, objective, batches: what was trained, as it is now, what it was trained by, and
            batches such as those of training; given together. The first few batches are read; all,
            if the loss was not finite. The model is afterwards as it was, its gradients included.
        stateful: whether the objective takes a state; it is given None.
        chance: loss of the best answer that ignores the input, such as the logarithm of the number
            of classes, or the variance of what is forecast.
        baseline: validation loss of a simple method that a network should beat.
        lag: how many steps the network has to remember.
        slow: whether you find it slow: then some steps are timed.
        memory: bytes there are for what the forward pass keeps.

    Returns:
        the findings, none if the run is well.

    Raises:
        ValueError: if nothing is given, or only some of model, objective and batches, or what
            needs them without them, or there is no batch, or they can be read only once; if a
            number makes no sense, no parameter can learn, the objective does not return
            (loss, weight, ...), or the model cannot be copied.

    Example:
        >>> from companion.train import History
        >>> doctor(History(train_loss=[1.0, 0.6, 0.3, 0.1], valid_loss=[0.9, 0.8, 1.0, 1.4]))
        validation loss does not fall: overfitting
          measured: best epoch 2, validation then 0.8, now 1.4, training then 0.6, \
training now 0.1
          try: stop early (EarlyStopping); dropout, weight decay; more data, or changed examples
          read: training
        >>> doctor(History(train_loss=[1.0, 0.6, 0.5], valid_loss=[0.9, 0.6, 0.6]))
        nothing found; looked at: losses of 3 epochs
    """
    _check_numbers(lag, memory, chance=chance, baseline=baseline)
    patient = _patient(history, model, objective, batches, stateful)
    for name, wish in {"lag": lag, "slow": slow or None, "memory": memory}.items():
        if wish is not None and patient is None:
            raise ValueError(f"{name}: needs model, objective and batches to measure on")
    looked: list[str] = []
    if history is not None:
        looked.append(f"losses of {len(history)} epochs")
        looked += [f"{len(history.grad_norm)} gradient norms"] if history.grad_norm else []
        if found := _not_finite(history, patient, chance) or _rises(history, chance):
            return Report(tuple(found), tuple(looked))
    if patient is None:
        return Report(tuple(_flat(history, chance, baseline)), tuple(looked))
    few = list(islice(patient.batches, BATCHES))
    if not few:
        raise ValueError("batches: expected at least one batch, got none")
    if any(rows_of(batch) == 0 for batch in few):
        raise ValueError("batches: expected at least one row in each, got a batch of none")
    seen = [patient.vitals(batch) for batch in few]
    looked.append(f"scores and gradients on {len(few)} batch{'es' if len(few) > 1 else ''}")
    found = []
    if lag is not None:
        looked.append(f"memory over {lag} steps")
        # what has learned its task remembers enough, whatever its Jacobians say
        able = history is not None and chance is not None and _learned(history, chance)
        found += [] if able else long_dependency(seen[0], lag)
    known_loss = history is not None and chance is not None  # else it may be of any kind
    same = constant(seen, _lowest(history) if known_loss else math.inf)  # type: ignore[arg-type]
    known = [f for f in same if f.cause != "one class wins everywhere"]
    found = found or known
    found = found or _flat(history, chance, baseline, lambda: _why(patient, few[0], seen))
    if history is not None:  # weights that were just drawn may well prefer a class
        found = found or same
    if slow:
        looked.append("the time of a step")
        found += slow_steps(patient, seen[0], history)
    if memory is not None:
        looked.append("what a step keeps in memory")
        found += memory_full(patient, few[0], seen[0], memory)
    return Report(tuple(found), tuple(looked))


def _check_numbers(lag: Any, memory: Any, **losses: Any) -> None:
    for name, value in {"lag": lag, "memory": memory}.items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and value > 0):
            raise ValueError(f"{name}: expected a whole number above 0, got {value!r}")
    for name, value in losses.items():
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{name}: expected a finite number, got {value!r}")


def _patient(history: Any, model: Any, objective: Any, batches: Any, stateful: bool) -> Any:
    if history is not None and not hasattr(history, "train_loss"):
        raise ValueError(f"history: expected a History, got a {type(history).__name__}")
    if isinstance(batches, Iterator):  # they are read more than once
        raise ValueError(f"batches: expected a list or a loader, got a {type(batches).__name__}")
    parts = {"model": model, "objective": objective, "batches": batches}
    missing = [name for name, part in parts.items() if part is None]
    if len(missing) not in (0, 3) or (missing and history is None):
        raise ValueError(
            "doctor: expected a history, or model, objective and batches together, or both; "
            f"without a value: {', '.join(missing)}{'' if history else ', history'}"
        )
    return None if missing else Patient(model, objective, batches, stateful)


def _start(history: History, chance: float | None) -> float:
    """The loss that a run began with."""
    finite = [loss for loss in history.train_loss if math.isfinite(loss)]
    return max(abs(chance or 0.0), abs(finite[0]) if finite else 0.0)


def _learned(history: History, chance: float) -> bool:
    return _lowest(history) < chance - LEARNED * abs(chance)


def _lowest(history: History) -> float:
    return min((v for v in history.train_loss if math.isfinite(v)), default=math.inf)


def _not_finite(history: History, patient: Patient | None, chance: Any) -> list[Finding]:
    """A loss or gradient that is not finite: in which batches, or after what gradients."""
    bad = [s for s in history.skipped if "not finite" in s.reason]
    if not bad and all(map(math.isfinite, history.train_loss)):
        return []
    evidence: Evidence = {"steps skipped": float(len(bad))}
    if bad:
        evidence["first"] = f"epoch {bad[0].epoch}, batch {bad[0].batch}: {bad[0].reason}"
    guilty: dict[tuple[str, str], list[int]] = {}
    for number, batch in enumerate(patient.batches if patient else (), 1):
        if (fault := patient.fault(batch)) is not None:  # type: ignore[union-attr]
            guilty.setdefault(fault, []).append(number)
    data = [fault for fault in guilty if fault[0] in ("bad data", "batch without a target")]
    grown = _growth(history)
    if not guilty and patient and any(map(patient.explodes, islice(patient.batches, BATCHES))):
        grown = grown or {}
    if not data and grown is not None:
        return [finding("not finite", "exploding gradient", {**evidence, **grown})]
    for cause, where in [*data, *guilty][:1]:
        numbers = guilty[cause, where]
        evidence["batches"] = ", ".join(map(str, numbers[:5])) + (" …" if numbers[5:] else "")
        evidence |= {"where": where} if where else {}
        return [finding("not finite", cause, evidence)]
    if not bad and math.isfinite(history.train_loss[-1]):
        return []  # an epoch without a loss that left no trace: the weights are well
    if risen := _rises(history, chance):
        return [finding("not finite", risen[0].cause, {**evidence, **risen[0].evidence})]
    return [finding("not finite", "unknown", evidence)]


def _growth(history: History) -> Evidence | None:
    """The gradient's norm before the end of a run, if it has left its usual size behind."""
    norms = [norm for norm in history.grad_norm if math.isfinite(norm)]
    if len(norms) < 2:
        return None
    last = min(LAST_STEPS, len(norms) // 2)
    calm, peak = statistics.median(norms[:-last]), max(norms[-last:])
    return {"usual gradient norm": calm, "at the end": peak} if peak > EXPLODED * calm else None


def _rises(history: History, chance: float | None) -> list[Finding]:
    """A loss that goes up on the very data it is trained on."""
    losses = [v for v in history.train_loss if math.isfinite(v)]
    if len(losses) < FEW_EPOCHS:
        return []
    start = _start(history, chance)
    lowest, now, rise = min(losses), losses[-1], RISEN * start
    above = chance is not None and max(losses[0], now) > chance + rise
    settled = now < start / 2 and math.isfinite(history.train_loss[-1])
    noise = settled and _restless(losses, rise)
    if (now < lowest + rise or noise) and not (above and now > SOME * chance):  # type: ignore[operator]
        return []
    evidence: Evidence = {"training loss, first": losses[0], "lowest": lowest, "now": now}
    evidence |= {} if chance is None else {"by chance": chance}
    evidence |= {"learning rate": history.learning_rate[-1]} if history.learning_rate else {}
    return [finding("rises", "rate too high", evidence)]


def _restless(losses: Sequence[float], rise: float) -> bool:
    """Whether the last rise is of one epoch, or much like one from which the loss came back."""
    excess = [loss - min(losses[: e + 1]) for e, loss in enumerate(losses)]
    if excess[-2] < rise:
        return True
    back = max(e for e, above in enumerate(excess) if above < rise)  # the first one's is 0
    return excess[-1] < RESTLESS * max(excess[: back + 1])


def _flat(
    history: History | None,
    chance: float | None,
    baseline: float | None,
    why: Callable[[], tuple[str | None, Evidence]] | None = None,
) -> list[Finding]:
    """Nothing learned, overfitted, or not as good as something simple."""
    if history is None or len(history) < FEW_EPOCHS:
        return []
    train, valid, start = history.train_loss, history.valid_loss, _start(history, chance)
    if chance is not None and not _learned(history, chance):
        evidence: Evidence = {"training loss": train[-1], "by chance": chance}
        evidence |= {"learning rate": history.learning_rate[-1]} if history.learning_rate else {}
        cause, more = why() if why else ("nothing learned", {})
        fallen = train[0] - train[-1] > STILL_FALLING * start
        if cause is None and fallen and len(valid) == len(train) and valid[-1] > valid[0]:
            cause = "targets do not follow from inputs"  # learned by heart, and to no avail
        rate = history.learning_rate[-1] if history.learning_rate else math.inf
        if cause is None and rate < LEARN_RATE / 10 and all(b < a for a, b in pairwise(train)):
            cause = "rate too low"  # it falls, gets nowhere, and a larger one learns
        return [finding("flat", cause or "nothing learned", {**evidence, **more})]
    measured = {e: v for e, v in enumerate(valid[: len(train)]) if math.isfinite(v)}
    if len(measured) < FEW_EPOCHS:
        return []
    best, last = min(measured, key=lambda e: measured[e]), max(measured)
    rise = valid[last] - valid[best]
    if rise > max(OVERFITTED * abs(valid[best]), STILL_FALLING * start) and (
        train[last] < train[best]
    ):
        evidence = {"best epoch": best + 1, "validation then": valid[best], "now": valid[last]}
        evidence |= {"training then": train[best], "training now": train[last]}
        vain = chance is not None and valid[best] > chance - LEARNED * abs(chance)
        cause = "targets do not follow from inputs" if vain else "overfitting"
        return [finding("flat", cause, evidence)]
    if baseline is not None and valid[best] > baseline and train[-1] > baseline:
        third = max(len(train) // 3, 1)
        falling = train[-1 - third] - train[-1] > STILL_FALLING * start
        evidence = {"training": train[-1], "validation": valid[last], "baseline": baseline}
        return [finding("flat", "not finished" if falling else "underfitting", evidence)]
    return []


def _why(patient: Patient, batch: Any, seen: Sequence[Vitals]) -> tuple[str | None, Evidence]:
    """Why nothing was learned: the gradient is cut, or a few rows cannot be learned by heart."""
    if unreached := [n for n in seen[0].unreached if all(n in v.unreached for v in seen)]:
        return "gradient is cut", {"parameters without one": ", ".join(unreached)}
    before, after = patient.learns(batch)
    evidence: Evidence = {"a few rows, before": before, "learned by heart": after}
    if not after < MEMORIZED * before:
        return "not even a few rows can be learned", evidence
    return None, evidence
