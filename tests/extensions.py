"""The book's Sphinx extensions, for tests; the tools are on the path (pyproject.toml)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[1] / "book/_ext"


def extension(name: str) -> ModuleType:
    """An extension, as Sphinx sees it: those beside it can be imported."""
    spec = importlib.util.spec_from_file_location(f"extension_{name}", FOLDER / f"{name}.py")
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        spec.loader.exec_module(found)
    return found
