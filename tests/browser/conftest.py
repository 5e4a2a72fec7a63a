"""The built site in a real browser, Chromium, with no other host in reach."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import chromium
import pytest

# with `make test` where Chromium is installed; with COMPANION_BROWSER it has to be
WANTED = "COMPANION_SITE" in os.environ and chromium.find() or os.environ.get("COMPANION_BROWSER")
collect_ignore_glob = [] if WANTED else ["test_*.py"]

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("COMPANION_SITE", ROOT / "_build/html")).resolve()

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


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the built site, on this machine alone."""
    if not (SITE / "index.html").exists():
        pytest.fail(f"no site in {SITE}: make book")
    with chromium.serve(SITE) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium that reaches nothing but this machine."""
    path = chromium.need()
    api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with api.sync_playwright() as p:
        started = p.chromium.launch(executable_path=path, args=chromium.ARGS)
        yield started
        started.close()
