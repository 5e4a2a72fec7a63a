"""Files of the opt-in data sets: fetched once, checked always, unpacked safely.

pooch does the transfer: it writes to a temporary file beside the target and moves it there once
the hash is right, so that a file under its own name is always whole.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from companion.data.catalogue import CATALOGUE, find
from companion.data.entry import DataFile, DataSet
from companion.data.labelled import FILES

__all__ = ["DataError", "FileState", "cache_folder", "fetch", "folder_of", "unpacked", "verify"]

TIMEOUT = 30  # seconds without an answer


class DataError(RuntimeError):
    """A data set cannot be had; the message says which file, why, and what to do."""


@dataclass(frozen=True)
class FileState:
    """What ``verify`` found out about one file."""

    dataset: str
    file: str
    path: Path
    state: Literal["ok", "absent", "wrong"]


def cache_folder() -> Path:
    """Folder of the fetched files: ``COMPANION_DATA``, or the user's cache directory."""
    given = os.environ.get("COMPANION_DATA", "")
    if given:
        return Path(given).expanduser()
    import pooch

    return Path(pooch.os_cache("recurrence-companion"))


def folder_of(entry: DataSet) -> Path:
    """Folder of the files of one vendored or fetched data set."""
    return (FILES if entry.kind == "vendored" else cache_folder()) / entry.name


def fetch(name: str, progress: bool = False) -> list[Path]:
    """Bring the files of a data set onto this machine and check them.

    A file that is there with the right hash is not fetched again; one with a wrong hash is
    replaced. To work without a network, put the files into the folder yourself.

    Args:
        name: of an entry of the catalogue. Sets that are not downloads need no fetching.
        progress: show a progress bar on stderr.

    Returns:
        Paths of the files, in the order of the catalogue. Pip and generated sets have none.

    Raises:
        ValueError: unknown name.
        DataError: no network, a transfer that broke off, a wrong hash, an unwritable folder, an
            archive that would write outside its folder. No incomplete file is left behind.
    """
    entry = find(name)
    if entry.kind != "download":
        return [folder_of(entry) / file.name for file in entry.files]
    return [_fetch_file(entry, file, progress) for file in entry.files]


def verify(name: str | None = None) -> list[FileState]:
    """Compare files with the hashes of the catalogue, without any network.

    Args:
        name: one data set; None for all.

    Returns:
        A state for each file of the vendored and download sets, ``ok``, ``absent`` or ``wrong``.
    """
    import pooch

    states = []
    for entry in CATALOGUE.values() if name is None else [find(name)]:
        for file in entry.files:
            path = folder_of(entry) / file.name
            state: Literal["ok", "absent", "wrong"] = "absent"
            if path.is_file():
                state = "ok" if pooch.hashes.hash_matches(path, file.hash) else "wrong"
            states.append(FileState(entry.name, file.name, path, state))
    return states


def unpacked(path: Path) -> Path:
    """Folder that an archive is unpacked into: its name without the endings."""
    name = path.name
    for ending in (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar", ".zip"):
        if name.endswith(ending):
            return path.with_name(name.removesuffix(ending))
    raise ValueError(f"path: expected a tar or zip archive, got {name!r}")


def _fetch_file(entry: DataSet, file: DataFile, progress: bool) -> Path:
    import pooch
    import requests

    path = folder_of(entry) / file.name
    help_text = (
        f"Set COMPANION_DATA to a folder that has {entry.name}/{file.name}, or get the file "
        f"elsewhere and copy it to {path}."
    )
    pooch.get_logger().setLevel("WARNING")  # its chatter would fail a notebook's comparison
    before = path.stat().st_mtime_ns if path.is_file() else None
    bar = progress and sys.stderr.isatty()
    try:
        pooch.retrieve(
            file.url,
            known_hash=file.hash,
            fname=path.name,
            path=path.parent,
            downloader=pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT),
        )
    except requests.exceptions.RequestException as error:
        raise DataError(
            f"{entry.name}: cannot fetch {file.name} from {file.url} ({_reason(error)}). "
            + help_text
        ) from error
    except ValueError as error:  # pooch: the hash of what came is wrong
        raise DataError(
            f"{entry.name}: what came from {file.url} is not the {file.name} we know "
            f"(expected {file.hash}); it was not kept. The source may have changed. " + help_text
        ) from error
    except OSError as error:
        raise DataError(
            f"{entry.name}: cannot write {path} ({error.strerror or error}). "
            "Set COMPANION_DATA to a folder with room that you may write to."
        ) from error
    if file.unpack:
        fresh = path.stat().st_mtime_ns != before
        if fresh or not unpacked(path).is_dir():
            try:
                _unpack(path)
            except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
                raise DataError(f"{entry.name}: {path} cannot be unpacked ({error})") from error
    return path


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.exceptions.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code}"
    if isinstance(error, requests.exceptions.Timeout):
        return f"no answer within {TIMEOUT} s"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "no connection"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke off"
    return type(error).__name__


def _members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each regular file in a tar or zip archive."""
    if path.name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.is_dir():
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


def _unpack(path: Path) -> None:
    """Unpack beside the archive, all or nothing; only plain files, only inside the folder."""
    target = unpacked(path)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".unpacking-") as temporary:
        folder = Path(temporary) / target.name
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
        if target.is_dir():
            os.replace(target, Path(temporary) / "old")
        os.replace(folder, target)
