"""A training loop in one screen, with the checks that save an evening."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from companion.reproduce import seed_all
from companion.train.batches import Average, Buffers, modes, to_device
from companion.train.checks import check_entries, check_fit, check_options, check_parts, checked
from companion.train.history import History, Skipped
from companion.train.truncated import detached, tensors_in

__all__ = ["Trainer", "TrainingDiverged"]

Objective = Callable[[nn.Module, Any], tuple[Any, ...]]


class TrainingDiverged(FloatingPointError):
    """Several steps in a row had a loss or gradient that is not finite."""


class Trainer:
    """Train a model: ``Trainer(model, objective, optimizer).fit(train, valid, epochs)``.

    A step whose loss or gradient is not finite is skipped and recorded: when the norm is clipped,
    one infinite entry would otherwise become NaN and every other 0, and one NaN would make all
    of them NaN. A skipped step leaves parameters and buffers (the statistics of ``BatchNorm``) as
    they were before it. Several that are not finite in a row stop the run with an explanation.

    Args:
        model: any module. While training, all of it is in training mode, parts that were put into
            evaluation mode before included; afterwards each part is in its mode again. To keep a
            part in evaluation mode, call its ``eval()`` in the objective.
        objective: ``objective(model, batch)`` returns ``(mean_loss, weight)`` or
            ``(mean_loss, weight, {"metric": mean_value})``. The loss is a number with gradient;
            the weight is the number of tokens (or examples) that the means are over. Averages
            over batches are weighted by it. A batch of weight 0 is skipped. No metric may be named
            ``"loss"`` or ``""``.
        optimizer: over the model's parameters.
        scheduler: stepped once an epoch; ``ReduceLROnPlateau`` is given the validation loss
            (the training loss, if there is no validation data).
        clip_norm: largest 2-norm of the whole gradient; longer ones are scaled down to it. torch
            cannot do that with sparse gradients: one is a ``TypeError`` at its step.
        device: the model and the batches are moved there; by default where the model is.
        max_bad_steps: so many steps in a row that are not finite stop the run.
        progress: show a bar; by default in a terminal and in Jupyter, unless the environment
            variable ``COMPANION_PROGRESS`` is 0.
        seed: if given, seeds all generators at the start of each ``fit``; 0 ≤ seed < 2**32.
        stateful: truncated backpropagation through time. The objective is called as
            ``objective(model, batch, state)`` and returns the new state last:
            ``(mean_loss, weight, state)`` or ``(mean_loss, weight, metrics, state)``. The state is
            ``None`` at the start of each pass over the batches, and carried to the next batch
            without its history (:func:`companion.train.detached`), also past a batch of weight 0,
            unless the state that this batch returns holds NaN: then the one before it is kept.
            After a step that is not finite it is ``None`` again. A third of three entries
            that is a dict of numbers is taken for metrics whose state was forgotten, an error: a
            state of that form needs the metrics, if only ``{}``, before it.

    Raises:
        TypeError, ValueError: if an argument cannot be used.

    Example:
        >>> seed_all(0)
        >>> model = nn.Linear(1, 1)
        >>> def objective(model, batch):
        ...     x, y = batch
        ...     return nn.functional.mse_loss(model(x), y), len(x)
        >>> x = torch.linspace(-1, 1, 20)[:, None]
        >>> sgd = torch.optim.SGD(model.parameters(), lr=0.5)
        >>> Trainer(model, objective, sgd).fit([(x, 3 * x + 1)], epochs=30)
        History(30 epochs, 30 steps, 0 skipped)
        >>> round(model.weight.item(), 2), round(model.bias.item(), 2)
        (3.0, 1.0)
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        *,
        scheduler: Any = None,
        clip_norm: float | None = None,
        device: torch.device | str | None = None,
        max_bad_steps: int = 5,
        progress: bool | None = None,
        seed: int | None = None,
        stateful: bool = False,
    ) -> None:
        check_parts(model, objective, optimizer, scheduler)
        check_options(clip_norm, max_bad_steps, progress, seed, stateful)
        if device is not None:
            model.to(device)  # keeps the Parameter objects that the optimizer holds
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if not any(id(parameter) in names for parameter in self.parameters):
            raise ValueError("optimizer holds no parameter of model; was it made for another?")
        self.names = [names.get(id(p), f"parameter {n}") for n, p in enumerate(self.parameters)]
        self.model, self.objective, self.optimizer = model, objective, optimizer
        self.scheduler, self.clip_norm = scheduler, clip_norm
        self.device = torch.device(device) if device is not None else self.parameters[0].device
        self.max_bad_steps, self.progress, self.seed = max_bad_steps, progress, seed
        self.stateful, self._state = stateful, None
        self.history = History()
        self._bad: list[str] = []  # reasons of the bad steps in a row up to now
        self._before: Buffers | None = None  # while training: buffers before the batch

    def fit(
        self, train: Iterable[Any], valid: Iterable[Any] | None = None, epochs: int = 1
    ) -> History:
        """Train for some epochs; a second call goes on, in the same history.

        If an error breaks off an epoch, the epoch is not in the history, though its steps were
        taken and ``grad_norm`` has them; if it comes in the validation, the epoch is there
        without one.

        Args:
            train: batches, iterated once an epoch (a list, a ``DataLoader`` …).
            valid: batches for :meth:`evaluate` at the end of each epoch.
            epochs: passes over ``train``.

        Returns:
            the history of this trainer.

        Raises:
            TrainingDiverged: after ``max_bad_steps`` steps in a row that are not finite.
            ValueError: if there is no batch, or a one-shot iterator is to be read twice.
            TypeError: if ``train`` cannot be iterated, or ``epochs`` is no whole number.

        Example:
            >>> seed_all(0)
            >>> model, x = nn.Linear(1, 1), torch.linspace(-1, 1, 8)[:, None]
            >>> sgd = torch.optim.SGD(model.parameters(), lr=0.5)
            >>> def objective(model, x):
            ...     return (model(x) - 2 * x).square().mean(), len(x)
            >>> history = Trainer(model, objective, sgd).fit([x[:6]], [x[6:]], epochs=3)
            >>> len(history.train_loss), len(history.valid_loss), history.best()[0]
            (3, 3, 3)
        """
        check_fit(train, valid, epochs)
        if self.seed is not None:
            seed_all(self.seed)
        history, last = self.history, len(self.history) + epochs
        for epoch in range(len(history) + 1, last + 1):
            start, steps = time.perf_counter(), len(history.grad_norm)
            rate = float(self.optimizer.param_groups[0]["lr"])
            try:
                mean = self.train_epoch(_bar(train, f"epoch {epoch}/{last}", self.progress))
            finally:
                self._state = self._before = None  # the epoch is over; they hold memory
            # entered before the validation: the steps are taken, even if that fails
            history.train_loss.append(mean.loss)
            history.add_metrics(history.train_metrics, mean.metrics)
            history.learning_rate.append(rate)
            history.seconds.append(time.perf_counter() - start)
            validation = None
            if valid is not None:
                validation = self.evaluate(valid)
                history.add_validation(validation.loss, validation.metrics)
                history.seconds[-1] = time.perf_counter() - start
            if self.scheduler is not None and len(history.grad_norm) > steps:
                if isinstance(self.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                    self.scheduler.step((validation or mean).loss)
                else:
                    self.scheduler.step()
        return history

    def train_epoch(self, batches: Iterable[Any]) -> Average:
        """Take one step for each batch; return the weighted means of loss and metrics."""
        mean, self._state = Average(), None
        with modes(self.model, training=True):
            for batch in batches:
                mean.batches += 1
                self.optimizer.zero_grad()
                loss, weight, metrics = self._measure(to_device(batch, self.device))
                if weight == 0:  # nothing to learn from, and a mean over nothing may be NaN
                    self._skip(mean.batches, "weight 0")
                    continue
                mean.usable += 1
                if not loss.isfinite():
                    self._bad_step(mean.batches, f"loss {loss.item()}")
                    continue
                loss.backward()
                norm = self._gradient_norm()
                if not math.isfinite(norm):
                    self._bad_step(mean.batches, f"gradient of {self._culprit()}")
                    continue
                if self.clip_norm is not None:
                    nn.utils.clip_grad_norm_(self.parameters, self.clip_norm)
                self.optimizer.step()
                self._bad.clear()
                self.history.grad_norm.append(norm)
                mean.add(loss.item(), weight, metrics)
        return mean.checked("train")

    def evaluate(self, batches: Iterable[Any]) -> Average:
        """Return the weighted means over some batches: no gradient, no dropout, no change.

        Args:
            batches: what ``fit`` takes; iterated once.

        Returns:
            the means: ``loss``, and ``metrics``, a dict. Batches of weight 0 do not count.

        Raises:
            TypeError, ValueError: if the objective returns something else than it should.
            ValueError: if there is no batch, or all have weight 0.

        Example:
            >>> model = nn.Linear(1, 1)
            >>> sgd = torch.optim.SGD(model.parameters(), lr=0.5)
            >>> trainer = Trainer(model, lambda m, x: (m(x).square().mean(), len(x)), sgd)
            >>> trainer.evaluate([torch.ones(4, 1)]).loss >= 0
            True
        """
        mean, training = Average(), (self._state, self._before)  # of an epoch under way
        self._state = None
        try:
            with modes(self.model, training=False), torch.no_grad():
                for batch in batches:
                    mean.batches += 1
                    loss, weight, metrics = self._measure(to_device(batch, self.device))
                    if weight > 0:
                        mean.usable += 1
                        mean.add(loss.item(), weight, metrics)
        finally:
            self._state, self._before = training
        return mean.checked("valid")

    def _measure(self, batch: Any) -> tuple[Tensor, float, dict[str, float]]:
        """Call the objective and check what it returns."""
        self._before = Buffers(self.model) if torch.is_grad_enabled() else None
        given = (batch, self._state) if self.stateful else (batch,)
        result = self.objective(self.model, *given)
        check_entries(result, self.stateful)
        before = self._state
        if self.stateful:
            result, self._state = result[:-1], detached(result[-1])
        loss, weight, metrics = checked(*result)
        if weight == 0 and any(bool(t.isnan().any()) for t in tensors_in(self._state)):
            self._state = before  # a mean over nothing is NaN, and so may be what it led to
        return loss, weight, metrics

    def _gradient_norm(self) -> float:
        """Return the 2-norm of the whole gradient, 0 if there is none."""
        for name, p in zip(self.names, self.parameters, strict=True):
            if self.clip_norm is not None and p.grad is not None and p.grad.is_sparse:
                raise TypeError(
                    f"clip_norm: the gradient of {name} is sparse, which torch cannot clip; "
                    "take clip_norm=None, or make the layer with sparse=False"
                )
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norms = [torch.linalg.vector_norm(_dense(g)).to(self.device) for g in gradients]
        return torch.linalg.vector_norm(torch.stack(norms)).item() if norms else 0.0

    def _culprit(self) -> str:
        """Name the first parameter whose gradient is not finite, looked at before clipping."""
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if parameter.grad is not None and not _dense(parameter.grad).isfinite().all():
                return name
        return "all parameters together (its norm overflows)"

    def _skip(self, batch: int, reason: str) -> None:
        """Record a batch that takes no step, and undo what it did to the buffers."""
        if self._before is not None:
            self._before.restore()
        self.history.skipped.append(Skipped(len(self.history) + 1, batch, reason))

    def _bad_step(self, batch: int, reason: str) -> None:
        """Record a step that is not finite, leave no gradient behind, stop after several."""
        self._bad.append(reason)
        self._state = None  # what led to this step may be in it
        self._skip(batch, f"{reason} is not finite")
        self.optimizer.zero_grad()
        if len(self._bad) < self.max_bad_steps:
            return
        first, count = self._bad[0], len(self._bad)
        self._bad.clear()
        weights = [
            name
            for name, parameter in zip(self.names, self.parameters, strict=True)
            if not parameter.detach().isfinite().all()
        ]
        norms = self.history.grad_norm
        raise TrainingDiverged(
            f"{count} steps in a row were not finite, the last in epoch "
            f"{len(self.history) + 1}, batch {batch}. First of them: {first}. Gradient norm of "
            f"the last good step: {f'{norms[-1]:.3g}' if norms else 'there was none'}. "
            f"Parameters: {f'{weights[0]} is not finite' if weights else 'all finite'}. Try a "
            f"smaller learning rate (now {self.optimizer.param_groups[0]['lr']:g}), "
            f"clip_norm (now {self.clip_norm}), and look for NaN or inf in the batch and for "
            "log(0), division by 0 or an overflowing exp in the model or objective."
        )


def _dense(gradient: Tensor) -> Tensor:
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def _bar(batches: Iterable[Any], title: str, show: bool | None) -> Iterable[Any]:
    """Wrap batches in a progress bar (on stderr), or leave them as they are."""
    wish = os.environ.get("COMPANION_PROGRESS", "")
    if show is None and wish in ("0", "1"):
        show = wish == "1"
    if show is None:
        watched = sys.stderr.isatty() or "ipykernel" in sys.modules
        show = watched and not ({"CI", "PYTEST_CURRENT_TEST"} & set(os.environ))
    if not show:
        return batches
    from tqdm import tqdm

    return tqdm(batches, desc=title, leave=False)
