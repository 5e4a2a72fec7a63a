"""The page "Reuse the code": its blocks run, in order, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import companion

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "book/reuse.md").read_text(encoding="utf-8")
PIECES = re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def test_every_recipe_has_a_block_and_leads_on():
    assert len(PIECES) == 9
    for title, text in PIECES:
        assert len(re.findall("^```(?:python|sh)$", text, re.M)) >= 1, title
        assert "{doc}`" in text or "{py:" in text or "--help" in text, title


def test_recipes_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(companion.cells, "ARCHITECTURES", companion.ARCHITECTURES)
    known = dict(companion.ARCHITECTURES)
    names: dict = {"__name__": "recipes"}
    torch.manual_seed(0)
    try:
        for code in blocks("python"):
            if "companion.export" in code:
                pytest.importorskip("onnxruntime")
                if not hasattr(torch.onnx, "ops"):
                    continue  # torch before 2.8 cannot write such files
            exec(compile(code, "reuse.md", "exec"), names)
    finally:
        companion.ARCHITECTURES.clear()
        companion.ARCHITECTURES.update(known)
    assert names["y"].shape == (3, 7, 16)
    assert len(names["history"].train_loss) == 20
    assert not names["lstm"].training


def test_a_cell_s_block_stands_alone(monkeypatch):
    """The page has it put into a file of its own."""
    monkeypatch.setattr(companion, "ARCHITECTURES", dict(companion.ARCHITECTURES))
    (code,) = [c for c in blocks("python") if "class Leaky" in c]
    exec(compile(code, "leaky.py", "exec"), {"__name__": "leaky"})
    assert "leaky" in companion.ARCHITECTURES


def test_commands_are_those_of_the_readme_and_of_the_tests():
    contract, train = blocks("sh")
    assert train in (ROOT / "README.md").read_text(encoding="utf-8"), "README's, which a test runs"
    (file,) = re.findall(r"tests/\S+\.py", contract)
    assert (ROOT / file).is_file() and "every_architecture" in (ROOT / file).read_text()
