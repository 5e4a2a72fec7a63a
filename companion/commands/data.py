"""``companion data``: list, describe, fetch and check the data sets of the book."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

from companion.commands.frame import OK, USAGE, CommandError, Parser, add_action, width
from companion.interrupts import importing

if TYPE_CHECKING:
    from companion.data import DataSet

__all__ = ["data"]


def data(parser: Parser) -> None:
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

    action = add_action(actions, "list", data_list, "one line for each data set")
    action.add_argument(
        "--kind",
        choices=["vendored", "pip", "download", "generated"],
        help="only sets that are had this way",
    )
    action = add_action(
        actions, "info", data_info, "everything the catalogue says about one data set"
    )
    action.add_argument("name", metavar="NAME", help="name of a data set, as `list` shows it")
    action = add_action(actions, "fetch", data_fetch, "download data sets and check their hashes")
    action.add_argument("names", metavar="NAME", nargs="+", help="names of data sets")
    action = add_action(
        actions, "verify", data_verify, "compare vendored and fetched files with their hashes"
    )
    action.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="names of data sets; without one, all that are on this machine",
    )


def data_list(options: argparse.Namespace) -> int:
    with importing():
        from companion.data import CATALOGUE

    entries = [e for e in CATALOGUE.values() if options.kind in (None, e.kind)]
    rows = [("NAME", "KIND", "TASK", "SIZE", "LICENSE")]
    rows += [(e.name, e.kind, e.task, e.size, e.license) for e in entries]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    for name, kind, *rest in rows:
        line = f"{name:<{widths[0]}}  {kind:<{widths[1]}}  " + " | ".join(rest)
        indent = " " * (sum(widths) + 4)
        print(textwrap.fill(line, width(), subsequent_indent=indent, break_long_words=False))
    print(f"\n{len(entries)} data sets. More on one: python -m companion data info NAME")
    return OK


def data_info(options: argparse.Namespace) -> int:
    with importing():
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
            lines = textwrap.wrap(text, width() - 12, break_long_words=False)
            print(f"  {field:<10}" + ("\n" + " " * 12).join(lines))
    for file in entry.files:
        print(f"  {'file':<10}{file.name}")
        if file.url:
            print(f"  {'from':<10}{file.url}")
        print(f"  {'hash':<10}{file.hash}")
    return OK


def data_fetch(options: argparse.Namespace) -> int:
    with importing():
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
    with importing():
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
    with importing():
        from companion.data.catalogue import find

    try:
        return find(name)
    except ValueError as error:
        raise CommandError(str(error).removeprefix("name: "), USAGE) from error
