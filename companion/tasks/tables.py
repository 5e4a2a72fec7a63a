"""Tables in people's files: CSV, TSV, JSON Lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from companion.tasks.files import FileError, ending_of, read_text

__all__ = ["TABLES", "Row", "Table", "check_columns", "fields_of", "read_table"]

OBJECTS = (".jsonl", ".ndjson")
TABLES = (".csv", ".tsv", ".tab", *OBJECTS)
LONGEST_FIELD = 10_000_000  # characters; csv's own limit, 131072, cuts off longer documents


class Row(NamedTuple):
    """A row of a table: its line in the file, and what each column holds."""

    line: int
    values: dict[str, str]


class Table(NamedTuple):
    """The names of the columns, the rows, and the line that has the names."""

    header: list[str]
    rows: list[Row]
    line: int


def read_table(
    path: str | Path,
    wanted: Iterable[str],
    separator: str | None = None,
    trained: str | None = None,
) -> Table:
    r"""A table with a header, or JSON Lines: an object a line.

    Args:
        path: the ending says what it is: ``.tsv`` and ``.tab`` have tabs, ``.jsonl`` and
            ``.ndjson`` objects, all others commas.
        wanted: columns that must be there.
        separator: a character, in place of what the ending says. Between tabs a quotation mark is
            a character like others; otherwise it encloses fields, as in RFC 4180.
        trained: ending of the file that a run was trained on, which says what a file is whose own
            ending says nothing.

    Returns:
        The table; empty lines are no rows.

    Raises:
        FileError: the file, the line and what is wrong with it.
    """
    wanted, ending = list(wanted), ending_of(path)
    if ending not in TABLES and trained is not None:
        ending = trained
    text = read_text(path)
    if ending == ".json" and text.lstrip()[0] in "[{":
        fault = "expected an object a line, in a file whose name ends in .jsonl; got .json"
        raise FileError(path, fault)
    if ending in OBJECTS:
        if separator is not None and trained is None:
            fault = f"--separator is for columns; a file that ends in {ending} has objects in JSON"
            raise FileError(path, fault)
        table = _objects(path, text, wanted)
    else:
        if separator is None and trained is None:
            _check_separated(path, text, _separator(ending, None))
        table = _fields(path, text, _separator(ending, separator))
    check_columns(path, table, wanted)
    if not table.rows:
        raise FileError(path, "expected rows after the header, got none")
    return table


def check_columns(path: str | Path, table: Table, names: Iterable[str]) -> None:
    """Raise ``FileError`` unless the header has each of these names once."""
    header = table.header
    for name in names:
        at = [str(n) for n, other in enumerate(header, 1) if other == name]
        if len(at) != 1:
            how = f"columns {' and '.join(at)} of that name" if at else "none"
            known = ", ".join(map(repr, header[:40]))
            fault = f"expected one column {name!r}, got {how}; the columns are {known}"
            raise FileError(path, fault, table.line)


def _check_separated(path: str | Path, text: str, separator: str) -> None:
    """Raise ``FileError`` for a single column whose first row has another separator, too."""
    lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()][:2]
    (at, header), (_, row) = lines[0], lines[-1]
    if separator in header or len(lines) < 2:
        return
    for mark, word, told in (
        ("\t", "tabs", r"'\t'"),
        (";", "semicolons", "';'"),
        ("|", "bars", "'|'"),
        (",", "commas", ","),
    ):
        if header.count(mark) == row.count(mark) > 0:
            own = "tabs" if separator == "\t" else "commas"
            fault = f"expected {own} between the columns, got {word}; say --separator {told}"
            raise FileError(path, fault, at)


def fields_of(line: str, ending: str, separator: str | None) -> list[str]:
    """The fields of one line, as a table of this ending has them; none if it has none."""
    if ending in OBJECTS:
        return []
    try:
        return _fields("", line, _separator(ending, separator)).header
    except FileError:
        return []


def _separator(ending: str, separator: str | None) -> str:
    if separator is None:
        return "\t" if ending in (".tsv", ".tab") else ","
    return "\t" if separator == r"\t" else separator


def _fields(path: str | Path, text: str, separator: str) -> Table:
    source = io.StringIO(text, newline="")
    options: dict[str, Any] = {"quoting": csv.QUOTE_NONE} if separator == "\t" else {}
    reader = csv.reader(source, delimiter=separator, strict=True, **options)
    limit = csv.field_size_limit(LONGEST_FIELD)
    header: list[str] | None = None
    rows, line, top = [], 1, 1
    try:
        for fields in reader:
            if header is None and fields:
                header, top = [name.strip() for name in fields], line
            elif fields and header is not None:
                if len(fields) != len(header):
                    raise FileError(
                        path,
                        f"expected {len(header)} columns as in the header "
                        f"({', '.join(header[:20])}), got {len(fields)}; "
                        "a field with a separator in it needs quotation marks",
                        line,
                    )
                rows.append(Row(line, dict(zip(header, fields, strict=True))))
            line = reader.line_num + 1
    except csv.Error as error:
        fault = str(error)
        if "unexpected end" in fault:
            fault = "a quotation mark opens a field that is not closed"
        elif "larger than" in fault:
            fault = (
                f"a field has more than {LONGEST_FIELD:,} characters; perhaps a quotation mark "
                "opens it that is not closed"
            )
        raise FileError(path, f"expected CSV, but {fault}", line) from None
    finally:
        csv.field_size_limit(limit)
    return Table(header or [], rows, top)


class _Twice(ValueError):
    """An object has a key twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Twice(next(key for key in keys if keys.count(key) > 1))
    return found


def _objects(path: str | Path, text: str, wanted: list[str]) -> Table:
    rows: list[Row] = []
    for line, content in enumerate(text.split("\n"), 1):
        if not content.strip():
            continue
        entry = _object(path, line, content)
        values = {}
        for key, value in entry.items():
            if isinstance(value, dict | list):
                if key in wanted:
                    what = "an object" if isinstance(value, dict) else "a list"
                    fault = f"expected a text or a number under {key!r}, got {what}"
                    raise FileError(path, fault, line)
                continue
            values[key] = "" if value is None else str(value)
            if isinstance(value, bool):
                values[key] = str(value).lower()  # as JSON writes it
        if rows:
            lacks = [key for key in wanted if key in rows[0].values and key not in values]
            if lacks:
                raise FileError(
                    path,
                    f"expected a text or a number under {lacks[0]!r} as in line {rows[0].line}, "
                    "got none",
                    line,
                )
            values = dict.fromkeys(rows[0].values, "") | values  # what nobody asked for may lack
        rows.append(Row(line, values))
    return Table(list(rows[0].values), rows, rows[0].line)


def _object(path: str | Path, line: int, content: str) -> dict[str, Any]:
    """The object of a line, its numbers as they are written."""
    try:
        entry = json.loads(
            content, object_pairs_hook=_once, parse_int=str, parse_float=str, parse_constant=str
        )
    except _Twice as twice:
        raise FileError(path, f"expected every key once, got {str(twice)!r} twice", line) from None
    except json.JSONDecodeError as error:
        raise FileError(path, f"expected a JSON object, but {error.msg}", line) from None
    except RecursionError:
        raise FileError(path, "expected a JSON object, got one that is too deep", line) from None
    if not isinstance(entry, dict):
        raise FileError(path, f"expected a JSON object, got {content[:40]}", line)
    if "\\ud" in content.lower():
        for key, value in entry.items():
            lone = [c for c in f"{key}{value}" if "\ud800" <= c <= "\udfff"]
            if lone:
                fault = f"expected text, got half a character, \\u{ord(lone[0]):04x}"
                raise FileError(path, fault, line, key.encode("ascii", "replace").decode())
    return entry
