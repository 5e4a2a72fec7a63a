"""Chromium without a screen and without a network: what the browser tests and `make pdf` start.

::

    python tools/chromium.py        where it is, or how to get it
"""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
# no other host in reach, and nothing that would ask for one
ARGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
if getattr(os, "geteuid", lambda: 1)() == 0:  # Chromium has no sandbox for root
    ARGS.append("--no-sandbox")


def find() -> str | None:
    """Chromium's path: what CHROMIUM names, or the first of its usual names."""
    asked = os.environ.get("CHROMIUM")
    return shutil.which(asked) if asked else next(filter(None, map(shutil.which, NAMES)), None)


def need() -> str:
    """Chromium's path, or the end with a word on how to get it."""
    if found := find():
        return found
    asked = os.environ.get("CHROMIUM")
    what = f"CHROMIUM={asked} is no program" if asked else f"none of {', '.join(NAMES)} is here"
    sys.exit(f"Chromium is needed, and {what} (apt install chromium, or CHROMIUM=/path/to/it)")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The address at which ``folder`` is served, to this machine alone."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


if __name__ == "__main__":
    print(need())
