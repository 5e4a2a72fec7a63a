"""What is to be predicted from: lines as they come in, or a column of a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from companion.tasks.files import STDIN, FileError, read_lines, read_table

__all__ = ["input_lines", "text_lines"]

TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson")


def input_lines(path: str | Path) -> Iterator[str]:
    """The lines of a text file, or those of the standard input as soon as they are there."""
    if str(path) != STDIN:
        yield from read_lines(path)
        return
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            fault = f"expected UTF-8, got the byte 0x{line[error.start]:02x}"
            raise FileError(path, fault, number) from None
        if "\0" in text:
            raise FileError(path, "expected text, got the byte 0; a binary file?", number)
        yield text.rstrip("\r\n")


def text_lines(
    path: str | Path,
    column: str,
    separator: str | None,
    chunk: int,
    warn: Callable[[str], None],
) -> Iterator[list[str]]:
    """Texts in their order, so many together: a column of a table, or lines.

    Args:
        path: a table if its name ends as one's does; otherwise a text a line.
        column: of the table.
        separator: of the table.
        chunk: how many at once.
        warn: told of each empty one.
    """
    numbered: Iterator[tuple[int, str]]
    if Path(path).suffix.lower() in TABLES:
        rows = read_table(path, [column], separator)[1]
        numbered = iter([(line, values[column]) for line, values in rows])
    else:
        numbered = enumerate(input_lines(path), 1)
    texts: list[str] = []
    for line, text in numbered:
        if not text.strip():
            warn(f"line {line} is empty: no prediction, an empty line stands in its place")
        texts.append(text)
        if len(texts) == chunk:
            yield texts
            texts = []
    if texts:
        yield texts
