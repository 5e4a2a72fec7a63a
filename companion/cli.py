"""The command line: ``python -m companion COMMAND …``, the same as ``companion COMMAND …``.

A command is one function: it takes the empty parser of the command, describes its arguments, and
names the function that runs it. ``COMMANDS`` lists them, a line each. Whatever a command needs
beyond torch and the standard library is imported where it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from companion.commands.data import data
from companion.commands.exercise import exercise
from companion.commands.frame import (
    FAILED,
    OK,
    USAGE,
    CommandError,
    Parser,
    complain,
    drop_output,
)
from companion.commands.tasks import evaluate, predict, resume, train
from companion.interrupts import STOPPED, raise_again

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

EXIT_CODES = """\
Exit status: 0 all went well, 1 the command failed, 2 it was called wrongly, 130 Ctrl-C ended it.
"""

COMMANDS: dict[str, Callable[[Parser], None]] = {
    "data": data,
    "exercise": exercise,
    "train": train,
    "evaluate": evaluate,
    "predict": predict,
    "resume": resume,
}


def _parser() -> Parser:
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
        The exit status, 0 if all went well, 1 if the command failed, 2 if it was called wrongly,
        130 if Ctrl-C ended it.
    """
    raise_again()
    try:
        if sys.stdout is None:
            raise CommandError("standard output is closed; there is nowhere to write to")
        status = _run(arguments)
        sys.stdout.flush()  # a closed pipe must show here, not while Python shuts down
        return status
    except CommandError as error:
        for paragraph in str(error).splitlines():
            complain(f"error: {paragraph}")
        return error.status
    except BrokenPipeError:  # `... | head` has seen enough
        drop_output()
        return OK
    except UnicodeEncodeError as error:
        drop_output()
        return _failed(
            f"the output has {ascii(error.object[error.start])}, which the encoding "
            f"{error.encoding} of standard output lacks; set PYTHONIOENCODING=utf-8"
        )
    except OSError as error:  # a full disk, a folder that cannot be read
        drop_output()
        where = f"{error.filename}: " if error.filename else ""
        return _failed(f"{where}{error.strerror or error}")
    except RuntimeError as error:
        from companion.data import DataError

        if not isinstance(error, DataError):
            raise
        return _failed(str(error))
    except KeyboardInterrupt:
        complain("stopped")
        return STOPPED


def _run(arguments: Sequence[str] | None) -> int:
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as stop:  # argparse: after --help, or with the usage on stderr
        return stop.code if isinstance(stop.code, int) else USAGE
    status: int = options.run(options)
    return status


def _failed(message: str) -> int:
    complain(f"error: {message}")
    return FAILED
