"""The benchmark runs and writes what the book reads; what it measures is never asserted."""

from __future__ import annotations

import json

import pytest

from companion.bench import gated, interleaved
from companion.bench.__main__ import main


def test_interleaved_takes_turns():
    order = []
    times = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 0.0, 3)
    assert order == ["a", "b"] * 4 and len(times["a"]) == len(times["b"]) == 3
    with pytest.raises(ValueError, match="candidates: expected at least one"):
        interleaved({})


def test_smoke(tmp_path, capsys):
    assert main(["gated", "--smoke", "--threads", "1", "--write", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "bench_gated.json").read_text())
    assert record["study"] == "bench_gated"
    for label in gated.RATIOS:
        assert record["results"][f"RNN {label} median"]["values"][0] > 0
    assert "RNN over torch.nn: median" in capsys.readouterr().out


def test_the_candidates_compute_the_same():
    import torch

    torch.manual_seed(0)
    naive = gated.NaiveRNN(3, 4)
    rnn = torch.nn.RNN(3, 4)
    rnn.load_state_dict(
        {
            "weight_ih_l0": naive.W_x.weight,
            "bias_ih_l0": naive.W_x.bias,
            "weight_hh_l0": naive.W_h.weight,
            "bias_hh_l0": naive.W_h.bias,
        }
    )
    x = torch.randn(5, 2, 3)
    torch.testing.assert_close(naive(x)[0], rnn(x)[0])
