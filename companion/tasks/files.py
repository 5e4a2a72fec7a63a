"""People's files: read whole, and refused with the line, the column and the reason."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["FileError", "Row", "read_lines", "read_sentences", "read_table", "source_name"]

STDIN = "-"
LONGEST_FIELD = 10_000_000  # characters; csv's own limit cuts off longer documents
PACKED = {
    b"\x1f\x8b": "gzip; unpack it first (gunzip)",
    b"PK\x03\x04": "zip, as spreadsheets are; save it as CSV in UTF-8",
    b"BZh": "bzip2; unpack it first (bunzip2)",
    b"\xfd7zXZ": "xz; unpack it first (unxz)",
}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


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


class Row(NamedTuple):
    """A row of a table: its line in the file, and what each column holds."""

    line: int
    values: dict[str, str]


def source_name(path: str | Path) -> str:
    """What messages call a file; ``-`` is the standard input."""
    return "standard input" if str(path) == STDIN else str(path)


def read_bytes(path: str | Path) -> bytes:
    """A whole file, or the standard input for ``-``; refused if it cannot be text."""
    if str(path) == STDIN:
        data = sys.stdin.buffer.read()
    else:
        where = Path(path)
        if where.is_dir():
            raise FileError(path, "expected a file, got a folder")
        try:
            data = where.read_bytes()
        except FileNotFoundError:
            raise FileError(path, "there is no such file") from None
        except OSError as error:
            raise FileError(path, f"cannot be read: {error.strerror}") from error
    for magic, what in PACKED.items():
        if data.startswith(magic):
            raise FileError(path, f"expected text, got a packed file ({what})")
    if data.startswith(UTF_16):
        raise FileError(path, "expected UTF-8, got UTF-16; save it as UTF-8")
    return data


def read_text(path: str | Path) -> str:
    """A file's text: UTF-8 with or without a byte order mark, every end of line a ``\\n``."""
    data = read_bytes(path)
    if b"\0" in data:
        at = data.index(b"\0")
        line, byte = _position(data, at)
        raise FileError(
            path, f"expected text, got the byte 0 (byte {byte} of the line); a binary file?", line
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


def read_table(
    path: str | Path, wanted: Iterable[str], separator: str | None = None
) -> tuple[list[str], list[Row]]:
    r"""A table with a header, or JSON Lines: an object a line.

    Args:
        path: the ending says what it is: ``.tsv`` and ``.tab`` have tabs, ``.jsonl`` and
            ``.ndjson`` objects, all others commas.
        wanted: columns that must be there.
        separator: a character, in place of what the ending says. Between tabs a quotation mark is
            a character like others; otherwise it encloses fields, as in RFC 4180.

    Returns:
        The names of the columns, and the rows; empty lines are no rows.

    Raises:
        FileError: the file, the line and what is wrong with it.
    """
    ending = Path(path).suffix.lower()
    text = read_text(path)
    if separator is None and ending in (".jsonl", ".ndjson"):
        header, rows = _objects(path, text)
    else:
        header, rows = _fields(path, text, separator or _separator(ending))
    for name in wanted:
        if header.count(name) != 1:
            how = "none" if name not in header else f"{header.count(name)} of them"
            known = ", ".join(map(repr, header))
            raise FileError(
                path, f"expected one column {name!r}, got {how}; the columns are {known}", 1
            )
    if not rows:
        raise FileError(path, "expected rows after the header, got none")
    return header, rows


def _separator(ending: str) -> str:
    return "\t" if ending in (".tsv", ".tab") else ","


def _fields(path: str | Path, text: str, separator: str) -> tuple[list[str], list[Row]]:
    if len(separator) != 1 or separator in '"\n':
        raise FileError(path, f"separator: expected one character, got {separator!r}")
    source = io.StringIO(text, newline="")
    options: dict[str, Any] = {"quoting": csv.QUOTE_NONE} if separator == "\t" else {}
    reader = csv.reader(source, delimiter=separator, strict=True, **options)
    limit = csv.field_size_limit(LONGEST_FIELD)
    header: list[str] | None = None
    rows, line = [], 1
    try:
        for fields in reader:
            if header is None and fields:
                header = [name.strip() for name in fields]
            elif fields and header is not None:
                if len(fields) != len(header):
                    raise FileError(
                        path,
                        f"expected {len(header)} columns as in the header "
                        f"({', '.join(header)}), got {len(fields)}; "
                        "a field with a separator in it needs quotation marks",
                        line,
                    )
                rows.append(Row(line, dict(zip(header, fields, strict=True))))
            line = reader.line_num + 1
    except csv.Error as error:
        fault = str(error)
        if "unexpected end" in fault or "larger than" in fault:
            fault = "a quotation mark opens a field that is not closed"
        raise FileError(path, f"expected CSV, but {fault}", line) from None
    finally:
        csv.field_size_limit(limit)
    return header or [], rows


def _objects(path: str | Path, text: str) -> tuple[list[str], list[Row]]:
    rows: list[Row] = []
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        try:
            entry = json.loads(content)
        except (ValueError, RecursionError) as error:
            fault = getattr(error, "msg", type(error).__name__)
            raise FileError(path, f"expected a JSON object, but {fault}", line) from None
        if not isinstance(entry, dict):
            raise FileError(path, f"expected a JSON object, got {content[:40]}", line)
        values = {}
        for key, value in entry.items():
            if isinstance(value, bool) or not isinstance(value, str | int | float | None):
                continue  # nothing a task could use
            values[key] = "" if value is None else str(value)
        if rows and list(values) != list(rows[0].values):
            lacks = [key for key in rows[0].values if key not in values]
            if lacks:
                raise FileError(
                    path,
                    f"expected a text or a number under {lacks[0]!r} as in line {rows[0].line}, "
                    "got none",
                    line,
                )
        rows.append(Row(line, values))
    return list(rows[0].values) if rows else [], rows


def read_sentences(
    path: str | Path, tagged: bool = True
) -> list[tuple[list[int], list[str], list[str]]]:
    """Sentences in columns: a token a line, its tag last, an empty line between sentences.

    Args:
        path: columns stand apart by tabs, or else by spaces; further ones in between are passed
            over, and so are sentences of one token ``-DOCSTART-``.
        tagged: whether there must be a tag.

    Returns:
        For each sentence the lines of its tokens, the tokens, and their tags, if ``tagged``.

    Raises:
        FileError: the file, the line and what is wrong with it.
    """
    found: list[tuple[list[int], list[str], list[str]]] = []
    begun = False
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            begun = False
            continue
        columns = line.split("\t") if "\t" in line else line.split()
        columns = [column.strip() for column in columns]
        if tagged and len(columns) < 2:
            raise FileError(
                path, f"expected a token and a tag, got one column: {line.strip()[:40]!r}", number
            )
        if not columns[0] or (tagged and not columns[-1]):
            what = "token" if not columns[0] else "tag"
            raise FileError(path, f"expected a {what}, got an empty column", number)
        if columns[0] == "-DOCSTART-":
            continue
        if not begun:
            found.append(([], [], []))
            begun = True
        found[-1][0].append(number)
        found[-1][1].append(columns[0])
        if tagged:
            found[-1][2].append(columns[-1])
    if not found:
        raise FileError(path, "expected sentences, got none")
    return found
