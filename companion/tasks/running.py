"""Training, resuming, evaluating: the same for every task."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from companion.reproduce import default_device, seed_all
from companion.tasks.files import STDIN
from companion.tasks.folder import FolderError, RunFolder, task_named
from companion.tasks.reporting import Reporting, Say, report
from companion.tasks.settings import SettingsError, from_json, to_json
from companion.tasks.task import Parts, Task
from companion.train import Trainer, load_weights, read_config, save_model
from companion.train.checks import check_device
from companion.train.model_files import fitting
from companion.train.processes import processes

__all__ = ["default_folder", "evaluate", "load", "resume", "train"]


def default_folder(kind: type[Task], file: str | Path) -> Path:
    """Where a run goes that nobody named a folder for.

    Example:
        >>> from companion.tasks import TASKS
        >>> default_folder(TASKS["classify"], "data/reviews.csv").as_posix()
        'runs/reviews-classify'
    """
    stem = "stdin" if str(file) == STDIN else Path(file).stem
    return Path("runs") / f"{stem}-{kind.name}"


def train(
    kind: type[Task],
    file: str | Path,
    settings: Any,
    *,
    folder: str | Path | None = None,
    device: torch.device | str | None = None,
    say: Say = print,
) -> dict[str, Any]:
    """Train a network on a file, in a folder of its own.

    Args:
        kind: the task, a value of ``companion.tasks.TASKS``.
        file: the data.
        settings: of the task's ``Settings``.
        folder: for the run; default: what ``default_folder`` says. It must be new.
        device: default: :func:`companion.default_device`.
        say: takes the lines of the report.

    Returns:
        What ``metrics.json`` holds: for ``valid`` and ``test`` the numbers of the network and of
        its baselines.

    Raises:
        FileError: a file is not what the task can read: the line and the reason.
        SettingsError: a setting has no meaning for these data.
        FolderError: the folder cannot be used.
        TrainingDiverged: of the trainer.

    Example:
        >>> from tempfile import mkdtemp
        >>> from companion.tasks import TASKS
        >>> place, kind = Path(mkdtemp()), TASKS["classify"]
        >>> _ = (place / "days.csv").write_text("text,label\\n" + 20 * "sun,+\\nrain,-\\n")
        >>> settings = kind.Settings(epochs=3, hidden_size=8, learning_rate=0.05)
        >>> told = {"folder": place / "run", "say": lambda line: None}
        >>> train(kind, place / "days.csv", settings, **told)["test"]["network"]["accuracy"]
        1.0
        >>> task = load(place / "run")
        >>> evaluate(task, place / "days.csv")["network"]["accuracy"]
        1.0
    """
    own = {"valid": settings.valid_file, "test": settings.test_file}
    files = {"train": Path(file), **{part: Path(p) for part, p in own.items() if p is not None}}
    run = RunFolder(default_folder(kind, file) if folder is None else folder)
    return _run(kind, settings, files, run, device, say, new=True)


def resume(
    folder: str | Path, *, device: torch.device | str | None = None, say: Say = print
) -> dict[str, Any]:
    """Go on with a run that was stopped; on the same CPU it ends as if it had not been.

    Args:
        folder: of the run.
        device, say: as for :func:`train`.

    Returns:
        What ``metrics.json`` holds; of a run that is over nothing is done again.

    Raises:
        FolderError, SettingsError: there is no run in the folder, or its files were changed.
        FileError: the data were changed.
        CheckpointError: no checkpoint is whole.
    """
    from companion.tasks import TASKS
    from companion.tasks.folder import read_json

    run = RunFolder(folder)
    if run.path.is_file():
        raise FolderError(f"{run.path}: expected the folder of a run, got a file")
    kind, settings, files = run.read(TASKS)
    if run.model.exists():
        say(f"{run.path}: this run is over; its numbers are in metrics.json")
        return read_json(run.path / "metrics.json")
    return _run(kind, settings, files, run, device, say, new=False)


def load(path: str | Path, device: torch.device | str | None = None) -> Task:
    """A trained task from its one file.

    Args:
        path: of ``model.safetensors``, or of the folder with it.
        device: of the model; default: :func:`companion.default_device`.

    Returns:
        The task with its weights.

    Raises:
        FileNotFoundError: there is no such file; the run may not be over.
        CheckpointError, SettingsError: the file is damaged, or not of a task of this release, or
            there is no such device.
    """
    from companion.tasks import TASKS

    path, where = Path(path), place(device)
    if path.is_dir():
        path = path / "model.safetensors"
        if not path.is_file():
            raise FileNotFoundError(
                f"{path.parent} has no model.safetensors; `python -m companion resume "
                f"{path.parent}` finishes a run"
            )
    if not path.is_file():
        what = "that is no file" if path.exists() else "there is no such folder or file"
        raise FileNotFoundError(f"{path}: {what}; expected a run's folder, or its one file")
    config = read_config(path)
    if not isinstance(config, dict) or set(config) != {"task", "settings", "known"}:
        got = sorted(config) if isinstance(config, dict) else type(config).__name__
        raise SettingsError(f"{path}: expected task, settings and known, got {got!r:.80}")
    kind = task_named(config["task"], TASKS, str(path))
    settings = from_json(kind.Settings, config["settings"], str(path))
    known = from_json(kind.Known, config["known"], str(path))
    try:
        # without memory first: sizes that the weights do not have are found before they cost
        fitting(kind(settings, known, "meta").model, path)
        task = kind(settings, known)
        load_weights(task.model, path)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error
    task.model.to(where)
    return task


def place(device: torch.device | str | None) -> torch.device:
    """The device that is meant, if a network can be trained there.

    Raises:
        SettingsError: none can.
    """
    named = "COMPANION_DEVICE" if device is None else f"--device {device}"
    try:
        with warnings.catch_warnings(action="ignore"):  # of devices that torch once had
            where = default_device() if device is None else check_device(torch.device(device))
        x = torch.ones(1, device=where, requires_grad=True)  # what has a name may still not work
        (x * x).sum().backward()
        assert x.grad is not None and x.grad.item() == 2
        return where
    except Exception as error:  # torch has another one for every kind of device that it lacks
        fault = str(error).removeprefix("device: ").removeprefix("COMPANION_DEVICE ")
        fault = fault.partition("\n")[0].partition(". ")[0]  # torch goes on at length
        raise SettingsError(f"{named}: no device to train on: {fault}") from error


def evaluate(task: Task, file: str | Path) -> dict[str, Any]:
    """Numbers of a trained network and of its baselines on a file.

    Args:
        task: that :func:`load` gave.
        file: in the form that it was trained on.

    Returns:
        ``{"network": numbers, "baselines": {name: numbers}}``.

    Raises:
        FileError: the file is not what the task can read, or has labels that it does not know.
    """
    rows = task.read(file, task.settings, task.known)
    return {"network": task.measure(rows), "baselines": task.baselines(rows)}


def _run(
    kind: type[Task],
    settings: Any,
    files: Mapping[str, Path],
    run: RunFolder,
    device: torch.device | str | None,
    say: Say,
    *,
    new: bool,
) -> dict[str, Any]:
    group = processes(place(device))
    first = group.rank == 0
    say = say if first else lambda line: None
    parts, known = _parts(kind, settings, files)
    seed_all(settings.seed)
    task = kind(settings, known)
    train = task.batches(parts.train, shuffle=True, group=group)
    valid = None if parts.valid is None else task.batches(parts.valid, shuffle=False, group=group)
    if new:
        fault = None
        if first:
            try:
                run.begin(kind.name, settings, files)
            except ValueError as error:  # the others must hear of it, or they would wait
                fault = error
        fault = group.of_first(fault)
        if fault is not None:
            raise fault
    size = sum(p.numel() for p in task.model.parameters())
    say(f"{kind.name}: {task.describe(parts)}; {size:,} weights on {group.device}")
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=settings.learning_rate)
    stopping = Reporting(settings.patience)
    trainer = Trainer(
        task.model,
        task.objective,
        optimizer,
        scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1),
        early_stopping=stopping,
        clip_norm=settings.clip_norm,
        precision=settings.precision,
        device=group.device,
        stateful=kind.stateful,
        own_batches=kind.stateful and group.world > 1,
    )
    stopping.history, stopping.say = trainer.history, say
    trainer.fit(
        train,
        valid,
        settings.epochs,
        checkpoint=run.checkpoints,
        every=settings.checkpoint_every,
        resume=False if new else "auto",
    )
    metrics: dict[str, Any] = {}
    if first:
        metrics = _finish(task, parts, trainer, stopping, run, say)
    return dict(group.of_first(metrics))


def _parts(kind: type[Task], settings: Any, files: Mapping[str, Path]) -> tuple[Parts, Any]:
    """Training, validation and test data, from one file or several, and what training knows."""
    whole = kind.read(files["train"], settings)
    parts = kind.divide(whole, settings)
    known = kind.learn(parts.train, settings)
    own = {
        part: kind.read(path, settings, known) for part, path in files.items() if part != "train"
    }
    return parts._replace(**own), known


def _finish(
    task: Task, parts: Parts, trainer: Trainer, stopping: Reporting, run: RunFolder, say: Say
) -> dict[str, Any]:
    """Measure, write down, and say what came of it."""
    metrics: dict[str, Any] = {
        "epochs": len(trainer.history),
        "best_epoch": stopping.best_epoch,
    }
    aside = parts.valid is not None or parts.test is not None
    for name in ("valid", "test") if aside else ("train",):
        rows = getattr(parts, name)
        if rows is not None:
            metrics[name] = {"network": task.measure(rows), "baselines": task.baselines(rows)}
    run.write("history.json", trainer.history.to_dict())
    run.write("metrics.json", _plain(metrics))
    config = {
        "task": task.name,
        "settings": to_json(task.settings),
        "known": to_json(task.known),
    }
    save_model(task.model, run.model, config)
    for line in report(task, metrics):  # last: the network is safe whatever becomes of the report
        say(line)
    say(f"written: {run.path} (model.safetensors, metrics.json, history.json, config.json)")
    return metrics


def _plain(value: Any) -> Any:
    """The same with None for what JSON has not."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
