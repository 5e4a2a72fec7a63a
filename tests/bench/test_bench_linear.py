"""The table of linear layers: its candidates, with and without the peers."""

from __future__ import annotations

import json
import runpy
import sys
import types
from pathlib import Path

import pytest
import torch

from companion.bench import linear
from companion.bench.__main__ import main
from companion.layers import Recurrence


@pytest.fixture
def no_peer(monkeypatch):
    monkeypatch.setitem(sys.modules, "mambapy", None)
    monkeypatch.setitem(sys.modules, "transformers", None)


@pytest.fixture
def peer(monkeypatch, no_peer):
    """mambapy as if it were installed, with our layer inside."""

    class MambaBlock(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            assert config.n_layers == 1
            self.inner = Recurrence("mamba", config.d_model, config.d_model, slots=config.d_state)

        def forward(self, x):
            return self.inner(x)[0]

    module = types.ModuleType("mambapy.mamba")
    module.MambaBlock, module.MambaConfig = MambaBlock, types.SimpleNamespace
    monkeypatch.setitem(sys.modules, "mambapy", types.ModuleType("mambapy"))
    monkeypatch.setitem(sys.modules, "mambapy.mamba", module)


def test_smoke(capsys, no_peer):
    threads = torch.get_num_threads()
    try:
        assert main(["linear", "--smoke", "--threads", "1"]) == 0
    finally:
        torch.set_num_threads(threads)
    said = capsys.readouterr().out
    assert all(f"{name} loop over ours: worst" in said for name in linear.LAYERS)
    assert "mambapy" not in said and "transformers" not in said


def test_peers_are_measured_where_they_are_installed(monkeypatch, peer):
    found = linear.candidates("mamba", 1, 5, 4)
    assert set(found) == {"ours", "loop", "mambapy"}
    for step in found.values():
        step()
    assert set(linear.candidates("mamba2", 1, 5, 4)) == {"ours", "loop"}
    monkeypatch.setattr(linear, "LONGEST", {("mamba", "mambapy"): 5})
    assert "mambapy" in linear.candidates("mamba", 1, 5, 4)
    assert "mambapy" not in linear.candidates("mamba", 1, 6, 4)


def test_measure(monkeypatch, peer):
    monkeypatch.setattr(linear, "LAYERS", ["mamba"])
    long = {"ours": 2.0, "loop": 8.0, "mambapy": 3.0}
    monkeypatch.setattr(linear, "interleaved", lambda steps, *_: {n: [long[n]] for n in steps})
    results = linear.measure(0.01, 2, [(1, 5, 4), (2, 3, 4)])
    assert results["mamba loop over ours 1,5,4"]["values"] == [4.0, 4.0]
    assert results["mamba mambapy over ours worst"]["values"] == [1.5, 1.5]
    memory = results["mamba peak ours 2,3,4"]
    assert memory["unit"] == "KiB" and min(memory["values"]) > 0
    assert memory["what"] == ("training step, peak memory a token, ours, B,T,D = 2,3,4, by round")
    with pytest.raises(ValueError, match="rounds: expected at least 1"):
        linear.measure(0.01, 0, [(2, 5, 3)])
    with pytest.raises(ValueError, match="grid: expected at least one shape"):
        linear.measure(0.01, 1, [])


def test_the_study_is_this_table(tmp_path, monkeypatch, no_peer):
    """The script itself, with the smallest shape, on a copy: the record of the book stays."""
    script = Path(__file__).parents[2] / "book/studies/bench_linear.py"
    copy = tmp_path / script.name
    copy.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(linear, "GRID", [(1, 2, 4)])
    monkeypatch.setattr(linear, "LAYERS", ["mingru"])
    monkeypatch.setattr(linear, "interleaved", lambda steps, *_: {n: [1.0] for n in steps})
    threads = torch.get_num_threads()
    try:
        runpy.run_path(str(copy), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    record = json.loads((tmp_path / "bench_linear.json").read_text(encoding="utf-8"))
    assert record["script"] == f"book/studies/{script.name}" and len(record["seeds"]) >= 5
    assert record["results"]["mingru loop over ours 1,2,4"]["values"] == [1.0] * 5
