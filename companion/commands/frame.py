"""What every command shares: exit statuses, the error that is for the user, and its parser."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable

__all__ = ["FAILED", "OK", "USAGE", "CommandError", "add_action", "width"]

OK, FAILED, USAGE = 0, 1, 2


class CommandError(Exception):
    """The command failed; the message is for the user, who sees no traceback."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status


def add_action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], int],
    help: str,
) -> argparse.ArgumentParser:
    """Add an action of a command, and the function that runs it."""
    action = actions.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    action.set_defaults(run=run)
    return action


def width() -> int:
    """Columns to print in."""
    return max(60, min(shutil.get_terminal_size((99, 24)).columns, 120))
