import sys
from pathlib import Path

import pytest

from companion.data import CATALOGUE
from tests.data.server import running

# the vendor scripts import what they share, as they do when they are run
sys.path.append(str(Path(__file__).parents[2] / "tools"))


@pytest.fixture
def server():
    with running() as server:
        yield server


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty folder for the fetched files, and no proxy between us and 127.0.0.1."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("COMPANION_DATA", str(folder))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return folder


@pytest.fixture
def catalogue(monkeypatch):
    """Function that puts an entry into the catalogue for one test."""
    return lambda entry: monkeypatch.setitem(CATALOGUE, entry.name, entry)
