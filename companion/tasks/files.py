"""People's files: read whole, and refused with the line, the column and the reason."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from companion.train.storage import digest

__all__ = [
    "STDIN",
    "FileError",
    "Rows",
    "digest_of",
    "ending_of",
    "is_stream",
    "read_bytes",
    "read_lines",
    "read_text",
    "source_name",
    "standard_input",
]

T = TypeVar("T")

STDIN = "-"
STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")  # what is read there is gone
PACKED = {
    b"\x1f\x8b": "gzip; unpack it first (gunzip)",
    b"PK\x03\x04": "zip, as spreadsheets are; save it as CSV in UTF-8",
    b"BZh": "bzip2; unpack it first (bunzip2)",
    b"\xfd7zXZ": "xz; unpack it first (unxz)",
}
MARKS = {  # that of UTF-32 begins with that of UTF-16
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
NO_FILES = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe; give what comes out of it as standard input, FILE being -"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)

_kept: dict[str, tuple[object, bytes]] = {}  # what came out of streams, and of which
_digests: dict[str, str] = {}


class FileError(ValueError):
    """A file is not what a task can read.

    Args:
        path: of the file.
        fault: what was expected, and what came.
        line: its number, from 1; None if it is about the whole file.
        column: name or number of the column.

    Example:
        >>> print(FileError("a.csv", "expected a label, got nothing", 3, "label"))
        a.csv, line 3, column 'label': expected a label, got nothing
    """

    def __init__(
        self, path: str | Path, fault: str, line: int | None = None, column: object = None
    ) -> None:
        where = source_name(path)
        where += "" if line is None else f", line {line}"
        where += "" if column is None else f", column {column!r}"
        super().__init__(f"{where}: {fault}")


class Rows(list[T]):
    """What was read from a file, row by row, and which file it was."""

    def __init__(self, rows: Iterable[T] = (), path: str | Path = "") -> None:
        super().__init__(rows)
        self.path = path


def source_name(path: str | Path) -> str:
    """What messages call a file; ``-`` is the standard input."""
    return "standard input" if str(path) == STDIN else str(path)


def ending_of(path: str | Path) -> str:
    """The end of a file's name, from its last point on, in small letters.

    Example:
        >>> ending_of("data/Reviews.CSV"), ending_of("-")
        ('.csv', '')
    """
    return Path(path).suffix.lower()


def is_stream(path: str | Path) -> bool:
    """Whether what is read there is gone afterwards: standard input, ``<(command)`` of a shell."""
    return str(path) == STDIN or str(path).startswith(STREAMS)


def standard_input() -> Any:
    """The standard input, in bytes."""
    if sys.stdin is None:
        raise FileError(STDIN, "expected data, but it is closed")
    return sys.stdin.buffer


def digest_of(path: str | Path) -> str:
    """The SHA-256 of what was read under this name last; of a file that was not read, its own."""
    return _digests.get(str(path)) or digest(Path(path))


def read_bytes(path: str | Path) -> bytes:
    """A whole file, or a stream, which is read once and kept; refused if it cannot be text."""
    try:
        data = _from_stream(path) if is_stream(path) else _from_file(path)
    except FileNotFoundError:
        raise FileError(path, "there is no such file") from None
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from error
    except MemoryError:
        raise FileError(path, "does not fit into memory") from None
    _digests[str(path)] = hashlib.sha256(data).hexdigest()
    for magic, what in PACKED.items():
        if data.startswith(magic):
            raise FileError(path, f"expected text, got a packed file ({what})")
    for mark, what in MARKS.items():
        if data.startswith(mark):
            raise FileError(path, f"expected UTF-8, got {what}; save it as UTF-8")
    return data


def _from_file(path: str | Path) -> bytes:
    kind = os.stat(path).st_mode
    for is_it, what in NO_FILES:
        if is_it(kind):
            raise FileError(path, f"expected a file, got {what}")
    return Path(path).read_bytes()


def _from_stream(path: str | Path) -> bytes:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise FileError(path, "expected a file, which several processes can read; got a stream")
    own = str(path) == STDIN
    source: object = standard_input() if own else (os.stat(path).st_dev, os.stat(path).st_ino)
    kept = _kept.get(str(path))
    if kept is None or kept[0] != source:
        data = standard_input().read() if own else Path(path).read_bytes()
        kept = _kept[str(path)] = source, data
    return kept[1]


def read_text(path: str | Path) -> str:
    """A file's text: UTF-8 with or without a byte order mark, every end of line a ``\\n``."""
    data = read_bytes(path)
    if b"\0" in data:
        line, byte = _position(data, data.index(b"\0"))
        raise FileError(
            path,
            f"expected text in UTF-8, got the byte 0 (byte {byte} of the line); a binary file, or "
            "UTF-16?",
            line,
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, byte = _position(data, error.start)
        raise FileError(
            path,
            f"expected UTF-8, got the byte 0x{data[error.start]:02x} (byte {byte} of the line, "
            f"{error.start} of the file); save it as UTF-8, such as by iconv -f LATIN1 -t UTF-8",
            line,
        ) from None
    text = re.sub("\r\n?", "\n", text.removeprefix("\ufeff"))
    if not text.strip():
        raise FileError(path, "expected text, got an empty file")
    return text


def _position(data: bytes, at: int) -> tuple[int, int]:
    """Line and byte of the line, both from 1, of the byte at an offset."""
    before = re.sub(b"\r\n?", b"\n", data[:at])
    return before.count(b"\n") + 1, len(before) - before.rfind(b"\n")


def read_lines(path: str | Path) -> list[str]:
    """The lines of a text, without their ends."""
    return read_text(path).removesuffix("\n").split("\n")
