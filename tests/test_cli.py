"""The command line: what it says, where it says it, and its exit status."""

import dataclasses
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from companion import cli
from companion.commands import data as commands
from companion.data import CATALOGUE
from tests.data.server import TEXT, running

ROOT = Path(__file__).parents[1]


@pytest.fixture
def server(monkeypatch, tmp_path):
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with running() as server:
        yield server


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command line; gives (exit status, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "99")

    def run(*arguments):
        status = cli.main(arguments)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return status, out, err

    return run


def test_help_teaches(run):
    status, out, err = run("--help")
    assert status == 0 and err == ""
    assert "python -m companion data list" in out and "Exit status: 0" in out and "130" in out
    for name in cli.COMMANDS:
        assert name in out
        status, help_text, _ = run(name, "--help")
        assert status == 0 and "examples:" in help_text
    for action in ("list", "info", "fetch", "verify"):
        assert run("data", action, "--help")[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("data",),
        ("data", "nonsense"),
        ("data", "info"),
        ("data", "info", "a", "b"),
        ("data", "list", "--all"),
        ("data", "fetch"),
        ("data", "list", "--kind", "borrowed"),
        ("--verbose",),
    ],
)
def test_called_wrongly(run, arguments):
    status, out, err = run(*arguments)
    assert status == 2 and out == "" and "usage:" in err and "error:" in err
    if arguments[:1] == ("data",) and arguments[1:]:
        assert "usage: python -m companion data" in err  # not that of the whole program


def test_list(run):
    status, out, err = run("data", "list")
    assert status == 0 and err == ""
    assert all(f"\n{name} " in out for name in CATALOGUE)
    assert max(map(len, out.splitlines())) <= 99
    status, out, _ = run("data", "list", "--kind", "vendored")
    assert status == 0 and "\nsurnames" in out and "\nptb" not in out
    assert run("data", "list", "--kind", "generated")[0] == 0


def test_info(run):
    status, out, err = run("data", "info", "ptb")
    assert status == 0 and err == ""
    for file in CATALOGUE["ptb"].files:
        assert file.name in out and file.url in out and file.hash in out
    assert "data fetch ptb" in out
    assert "pip install scikit-learn" in run("data", "info", "digits")[1]


@pytest.mark.parametrize("action", ["info", "fetch", "verify"])
def test_unknown_name(run, action):
    status, out, err = run("data", action, "surname")
    assert status == 2 and out == ""
    assert err == "error: no data set 'surname'; did you mean 'surnames'?\n"


def test_fetch_and_verify(run, server, monkeypatch, tmp_path):
    monkeypatch.setitem(CATALOGUE, "toy", server.entry("whole", "text.txt"))
    path = tmp_path / "cache" / "toy" / "text.txt"
    status, out, err = run("data", "verify", "toy")
    assert status == 1 and out.startswith("absent") and "toy/text.txt" in err
    status, out, err = run("data", "fetch", "toy", "surnames", "digits")
    assert status == 0 and err == "" and str(path) in out and path.read_bytes() == TEXT
    assert out.count("nothing to fetch") == 2
    assert run("data", "verify", "toy")[:2] == (0, f"ok      toy               {path}\n")
    path.write_bytes(TEXT[:10])
    for arguments in (("data", "verify", "toy"), ("data", "verify")):
        status, out, err = run(*arguments)
        assert status == 1 and "wrong   toy" in out
        assert err.startswith("error: absent or damaged: toy/text.txt.") and "data fetch" in err


def test_verify_of_all_is_well_without_downloads(run, server):
    status, out, err = run("data", "verify")
    assert status == 0 and err == "" and "ok      surnames" in out and "not on this machine" in out
    status, out, err = run("data", "verify", "digits")
    assert status == 0 and "digits: no files to check; pip install" in out


def test_a_failure_does_not_stop_the_others(run, server, monkeypatch, tmp_path):
    monkeypatch.setitem(CATALOGUE, "bad", server.entry("half", "text.txt"))
    monkeypatch.setitem(CATALOGUE, "toy", server.entry("whole", "text.txt"))
    entry = server.entry("wrong", "text.txt")
    object.__setattr__(entry, "name", "bad")
    monkeypatch.setitem(CATALOGUE, "bad", entry)
    status, out, err = run("data", "fetch", "bad", "toy")
    assert status == 1 and out.startswith("toy: ") and (tmp_path / "cache/toy/text.txt").exists()
    assert err.startswith("error: bad: ") and err.count("\n") == 1 and "is not the text.txt" in err


def test_a_wrong_name_stops_before_any_work(run, server, monkeypatch):
    monkeypatch.setitem(CATALOGUE, "toy", server.entry("whole", "text.txt"))
    assert run("data", "fetch", "toy", "nothing-like-it")[0] == 2
    assert server.requests == []


def test_interrupted(run, monkeypatch):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "data_list", interrupted)
    status, _, err = run("data", "list")
    assert status == 130 and err == "stopped\n"


@pytest.mark.skipif(os.name == "nt", reason="no such signal")
def test_interrupted_while_modules_are_imported():
    """Ctrl-C at the worst moment: in an import of a package that catches what it can."""
    stub = (
        "import os, signal\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    sum(range(10**6))\n"
        "except BaseException as error:\n    raise ImportError('broken off') from error\n"
    )
    before = (
        "import signal, sys, importlib.abc, importlib.util as u\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        return u.spec_from_loader(name, self) if name == sys.argv[1] else None\n"
        "    def exec_module(self, module):\n"
        f"        exec({stub!r}, {{}})\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    begin = "sys.argv[0], sys.orig_argv = '-m', ['python', '-m', 'companion']\nimport companion\n"
    late = "sys.argv[0] = 'x'\nfrom companion.cli import main\nsys.exit(main(sys.argv[2:]))\n"
    for name, code in (("torch", begin), ("companion.data", late), ("companion.tasks", late)):
        told = ["data", "list"] if name == "companion.data" else ["predict", "run"]
        done = subprocess.run(
            [sys.executable, "-c", before + code, name, *told],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        assert (done.returncode, done.stderr) == (130, "stopped\n"), name
    # a program of somebody else keeps its own way with Ctrl-C
    own = before + "import companion\n"
    done = subprocess.run([sys.executable, "-c", own, "torch"], capture_output=True, cwd=ROOT)
    assert done.returncode == 1 and b"broken off" in done.stderr


def test_as_a_module_and_its_imports():
    done = subprocess.run(
        [sys.executable, "-m", "companion", "data", "info", "no-such-set"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 2 and done.stderr.startswith("error: no data set")
    code = (
        "import sys, torch; before = set(sys.modules); import companion.cli; "
        "print(sorted({'matplotlib', 'sklearn', 'pooch', 'pandas', 'companion.data'}"
        " & (set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(os.name == "nt", reason="no such pipes")
def test_a_pipe_that_closes():
    done = subprocess.run(
        f"{sys.executable} -m companion data list | true",
        shell=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stderr == ""


def shell(command, **environment):
    return subprocess.run(
        f"{sys.executable} -m companion {command}",
        shell=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
@pytest.mark.parametrize("command", ["data list", "data info ptb", "--help"])
def test_a_full_disk(command):
    done = shell(f"{command} > /dev/full")
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@pytest.mark.skipif(os.name == "nt", reason="no such shell")
def test_no_standard_output():
    done = shell("data list >&-")
    assert done.returncode == 1 and done.stderr.startswith("error: standard output is closed")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="no such shell")
def test_no_standard_error():
    done = shell("data info no-such-set 2>&-")
    assert (done.returncode, done.stdout) == (2, "")  # a message never takes the place of data


def test_an_encoding_that_lacks_a_letter(monkeypatch, capsys):
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    entry = dataclasses.replace(CATALOGUE["surnames"], notes="8 \u00d7 8")
    monkeypatch.setitem(CATALOGUE, "surnames", entry)
    assert cli.main(["data", "info", "surnames"]) == 1
    assert capsys.readouterr().err == (
        "error: the output has '\\xd7', which the encoding ascii of standard output lacks; "
        "set PYTHONIOENCODING=utf-8\n"
    )


def test_the_catalogue_prints_in_any_encoding():
    done = shell("data list", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and done.stderr == ""
    assert "8 by 8 pixels" in " ".join(done.stdout.split())


@pytest.mark.parametrize("arguments", [("info", "ptb"), ("verify",), ("fetch", "ptb")])
def test_a_data_folder_of_nobody(run, monkeypatch, arguments):
    monkeypatch.setenv("COMPANION_DATA", "~no-such-user/x")
    status, _, err = run("data", *arguments)
    assert status == 1 and err.startswith("error: COMPANION_DATA=~no-such-user/x")
    assert err.count("\n") == 1


def test_a_bug_keeps_its_traceback(monkeypatch):
    def broken(options):
        raise RuntimeError("a bug")

    monkeypatch.setattr(commands, "data_list", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(["data", "list"])
