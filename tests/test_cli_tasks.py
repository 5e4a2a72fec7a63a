"""``train``, ``evaluate``, ``predict``, ``resume``: help, files, folders, kills, processes."""

import builtins
import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from companion import cli
from companion.tasks import TASKS, running
from companion.tasks.running import default_folder
from tests.tasks.toys import numerals, reviews, story

ROOT = Path(__file__).parents[1]
QUICK = ("--hidden-size", "8", "--embedding-dim", "8", "--batch-size", "8", "--device", "cpu")


@pytest.fixture(scope="module", autouse=True)
def no_last_value():
    """A doctest leaves its last value in ``builtins._``; tyro's import hashes all of them."""
    vars(builtins).pop("_", None)


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
        lines = text.splitlines()
        assert lines[0] == f"usage: python -m companion train {name} [-h] FILE [OPTION ...]"
        assert kind.example in text  # as it is, the lines of the file among them
        flat = " ".join(text.split())
        assert kind.summary[1:] in flat and f"runs/<name of FILE>-{name}" in flat
        assert max(map(len, lines)) <= 99 and not re.search("PATH|None|default: \\)", text)
        for field in dataclasses.fields(kind.Settings):
            option = field.name.replace("_", "-")
            assert sum(bool(re.match(rf"  --{option}\b(?!-)", line)) for line in lines) == 1
            if field.default not in (None, ()):
                about = text.partition(f"\n  --{option}")[2].partition("\n  --")[0]
                assert " ".join(about.split()).count("(default: ") == 1


@pytest.mark.parametrize("columns", ["1", "10", "40"])
def test_help_in_a_narrow_terminal(run, monkeypatch, columns):
    wide = [run(*told, "--help")[1].split() for told in (("train", "lm"), ("predict",))]
    monkeypatch.setenv("COLUMNS", columns)
    assert run("train", "lm", "--help")[1].split()[:40] == wide[0][:40]
    assert run("predict", "--help")[0] == 0 and os.environ["COLUMNS"] == columns
    assert run("train", "lm", "--epochs", "x")[0] == 2


def test_options_come_in_any_order(run, trained, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("good\n")
    expected = run("predict", trained, source)[1]
    assert len(expected.splitlines()) == 2
    told = (trained, source)
    for n, order in enumerate(
        [
            (*told, "--output", "O", "--device", "cpu"),
            ("--output", "O", *told),
            (trained, "--output", "O", source),
            (trained, "--output", "O", "--device=cpu", "--", source),
            ("--output", "O", "--", *told),
        ]
    ):
        output = tmp_path / f"{n}.tsv"
        status, out, err = run("predict", *(output if word == "O" else word for word in order))
        assert (status, out, err) == (0, "", ""), order
        assert output.read_text() == expected
    assert run("predict", trained, "--device", "cpu", stdin="good\n")[1] == expected
    assert run("predict", "--device", "cpu", trained, "-", stdin="good\n")[1] == expected
    path = reviews(tmp_path / "a.csv")
    assert run("evaluate", trained, "--device", "cpu", path)[0] == 0
    assert (
        run("train", "classify", "--epochs", "1", *QUICK, path, "--folder", tmp_path / "r")[0] == 0
    )


def test_called_wrongly(run, tmp_path):
    path = reviews(tmp_path / "a.csv")
    for arguments, message in (
        (("train",), "TASK"),
        (("train", "sort", path), "TASK: expected one of classify, lm, tag, forecast"),
        (("train", "classify"), "FILE"),
        (("train", "--epochs", "3", "classify", path), "TASK FILE [OPTION ...]"),
        (("predict",), "usage: python -m companion predict"),
        (("predict", "run", "a", "b"), "unrecognized arguments: b"),
        (("evaluate", "run"), "required: FILE"),
        (("resume", "run", "--epochs", "3"), "usage: python -m companion resume"),
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
    (command,) = re.findall("pip install .*", err)
    assert status == 1 and f"`{command}`" in (ROOT / "README.md").read_text()


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
        *(
            (("train", "classify", path, "--device", device), f"--device {device}: no device")
            for device in ("abacus", "meta", "vulkan", "cuda:99", "0", "")
        ),
        (("predict", trained, path, "--device", "meta"), "hold no values"),
        (("train", "classify", tmp_path / "b.csv"), "b.csv: there is no such file"),
        (("evaluate", tmp_path, path), "has no model.safetensors"),
        (("evaluate", trained, path, "--output", tmp_path / "x"), "no numbers for single lines"),
        (("predict", trained, path, "--output", path), "is the input itself"),
        (("predict", trained, path, "--output", tmp_path), "expected a file, got the folder"),
        (("predict", trained, path, "--output", "/no/such/x"), "--output: /no/such/x cannot be"),
        (("evaluate", tmp_path / "c", path), "/c: there is no such folder or file; expected"),
        (("evaluate", "/dev/null", path), "/dev/null: that is no file; expected a run's folder"),
        (("resume", path), "expected the folder of a run, got a file"),
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


def test_a_device_that_is_not_there(run, trained, monkeypatch):
    monkeypatch.setenv("COMPANION_DEVICE", "abacus")
    status, _, err = run("predict", trained, stdin="a\n")
    assert status == 1 and "--device" not in err and "hold" not in err
    assert err == (
        "error: COMPANION_DEVICE: no device to train on: must be cpu, cuda, cuda:N or mps, got "
        "'abacus'\n"
    )


def test_a_run_from_standard_input_has_a_name():
    kind = TASKS["classify"]
    assert default_folder(kind, "-") == Path("runs/stdin-classify")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_a_report_that_cannot_be_written_does_not_end_a_training(run, tmp_path, monkeypatch):
    """A reader that has seen enough is no error; a full disk is one, said when all is done."""
    told = ("train", "classify", reviews(tmp_path / "a.csv"), *QUICK, "--epochs", "3", "--folder")
    assert run(*told, tmp_path / "whole")[0] == 0
    child = begun((*told, tmp_path / "head"), stderr=subprocess.PIPE)
    assert child.stdout.readline().startswith("classify: ")
    child.stdout.close()
    assert (child.wait(), child.stderr.read()) == (0, "")
    with open("/dev/full", "w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        status, _, err = run(*told, tmp_path / "full")
    assert status == 1 and err == (
        "error: the report could not be written: No space left on device; the run is whole, and "
        f"its numbers are in {tmp_path / 'full' / 'metrics.json'}\n"
    )
    for name in ("metrics.json", "model.safetensors"):
        whole, *others = (
            (tmp_path / run / name).read_bytes() for run in ("whole", "head", "full")
        )
        assert others == [whole, whole]


def test_a_report_without_a_test_part_says_so(run, tmp_path):
    told = ("train", "classify", reviews(tmp_path / "a.csv"), *QUICK, "--folder", tmp_path / "run")
    end = "better on the data that it was trained on\n"
    out = run(*told, "--epochs", "1", "--valid-share", "0", "--test-share", "0")[1]
    assert out.splitlines(keepends=True)[-2].endswith(end)


def test_a_label_that_the_output_lacks_does_not_end_a_training(monkeypatch, tmp_path):
    path = reviews(tmp_path / "a.csv")
    path.write_text(path.read_text(encoding="utf-8").replace(",+", ",bon\u00e9"), encoding="utf-8")
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(data, encoding="ascii"))
    told = ("train", "classify", path, *QUICK, "--epochs", "1", "--folder", tmp_path / "run")
    assert cli.main([str(part) for part in told]) == 0
    assert b"always 'bon\\xe9'" in data.getvalue() or b"of always '-'" in data.getvalue()
    assert (tmp_path / "run/model.safetensors").exists()


@pytest.mark.parametrize("when", ["reading", "training"])
def test_interrupted(run, monkeypatch, tmp_path, when):
    """To go on is promised where this run has begun: not before, nor for another run."""
    path, folder = reviews(tmp_path / "a.csv"), tmp_path / "run"

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    told = ("train", "classify", path, *QUICK, "--epochs", "1", "--folder", folder)
    note = f"note: `python -m companion resume {folder}` goes on from here\n"
    with monkeypatch.context() as patch:
        if when == "reading":
            patch.setattr(TASKS["classify"], "read", interrupt)
        else:
            patch.setattr(running, "Trainer", interrupt)
        status, _, err = run(*told)
        assert (status, err) == (130, ("" if when == "reading" else note) + "stopped\n")
        assert folder.exists() == (when == "training")
        patch.setattr(TASKS["classify"], "read", interrupt)
        again = run(*told)
        assert (again[0], again[2]) == (130, "stopped\n")
        if when == "training":
            status, _, err = run("resume", folder)
            assert (status, err) == (130, note + "stopped\n")
    if when == "training":
        assert run("resume", folder)[0] == 0 and (folder / "model.safetensors").exists()


@pytest.mark.skipif(os.name == "nt", reason="no such shell")
def test_no_standard_input(trained):
    done = subprocess.run(
        f"{sys.executable} -m companion predict {trained} <&-",
        shell=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1 and done.stderr.startswith("error: standard input: ")
    assert "closed" in done.stderr and done.stderr.count("\n") == 1


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
