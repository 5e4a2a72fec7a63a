"""One call of ``fit``: what it draws from, and how it is kept and taken up again."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from companion.train.batches import set_tensors, tensors_of
from companion.train.checkpoint import CheckpointError, Store
from companion.train.epochs import Epoch, set_epoch
from companion.train.generators import Generators
from companion.train.history import Skipped
from companion.train.stopping import EarlyStopping
from companion.train.storage import pack

if TYPE_CHECKING:
    from companion.train.trainer import Trainer

__all__ = ["Run"]


class Run:
    """What a call of ``fit`` needs beside the loop.

    Args:
        trainer: whose ``fit`` it is.
        train, valid: its batches.
        folder, every, keep: for the checkpoints; see ``Trainer.fit``.
    """

    def __init__(
        self,
        trainer: Trainer,
        train: Any,
        valid: Any,
        folder: str | Path | None,
        every: int | None,
        keep: int,
    ) -> None:
        self.trainer, self.train, self.every = trainer, train, every
        self.group, self.first = trainer.processes, len(trainer.history)
        self.saved_at = len(trainer.history.grad_norm)
        self.half: tuple[Any, Any] | None = None  # the epoch that a checkpoint was made in
        self.store = None if folder is None else Store(folder, keep, self.group)
        keeps = self.store is not None or self.group.world > 1
        holders = {"train": train, "valid": valid} if keeps else {}
        self.generators = Generators(holders, trainer.generators, trainer.device)
        if self.store is not None:
            self.settings = _settings(trainer)
            for name, value in self._shared().items():
                pack(value, {}, name)  # what cannot be saved is said before the work, not after
        if self.group.world > 1:
            self._agree(trainer.own_batches)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        if self.store is not None:
            self.store.release()

    def _agree(self, own_batches: bool) -> None:
        """Let all processes have the same weights and batches, and each its own dropout."""
        self.group.spread(self.trainer.parameters)  # of groups added since the trainer was made
        mine = self.generators.states()
        first = self.group.of_first(mine)
        self.generators.restore({**first, "held": mine["held"]} if own_batches else first)
        self.generators.separate(self.group.rank)

    def epoch(self) -> Epoch:
        """The next epoch, or the one that the checkpoint was made in."""
        history, rate = self.trainer.history, self.trainer.optimizer.param_groups[0]["lr"]
        number = len(history) + 1
        steps = len(history.grad_norm)
        epoch = Epoch(number, float(rate), steps, self.generators, self.group)
        set_epoch(self.train, number - 1)
        if self.half is not None:
            epoch.resume(*self.half)
            self.generators.restore(epoch.begun)
            self.half = None
        elif self.store is not None:
            epoch.begun = self.generators.states()
        return epoch

    def after_step(self, epoch: Epoch) -> None:
        """Save, if a step was taken and it is time to."""
        steps = len(self.trainer.history.grad_norm)
        if self.every is not None and steps > self.saved_at and steps % self.every == 0:
            self.save(epoch)

    def save(self, epoch: Epoch | None = None) -> None:
        """Write a checkpoint; without an epoch under way, one between two epochs."""
        if self.store is None:
            return
        trainer, history = self.trainer, self.trainer.history
        self.saved_at = len(history.grad_norm)
        own = {
            "generators": self.generators.states(),
            "carried": trainer._state if epoch else None,
            "epoch": epoch.state() if epoch else None,
        }
        note = {
            "epochs": len(history),
            "batches": epoch.read if epoch else 0,
            "steps": len(history.grad_norm),
        }
        note = self.group.of_first(note)  # of its own batches a process may have read fewer
        self.store.save(note["epochs"], note["batches"], self._shared(), own, note)

    def resume(self, how: bool | str) -> None:
        """Go on from the newest whole checkpoint, if one is wanted.

        Args:
            how: True, False, or ``"auto"``: if there is one.

        Raises:
            ValueError: if there are checkpoints, and nobody said that they are to be used.
            FileNotFoundError, CheckpointError: if there is none that can be used.
            OSError: if the folder cannot be used.
        """
        if self.store is None:
            return
        self.store.claim(make=how is not True)
        found = self.group.of_first([path.name for path in self.store.found()])
        if found and how is False:
            raise ValueError(
                f"checkpoint: {self.store.folder} holds {found[0]} already; resume=True goes on "
                "from there, otherwise take another folder"
            )
        if how is False or (how == "auto" and not found):
            return
        trainer = self.trainer
        shared, own, wrong = self.store.load(trainer.device)
        if wrong:
            warnings.warn(
                f"resume: an older checkpoint is used, for the newer is not whole: "
                f"{'; '.join(wrong)}",
                stacklevel=3,
            )
        self._check(shared["model"], shared["training"])
        self._compare(shared["training"].get("settings", {}))
        if own["epoch"] is not None:
            self.half = (own["epoch"], own["generators"])
        self.generators.restore(own["generators"])
        _put_back(trainer, shared["model"], shared["training"])
        trainer._state = own["carried"]
        self.store.tidy()

    def _shared(self) -> dict[str, Any]:
        """What is the same in all processes, file by file."""
        trainer = self.trainer
        history = {f.name: getattr(trainer.history, f.name) for f in fields(trainer.history)}
        history["grad_norm"] = torch.tensor(history["grad_norm"], dtype=torch.float64)
        history["skipped"] = [tuple(entry) for entry in history["skipped"]]
        training = {
            "made of": self._made_of(),
            "optimizer": trainer.optimizer.state_dict(),
            "outside": _outside(trainer),
            "settings": self.settings,
            **{name: _state(name, part) for name, part in _parts(trainer).items() if part},
            "extra": {name: module.get_extra_state() for name, module in _extra(trainer.model)},
            "bad": list(trainer._bad),
            "history": history,
        }
        return {"model": tensors_of(trainer.model), "training": training}

    def _made_of(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to fit, by what it is called in errors."""
        trainer = self.trainer
        names = iter([name for name, _ in trainer.named])
        groups = [[next(names) for _ in g["params"]] for g in trainer.optimizer.param_groups]
        return {
            "optimizer": _name(trainer.optimizer),
            "optimizer: parameters of its groups": groups,
            **{name: _name(part) for name, part in _parts(trainer).items()},
            "early_stopping: its arguments": _arguments(trainer.early_stopping),
            "stateful": trainer.stateful,
            "epochs before this fit": self.first,
        }

    def _check(self, model: Mapping[str, Tensor], training: Mapping[str, Any]) -> None:
        """Raise ``CheckpointError`` if the checkpoint is of another model or trainer."""
        model = {**model, **training.get("outside", {})}
        here = {**tensors_of(self.trainer.model), **_outside(self.trainer)}
        later = {  # buffers that the first batch makes
            f"{path}.{name}".lstrip(".")
            for path, module in self.trainer.model.named_modules()
            for name, buffer in module._buffers.items()
            if buffer is None
        }
        missing, unknown = sorted(set(here) - set(model)), sorted(set(model) - set(here) - later)
        if missing or unknown:
            raise CheckpointError(
                "resume: the checkpoint is of another model: "
                f"it lacks {_few(missing)}, and has {_few(unknown)} that this model has not"
            )
        for name, tensor in here.items():
            new, old = (f"{tuple(t.shape)} of {t.dtype}" for t in (tensor, model[name]))
            if new != old:
                raise CheckpointError(
                    f"resume: the checkpoint is of another model: {name} is {new}, there {old}"
                )
        for name, now in self._made_of().items():
            then = training["made of"].get(name, now)  # an older release says less
            if name == "epochs before this fit" and then < now:
                raise CheckpointError(
                    f"resume: this trainer has {now} epochs already, and the run in the folder "
                    f"began after {then}; make a new one to resume it"
                )
            if then != now:
                raise CheckpointError(
                    f"resume: the checkpoint is of another run: {name} is {now!r:.200}, "
                    f"there {then!r:.200}"
                )

    def _compare(self, then: Mapping[str, Any]) -> None:
        """Warn where settings are not those of the checkpoint, which are put back."""
        changed = [
            f"{name} (now {now!r:.40}, there {then[name]!r:.40})"
            for name, now in self.settings.items()
            if name in then and then[name] != now
        ]
        if changed:
            warnings.warn(
                f"resume: the settings of the checkpoint are used, not those given now: "
                f"{', '.join(changed)}",
                stacklevel=4,
            )
        self.settings = {**self.settings, **then}


def _put_back(trainer: Trainer, model: Mapping[str, Tensor], training: Mapping[str, Any]) -> None:
    set_tensors(trainer.model, {**model, **training.get("outside", {})}, _outside(trainer))
    for name, module in _extra(trainer.model):
        module.set_extra_state(training["extra"][name])
    trainer.optimizer.load_state_dict(training["optimizer"])
    parameters = trainer.parameters
    for n, state in training["optimizer"]["state"].items():
        for name, value in state.items() if isinstance(n, int) else ():  # others stay as they are
            if isinstance(value, Tensor):  # load_state_dict gives it the parameter's dtype
                held = trainer.optimizer.state[parameters[n]]
                held[name] = value.to(held[name].device)
    for name, part in _parts(trainer).items():
        if part:
            part.load_state_dict(training[name])
    trainer._bad = list(training["bad"])
    for name, column in training["history"].items():
        setattr(trainer.history, name, column)
    trainer.history.grad_norm = training["history"]["grad_norm"].tolist()
    trainer.history.skipped = [Skipped(*entry) for entry in training["history"]["skipped"]]


def _parts(trainer: Trainer) -> dict[str, Any]:
    names = ("scheduler", "step_scheduler", "early_stopping")
    return {name: getattr(trainer, name) for name in names}


def _outside(trainer: Trainer) -> dict[str, Tensor]:
    """The optimizer's parameters that the model has not."""
    inside = {id(parameter) for parameter in trainer.model.parameters()}
    return {name: p for name, p in trainer.named if id(p) not in inside}


def _settings(trainer: Trainer) -> dict[str, Any]:
    """What optimizer and schedulers were given, before a step or a checkpoint changed it."""
    groups = trainer.optimizer.param_groups
    found = {f"optimizer: {k}": [g.get(k) for g in groups] for k in groups[0] if k != "params"}
    for name in ("scheduler", "step_scheduler"):
        part = getattr(trainer, name)
        if part is not None:
            state = _state(name, part)
            found |= {f"{name}: {k}": v for k, v in state.items() if k != "_last_lr"}
    return copy.deepcopy(found)


def _arguments(stopping: EarlyStopping | None) -> dict[str, Any] | None:
    """Those without which what early stopping has found means something else."""
    names = ("metric", "largest", "min_delta", "restore_best")
    return None if stopping is None else {name: getattr(stopping, name) for name in names}


def _state(name: str, part: Any) -> Any:
    if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
        raise TypeError(f"{name}: {_name(part)} has no state_dict, which a checkpoint needs")
    return _without_functions(part.state_dict())


def _without_functions(state: Any) -> Any:
    """Without what OneCycleLR of torch 2.3 adds, alone or among others: a function of its own."""
    if type(state) is dict:
        kept = {k: v for k, v in state.items() if not (k == "anneal_func" and callable(v))}
        return {k: _without_functions(v) for k, v in kept.items()}
    return [_without_functions(v) for v in state] if type(state) is list else state


def _extra(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The modules that keep more than parameters and buffers."""
    plain = nn.Module.get_extra_state
    return [(n, m) for n, m in model.named_modules() if type(m).get_extra_state is not plain]


def _name(part: Any) -> str | None:
    return None if part is None else f"{type(part).__module__}.{type(part).__qualname__}"


def _few(names: list[str]) -> str:
    return (
        ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "none"
    )
