"""Where the commands on people's files write: a report that may be cut off, a file of lines."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from companion.commands.frame import CommandError, complain, drop_output

__all__ = ["Report", "warn", "write"]


class Report:
    """Says the lines of a report, and goes on in silence where nobody takes them any longer.

    The work is worth more than its report: ``train … | head`` trains, and so does one whose log
    is on a full disk.
    """

    fault: OSError | None = None

    def __call__(self, line: str) -> None:
        """Say a line."""
        if self.fault is not None:
            return
        try:
            try:
                print(line, flush=True)
            except UnicodeEncodeError as error:  # a label in an encoding that lacks its letters
                print(line.encode(error.encoding, "backslashreplace").decode(), flush=True)
        except OSError as error:
            self.fault = error
            drop_output()

    def end(self, folder: str | Path) -> None:
        """Raise for a report that was lost, unless its reader had seen enough."""
        if self.fault is not None and not isinstance(self.fault, BrokenPipeError):
            raise CommandError(
                f"the report could not be written: {self.fault.strerror}; the run is whole, and "
                f"its numbers are in {Path(folder) / 'metrics.json'}"
            )


def warn(line: str) -> None:
    """Say what is odd, but no error."""
    complain(f"note: {line}")


def write(lines: Iterable[str], output: str, file: str) -> None:
    """Write lines into a file, which is there when all of them are."""
    path = Path(output)
    if path.is_dir():
        raise CommandError(f"--output: expected a file, got the folder {output}")
    if path.exists() and Path(file).exists() and path.samefile(file):
        raise CommandError(f"--output: {output} is the input itself")
    try:
        if path.exists() and not path.is_file():  # a device or a pipe is written to, not replaced
            with open(path, "w", encoding="utf-8", newline="\n") as stream:
                _copy(lines, stream)
        else:
            _replace(lines, path.resolve())  # a link stays one, and what it points at is written
    except OSError as error:  # its own file name may be that of the one beside it
        raise CommandError(f"--output: {output} cannot be written: {error.strerror}") from error


def _replace(lines: Iterable[str], path: Path) -> None:
    partial = path.with_name(f".{os.getpid()}.partial")
    try:
        with open(partial, "w", encoding="utf-8", newline="\n") as stream:
            _copy(lines, stream)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _copy(lines: Iterable[str], stream: TextIO) -> None:
    for line in lines:
        stream.write(line + "\n")
