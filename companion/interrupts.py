"""Ctrl-C while modules are imported: the command line ends at once, without a traceback.

An import that is broken off ends in an error of its own, if it ends at all: some packages turn a
``KeyboardInterrupt`` into another exception, or go on. Nothing is begun by then, so there is
nothing to clean up. ``companion`` imports this module first: torch comes after it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

__all__ = ["STOPPED", "importing", "raise_again"]

STOPPED = 130  # what a shell says of a command that Ctrl-C ended: 128 and SIGINT, 2


def _end(number: int, frame: Any) -> None:
    try:
        os.write(2, b"stopped\n")
    finally:
        os._exit(STOPPED)


def _set(old: Any, new: Any) -> bool:
    """Change the handler of Ctrl-C, if it is this one: another, or none, is somebody's wish."""
    try:
        if signal.getsignal(signal.SIGINT) is not old:
            return False
        signal.signal(signal.SIGINT, new)
    except ValueError:  # not in the main thread, which alone has handlers
        return False
    return True


@contextmanager
def importing() -> Iterator[None]:
    """Within the context, Ctrl-C ends the process."""
    changed = _set(signal.default_int_handler, _end)
    try:
        yield
    finally:
        if changed:
            raise_again()


def raise_again() -> None:
    """From here on, Ctrl-C is a ``KeyboardInterrupt``."""
    _set(_end, signal.default_int_handler)


def _is_command() -> bool:
    """Whether Python is on its way to run ``python -m companion``, or the script ``companion``."""
    by_name = os.path.splitext(os.path.basename(sys.argv[0]))[0] == "companion"
    called = ("-m", "companion") in pairwise(sys.orig_argv) or "-mcompanion" in sys.orig_argv
    return by_name or (sys.argv[0] == "-m" and called)


if getattr(sys, "argv", None) and _is_command():
    _set(signal.default_int_handler, _end)
