"""What every command shares: its parser, exit statuses, errors for the user, and its output."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

__all__ = [
    "FAILED",
    "OK",
    "USAGE",
    "CommandError",
    "Parser",
    "add_action",
    "complain",
    "drop_output",
    "width",
]

OK, FAILED, USAGE = 0, 1, 2


class CommandError(Exception):
    """The command failed; the message is for the user, who sees no traceback."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status


class Parser(argparse.ArgumentParser):
    """argparse's parser, but for three things.

    A help text that cannot be written is an error, not silence. What a command does not know is
    answered with the usage of that command. If ``mixed`` is set, options may also stand before
    and between the arguments that have no name; argparse else takes those that come first for all.
    """

    mixed = False
    _inner = False  # within argparse's own calls of the method below

    def print_help(self, file: Any = None) -> None:
        """Print the help text."""
        print(self.format_help(), end="", file=file)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse; what is left over is an error here, and not one of the parser above."""
        if self._inner:
            return super().parse_known_args(args, namespace)
        self._inner = True
        try:
            parse = self.parse_known_intermixed_args if self.mixed else super().parse_known_args
            found, unknown = parse(args, namespace)
        finally:
            self._inner = False
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def add_action(
    actions: argparse._SubParsersAction[Any],
    name: str,
    run: Callable[[argparse.Namespace], int],
    help: str,
) -> argparse.ArgumentParser:
    """Add an action of a command, and the function that runs it."""
    action: argparse.ArgumentParser = actions.add_parser(
        name, help=help, description=help[0].upper() + help[1:] + "."
    )
    action.set_defaults(run=run)
    return action


def complain(line: str) -> None:
    """Say a line on the standard error, if anybody can hear it."""
    try:
        if sys.stderr is not None:  # print would take the standard output instead
            print(line, file=sys.stderr, flush=True)
    except OSError:
        pass


def drop_output() -> None:
    """Send what is still in the buffer nowhere: Python would try once more when it ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):  # no file behind it
        pass


def width() -> int:
    """Columns to print in."""
    return max(60, min(shutil.get_terminal_size((99, 24)).columns, 120))
