"""The table of lengths: what it measures, and that its candidates are what they are called."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
import torch

from companion.bench import scaling
from companion.bench.__main__ import main


def test_peak_counts_what_is_held_at_once():
    def hold():
        kept = [torch.empty(1000) for _ in range(5)]
        kept.clear()
        torch.empty(3000)

    assert 5 * 4000 <= scaling.peak(hold) < 5 * 4000 + 1000


def test_both_attentions_compute_the_same():
    torch.manual_seed(0)
    one, other = scaling.make("attention"), scaling.make(scaling.SCORES)
    one.rotary = False
    weights = [w.weight for w in (one.query, one.key, one.value)]
    other.attention.in_proj_weight.data.copy_(torch.cat(weights))
    other.attention.out_proj.load_state_dict(one.output.state_dict())
    x = torch.randn(1, 7, scaling.SIZE)
    torch.testing.assert_close(one(x)[0], other(x)[0])


def test_a_kept_matrix_of_scores_takes_the_square(monkeypatch):
    monkeypatch.setattr(scaling, "LAYERS", ["gru", "attention", scaling.SCORES])
    monkeypatch.setattr(scaling, "LONGEST", {scaling.SCORES: 512})
    found = scaling.measure(0.01, 1, [(256,), (512,), (1024,)])
    value = {key: entry["values"][0] for key, entry in found.items()}
    assert f"{scaling.SCORES} peak 1024" not in value
    assert value[f"{scaling.SCORES} peak 512"] > 1.6 * value[f"{scaling.SCORES} peak 256"]
    assert value["gru state 512"] == value["gru state 256"] == scaling.SIZE * 4 / 1024
    assert value["attention state 512"] > 1.9 * value["attention state 256"]
    for bad in ({"rounds": 0, "grid": [(4,)]}, {"rounds": 1, "grid": []}):
        with pytest.raises(ValueError, match="expected at least"):
            scaling.measure(0.01, **bad)


def test_smoke(capsys):
    threads = torch.get_num_threads()
    try:
        assert main(["scaling", "--smoke", "--threads", "1"]) == 0
    finally:
        torch.set_num_threads(threads)
    assert "gru step 16" in capsys.readouterr().out


def test_the_study_is_this_table(tmp_path, monkeypatch):
    """The script itself, at the smallest length, on a copy: the record of the book stays."""
    script = Path(__file__).parents[2] / "book/studies/bench_scaling.py"
    copy = tmp_path / script.name
    copy.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(scaling, "GRID", [(4,)])
    monkeypatch.setattr(scaling, "LAYERS", ["gru", "attention"])
    monkeypatch.setattr(scaling, "interleaved", lambda steps, *_: {n: [1.0] for n in steps})
    threads = torch.get_num_threads()
    try:
        runpy.run_path(str(copy), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    record = json.loads(copy.with_suffix(".json").read_text(encoding="utf-8"))
    assert len(record["seeds"]) >= 5 and "gru train 4" in record["results"]
