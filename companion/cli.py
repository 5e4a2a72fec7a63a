"""The command line: ``python -m companion COMMAND …``, the same as ``companion COMMAND …``.

A command is one function: it takes the empty parser of the command, describes its arguments, and
names the function that runs it. ``COMMANDS`` lists them, a line each. Whatever a command needs
beyond the standard library is imported where it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from companion.data import DataSet

__all__ = ["main"]

OK, FAILED, USAGE = 0, 1, 2

DESCRIPTION = """\
Companion of the book "Recurrence: from the vanilla RNN to state space models".

Commands work on what the chapters work on: start with
  python -m companion data list           every data set, its size and license
  python -m companion data info surnames  one of them in full
and add --help to any command to see what it takes.
"""

EXIT_CODES = "Exit status: 0 all went well, 1 the command failed, 2 it was called wrongly."


class Parser(argparse.ArgumentParser):
    """argparse's parser, but a help text that cannot be written is an error, not silence."""

    def print_help(self, file: Any = None) -> None:
        """Print the help text."""
        print(self.format_help(), end="", file=file)


class CommandError(Exception):
    """The command failed; the message is for the user, who sees no traceback."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status


# --- data -------------------------------------------------------------------------------------


def data(parser: argparse.ArgumentParser) -> None:
    """List, describe, fetch and check the data sets of the book."""
    parser.epilog = textwrap.dedent(
        """\
        Vendored and generated sets work as they are, pip sets once their package is installed.
        Download sets are optional: `fetch` brings one onto this machine and checks its hash. They
        are kept in the folder COMPANION_DATA, or in the user's cache if that is not set.

        examples:
          python -m companion data list --kind download
          python -m companion data info ptb
          python -m companion data fetch ptb etth1
          python -m companion data verify
        """
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    action = _add(actions, "list", data_list, "one line for each data set")
    action.add_argument(
        "--kind",
        choices=["vendored", "pip", "download", "generated"],
        help="only sets that are had this way",
    )
    action = _add(actions, "info", data_info, "everything the catalogue says about one data set")
    action.add_argument("name", metavar="NAME", help="name of a data set, as `list` shows it")
    action = _add(actions, "fetch", data_fetch, "download data sets and check their hashes")
    action.add_argument("names", metavar="NAME", nargs="+", help="names of data sets")
    action = _add(
        actions, "verify", data_verify, "compare vendored and fetched files with their hashes"
    )
    action.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="names of data sets; without one, all that are on this machine",
    )


def data_list(options: argparse.Namespace) -> int:
    from companion.data import CATALOGUE

    entries = [e for e in CATALOGUE.values() if options.kind in (None, e.kind)]
    rows = [("NAME", "KIND", "TASK", "SIZE", "LICENSE")]
    rows += [(e.name, e.kind, e.task, e.size, e.license) for e in entries]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for name, kind, *rest in rows:
        line = f"{name:<{widths[0]}}  {kind:<{widths[1]}}  " + " | ".join(rest)
        indent = " " * (sum(widths) + 4)
        print(textwrap.fill(line, _width(), subsequent_indent=indent, break_long_words=False))
    print(f"\n{len(entries)} data sets. More on one: python -m companion data info NAME")
    return OK


def data_info(options: argparse.Namespace) -> int:
    from companion.data.fetching import folder_of

    entry = _entry(options.name)
    fields = ["task", "size", "license", "source", "citation", "kind", "notes"]
    shown = [(field, getattr(entry, field)) for field in fields]
    if entry.files:
        shown.append(("folder", str(folder_of(entry))))
    shown.append(("use", entry.how_to_get))
    print(entry.name)
    for field, text in shown:
        if text:
            lines = textwrap.wrap(text, _width() - 12, break_long_words=False)
            print(f"  {field:<10}" + ("\n" + " " * 12).join(lines))
    for file in entry.files:
        print(f"  {'file':<10}{file.name}")
        if file.url:
            print(f"  {'from':<10}{file.url}")
        print(f"  {'hash':<10}{file.hash}")
    return OK


def data_fetch(options: argparse.Namespace) -> int:
    from companion.data import DataError, fetch

    entries = [_entry(name) for name in options.names]  # a typing error stops us before any work
    failures = []
    for entry in entries:
        if entry.kind != "download":
            print(f"{entry.name}: nothing to fetch; {entry.how_to_get}")
            continue
        try:
            for path in fetch(entry.name, progress=True):
                print(f"{entry.name}: {path}")
        except DataError as error:
            failures.append(str(error))
    if failures:
        raise CommandError("\n".join(failures))
    return OK


def data_verify(options: argparse.Namespace) -> int:
    from companion.data import verify
    from companion.data.catalogue import CATALOGUE

    entries = [_entry(name) for name in options.names]
    states = [state for e in entries for state in verify(e.name)] if entries else verify()
    bad, skipped = [], 0
    for state in states:
        # what nobody asked for by name and nobody has fetched is no fault
        if state.state == "absent" and not entries:
            if CATALOGUE[state.dataset].kind == "download":
                skipped += 1
                continue
        print(f"{state.state:<7} {state.dataset:<16}  {state.path}")
        if state.state != "ok":
            bad.append(f"{state.dataset}/{state.file}")
    for entry in entries:
        if not entry.files:
            print(f"{entry.name}: no files to check; {entry.how_to_get}")
    if skipped:
        print(f"{skipped} files of download sets are not on this machine")
    if bad:
        raise CommandError(
            f"absent or damaged: {', '.join(bad)}. `python -m companion data fetch NAME` brings "
            "or replaces a fetched file; a vendored one comes back by installing this package "
            "again."
        )
    return OK


def _entry(name: str) -> DataSet:
    from companion.data.catalogue import find

    try:
        return find(name)
    except ValueError as error:
        raise CommandError(str(error).removeprefix("name: "), USAGE) from error


# --- the frame --------------------------------------------------------------------------------

COMMANDS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "data": data,
}


def _add(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    help: str,
) -> argparse.ArgumentParser:
    action = actions.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    action.set_defaults(run=run)
    return action


def _width() -> int:
    return max(60, min(shutil.get_terminal_size((99, 24)).columns, 120))


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
