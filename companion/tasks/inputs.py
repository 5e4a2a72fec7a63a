"""What is to be predicted from: lines as they come in, or a column of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from companion.tasks.files import STDIN, FileError, ending_of, read_lines, standard_input
from companion.tasks.tables import TABLES, fields_of, read_table

__all__ = ["input_lines", "text_lines"]


def input_lines(path: str | Path) -> Iterator[str]:
    """The lines of a text file, or those of the standard input as soon as they are there."""
    if str(path) != STDIN:
        yield from read_lines(path)
        return
    for number, line in enumerate(standard_input(), 1):
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
    trained: str,
    chunk: int,
    warn: Callable[[str], None],
) -> Iterator[list[str]]:
    """Texts in their order, so many together: a column of a table, or lines.

    Args:
        path: a table if its name ends as one's does, or as that of the training file; otherwise,
            and on standard input, a text a line.
        column: of the table.
        separator: of the table.
        trained: ending of the training file.
        chunk: how many at once.
        warn: told of each empty one.

    Raises:
        FileError: the table has no such column; or the first line shows that a file, whose name
            does not tell, is a table.
    """
    numbered: Iterator[tuple[int, str]]
    ending = ending_of(path)
    if ending in TABLES or (ending == trained and str(path) != STDIN):
        rows = read_table(path, [column], separator, trained).rows
        numbered = iter([(line, values[column]) for line, values in rows])
    else:
        numbered = _told(path, enumerate(input_lines(path), 1), column, separator, trained, warn)
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


def _told(
    path: str | Path,
    lines: Iterator[tuple[int, str]],
    column: str,
    separator: str | None,
    trained: str,
    warn: Callable[[str], None],
) -> Iterator[tuple[int, str]]:
    """The lines; of a first one that looks like the header of a table it is told."""
    for number, text in lines:
        if number == 1:
            header = fields_of(text, trained, separator)
            if column in header and len(header) > 1:
                fault = (
                    f"got {text[:60]!r}, which looks like the header of a table, where a text a "
                    "line is read; a table is a file whose name ends in .csv, .tsv or .jsonl"
                )
                if str(path) != STDIN:
                    raise FileError(path, fault, number)
                warn(f"line 1: {fault}")
        yield number, text
