"""``train``, ``evaluate``, ``predict``, ``resume``: help, files, folders, kills, processes."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from companion import cli
from companion.tasks import TASKS
from tests.tasks.toys import numerals, reviews, story

ROOT = Path(__file__).parents[1]
QUICK = ("--hidden-size", "8", "--embedding-dim", "8", "--batch-size", "8", "--device", "cpu")


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command line; gives (exit status, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "99")

    def run(*arguments, stdin=""):
        source = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
        monkeypatch.setattr("sys.stdin", source)
        status = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return status, out, err

    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("trained")
    path = reviews(place / "reviews.csv")
    said = ("train", "classify", path, "--folder", place / "run", "--epochs", "2", *QUICK)
    assert cli.main([str(part) for part in said]) == 0
    return place / "run"


def test_help_teaches_what_the_file_looks_like(run):
    status, out, err = run("train", "--help")
    assert status == 0 and err == "" and "torchrun" in out
    for name, kind in TASKS.items():
        assert f"\n  {name} " in out
        status, text, err = run("train", name, "--help")
        assert status == 0 and err == ""
        flat = " ".join(text.split())
        assert kind.summary[1:] in flat and "FILE" in flat and "--cell" in flat
        for line in kind.example.splitlines():  # the lines of the file among them
            assert " ".join(line.split()) in flat
        assert f"runs/<FILE>-{name}" in flat


def test_called_wrongly(run, tmp_path):
    path = reviews(tmp_path / "a.csv")
    for arguments, message in (
        (("train",), "TASK"),
        (("train", "sort", path), "TASK: expected one of classify, lm, tag, forecast"),
        (("train", "classify"), "PATH"),
        (("train", "classify", path, "--hiden-size", "3"), "--hidden-size"),
        (("train", "classify", path, "--epochs", "many"), "many"),
        (("train", "classify", path, "--cell", "elman"), "--cell: expected one of"),
    ):
        status, out, err = run(*arguments)
        assert status == 2 and message in err, arguments
    assert not (tmp_path / "runs").exists()


def test_train_without_tyro(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tyro", None)
    status, _, err = run("train", "classify", tmp_path / "a.csv")
    assert status == 1 and 'pip install "recurrence-companion[train]"' in err


def test_from_a_file_to_predictions(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reviews(tmp_path / "reviews.csv")
    rate = ("--learning-rate", "0.02", "--epochs", "6")
    status, out, err = run("train", "classify", "reviews.csv", *QUICK, *rate)
    assert status == 0 and err == ""
    assert "48 train, 6 valid, 6 test" in out and "the network is better" in out
    status, out, _ = run("evaluate", "runs/reviews-classify", "reviews.csv")
    assert status == 0 and "accuracy: 1.0000 against 0.5000 of always" in out
    given = "it was lovely\n\nit was awful\n"
    status, out, err = run("predict", "runs/reviews-classify", stdin=given)
    assert status == 0 and err.startswith("note: line 2 is empty")
    assert [line[:1] for line in out.splitlines()] == ["l", "+", "", "-"]
    (tmp_path / "t.txt").write_text(given)
    status, shown, _ = run("predict", "runs/reviews-classify", "t.txt", "--output", "out.tsv")
    assert status == 0 and shown == "" and (tmp_path / "out.tsv").read_text() == out
    # the one file is enough
    (tmp_path / "model.safetensors").write_bytes(
        (tmp_path / "runs/reviews-classify/model.safetensors").read_bytes()
    )
    assert run("predict", "model.safetensors", "t.txt")[1] == out


def test_output_never_replaces_what_is_no_file(run, trained, tmp_path):
    """A link stays one and its target is written; into a device or a pipe the lines go."""
    target, link, source = tmp_path / "t.tsv", tmp_path / "l.tsv", tmp_path / "in.txt"
    target.write_text("old")
    link.symlink_to(target)
    source.write_text("good\n")
    assert run("predict", trained, source, "--output", link)[0] == 0
    assert link.is_symlink() and target.read_text().startswith("label\t")
    assert run("predict", trained, source, "--output", "/dev/null")[0] == 0
    assert Path("/dev/null").is_char_device()


def test_what_is_refused(run, trained, tmp_path):
    path = reviews(tmp_path / "a.csv")
    before = (trained / "model.safetensors").read_bytes()
    for arguments, message in (
        (("train", "classify", path, "--folder", trained), "holds a run already"),
        (("train", "classify", path, "--folder", tmp_path), "is not empty; take another"),
        (("train", "classify", path, "--folder", path), "is a file; take another --folder"),
        (("train", "classify", path, "--folder", path / "x"), "cannot be written to"),
        (("train", "classify", path, "--device", "abacus"), "there is no such device"),
        (("train", "classify", tmp_path / "b.csv"), "b.csv: there is no such file"),
        (("evaluate", tmp_path, path), "has no model.safetensors"),
        (("evaluate", trained, path, "--output", tmp_path / "x"), "no numbers for single lines"),
        (("predict", trained, path, "--output", path), "is the input itself"),
        (("predict", trained, path, "--output", tmp_path), "expected a file, got the folder"),
        (("predict", trained, path, "--output", "/no/such/x"), "No such file or directory"),
        (("predict", trained, path, "--top-k", "3"), "--top-k is for lm; this is classify"),
        (("predict", trained, path, "--log-prob"), "--log-prob is for seq2seq; this is classify"),
        (("predict", trained, tmp_path / "b.txt"), "b.txt: there is no such file"),
        (("resume", tmp_path), "there is no run here (config.json is missing)"),
    ):
        status, out, err = run(*arguments)
        assert status == 1 and err.startswith("error: ") and message in err, arguments
        assert err.count("\n") == 1, err
    assert (trained / "model.safetensors").read_bytes() == before
    status, out, _ = run("resume", trained)
    assert status == 0 and "this run is over" in out


def test_a_hostile_model_or_configuration(run, trained, tmp_path):
    with safe_open(trained / "model.safetensors", "pt") as file:
        about = json.loads(file.metadata()["about"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    good = about["config"]

    def changed(part, **changes):
        return {**good, part: {**good[part], **changes}}

    for config, message in (
        ({"task": "classify"}, "expected task, settings and known"),
        (
            {**good, "task": "os"},
            "expected a task (classify, lm, tag, forecast, seq2seq), got 'os'",
        ),
        (changed("settings", run="rm"), "unknown: run"),
        (changed("settings", cell="__import__"), "--cell: expected one of"),
        (changed("settings", hidden_size=2**20), "is of another model"),
        (changed("settings", hidden_size=2**31), "the settings do not make a model"),
        (changed("settings", num_layers=10**9), "--num-layers: expected at most 100"),
        (changed("known", tokens=["<unk>", "<unk>"]), "expected tokens, each of them once"),
        (changed("known", labels=[]), "expected labels, and a count for each"),
        (changed("known", labels=[1, 2]), "labels: expected str, got int 1"),
        ({**good, "known": []}, "expected an object, got list"),
    ):
        path = tmp_path / "model.safetensors"
        unsealed = {k: v for k, v in about.items() if k != "about_sha256"}
        save_file(tensors, path, {"about": json.dumps({**unsealed, "config": config})})
        status, _, err = run("predict", path, stdin="a\n")
        assert status == 1 and message in err, (message, err)
    path.write_bytes(b"\x80\x04pickle")
    assert "cannot be read as safetensors" in run("predict", path, stdin="a\n")[2]

    config = json.loads((trained / "config.json").read_text())
    for changes, message in (
        ({"version": 9}, "version 9"),
        ({"task": "../x"}, "expected a task"),
        ({"settings": {"cell": "lstm"}}, "expected exactly the settings of this release"),
        ({"files": {}}, "files: expected 'train'"),
        ({"files": {"train": "/etc/passwd"}}, "files: expected paths and digests"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
        status, _, err = run("resume", tmp_path)
        assert status == 1 and message in err, (message, err)
    (tmp_path / "config.json").write_text("{")
    assert "config.json: expected JSON" in run("resume", tmp_path)[2]


def begun(arguments, **options):
    """A command line in a process of its own."""
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads()), "COMPANION_PROGRESS": "0"}
    return subprocess.Popen(
        [sys.executable, "-m", "companion", *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **threads, "PYTHONPATH": str(ROOT)},
        **options,
    )


@pytest.mark.skipif(os.name == "nt", reason="no such signal")
@pytest.mark.parametrize("task", ["classify", "lm", "seq2seq"])
def test_killed_and_resumed_as_if_never_killed(run, tmp_path, task):
    made = {"classify": reviews, "lm": story, "seq2seq": numerals}
    path = made[task](tmp_path / "data.csv")
    told = (task, path, *QUICK, "--epochs", "4", "--checkpoint-every", "4")
    assert run("train", *told, "--folder", tmp_path / "whole")[0] == 0
    child = begun(("train", *told, "--folder", tmp_path / "killed"))
    for line in child.stdout:
        if line.startswith("epoch   2"):  # the checkpoint of the first is there
            break
    child.send_signal(signal.SIGKILL)
    child.stdout.read()
    assert child.wait() == -signal.SIGKILL and not (tmp_path / "killed/model.safetensors").exists()
    assert "`python -m companion resume " in run("predict", tmp_path / "killed", stdin="a\n")[2]

    data = path.read_bytes()
    path.write_bytes(data + b"more,\n")
    status, _, err = run("resume", tmp_path / "killed")
    assert status == 1 and f"{path}: was changed since the run began" in err
    path.write_bytes(data)
    status, out, _ = run("resume", tmp_path / "killed")
    assert status == 0 and "epoch   1" not in out and "epoch   4" in out
    for name in ("model.safetensors", "metrics.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (
            tmp_path / "killed" / name
        ).read_bytes(), name


@pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="TWO PROCESSES ARE NOT TESTED HERE: this build of torch has no gloo",
)
def test_two_processes_are_one(run, tmp_path):
    pytest.importorskip("accelerate", reason="TWO PROCESSES ARE NOT TESTED HERE: no accelerate")
    made = {
        "classify": reviews(tmp_path / "a.csv", 61),
        "lm": story(tmp_path / "b.txt", 60),
        "seq2seq": numerals(tmp_path / "c.csv", 61),
    }
    told = {
        task: ("train", task, path, *QUICK, "--epochs", "2", "--dropout", "0")
        for task, path in made.items()
    }
    told["lm"] += ("--steps", "32")
    both = [[*map(str, t), "--folder", str(tmp_path / f"two-{n}")] for n, t in told.items()]
    script = f"from companion.cli import main\nfor told in {both!r}:\n    assert main(told) == 0\n"
    (tmp_path / "both.py").write_text(script)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc_per_node=2", tmp_path / "both.py"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("epoch   2") == len(made), "only the first process speaks"
    for task, arguments in told.items():
        assert run(*arguments, "--folder", tmp_path / f"one-{task}")[0] == 0
        one, two = (
            safe_open(tmp_path / f"{n}-{task}" / "model.safetensors", "pt") for n in ("one", "two")
        )
        assert set(one.keys()) == set(two.keys())
        for name in one.keys():  # noqa: SIM118
            torch.testing.assert_close(
                two.get_tensor(name), one.get_tensor(name), rtol=0, atol=2e-5
            )
