"""The benchmark runs and writes what the book reads; what it measures is never asserted."""

from __future__ import annotations

import json
import math
import os
import runpy
from pathlib import Path

import pytest
import torch

from companion.bench import cells, gated, interleaved, seq2seq
from companion.bench.__main__ import main
from companion.look import write_study


def test_interleaved_takes_turns():
    order = []
    times = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 0.0, 3)
    assert order == ["a", "b"] * 4 and len(times["a"]) == len(times["b"]) == 3
    with pytest.raises(ValueError, match="candidates: expected at least one"):
        interleaved({})


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"seconds": math.nan}, ValueError, "seconds: expected a finite number of at least 0"),
        ({"seconds": math.inf}, ValueError, "seconds: expected a finite"),
        ({"seconds": -1.0}, ValueError, "seconds: expected a finite"),
        ({"least": 0}, ValueError, "least: expected at least 1, got 0"),
        ({"least": 1.5}, TypeError, "least: expected an int"),
    ],
)
def test_interleaved_arguments(options, kind, message):
    called = []
    with pytest.raises(kind, match=f"^{message}"):
        interleaved({"a": lambda: called.append(1)}, **options)
    assert not called


@pytest.mark.parametrize(
    "table, says",
    [
        ("gated", "RNN over torch.nn: median"),
        ("cells", "clockwork loop over ours: median"),
        ("seq2seq", "GRU attention steps over one call, forward alone: median"),
    ],
)
def test_smoke(table, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    try:
        assert main([table, "--smoke", "--threads", "1"]) == 0
    finally:
        torch.set_num_threads(threads)
    assert says in capsys.readouterr().out
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "option, value, message",
    [
        ("--rounds", "0", "whole number of at least 1, got '0'"),
        ("--rounds", "1.5", "whole number of at least 1, got '1.5'"),
        ("--threads", "0", "whole number of at least 1, got '0'"),
        ("--threads", "-1", "whole number of at least 1, got '-1'"),
        ("--seconds", "nan", "finite number above 0, got 'nan'"),
        ("--seconds", "inf", "finite number above 0, got 'inf'"),
        ("--seconds", "0", "finite number above 0, got '0'"),
        ("--seconds", "x", "finite number above 0, got 'x'"),
    ],
)
def test_options_are_checked_before_anything_is_measured(option, value, message, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["gated", "--smoke", f"{option}={value}"])
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert f"argument {option}: expected a {message}" in said.err and not said.out


def test_what_is_measured_can_be_kept_as_a_study(tmp_path):
    results = gated.measure(0.01, 2, [(4, 9, 5, 6), (2, 3, 4, 5)])
    path = write_study(tmp_path / "bench_toy.py", "A toy.", range(2), results)
    record = json.loads(path.read_text())
    assert record["seeds"] == [0, 1] and len(results) == len(gated.LAYERS) * len(gated.RATIOS) * 4
    for label in gated.RATIOS:
        result = record["results"][f"RNN {label} median"]
        assert len(result["values"]) == 2 and min(result["values"]) > 0
        assert result["what"] == f"training step, {label}, median over shapes, by round"
    with pytest.raises(ValueError, match="rounds: expected at least 1"):
        gated.measure(0.01, 0, [(4, 9, 5, 6)])
    with pytest.raises(ValueError, match="grid: expected at least one shape"):
        gated.measure(0.01, 1, [])


def test_the_number_of_a_round_seeds_it(monkeypatch):
    drawn = []

    def once(steps, seconds, least):
        drawn.append(torch.rand(()).item())
        return {name: [1.0] for name in steps}

    monkeypatch.setattr(gated, "interleaved", once)
    monkeypatch.setattr(gated, "LAYERS", ["RNN"])
    gated.measure(0.01, 2, [(1, 2, 3, 4), (1, 2, 3, 4)])
    assert drawn[:2] == drawn[2:] and drawn[0] != drawn[1]


@pytest.mark.parametrize("table", [gated, cells, seq2seq])
def test_the_study_is_this_table(table, tmp_path, monkeypatch, capsys):
    """The script itself, with the smallest shape, on a copy: the record of the book stays."""
    script = Path(__file__).parents[2] / f"book/studies/bench_{table.__name__.split('.')[-1]}.py"
    copy = tmp_path / script.name
    copy.write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(table, "GRID", [(1, 2, 3) if table is seq2seq else (1, 2, 3, 4)])
    monkeypatch.setattr(gated, "interleaved", lambda steps, *_: {n: [1.0] for n in steps})
    threads = torch.get_num_threads()
    try:
        runpy.run_path(str(copy), run_name="__main__")
    finally:
        torch.set_num_threads(threads)
    record = json.loads(copy.with_suffix(".json").read_text(encoding="utf-8"))
    assert record["script"] == f"book/studies/{script.name}" and len(record["seeds"]) >= 5
    assert "seeds are the rounds" in record["description"]


@pytest.mark.parametrize("name", gated.LAYERS)
def test_the_candidates_compute_the_same(name):
    torch.manual_seed(0)
    naive = gated.NAIVE[name](3, 4)
    rnn = getattr(torch.nn, name)(3, 4)
    rnn.load_state_dict(
        {
            "weight_ih_l0": naive.W_x.weight,
            "bias_ih_l0": naive.W_x.bias,
            "weight_hh_l0": naive.W_h.weight,
            "bias_hh_l0": naive.W_h.bias,
        }
    )
    x = torch.randn(5, 2, 3)
    torch.testing.assert_close(naive(x)[0], rnn(x)[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", seq2seq.DECODERS)
def test_the_ways_to_run_a_decoder_compute_the_same(name):
    """Logits and gradients in float64; in float32 `candidates` itself compares the logits."""
    torch.manual_seed(0)
    model, ways = seq2seq.runs(name, 6)
    model.double()
    ways["tutorial"].double()
    source, tokens = torch.randint(2, seq2seq.VOCAB, (2, 3, 5))
    expected = None
    for way, run in ways.items():
        own = dict(model.decoder.named_parameters())
        if way == "tutorial":  # whose recurrence has weights of its own
            own |= {f"recurrence.{n}": w for n, w in run.rnn.named_parameters()}
        logits = run(tokens, model.begin(source))
        assert logits.shape == (3, 5, seq2seq.VOCAB)
        got = logits, torch.autograd.grad(logits.square().sum(), list(own.values()))
        expected = expected or got
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11)


def test_ways_that_differ_are_not_measured(monkeypatch):
    monkeypatch.setattr(
        seq2seq.TutorialDecoder, "forward", lambda self, x, w: torch.zeros(2, 3, seq2seq.VOCAB)
    )
    with pytest.raises(AssertionError):
        seq2seq.candidates("GRU", 2, 3, 4)
