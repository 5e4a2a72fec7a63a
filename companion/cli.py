"""The command line: ``python -m companion COMMAND …``, the same as ``companion COMMAND …``.

A command is one function: it takes the empty parser of the command, describes its arguments, and
names the function that runs it. ``COMMANDS`` lists them, a line each. Whatever a command needs
beyond the standard library is imported where it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from companion.commands.data import data
from companion.commands.frame import FAILED, OK, USAGE, CommandError
from companion.commands.tasks import evaluate, predict, resume, train

__all__ = ["main"]

DESCRIPTION = """\
Companion of the book "Recurrence: from the vanilla RNN to state space models".

The chapters' data sets:
  python -m companion data list           every data set, its size and license
  python -m companion data info surnames  one of them in full
Your own files:
  python -m companion train classify reviews.csv
  python -m companion predict runs/reviews-classify
Add --help to any command to see what it takes.
"""

EXIT_CODES = "Exit status: 0 all went well, 1 the command failed, 2 it was called wrongly."


class Parser(argparse.ArgumentParser):
    """argparse's parser, but a help text that cannot be written is an error, not silence."""

    def print_help(self, file: Any = None) -> None:
        """Print the help text."""
        print(self.format_help(), end="", file=file)


COMMANDS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "data": data,
    "train": train,
    "evaluate": evaluate,
    "predict": predict,
    "resume": resume,
}


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog="python -m companion",
        description=DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=raw,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, describe in COMMANDS.items():
        text = (describe.__doc__ or name).strip().splitlines()[0]
        describe(commands.add_parser(name, help=text, description=text, formatter_class=raw))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: what follows ``python -m companion``; None takes it from the command line.

    Returns:
        The exit status, 0 if all went well, 1 if the command failed, 2 if it was called wrongly.
    """
    try:
        if sys.stdout is None:
            raise CommandError("standard output is closed; there is nowhere to write to")
        status = _run(arguments)
        sys.stdout.flush()  # a closed pipe must show here, not while Python shuts down
        return status
    except CommandError as error:
        for paragraph in str(error).splitlines():
            print(f"error: {paragraph}", file=sys.stderr)
        return error.status
    except BrokenPipeError:  # `... | head` has seen enough
        _drop_output()
        return OK
    except UnicodeEncodeError as error:
        _drop_output()
        return _failed(
            f"the output has {ascii(error.object[error.start])}, which the encoding "
            f"{error.encoding} of standard output lacks; set PYTHONIOENCODING=utf-8"
        )
    except OSError as error:  # a full disk, a folder that cannot be read
        _drop_output()
        where = f"{error.filename}: " if error.filename else ""
        return _failed(f"{where}{error.strerror or error}")
    except RuntimeError as error:
        from companion.data import DataError

        if not isinstance(error, DataError):
            raise
        return _failed(str(error))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return FAILED


def _run(arguments: Sequence[str] | None) -> int:
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as stop:  # argparse: after --help, or with the usage on stderr
        return stop.code if isinstance(stop.code, int) else USAGE
    status: int = options.run(options)
    return status


def _failed(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return FAILED


def _drop_output() -> None:
    """Send what is still in the buffer nowhere: Python would try once more when it ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # no file behind it
        pass
