"""Studies are written whole or not at all, and read with every fault named."""

import json
import math
import os
import stat
from pathlib import Path

import pytest

from companion.look import recorded, run_study, write_study
from companion.look.studies import machine

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPANION_STUDIES", str(tmp_path))
    return tmp_path


def toy(folder, values=(0.768, 0.777, 0.771), name="toy", unit=""):
    results = {"accuracy": {"values": list(values), "unit": unit, "what": "w"}}
    return write_study(folder / f"{name}.py", "A toy.", range(len(values)), results)


def edit(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def stamp(path, cpu="AMD EPYC", threads=1, device="cpu"):
    def change(record):
        record["recorded"] = "2026-11-29"
        record["machine"] |= {"cpu": cpu, "threads": threads, "device": device}

    edit(path, change)


def test_round_trip(folder, capsys):
    path = toy(folder)
    assert path == folder / "toy.json" and os.listdir(folder) == ["toy.json"]
    record = json.loads(path.read_text())
    assert set(record) == {
        "study", "description", "script", "recorded", "machine", "seeds", "results",
    }  # fmt: skip
    assert record["script"] == "book/studies/toy.py" and record["seeds"] == [0, 1, 2]
    stamp(path)
    found = recorded("toy/accuracy")
    assert capsys.readouterr().out == (
        "toy/accuracy = 0.772 ± 0.005 (3 seeds, 0.768 to 0.777; "
        "recorded 2026-11-29, AMD EPYC, 1 thread)\n"
    )
    assert found.values == (0.768, 0.777, 0.771) and found.seeds == (0, 1, 2)
    assert math.isclose(found.mean, 2.316 / 3) and (found.min, found.max) == (0.768, 0.777)
    # sample standard deviation: squares of -4, 5, -1 over n - 1 = 2
    assert math.isclose(found.std, 1e-3 * math.sqrt(42 / 2))


@pytest.mark.parametrize(
    "values, unit, text",
    [
        ((1.0, 1.0), "", "= 1.00 ± 0.00 (2 seeds, 1.00 to 1.00;"),
        ((0.0, 0.0), "s", "= 0.0 ± 0.0 s (2 seeds"),
        ((5,), "ms", "= 5.00 ms (1 seed; recorded"),
        ((100.0, 300.0), "", "= 200 ± 141 (2 seeds, 100 to 300;"),
        ((0.5, 0.52), "", "= 0.510 ± 0.014 (2 seeds, 0.500 to 0.520;"),
        ((1e-9, 3e-9), "", "= 0.00000000200 ± 0.00000000141 (2"),
        ((0.9, 0.9001), "", "= 0.90005 ± 0.00007 (2 seeds, 0.90000 to 0.90010;"),
        ((-1.0, 1.0), "nats", "= 0.00 ± 1.41 nats (2 seeds, -1.00 to 1.00;"),
    ],
)
def test_printed_forms(folder, capsys, values, unit, text):
    toy(folder, values, unit=unit)
    recorded("toy/accuracy")
    assert text in capsys.readouterr().out


def test_stamp_names_device_and_threads(folder, capsys):
    path = toy(folder)
    stamp(path, threads=4)
    recorded("toy/accuracy")
    stamp(path, device="NVIDIA H200")
    recorded("toy/accuracy")
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("AMD EPYC, 4 threads)") and second.endswith("NVIDIA H200, 1 thread)")


def test_show_false_is_silent(folder, capsys):
    toy(folder)
    assert recorded("toy/accuracy", show=False).min == 0.768
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["toy", "toy/", "/x", "a/b/c", "", 3, None])
def test_name_form(folder, name):
    with pytest.raises(ValueError, match="study/key"):
        recorded(name)


def test_unknown_study_lists_studies(folder):
    toy(folder)
    with pytest.raises(FileNotFoundError, match="no study 'other' .* there are: toy"):
        recorded("other/accuracy")


def test_unknown_key_lists_keys(folder):
    toy(folder)
    with pytest.raises(KeyError, match="no key 'loss'; it has accuracy"):
        recorded("toy/loss")


def broken(change):
    return lambda path: edit(path, change)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda p: p.write_text(p.read_text()[:50]), "malformed"),
        (lambda p: p.write_text(""), "malformed"),
        (lambda p: p.write_bytes(b"\xff\xfe"), "malformed"),
        (lambda p: p.write_text("[]"), "expected an object, got list"),
        (broken(lambda r: r.pop("results")), "no field 'results'"),
        (broken(lambda r: r.pop("machine")), "no field 'machine'"),
        (broken(lambda r: r["machine"].pop("cpu")), "no field 'cpu'"),
        (broken(lambda r: r["machine"].update(threads="1")), "machine.threads must be int"),
        (broken(lambda r: r.update(recorded="yesterday")), "malformed"),
        (broken(lambda r: r["machine"].update(threads=True)), "machine.threads must be int"),
        (broken(lambda r: r.update(machine=None)), "machine must be an object"),
        (broken(lambda r: r.update(seeds=["a", "b", "c"])), "seeds must be whole numbers"),
        (broken(lambda r: r["results"].update(b={"values": [10**400, 1, 2]})), "a number, got 1"),
        (broken(lambda r: r["results"]["accuracy"].update(unit=None)), "unit must be a str"),
        (broken(lambda r: r["results"]["accuracy"].update(what=3)), "what must be a str"),
        (broken(lambda r: r["results"]["accuracy"].update(values=[1e308] * 3)), "too large"),
        (lambda p: p.write_text("[" * 100_000), "malformed"),
        (lambda p: p.write_text('{"recorded": 1' + "0" * 5000 + "}"), "malformed"),
        (broken(lambda r: r.update(seeds=[])), "malformed"),
        (broken(lambda r: r.update(seeds=[1])), "one value a seed"),
        (broken(lambda r: r["results"]["accuracy"].pop("values")), "list 'values'"),
        (broken(lambda r: r["results"].update(b={"values": [math.nan] * 3})), "got nan"),
        (broken(lambda r: r["results"].update(b={"values": [math.inf] * 3})), "got inf"),
        (broken(lambda r: r["results"].update(b={"values": ["1", 2, 3]})), "got '1'"),
        (broken(lambda r: r["results"].update(b={"values": [True, 2, 3]})), "got True"),
        (broken(lambda r: r["results"].update(b=[1, 2, 3])), "expected a mapping"),
    ],
)
def test_malformed_json_is_said(folder, damage, message):
    path = toy(folder)
    damage(path)
    with pytest.raises(ValueError, match=message) as caught:
        recorded("toy/accuracy")
    assert "toy.json" in str(caught.value)


@pytest.mark.parametrize("below", ["", "book", "book/studies", "tests/look"])
def test_found_from_any_folder_of_the_repository(tmp_path, monkeypatch, below):
    monkeypatch.delenv("COMPANION_STUDIES", raising=False)
    (tmp_path / "book/studies").mkdir(parents=True)
    toy(tmp_path / "book/studies")
    (tmp_path / below).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / below)
    assert recorded("toy/accuracy").max == 0.777


def test_no_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("COMPANION_STUDIES", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="no book/studies"):
        recorded("toy/accuracy")
    monkeypatch.setenv("COMPANION_STUDIES", str(tmp_path / "absent"))
    with pytest.raises(FileNotFoundError, match="COMPANION_STUDIES"):
        recorded("toy/accuracy")


@pytest.mark.parametrize(
    "values, message",
    [
        ([1.0], "one value a seed"),
        ([1.0, math.nan], "finite number, got nan"),
        ([1.0, None], "got None"),
        ("12", "list 'values'"),
    ],
)
def test_bad_results_write_nothing(tmp_path, values, message):
    (tmp_path / "toy.json").write_text("old")
    with pytest.raises(ValueError, match=message):
        write_study(tmp_path / "toy.py", "A toy.", [0, 1], {"x": {"values": values}})
    assert os.listdir(tmp_path) == ["toy.json"]
    assert (tmp_path / "toy.json").read_text() == "old"


def test_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = toy(tmp_path)
    before = path.read_bytes()

    def full(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        toy(tmp_path, values=(1.0, 2.0))
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["toy.json"]


def test_written_file_is_readable_by_others(tmp_path):
    assert stat.S_IMODE(toy(tmp_path).stat().st_mode) == 0o644


@pytest.mark.parametrize("seeds, results", [([], {"x": {"values": []}}), ([0], {})])
def test_empty_study(tmp_path, seeds, results):
    with pytest.raises(ValueError, match="must not be empty"):
        write_study(tmp_path / "toy.py", "A toy.", seeds, results)


def test_description_is_wanted(tmp_path):
    with pytest.raises(ValueError, match="description"):
        write_study(tmp_path / "toy.py", " ", [0], {"x": {"values": [1.0]}})


def test_run_study_matches_keys_and_seeds(folder, capsys):
    keys = {"square": ("square of the seed", "m²")}
    path = run_study(folder / "sq.py", "Squares.", lambda s: {"square": s * s}, [2, 3], keys)
    result = json.loads(path.read_text())["results"]["square"]
    assert result == {"values": [4.0, 9.0], "unit": "m²", "what": "square of the seed"}
    for wrong in ({}, {"square": 1, "extra": 2}):
        with pytest.raises(ValueError, match="gave keys"):
            run_study(folder / "bad.py", "Bad.", lambda s, w=wrong: w, [0], keys)
    assert not (folder / "bad.json").exists()


def test_machine_is_known():
    host = machine()
    assert host["cpu"] and host["cores"] >= 1 and host["threads"] >= 1
    assert host["device"] == "cpu" and host["torch"]


SCRIPTS = sorted((ROOT / "book/studies").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_every_study_of_the_book_has_its_json(script, monkeypatch):
    monkeypatch.setenv("COMPANION_STUDIES", str(script.parent))
    record = json.loads(script.with_suffix(".json").read_text())
    # a classical method, in which nothing is drawn; a single stream of a million steps
    drawn = script.stem not in ("forecast_theta", "bench_streaming")
    assert record["study"] == script.stem and len(record["seeds"]) >= (5 if drawn else 1)
    for key in record["results"]:
        assert recorded(f"{script.stem}/{key}", show=False).what


def test_no_json_without_script():
    assert SCRIPTS
    assert {p.stem for p in (ROOT / "book/studies").glob("*.json")} == {p.stem for p in SCRIPTS}


@pytest.mark.parametrize(
    "change, kind, message",
    [
        ({"seeds": (i for i in (1, 2))}, TypeError, "seeds must be a list, tuple or range"),
        ({"seeds": "12"}, TypeError, "seeds must be a list"),
        ({"seeds": []}, ValueError, "seeds must not be empty"),
        ({"seeds": [1, 1]}, ValueError, "seeds must differ"),
        ({"seeds": [1, "b"]}, TypeError, "seeds must be whole numbers, got 'b'"),
        ({"seeds": [1, True]}, TypeError, "seeds must be whole numbers"),
        ({"seeds": [1, 2.0]}, TypeError, "seeds must be whole numbers"),
        ({"device": "gpu"}, ValueError, "device: cannot use 'gpu'"),
        ({"device": "cuda:999"}, ValueError, "device: cannot use 'cuda:999'"),
        ({"description": " "}, ValueError, "description must say"),
        ({"description": None}, TypeError, "description must be a str"),
        ({"keys": {}}, ValueError, "keys must be a mapping"),
        ({"keys": ["x"]}, ValueError, "keys must be a mapping"),
        ({"keys": {"x": 5}}, TypeError, "what it is"),
        ({"keys": {"x": ("a", "b", "c")}}, TypeError, "what it is"),
        ({"script": "no/such/folder/s.py"}, ValueError, "script must stand in a folder"),
        ({"script": None}, TypeError, "script must be a path"),
    ],
)
def test_arguments_are_checked_before_the_first_seed(tmp_path, change, kind, message):
    ran = []
    given = {
        "script": tmp_path / "s.py",
        "description": "A study.",
        "one_seed": lambda seed: ran.append(seed) or {"x": 1.0},
        "seeds": [1, 2],
        "keys": {"x": "it"},
    }
    with pytest.raises(kind, match=message):
        run_study(**{**given, **change})
    assert ran == [] and os.listdir(tmp_path) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, "a", None, 10**400])
def test_a_value_that_is_none_stops_at_its_seed(tmp_path, capsys, value):
    ran = []
    with pytest.raises(ValueError, match=r"one_seed\(1\), x"):
        run_study(
            tmp_path / "s.py", "A.", lambda s: ran.append(s) or {"x": value}, [1, 2], {"x": "it"}
        )
    assert ran == [1] and os.listdir(tmp_path) == []
