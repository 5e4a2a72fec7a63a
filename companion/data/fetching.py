"""Files of the opt-in data sets: fetched once, checked always.

pooch does the transfer: it writes to a temporary file beside the target and moves it there once
the hash is right, so that a file under its own name is always whole.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from companion.data.catalogue import CATALOGUE, find
from companion.data.entry import DataFile, DataSet
from companion.data.labelled import FILES
from companion.data.unpacking import DataError, complete, unpack, unpacked

__all__ = [
    "DataError",
    "FileState",
    "cache_folder",
    "fetch",
    "folder_of",
    "on_this_machine",
    "unpacked",
    "verify",
]

TIMEOUT = 30  # seconds without an answer

State = Literal["ok", "absent", "wrong"]


@dataclass(frozen=True)
class FileState:
    """What ``verify`` found out about one file."""

    dataset: str
    file: str
    path: Path
    state: State


def cache_folder() -> Path:
    """Folder of the fetched files: ``COMPANION_DATA``, or the user's cache directory.

    Raises:
        DataError: ``COMPANION_DATA`` begins with the home of a user who has none.
    """
    given = os.environ.get("COMPANION_DATA", "")
    if given:
        try:
            return Path(given).expanduser()
        except RuntimeError as error:
            raise DataError(f"COMPANION_DATA={given}: there is no such home folder") from error
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

    Example:
        >>> [path.name for path in fetch("surnames")]  # comes with the package: no network
        ['surnames.tsv']
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
        An archive is also ``wrong`` if the folder that it was unpacked into is not complete.

    Raises:
        TypeError, ValueError: the name is no string, or unknown.
        DataError: there is no folder to look in.

    Example:
        >>> [(state.file, state.state) for state in verify("surnames")]
        [('surnames.tsv', 'ok')]
    """
    states = []
    for entry in CATALOGUE.values() if name is None else [find(name)]:
        for file in entry.files:
            path, state = folder_of(entry) / file.name, _state(entry, file)
            if state == "ok" and file.unpack and unpacked(path).exists():
                state = "ok" if complete(path, file.hash) else "wrong"
            states.append(FileState(entry.name, file.name, path, state))
    return states


def on_this_machine(entry: DataSet) -> dict[str, Path]:
    """Paths of the files of a download set by name, of archives their folders; no network.

    Raises:
        DataError: a file is missing, or its hash is wrong, or an archive cannot be unpacked.
    """
    folder = folder_of(entry)
    states = {file.name: _state(entry, file) for file in entry.files}
    for state, words in {"absent": "not found", "wrong": "damaged (not the known hash)"}.items():
        names = ", ".join(name for name, found in states.items() if found == state)
        if names:
            raise DataError(
                f"{entry.name}: {names} {words} in {folder}; the set is not part of the package. "
                f"To fetch what is missing or damaged, run `python -m companion data fetch "
                f"{entry.name}`, or load({entry.name!r}, download=True)."
            )
    paths = {file.name: folder / file.name for file in entry.files}
    for file in entry.files:
        if file.unpack:
            paths[file.name] = _unpacked_file(entry, file)
    return paths


def _state(entry: DataSet, file: DataFile) -> State:
    import pooch

    path = folder_of(entry) / file.name
    try:
        if not path.is_file():
            return "absent"
        return "ok" if pooch.hashes.hash_matches(path, file.hash) else "wrong"
    except OSError as error:
        raise DataError(f"{entry.name}: cannot read {path} ({error.strerror or error})") from error


def _unpacked_file(entry: DataSet, file: DataFile) -> Path:
    path = folder_of(entry) / file.name
    try:
        return unpack(path, file.hash)
    except DataError as error:
        raise DataError(f"{entry.name}: {error}") from error


def _fetch_file(entry: DataSet, file: DataFile, progress: bool) -> Path:
    import pooch
    import requests

    path = folder_of(entry) / file.name
    help_text = (
        f"Set COMPANION_DATA to a folder that has {entry.name}/{file.name}, or get the file "
        f"elsewhere and copy it to {path}."
    )
    pooch.get_logger().setLevel("WARNING")  # its chatter would fail a notebook's comparison
    bar = progress and sys.stderr.isatty()
    try:
        pooch.retrieve(
            file.url,
            known_hash=file.hash,
            fname=path.name,
            path=path.parent,
            downloader=pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT),
        )
    except (requests.exceptions.RequestException, ValueError) as error:
        if "does not match the known hash" in str(error):  # pooch has no class of its own for it
            raise DataError(
                f"{entry.name}: what came from {file.url} is not the {file.name} we know "
                f"(expected {file.hash}); it was not kept. The source may have changed. "
                + help_text
            ) from error
        raise DataError(
            f"{entry.name}: cannot fetch {file.name} from {file.url} ({_reason(error)}). "
            + help_text
        ) from error
    except OSError as error:
        raise DataError(
            f"{entry.name}: cannot write {path} ({error.strerror or error}). "
            "Set COMPANION_DATA to a folder with room that you may write to."
        ) from error
    if file.unpack:
        _unpacked_file(entry, file)
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
    return type(error).__name__ if isinstance(error, OSError) else str(error)
