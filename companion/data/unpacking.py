"""Archives, unpacked beside themselves: all or nothing, also by several processes at once.

Beside the folder ``NAME`` stands ``.NAME.unpacked``, with the hash of the archive and the number
and the bytes of the files. A folder that does not agree with it is unpacked anew.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

__all__ = ["DataError", "complete", "unpack", "unpacked"]


class DataError(RuntimeError):
    """A data set cannot be had; the message says which file, why, and what to do."""


def unpacked(path: Path) -> Path:
    """Folder that an archive is unpacked into: its name without the endings."""
    name = path.name
    for ending in (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar", ".zip"):
        if name.endswith(ending):
            return path.with_name(name.removesuffix(ending))
    raise ValueError(f"path: expected a tar or zip archive, got {name!r}")


def complete(path: Path, digest: str) -> bool:
    """Whether an archive of this hash is unpacked, and nothing of it has been lost since."""
    folder = unpacked(path)
    try:
        return json.loads(_marker(folder).read_text("utf-8")) == _summary(folder, digest)
    except (OSError, ValueError):
        return False


def unpack(path: Path, digest: str) -> Path:
    """Unpack an archive, unless that is done; only plain files, only inside the folder.

    Args:
        path: of the archive, whose hash is right.
        digest: that hash.

    Returns:
        the folder.

    Raises:
        DataError: it cannot be unpacked; what was there before still is.
    """
    folder = unpacked(path)
    if complete(path, digest):
        return folder
    try:
        with _alone(path.parent):
            if not complete(path, digest):  # another process may have been first
                _unpack(path, folder, digest)
    except DataError:
        raise
    except Exception as error:  # what is raised for a damaged archive is no closed list
        raise DataError(f"{path} cannot be unpacked ({error})") from error
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes and threads out; the lock of one that is killed goes with it."""
    try:
        import fcntl
    except ImportError:  # Windows: the moves at the end of _unpack are atomic all the same
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # a network file system without locks
            pass
        yield
    finally:
        os.close(handle)


def _marker(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.unpacked")


def _summary(folder: Path, digest: str) -> dict[str, Any]:
    sizes = [p.stat().st_size for p in folder.rglob("*") if p.is_file()]
    return {"archive": digest, "files": len(sizes), "bytes": sum(sizes)}


def _members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each regular file in a tar or zip archive."""
    if path.name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.filename.endswith("/"):  # is_dir() of no name is an IndexError
                    with archive.open(info) as stream:
                        yield info.filename, stream
        return
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content
            elif not member.isdir():
                raise DataError(
                    f"{path.name}: {member.name!r} is a link or a device; nothing was unpacked"
                )


def _unpack(path: Path, target: Path, digest: str) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".unpacking-") as temporary:
        folder, marker = Path(temporary) / target.name, Path(temporary) / "marker"
        folder.mkdir()
        for name, stream in _members(path):
            parts = PurePosixPath(name.replace("\\", "/"))
            outside = parts.is_absolute() or ".." in parts.parts
            if outside or not parts.parts or ":" in parts.parts[0]:
                raise DataError(
                    f"{path.name}: {name!r} would be written outside its folder; "
                    "nothing was unpacked"
                )
            place = folder / parts
            place.parent.mkdir(parents=True, exist_ok=True)
            with open(place, "wb") as out:
                shutil.copyfileobj(stream, out)
        marker.write_text(json.dumps(_summary(folder, digest)), "utf-8")
        old = Path(temporary) / "old"
        if target.is_dir():
            os.replace(target, old)
        try:
            os.replace(folder, target)
        except OSError:
            if complete(path, digest):  # another process was first
                return
            if old.is_dir():
                os.replace(old, target)
            raise
        os.replace(marker, _marker(target))
