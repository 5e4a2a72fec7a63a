"""The built site in a real browser, Chromium, with no other host in reach."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

# `make browser` asks for these tests; they take minutes
collect_ignore_glob = [] if os.environ.get("COMPANION_BROWSER") else ["test_*.py"]

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("COMPANION_SITE", ROOT / "_build/html")).resolve()
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
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

MODES = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "is_mobile": True,
        "has_touch": True,
    },
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the built site, on this machine alone."""
    if not (SITE / "index.html").exists():
        pytest.skip("no site here: make book")
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium that reaches nothing but this machine."""
    if CHROMIUM is None:
        pytest.fail("Chromium is not installed (apt install chromium, or CHROMIUM=/path/to/it)")
    api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with api.sync_playwright() as p:
        started = p.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield started
        started.close()
