"""A run's folder: what it was told, what it made, and the data it was made of."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from companion.tasks.files import (
    STDIN,
    FileError,
    digest_of,
    is_stream,
    read_bytes,
    standard_input,
)
from companion.tasks.settings import SettingsError, from_json, to_json
from companion.tasks.task import Task
from companion.train.storage import digest, write_bytes

__all__ = ["FolderError", "RunFolder"]

FORMAT, VERSION = "recurrence-companion run", 1


class FolderError(ValueError):
    """A run's folder cannot be used."""


class RunFolder:
    """The folder of one run.

    - ``config.json``: task, settings, and the SHA-256 of the data files, under a seal;
    - ``checkpoints``: those of the trainer;
    - ``history.json``, ``metrics.json``: what it measured;
    - ``model.safetensors``: the weights, and all that a prediction needs beside them.

    Each file is written beside its place and renamed: it is there as a whole or not at all. The
    model comes last, so that a run with a model is over.

    Args:
        path: of the folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.model = self.path / "model.safetensors"
        self.checkpoints = self.path / "checkpoints"

    def begin(self, task: str, settings: Any, files: Mapping[str, Path]) -> None:
        """Make the folder of a new run, and write what it was told.

        Raises:
            FolderError: there is something at this place, or nothing can be written there.
        """
        if (self.path / "config.json").exists():
            raise FolderError(
                f"{self.path} holds a run already: `python -m companion resume {self.path}` goes "
                "on with it; otherwise take another --folder"
            )
        there = self.path.exists()
        if there and (not self.path.is_dir() or any(self.path.iterdir())):
            what = "is not empty" if self.path.is_dir() else "is a file"
            raise FolderError(f"{self.path} {what}; take another --folder")
        known = {
            part: {"path": str(p if is_stream(p) else p.absolute()), "sha256": digest_of(p)}
            for part, p in files.items()
        }
        config = {"format": FORMAT, "version": VERSION, "task": task}
        config |= {"settings": to_json(settings), "files": known}
        try:
            self.path.mkdir(parents=True, exist_ok=there)
        except FileExistsError:
            fault = f"{self.path}: something has just been put there; take another --folder"
            raise FolderError(fault) from None
        except OSError as error:
            raise FolderError(f"{self.path} cannot be written to: {error.strerror}") from error
        self.write("config.json", {**config, "seal": seal(config)})

    def read(self, tasks: Mapping[str, type[Task]]) -> tuple[type[Task], Any, dict[str, Path]]:
        """What the run was told: its task, its settings and its data files, none of them changed.

        Raises:
            FolderError: there is no run here, or its configuration is not one.
            FileError: a data file is gone or is not what it was.
        """
        path = self.path / "config.json"
        config = read_json(path)
        if (config.get("format"), config.get("version")) != (FORMAT, VERSION):
            raise FolderError(
                f"{path}: expected {FORMAT!r}, version {VERSION}, got "
                f"{config.get('format')!r:.60}, version {config.get('version')!r:.20}"
            )
        kind = task_named(config.get("task"), tasks, str(path))
        settings = from_json(kind.Settings, config.get("settings"), str(path))
        files, entries = {}, config.get("files")
        for part, entry in entries.items() if isinstance(entries, dict) else ():
            keys = entry if isinstance(entry, dict) else {}
            if part not in ("train", "valid", "test") or not isinstance(keys.get("path"), str):
                raise FolderError(f"{path}: files: expected paths and digests, got {part!r:.40}")
            files[part] = Path(keys["path"])
        if "train" not in files:
            raise FolderError(f"{path}: files: expected 'train', got {sorted(files)}")
        if config.get("seal") != seal(config):
            raise FolderError(
                f"{path}: was changed since the run began; a resumed run keeps its task and its "
                "settings: put them back, or train anew in another --folder"
            )
        for part, file in files.items():
            _check_data(file, config["files"][part]["sha256"])
        return kind, settings, files

    def write(self, name: str, value: Any) -> None:
        """Write a value as JSON.

        Raises:
            FolderError: nothing can be written there.
        """
        path = self.path / name
        partial = path.with_name(f".{name}.partial")
        try:
            write_bytes(partial, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())
            os.replace(partial, path)
        except OSError as error:
            raise FolderError(f"{path} cannot be written to: {error.strerror}") from error
        finally:
            partial.unlink(missing_ok=True)


def seal(config: Mapping[str, Any]) -> str:
    """The SHA-256 of what a run was told: its task, its settings, the digests of its data.

    Where the data are is no part of it: they may be moved, and their path changed.
    """
    data = {part: entry.get("sha256") for part, entry in config["files"].items()}
    told = [config.get("task"), config.get("settings"), data]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _check_data(path: Path, sha256: Any) -> None:
    """Raise ``FileError`` unless a file, or what now comes out of a stream, is what it was."""
    own = str(path) == STDIN
    if own and standard_input().isatty():
        raise FileError(path, "expected the data that the run was trained on, once more")
    if own or (is_stream(path) and path.exists()):
        read_bytes(path)
        found = digest_of(path)
    elif not path.is_file():
        raise FileError(path, "there is no such file; the run was trained on it")
    else:
        try:
            found = digest(path)
        except OSError as error:
            raise FileError(path, f"cannot be read: {error.strerror}") from error
    if found != sha256:
        raise FileError(
            path,
            "was changed since the run began (its SHA-256 is another); a resumed run needs the "
            "same data: put the file back, or train anew in another --folder"
            if not is_stream(path)
            else "expected the data that the run was trained on, got others",
        )


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a run's folder."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise FolderError(
            f"{path.parent}: there is no run here ({path.name} is missing)"
        ) from None
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{path}: expected JSON, {str(error)[:80]}") from None
    if not isinstance(value, dict):
        raise FolderError(f"{path}: expected an object, got {type(value).__name__}")
    return value


def task_named(name: Any, tasks: Mapping[str, type[Task]], where: str) -> type[Task]:
    """The task of this name."""
    if not isinstance(name, str) or name not in tasks:
        raise SettingsError(f"{where}: expected a task ({', '.join(tasks)}), got {name!r:.60}")
    return tasks[name]
