"""Checkpoints: folders that are there as a whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import torch

from companion.train.processes import Alone
from companion.train.storage import digest, read, write, write_bytes

__all__ = ["CheckpointError", "Store"]

FORMAT, VERSION = "recurrence-companion checkpoint", 1
NAME = re.compile(r"epochs-(\d+)-batches-(\d+)")
LOCK = ".lock"

if sys.platform != "win32":
    import fcntl


class CheckpointError(RuntimeError):
    """A checkpoint cannot be read, or belongs to another run than the one that wants it."""


class Store:
    """The checkpoints of one run, in a folder of their own, the newest few of them.

    Each is a folder ``epochs-0002-batches-00000150`` (2 epochs and 150 batches are done) with

    - ``model.safetensors``: parameters and buffers, under their names, tied ones once;
    - ``training.safetensors``: optimizer, schedulers, early stopping, history;
    - ``process-0.safetensors`` …: for each process the states of its random generators, the
      carried state of truncated backpropagation, and the sums of the epoch under way;
    - ``checkpoint.json``: the format's version, and the SHA-256 of the other files and its own.

    What is not a tensor is JSON in the header of these files. A checkpoint is written beside its
    place under another name, is on the disk before it is renamed, and renaming is atomic: whatever
    is called ``epochs-…`` was written to the end.

    Args:
        folder: made if it is not there. Several processes share it.
        keep: so many checkpoints stay.
        group: the processes that write together.
    """

    def __init__(self, folder: str | Path, keep: int, group: Alone) -> None:
        self.folder, self.keep, self.group = Path(folder), keep, group
        self.used: Path | None = None  # what was loaded
        self._lock: IO[str] | None = None

    def claim(self, *, make: bool = True) -> None:
        """Keep other runs out of the folder until :meth:`release`, or this process is gone.

        Args:
            make: the folder, if it is not there; otherwise nothing happens then.

        Raises:
            OSError: if nothing can be written there.
            CheckpointError: if another run writes there.
        """
        first = self.group.rank == 0 and (make or self.folder.is_dir())
        fault = self.group.of_first(self._claim() if first else None)
        if fault is not None:
            raise fault

    def _claim(self) -> Exception | None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = open(self.folder / LOCK, "a+")  # noqa: SIM115  # open until it is released
            if not _locked(file):
                file.seek(0)
                other = file.read()
                file.close()
                return CheckpointError(
                    f"checkpoint: process {other} writes in {self.folder}; wait until it has "
                    "ended, or take another folder"
                )
            self._lock = file
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        except OSError as error:
            text = f"checkpoint: cannot write in {self.folder} ({error.strerror})"
            return OSError(error.errno, text)  # of the same class
        return None

    def release(self) -> None:
        """Let other runs in again."""
        if self._lock is not None:
            with suppress(OSError):  # on Windows it stays, empty of meaning
                (self.folder / LOCK).unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def tidy(self) -> None:
        """Remove what a killed run left beside the checkpoint that was loaded."""
        if self.used is not None and self.group.rank == 0:
            self._clean(self.used)

    def found(self) -> list[Path]:
        """The checkpoints, newest first; none if there is no such folder."""
        if not self.folder.is_dir():
            return []
        paths = [path for path in self.folder.iterdir() if NAME.fullmatch(path.name)]
        return sorted(paths, key=_position, reverse=True)

    def save(
        self,
        epochs: int,
        batches: int,
        shared: Mapping[str, Any],
        own: Mapping[str, Any],
        note: Mapping[str, Any],
    ) -> Path:
        """Write a checkpoint, then remove those that are too many.

        Args:
            epochs: that are done.
            batches: that are done of the next.
            shared: what is the same in every process, file by file.
            own: what is not.
            note: what people may want to read, as JSON.

        Returns:
            its folder.
        """
        final = self.folder / f"epochs-{epochs:04d}-batches-{batches:08d}"
        partial = self.folder / f".{final.name}.partial"
        if self.group.rank == 0:
            shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed here
            partial.mkdir(parents=True)
        self.group.wait()
        write(partial / f"process-{self.group.rank}.safetensors", own)
        self.group.wait()
        if self.group.rank == 0:
            files = {path.name: digest(path) for path in partial.iterdir()}
            for name, value in shared.items():
                path = partial / f"{name}.safetensors"
                files[path.name] = write(path, value)
            body = {"format": FORMAT, "version": VERSION, **note, "files": files}
            text = json.dumps({**body, "sha256": _sealed(body)}, indent=1)
            write_bytes(partial / "checkpoint.json", text.encode())
            _settle(partial)
            if final.exists():  # damaged, or of a run that this one repeats: it is not needed
                discarded = self.folder / f".{final.name}.discarded"
                shutil.rmtree(discarded, ignore_errors=True)
                os.replace(final, discarded)
            os.replace(partial, final)
            _settle(self.folder)
            self._clean(final)
        self.group.wait()
        return final

    def load(self, device: torch.device) -> tuple[dict[str, Any], Any, list[str]]:
        """Read the newest checkpoint that is whole.

        Args:
            device: for tensors that were not on the CPU.

        Returns:
            the shared values, this process's own, and what is wrong with newer checkpoints.

        Raises:
            FileNotFoundError: if there is none.
            CheckpointError: if none is whole, or it is of another format or number of processes.
        """
        found = self.found()
        wrong: list[str] = []
        if not found:
            raise FileNotFoundError(
                f"resume: no checkpoint in {self.folder}"
                f"{'' if self.folder.is_dir() else ', which is no folder'}; "
                "resume='auto' begins anew where there is none"
            )
        for path in found:
            try:
                names = self._checked(path)
                own = read(path / f"process-{self.group.rank}.safetensors", device)
                shared = {name: read(path / f"{name}.safetensors", device) for name in names}
                self.used = path
                return shared, own, wrong
            except CheckpointError:
                raise
            except Exception as error:  # whatever a damaged file leads to
                wrong.append(f"{path.name}: {error}")
        raise CheckpointError(
            f"resume: no checkpoint in {self.folder} is whole. " + "; ".join(wrong)
        )

    def _checked(self, path: Path) -> list[str]:
        """Names of the shared files of a checkpoint that is whole; an error says what is not."""
        try:
            body = json.loads((path / "checkpoint.json").read_bytes())
            seal = body.pop("sha256")
            version, files = (body["format"], body["version"]), body["files"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"checkpoint.json cannot be read ({error!r:.80})") from error
        if seal != _sealed(body):
            raise ValueError("checkpoint.json was changed")
        if version != (FORMAT, VERSION):
            raise CheckpointError(
                f"resume: {path} has format {version[0]!r}, version {version[1]!r}; "
                f"this release reads {FORMAT!r}, version {VERSION}"
            )
        for name, expected in files.items():
            if not (path / name).is_file():
                raise ValueError(f"{name} is missing")
            if digest(path / name) != expected:
                raise ValueError(f"{name} was changed or cut off")
        count = sum(name.startswith("process-") for name in files)
        if count != self.group.world:
            raise CheckpointError(
                f"resume: {path} is of {count} process{'' if count == 1 else 'es'}, "
                f"this run has {self.group.world}"
            )
        return [n.removesuffix(".safetensors") for n in files if "process-" not in n]

    def _clean(self, newest: Path) -> None:
        """Remove what is older than the newest few, and what killed runs left."""
        older = [path for path in self.found() if _position(path) < _position(newest)]
        for path in older[self.keep - 1 :]:
            gone = self.folder / f".{path.name}.discarded"
            os.replace(path, gone)  # removing a folder is not atomic
        for path in self.folder.iterdir():
            if path.name.startswith(".epochs-"):
                shutil.rmtree(path, ignore_errors=True)


def _position(path: Path) -> tuple[int, ...]:
    match = NAME.fullmatch(path.name)
    assert match is not None
    return tuple(int(number) for number in match.groups())


def _locked(file: IO[str]) -> bool:
    """Whether the file is this process's own now, as far as the system knows."""
    if sys.platform != "win32":
        try:
            # not flock, which the workers of a killed run would hold on to
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in (errno.EACCES, errno.EAGAIN)  # no locks on this disk
    return True


def _sealed(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _settle(folder: Path) -> None:
    """Wait until the disk has the names in a folder (Windows knows no such thing)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
