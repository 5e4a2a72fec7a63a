"""The chapters' exercises outside their notebooks, and the command that checks answers."""

import json
import re

import pytest

from companion import cli
from companion.exercises import (
    WrongAnswer,
    chapters,
    check_answer,
    heading,
    read_exercises,
    taken,
)
from companion.slicing import names, needed

ALL = {e.name: e for chapter in chapters() for e in read_exercises(chapter)}


def solution(name: str) -> str:
    """The folded solution, under the name that the exercise asks for."""
    path = next(c for c in chapters() if c.stem == ALL[name].chapter)
    inside, found = False, []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            found += [source] if inside else []
            continue
        for kind, label in re.findall(r"\{solution-(start|end)\} *(\S*)", source):
            inside = kind == "start" and label == f"ex-{name}"
    text = "\n".join(found)
    called = re.search(rf"^{ALL[name].check}\((\w+)\)", text, re.M)
    return re.sub(r"^check_.*$", "", text, flags=re.M) + f"\n{ALL[name].wanted} = {called[1]}\n"


def test_every_exercise_of_every_chapter_is_read():
    for chapter in chapters():
        text = "".join("".join(c["source"]) for c in json.loads(chapter.read_text())["cells"])
        labels = re.findall(r"^:label: (ex-\S+)", text, re.M)
        assert [f"ex-{e.name}" for e in read_exercises(chapter)] == labels, chapter.stem
    assert len(ALL) > 80


@pytest.mark.parametrize("name", ALL)
def test_text_stub_and_check_are_there(name):
    e = ALL[name]
    assert len(e.text) > 40
    assert heading(e)
    assert "raise NotImplementedError" in e.stub
    assert e.wanted in names(e.stub)[0]
    assert e.check in names(e.cells[-1])[0] | names(e.cells[-2])[0]
    assert "solution" not in e.text.lower()


@pytest.mark.parametrize("name", ALL)
def test_the_cells_that_a_check_needs_bind_every_name_it_takes(name):
    e = ALL[name]
    before, own = e.cells[: -e.own], e.cells[-e.own :]
    used = set().union(*(names(cell)[1] for cell in own))
    chosen = [before[i] for i in needed(before, used)] + list(own)
    bound = set()
    for cell in chosen:
        bound |= names(cell)[0]
    missing = set().union(*(names(cell)[1] for cell in chosen)) - bound
    assert missing <= {"__file__"}


@pytest.mark.parametrize(
    "name", ["intro-shapes", "vanilla-jordan", "bptt-leaky", "gru-mgu", "variants-count"]
)
def test_the_solution_passes_and_the_stub_does_not(name):
    assert "ok" in check_answer(ALL[name], solution(name), "answer.py")
    with pytest.raises(WrongAnswer, match=r"stub\.py, line \d+: the stub is still there"):
        check_answer(ALL[name], ALL[name].stub, "stub.py")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("def bias_for(half_life):\n    return 0.0", "half-life 7"),
        ("def bias_for(half_life):\n    return 1 / 0", "line 2: ZeroDivisionError"),
        ("def bias_for(half_life)\n    return 1", r"line 1: expected ':'"),
        ("def bias(half_life):\n    return 1", "definition of 'bias_for', found none"),
        ("1 / 0\ndef bias_for(half_life): pass", "line 1: ZeroDivisionError"),
        ("def bias_for(half_life): pass", "cannot use the answer\n.*TypeError"),
        (
            "import sys\nsys.exit()\ndef bias_for(h): pass",
            "line 2: SystemExit: .*before",
        ),
        ("def bias_for(a, a): pass", "line 1: duplicate argument"),
        ("def bias_for(h): pass\nreturn", "line 2: 'return' outside function"),
        ("def bias_for(h): pass\0", r"mine\.py: source code string cannot contain null bytes"),
        (
            "import numbers\ndef bias_for(h):\n    return numbers.Real.__abs__(h)",
            "line 3: NotImpl",
        ),
        ("def bias_for(h):\n    return 0.0\ndef check_bias_for(f):\n    pass", "half-life 7"),
    ],
)
def test_a_wrong_answer_is_told_where_and_why(answer, expected):
    with pytest.raises(WrongAnswer, match=expected):
        check_answer(ALL["gru-half-life"], answer, "mine.py")


def test_what_a_failing_answer_prints_is_seen(capsys):
    answer = "def bias_for(half_life):\n    print('asked for', half_life)\n    return 0.0"
    with pytest.raises(WrongAnswer):
        check_answer(ALL["gru-half-life"], answer)
    assert capsys.readouterr().out == "asked for 1\nasked for 7\n"


def test_a_chapter_that_fails_is_not_a_wrong_answer():
    e = ALL["gru-half-life"]
    e = type(e)(**{**vars(e), "cells": (*e.cells[: -e.own], "1 / 0", *e.cells[-e.own :][1:])})
    with pytest.raises(RuntimeError, match=r"not your answer but .*\n.*cell \d+, line 1: ZeroDiv"):
        check_answer(e, "def bias_for(half_life):\n    return 0.5")


def test_an_answer_s_own_names_are_not_the_chapter_s():
    assert taken("def f(x): return g(x) + scale\ndef g(x): return f(x)") == {"scale"}
    assert taken("half = 0.5\ndef f(x): return half * x") == set()
    assert taken("class Cell(Cell): pass") == {"Cell"}
    assert taken("import math\nlog = math.log\nx = log(y)\ny = x") == {"y"}
    assert taken("if y:\n    g = 1\ndef f(): return g") == {"y", "g"}


def test_folders(tmp_path, monkeypatch):
    """The chapter finds its files from anywhere; the answer stays in the reader's folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "half.txt").write_text("0.5")
    e = ALL["gru-half-life"]
    reads = "import pathlib\nfound = pathlib.Path('book/studies').resolve(strict=True)"
    e = type(e)(**{**vars(e), "cells": (*e.cells[: -e.own], reads, *e.cells[-e.own :])})
    answer = (
        "assert found.is_dir()\nhalf = float(open('half.txt').read())\n"
        "def bias_for(half_life):\n    z = half ** (1 / half_life)\n"
        "    return math.log(z / (1 - z))"
    )
    assert check_answer(e, answer) == "ok\n"


def test_an_assertion_without_words_is_shown_as_it_stands():
    e = ALL["gru-half-life"]
    bare = e.cells[-1].replace(', f"half-life {half_life}"', "")
    assert bare != e.cells[-1]
    e = type(e)(**{**vars(e), "cells": (*e.cells[:-1], bare)})
    with pytest.raises(WrongAnswer, match=r"^not so: abs\(z \*\* half_life - 0.5\) < 1e-09$"):
        check_answer(e, "def bias_for(half_life):\n    return 0.5", "mine.py")


def test_only_what_is_alive_is_run():
    cells = ["import math", "x = [1]", "y = 2", "x.append(3)", "z = x", "x = [5]"]
    assert needed(cells, {"y"}) == [2]
    assert needed(cells, {"z"}) == [1, 3, 4]  # the last cell binds x anew, after z
    assert needed(cells, {"x"}) == [5]
    assert needed(cells, {"math"}) == [0]
    assert needed(["n = 1", "print(n)", "def f(): return n"], {"f"}) == [0, 2]
    assert needed(["m = f()", "train(m)", "print(1)"], {"m"}) == [0, 1]


def test_command(tmp_path, capsys):
    assert cli.main(["exercise"]) == 0
    listed = capsys.readouterr().out
    assert f"\n{len(ALL)} exercises." in listed
    assert listed.index("vanilla-last") < listed.index("gru-mgu")  # as in the book

    assert cli.main(["exercise", "gru-half-life"]) == 0
    page = capsys.readouterr().out
    file = tmp_path / "mine.py"
    file.write_text(page, encoding="utf-8")
    assert cli.main(["exercise", "ex-gru-half-life", str(file)]) == 1
    assert "the stub is still there" in capsys.readouterr().err
    z = "z = 0.5 ** (1 / half_life)\n    return math.log(z / (1 - z))"
    file.write_text(page.replace("raise NotImplementedError", z), encoding="utf-8-sig")
    assert cli.main(["exercise", "gru-half-life", str(file)]) == 0
    assert capsys.readouterr().out == "ok\n"


def test_command_refuses(tmp_path, capsys):
    assert cli.main(["exercise", "gru-half"]) == 2
    assert "there is gru-half-life" in capsys.readouterr().err
    assert cli.main(["exercise", "ex-gru-halflife"]) == 2  # a slip
    assert "there is gru-half-life" in capsys.readouterr().err
    assert cli.main(["exercise", "gru-half-life", str(tmp_path / "none.py")]) == 1
    assert "none.py: No such file" in capsys.readouterr().err
    (tmp_path / "latin.py").write_bytes(b"# \xe9")
    assert cli.main(["exercise", "gru-half-life", str(tmp_path / "latin.py")]) == 1
    assert "expected UTF-8" in capsys.readouterr().err
