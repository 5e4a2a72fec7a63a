"""The table of streams: what it counts as held, and that it sees what grows."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
import torch

from companion.bench import streaming
from companion.bench.__main__ import main


@pytest.fixture(autouse=True)
def no_turns(monkeypatch):
    monkeypatch.setattr(streaming, "interleaved", lambda steps, *_: {n: [1.0] for n in steps})


def values(grid, layers, monkeypatch):
    monkeypatch.setattr(streaming, "LAYERS", layers)
    found = streaming.measure(0.01, 1, grid)
    return {key: entry["values"][0] for key, entry in found.items()}


def test_what_is_held_is_the_whole_storage_once():
    whole = torch.zeros(1000)
    assert streaming.held((whole[:1], [whole[5:9]])) == 4000
    assert streaming.held((torch.zeros(10), torch.zeros(2, dtype=torch.int64))) == 40 + 16
    assert streaming.held(()) == 0


def test_states_stay_and_caches_grow(monkeypatch):
    names = ["lstm", "retnet", "attention", streaming.WINDOWED]
    monkeypatch.setattr(streaming, "WINDOW", 4)
    found = values([(60,)], names, monkeypatch)
    size = streaming.SIZE
    # h and c; d × d for each of 4 heads; keys, values, positions and the count of steps
    entry = 2 * size * 4 + 8
    for t in range(6, 61, 6):
        assert found[f"lstm state {t}"] == 2 * size * 4 / 1024
        assert found[f"retnet state {t}"] == found["retnet state 6"]
        assert found[f"attention state {t}"] == (t * entry + 8) / 1024
        assert found[f"{streaming.WINDOWED} state {t}"] <= (4 * entry + 8) / 1024
    assert set(found) >= {f"lstm step {t}" for t in range(6, 61, 6)}


def test_a_layer_that_keeps_its_past_is_found_out(monkeypatch):
    class Leaks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.past = []

        def initial_state(self, batch_size):
            return torch.zeros(batch_size, streaming.SIZE)

        def step(self, x_t, state):
            # 33 MiB, more than malloc ever takes from what was freed before
            self.past.append(torch.ones(33 << 18))
            return x_t, state

    monkeypatch.setattr(streaming, "make", lambda name: Leaks())
    found = values([(10,)], ["leaks"], monkeypatch)
    assert found["leaks state 10"] == found["leaks state 1"]
    if streaming.resident() is not None:
        assert found["leaks process 10"] - found["leaks process 1"] > 200 * 1024


def test_layers_stop_where_they_may(monkeypatch):
    monkeypatch.setattr(streaming, "LONGEST", {"rnn": 20})
    found = values([(40,)], ["rnn", "gru"], monkeypatch)
    assert found["rnn steps"] == 20 and found["gru steps"] == 40
    assert "rnn state 20" in found and "rnn state 40" not in found and "gru state 40" in found


def test_those_of_the_chapter_go_the_whole_way():
    assert streaming.LONGEST.keys().isdisjoint({"rnn", "lstm", "gru", "mamba", "retnet"})


def test_refuses(monkeypatch):
    for rounds, grid, words in ((0, [(40,)], "rounds"), (1, [], "grid"), (1, [(9,)], "steps")):
        with pytest.raises(ValueError, match=f"^{words}: expected at least"):
            streaming.measure(0.01, rounds, grid)


def test_smoke(capsys):
    threads = torch.get_num_threads()
    try:
        assert main(["streaming", "--smoke", "--threads", "1"]) == 0
    finally:
        torch.set_num_threads(threads)
    out = capsys.readouterr().out
    assert all(f"{name} ratio 100" in out for name in streaming.LAYERS)


def test_the_study_is_this_table(tmp_path, monkeypatch):
    """The script itself, along a short stream, on a copy: the record of the book stays."""
    script = Path(__file__).parents[2] / "book/studies/bench_streaming.py"
    copy = tmp_path / script.name
    copy.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(streaming, "GRID", [(10,)])
    monkeypatch.setattr(streaming, "LAYERS", ["gru", "attention"])
    threads = torch.get_num_threads()
    try:
        runpy.run_path(str(copy), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    record = json.loads(copy.with_suffix(".json").read_text(encoding="utf-8"))
    assert {"gru step 10", "attention state 5"} <= set(record["results"])
