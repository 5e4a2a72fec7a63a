"""A training loop in one screen, with the checks that save an evening."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from companion.reproduce import seed_all
from companion.train.batches import Average, modes
from companion.train.checks import (
    check_checkpoint,
    check_device,
    check_fit,
    check_options,
    check_parts,
)
from companion.train.epochs import Epoch
from companion.train.generators import Source
from companion.train.history import History
from companion.train.processes import processes
from companion.train.progress import bar
from companion.train.runs import Run
from companion.train.steps import TrainingDiverged, measure, take_step
from companion.train.stopping import EarlyStopping

__all__ = ["Trainer", "TrainingDiverged"]

Objective = Callable[[nn.Module, Any], tuple[Any, ...]]


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
        step_scheduler: stepped after each step of the optimizer, for instance to warm up:
            ``torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=500)``. Both may be
            given; one that sets the rate instead of scaling it (``LambdaLR``) undoes the other.
        early_stopping: see :class:`companion.train.EarlyStopping`.
        clip_norm: largest 2-norm of the whole gradient; longer ones are scaled down to it. torch
            cannot do that with sparse gradients: one is a ``TypeError`` at its step.
        accumulate: batches for one step, whose gradient is that of the batches put together: the
            mean weighted by their weights, also of the last ones, which may be fewer. If one of
            them is not finite, none of them counts.
        precision: ``"full"``, or ``"bf16"``: the objective runs under ``torch.autocast``, with
            parameters and optimizer in the precision they have. (float16 is not offered: its range
            ends at 65504, and what a recurrent network multiplies over the steps leaves it.)
        device: the model and the batches are moved there; by default where the model is.
        max_bad_steps: so many steps in a row that are not finite stop the run.
        progress: show a bar; by default in a terminal and in Jupyter, unless the environment
            variable ``COMPANION_PROGRESS`` is 0.
        seed: if given, seeds all generators at the start of each ``fit``; 0 ≤ seed < 2**32.
        stateful: truncated backpropagation through time. The objective is called as
            ``objective(model, batch, state)`` and returns the new state last:
            ``(mean_loss, weight, state)`` or ``(mean_loss, weight, metrics, state)``. The state is
            ``None`` at the start of each pass over the batches, and carried to the next batch as
            a copy without its history (:func:`companion.train.detached`), also past a batch of
            weight 0, unless the state that this batch returns holds NaN: then the one before it
            is kept. After a step that is not finite it is ``None`` again. A third of three entries
            that is a dict of numbers is taken for metrics whose state was forgotten, an error: a
            state of that form needs the metrics, if only ``{}``, before it. For a batch with fewer
            rows the objective picks the state's (:func:`companion.train.state_rows`).
        own_batches: under ``torchrun``, whether the batches of each process are its own part of
            the data. By default all processes are given the same, and take turns: process p of P
            takes every P-th, and their step is that of one that accumulates P times as many
            batches. Stateful training needs own batches.
        generators: for checkpoints: random generators (torch, NumPy, Python) that are drawn from,
            beside the global ones and those that ``train`` and ``valid`` hold as attributes.

    Under ``torchrun --nproc_per_node 2 script.py`` the processes train one model, that of the
    first, by way of accelerate (the extra ``train``). ``device="cuda"`` becomes a device for each.
    Weights and histories are the same in all; buffers are those of the first. On several machines
    the same command runs on each, with torchrun's ``--nnodes`` and ``--rdzv_endpoint``; all must
    see the folder for checkpoints.

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
        step_scheduler: Any = None,
        early_stopping: EarlyStopping | None = None,
        clip_norm: float | None = None,
        accumulate: int = 1,
        precision: str = "full",
        device: torch.device | str | None = None,
        max_bad_steps: int = 5,
        progress: bool | None = None,
        seed: int | None = None,
        stateful: bool = False,
        own_batches: bool = False,
        generators: Sequence[Source] = (),
    ) -> None:
        check_parts(
            model, objective, optimizer, scheduler, step_scheduler, early_stopping, generators
        )
        check_options(
            clip_norm, accumulate, precision, max_bad_steps, progress, seed, stateful, own_batches
        )
        self.model, self.objective, self.optimizer = model, objective, optimizer
        held = {id(parameter) for parameter in self.parameters}
        if not any(id(parameter) in held for parameter in model.parameters()):
            raise ValueError("optimizer holds no parameter of model; was it made for another?")
        where = check_device(self.parameters[0].device if device is None else device)
        self.processes = processes(where)
        self.device = self.processes.device
        if device is not None or self.device != where:
            model.to(self.device)  # keeps the Parameter objects that the optimizer holds
        if stateful and self.processes.world > 1 and not own_batches:
            raise ValueError(
                "stateful: processes that take turns at the batches would carry a state past "
                "those of the others; give each its own rows and say own_batches=True"
            )
        self.processes.spread([*self.parameters, *model.parameters(), *model.buffers()])
        self.scheduler, self.step_scheduler = scheduler, step_scheduler
        self.early_stopping, self.clip_norm = early_stopping, clip_norm
        self.accumulate, self.precision, self.own_batches = accumulate, precision, own_batches
        self.max_bad_steps, self.progress, self.seed = max_bad_steps, progress, seed
        self.stateful, self.generators = stateful, tuple(generators)
        self.history = History()
        self._state: Any = None  # carried on
        self._shapes: Any = None  # of the batch that it comes from
        self._bad: list[str] = []  # reasons of the bad steps in a row up to now

    @property
    def parameters(self) -> list[Tensor]:
        """What the optimizer holds, groups included that it was given since."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    @property
    def named(self) -> list[tuple[str, Tensor]]:
        """The same with the model's names, ``parameter 3`` for one that the model has not."""
        names = {id(parameter): name for name, parameter in self.model.named_parameters()}
        return [(names.get(id(p), f"parameter {n}"), p) for n, p in enumerate(self.parameters)]

    def fit(
        self,
        train: Iterable[Any],
        valid: Iterable[Any] | None = None,
        epochs: int = 1,
        *,
        checkpoint: str | Path | None = None,
        every: int | None = None,
        keep: int = 2,
        resume: bool | str = False,
    ) -> History:
        """Train for some epochs; a second call goes on, in the same history.

        One step of the optimizer is ``companion.train.steps.take_step``.

        If an error breaks off an epoch, the epoch is not in the history, though its steps were
        taken and ``grad_norm`` has them; if it comes in the validation, the epoch is there
        without one.

        A run that is killed at any moment, and is started again with the same arguments and
        ``resume``, ends with the same weights, optimizer state and history (durations aside) as
        if it had not been killed: on the same CPU with as many threads, to the last bit. In the
        middle of an epoch the batches taken already are read once more and dropped, so their order
        must follow from the generators' states at its start, or its number (``set_epoch``).
        Not kept: what the objective remembers otherwise (make it a buffer of the model), and the
        generators in a ``DataLoader``'s workers that outlive the epoch (``persistent_workers``).

        Args:
            train: batches, iterated once an epoch (a list, a ``DataLoader`` …).
            valid: batches for :meth:`evaluate` at the end of each epoch.
            epochs: passes over ``train``; with ``resume``, those before the kill included.
            checkpoint: a folder for checkpoints of this run, one after each epoch: safetensors
                and JSON, nothing that can run (no pickle).
            every: within an epoch, write one after so many steps too.
            keep: so many checkpoints stay, the newest.
            resume: go on from the newest that is whole; ``"auto"`` begins anew if there is none.
                Learning rate, weight decay and so on are those of the checkpoint.

        Returns:
            the history of this trainer.

        Raises:
            TrainingDiverged: after ``max_bad_steps`` steps in a row that are not finite.
            ValueError: if there is no batch, or a one-shot iterator is to be read twice, or the
                folder holds checkpoints that are not to be resumed.
            TypeError: if an argument, or what a checkpoint is to keep, is not of a kind that fits.
            RuntimeError: if gradients are switched off, or a lazy buffer cannot be put back.
            FileNotFoundError: if there is no checkpoint to resume.
            NotADirectoryError, OSError: if the folder is none, or nothing can be written there.
            CheckpointError: if none is whole, it is of another model, optimizer or version, or
                another run is writing in the folder.

        Example:
            >>> from tempfile import mkdtemp
            >>> def run(epochs, folder):
            ...     seed_all(0)
            ...     net, x = nn.Linear(1, 1), torch.linspace(-1, 1, 8)[:, None]
            ...     sgd = torch.optim.SGD(net.parameters(), lr=0.5)
            ...     fit = Trainer(net, lambda net, x: ((net(x) - x).pow(2).mean(), 8), sgd).fit
            ...     return fit([x], [x], epochs, checkpoint=folder, resume="auto").train_loss
            >>> folder, other = mkdtemp(), mkdtemp()
            >>> run(2, folder) == run(2, folder) and run(3, folder) == run(3, other)
            True
        """
        check_fit(train, valid, epochs)
        check_checkpoint(checkpoint, every, keep, resume)
        if self.seed is not None:
            seed_all(self.seed)
        history, stopping = self.history, self.early_stopping
        if stopping is not None:
            stopping.begin()
        with Run(self, train, valid, checkpoint, every, keep) as run:
            run.resume(resume)
            last = run.first + epochs
            while len(history) < last and not (stopping is not None and stopping.stopped):
                epoch = run.epoch()
                title = f"epoch {epoch.number}/{last}"
                batches = bar(train, title, self.progress, self.processes.rank)
                try:
                    mean = self._train_epoch(batches, epoch, run)
                finally:
                    self._state = None  # the epoch is over; it may be large
                # entered before the validation: the steps are taken, even if that fails
                history.train_loss.append(mean.loss)
                history.add_metrics(history.train_metrics, mean.metrics)
                history.learning_rate.append(epoch.rate)
                history.seconds.append(epoch.elapsed)
                if valid is not None:
                    mean = self.evaluate(run.generators.draws(valid))
                    history.add_validation(mean.loss, mean.metrics)
                    history.seconds[-1] = epoch.elapsed
                if self.scheduler is not None and len(history.grad_norm) > epoch.first_step:
                    if isinstance(self.scheduler, ReduceLROnPlateau):
                        self.scheduler.step(mean.loss)
                    else:
                        self.scheduler.step()
                if stopping is not None:
                    values = {**mean.metrics, "loss": mean.loss}
                    stopping.update(epoch.number, values, self.model, dict(self.named))
                run.save()
            if stopping is not None:
                stopping.restore(self.model, dict(self.named))
        return history

    def _train_epoch(self, batches: Iterable[Any], epoch: Epoch, run: Run) -> Average:
        """Take a step for each group of batches; return the weighted means of loss and metrics."""
        with modes(self.model, training=True):
            for group in epoch.groups(batches, self.accumulate, self.own_batches):
                take_step(self, group, epoch)
                run.after_step(epoch)
        means = self.processes.gather(epoch.mean.state())
        return Average.sum_of(means).checked("train")

    def evaluate(self, batches: Iterable[Any]) -> Average:
        """Return the weighted means over some batches: no gradient, no dropout, no change.

        Under ``torchrun`` every process has to call it; they share the batches as in ``fit``.

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
        mean, training = Average(), (self._state, self._shapes)  # of an epoch under way
        self._state = None
        turns = 1 if self.own_batches else self.processes.world
        mine = itertools.islice(batches, 0 if turns == 1 else self.processes.rank, None, turns)
        try:
            with modes(self.model, training=False), torch.no_grad():
                for batch in mine:
                    mean.batches += 1
                    loss, weight, metrics = measure(self, batch)
                    if weight > 0:
                        mean.usable += 1
                        mean.add(loss.item(), weight, metrics)
        finally:
            self._state, self._shapes = training
        means = self.processes.gather(mean.state())
        return Average.sum_of(means).checked("valid")
