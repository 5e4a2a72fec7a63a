"""Collects these tests where `make peers` asks for them, and prints what they compared."""

from __future__ import annotations

import os
from importlib.metadata import version

import pytest
import torch
from torch import Tensor

# elsewhere the peers are not installed, and nothing here is a test that `make test` would skip
collect_ignore_glob = [] if os.environ.get("COMPANION_PEERS") else ["test_*.py"]

LIMIT = 1e-5
ROWS: list[tuple[str, str, str, float]] = []


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def beside():
    """Compare and keep the largest difference for the table."""

    def compare(ours: str, library: str, theirs: str, got: Tensor, want: Tensor) -> None:
        assert got.shape == want.shape
        assert want.isfinite().all() and want.abs().max() > 0.1, "a number to be different from"
        difference = (got.double() - want.double()).abs().max().item()
        ROWS.append((ours, f"{library} {version(library)}", theirs, difference))
        assert difference <= LIMIT, f"{ours} and {theirs}: {difference:.1e} apart"

    return compare


def pytest_terminal_summary(terminalreporter):
    if not ROWS:
        return
    terminalreporter.section("largest difference, of outputs")
    head = ("ours", "peer", "class or function")
    widths = [max(map(len, column)) for column in zip(head, *(r[:3] for r in ROWS), strict=True)]
    for row in [(*head, "difference"), *ROWS]:
        text = "  ".join(cell.ljust(n) for cell, n in zip(row[:3], widths, strict=True))
        last = row[3] if isinstance(row[3], str) else f"{row[3]:.1e}"
        terminalreporter.write_line(f"{text}  {last}")
    terminalreporter.write_line(f"{len(ROWS)} comparisons; the limit is {LIMIT:.0e}")
