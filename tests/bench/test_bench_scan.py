"""The table of the linear recurrence runs, and its candidates compute the same."""

from __future__ import annotations

import json
import runpy
import sys
import types
from pathlib import Path

import pytest
import torch

from companion.bench import scan
from companion.bench.__main__ import main


def cumulative(A, X):
    """A stand-in for mambapy's pscan, of its signature: (B, T, D, N) twice."""
    assert A.ndim == X.ndim == 4 and A.shape == X.shape
    return scan.unbind(A, X)


@pytest.fixture
def peer(monkeypatch):
    """mambapy as if it were installed."""
    module = types.ModuleType("mambapy.pscan")
    module.pscan = cumulative
    monkeypatch.setitem(sys.modules, "mambapy", types.ModuleType("mambapy"))
    monkeypatch.setitem(sys.modules, "mambapy.pscan", module)


@pytest.fixture
def no_peer(monkeypatch):
    monkeypatch.setitem(sys.modules, "mambapy", None)
    monkeypatch.setitem(sys.modules, "mambapy.pscan", None)


def test_smoke(capsys, no_peer):
    threads = torch.get_num_threads()
    try:
        assert main(["scan", "--smoke", "--threads", "1"]) == 0
    finally:
        torch.set_num_threads(threads)
    said = capsys.readouterr().out
    assert "better peer over ours: median" in said and "pscan" not in said


def test_the_candidates_compute_the_same(peer):
    torch.manual_seed(0)
    a, b = torch.rand(2, 70, 3, requires_grad=True), torch.randn(2, 70, 3, requires_grad=True)
    found = scan.runs()
    assert set(found) == {"ours", "unbind", "pscan", *scan.FORMS}
    h = unbound = scan.unbind(a, b)
    assert torch.equal(h[:, 1], a[:, 1] * b[:, 0] + b[:, 1])
    grads = torch.autograd.grad(unbound.square().sum(), (a, b))
    for run in found.values():
        torch.testing.assert_close(run(a, b), h)
        torch.testing.assert_close(torch.autograd.grad(run(a, b).square().sum(), (a, b)), grads)


def test_the_peer_is_measured_where_it_is_installed(no_peer):
    assert scan.pscan() is None and "pscan" not in scan.runs()


def test_what_the_ratios_are():
    middle = {"ours": 2.0, "unbind": 8.0, "pscan": 6.0, "copy": 0.25}
    forms = dict.fromkeys(scan.FORMS, 1.0)
    shown = scan.ratios({**middle, **forms})
    assert shown["unbind over ours"] == 4 and shown["better peer over ours"] == 3
    assert shown["loop over ours"] == 0.5 and shown["ours over 8 copies"] == 1
    del middle["pscan"]
    assert scan.ratios({**middle, **forms})["better peer over ours"] == 4


def test_measure(monkeypatch, no_peer):
    def once(steps, seconds, least):
        for step in steps.values():
            step()
        return {name: [2.0 if name == "unbind" else 1.0] for name in steps}

    monkeypatch.setattr(scan, "interleaved", once)
    results = scan.measure(0.01, 2, [(2, 5, 3), (1, 70, 1)])
    assert results["better peer over ours median"]["values"] == [2.0, 2.0]
    assert results["ours over 8 copies worst"]["values"] == [0.125, 0.125]
    where = results["unbind over ours 2,5,3"]
    assert where["what"] == "forward and backward, unbind over ours, B,T,D = 2,5,3, by round"
    with pytest.raises(ValueError, match="rounds: expected at least 1"):
        scan.measure(0.01, 0, [(2, 5, 3)])
    with pytest.raises(ValueError, match="grid: expected at least one shape"):
        scan.measure(0.01, 1, [])


def test_the_study_is_this_table(tmp_path, monkeypatch, no_peer):
    """The script itself, with the smallest shape, on a copy: the record of the book stays."""
    script = Path(__file__).parents[2] / "book/studies/bench_scan.py"
    copy = tmp_path / script.name
    copy.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(scan, "GRID", [(1, 2, 3)])
    monkeypatch.setattr(scan, "interleaved", lambda steps, *_: {n: [1.0] for n in steps})
    threads = torch.get_num_threads()
    try:
        runpy.run_path(str(copy), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    record = json.loads((tmp_path / "bench_scan.json").read_text(encoding="utf-8"))
    assert record["script"] == f"book/studies/{script.name}" and len(record["seeds"]) >= 5
    assert "seeds are the rounds" in record["description"]
