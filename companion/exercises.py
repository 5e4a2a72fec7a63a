"""The chapters' exercises outside their notebooks: text, stub, and the check of an answer.

An exercise of a chapter is a text, a *stub* (a function or class that raises NotImplementedError)
and a *check*, a function that takes the answer and asserts what must be true of it. Here they are
read from the notebook. To check an answer, those cells of the chapter run that the check or the
answer needs, and nothing else: the answer may use every name that the chapter has defined.
"""

from __future__ import annotations

import ast
import json
import linecache
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from companion.slicing import names, needed, taken

__all__ = [
    "Exercise",
    "WrongAnswer",
    "chapters",
    "check_answer",
    "heading",
    "read_exercises",
]

OPEN = re.compile(r"^`{3,}\{exercise-start\}(?P<title>[^\n]*)\n(?::[^\n]*\n)*", re.M)
LABEL = re.compile(r"^:label: *(\S+)", re.M)
END = re.compile(r"^`{3,}\{(?:exercise-end|solution-start)\}", re.M)


class WrongAnswer(Exception):
    """The answer fails its check, or does not run; the message says where and why."""


@dataclass(frozen=True)
class Exercise:
    """One exercise of a chapter.

    Attributes:
        name: its label without ``ex-``.
        chapter: the chapter's file name without the ending.
        title: its title, may be empty.
        text: the task, in Markdown.
        wanted: the name that an answer defines.
        stub: the code to begin with.
        check: the name of the checking function.
        cells: code cells of the chapter up to and with the check.
        own: how many of them, from the end, belong to the exercise.
    """

    name: str
    chapter: str
    title: str
    text: str
    wanted: str
    stub: str
    check: str
    cells: tuple[str, ...]
    own: int


def chapters() -> list[Path]:
    """The notebooks of the book's chapters in their order, from the clone the package stands in.

    Raises:
        FileNotFoundError: if the package was installed without the book.
    """
    root = Path(__file__).resolve().parent.parent
    contents = root / "_toc.yml"
    if not contents.is_file():
        raise FileNotFoundError(
            f"no _toc.yml in {root}: exercises are read from the book's notebooks; "
            "install the package from a clone of the book (pip install -e .)"
        )
    files = re.findall(r"^[ -]*(?:file|root): (\S+)", contents.read_text("utf-8"), re.M)
    return [path for file in files if (path := root / f"{file}.ipynb").is_file()]


def heading(exercise: Exercise) -> str:
    """The title, or where there is none the first sentence of the text, as plain words."""
    text = exercise.title or exercise.text.split("\n\n")[0].replace("\n", " ")
    text = re.sub(r"\{[\w:]+\}`([^`]*)`", r"\1", text).replace("`", "").replace("*", "")
    return re.split(r"(?<=[.:?!]) ", text)[0].rstrip(" .:")


def read_exercises(path: str | Path) -> list[Exercise]:
    """All exercises of one chapter, in its order.

    Args:
        path: the chapter's notebook.

    Raises:
        ValueError: if an exercise has no label, no stub or no check.
    """
    path = Path(path)
    found: list[Exercise] = []
    code: list[str] = []
    begun: tuple[re.Match[str], str, int] | None = None
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            if "raises-exception" not in cell["metadata"].get("tags", []):
                code.append(source)
            continue
        if cell["cell_type"] != "markdown":
            continue
        # the text may end where the code begins, in this cell or a later one
        for part in re.split(r"(?=^`{3,}\{(?:exercise|solution)-)", source, flags=re.M):
            if opened := OPEN.match(part):
                begun = (opened, part[opened.end() :].removeprefix("```").strip(), len(code))
            elif begun and part.lstrip("`").startswith("{solution-start}"):
                found.append(_exercise(path.stem, *begun, tuple(code)))
                begun = None
            elif begun and not END.match(part):
                begun = (begun[0], f"{begun[1]}\n\n{part.strip()}", begun[2])
    return found


def _exercise(
    chapter: str, opened: re.Match[str], text: str, start: int, code: tuple[str, ...]
) -> Exercise:
    label = LABEL.search(opened[0])
    if label is None:
        raise ValueError(f"{chapter}: an exercise without a label: {text[:60]!r}")
    wanted = check = ""
    stub: list[str] = []
    for source in code[start:]:
        for node in ast.parse(source).body:
            name = getattr(node, "name", "")
            if name.startswith("check_"):
                check = name
                continue
            lines = source.splitlines()
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            piece = "\n".join(lines[first - 1 : node.end_lineno])
            if name and "raise NotImplementedError" in piece:
                wanted = name
                stub.append(piece)
    if not (wanted and check):
        raise ValueError(f"{chapter}: exercise {label[1]} has no stub, or no check")
    return Exercise(
        name=label[1].removeprefix("ex-"),
        chapter=chapter,
        title=opened["title"].strip(),
        text=text,
        wanted=wanted,
        stub="\n\n\n".join(stub),
        check=check,
        cells=code,
        own=len(code) - start,
    )


def check_answer(
    exercise: Exercise,
    answer: str,
    path: str = "<answer>",
    tell: Callable[[str], None] | None = None,
) -> str:
    """Run the exercise's check on an answer.

    Args:
        exercise: which one.
        answer: Python source that defines ``exercise.wanted``; it may use the chapter's names.
        path: where the source stands, for messages.
        tell: called with a line of text before anything that may take long.

    Returns:
        What the answer and the check printed; it is on the standard output already.

    Raises:
        WrongAnswer: if the answer does not run, defines something else, or fails the check.
        RuntimeError: if a cell of the chapter fails, before the answer has run.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # they come when it runs
            compile(answer, path, "exec")
    except SyntaxError as error:  # of no line if there is a null byte
        where = f", line {error.lineno}" if error.lineno else ""
        raise WrongAnswer(f"{path}{where}: {error.msg}") from None
    if exercise.wanted not in names(answer)[0]:
        raise WrongAnswer(f"{path}: expected a definition of {exercise.wanted!r}, found none")
    own = exercise.cells[len(exercise.cells) - exercise.own :]
    used = set().union(*(names(cell)[1] for cell in own), taken(answer))
    before = exercise.cells[: len(exercise.cells) - exercise.own]
    module = types.ModuleType(f"chapter_{exercise.chapter}")
    sys.modules[module.__name__] = module  # dataclasses and pickles look their module up
    place = f"book/{exercise.chapter}.ipynb"
    said = _Told()
    first = needed(before, used)
    if len(first) > 3 and tell is not None:
        tell(f"running {len(first)} cells of the chapter first; if they train, for minutes")
    try:
        with _quiet(), chdir(Path(__file__).resolve().parent.parent):  # where it finds its data
            chosen = [(i, before[i]) for i in first] + list(enumerate(own, len(before)))
            for i, cell in chosen:
                _run(cell, f"{place}, code cell {i + 1}", module)
        check = getattr(module, exercise.check)  # the answer may define another
    except Exception as error:
        del sys.modules[module.__name__]
        text = f"not your answer but a cell of the chapter fails\n{_where(error, place)}"
        raise RuntimeError(text) from error
    try:
        with redirect_stdout(said):
            _run(answer, path, module)
            check(getattr(module, exercise.wanted))
    except (Exception, SystemExit) as error:
        raise WrongAnswer(_explain(error, path, place)) from error
    finally:
        del sys.modules[module.__name__]
    return said.getvalue()


class _Told(StringIO):
    """Keeps what is printed, and shows it at once: an answer that fails may have said why."""

    def __init__(self) -> None:
        super().__init__()
        self.screen = sys.stdout

    def write(self, text: str) -> int:
        self.screen.write(text)
        return super().write(text)

    def flush(self) -> None:
        self.screen.flush()


@contextmanager
def _quiet() -> Iterator[None]:
    """The chapter's own cells print nothing, and draw on no screen."""
    try:
        import matplotlib

        matplotlib.use("Agg")
    except ImportError:
        pass
    with redirect_stdout(StringIO()):
        yield


def _run(source: str, name: str, module: types.ModuleType) -> None:
    # where inspect and tracebacks look for the lines
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), module.__dict__)  # the reader's own code, as asked for


def _frames(error: BaseException, *places: str) -> list[tuple[str, int, Any]]:
    """File, line and frame of those frames of a traceback that are the reader's or the check's."""
    found, tb = [], error.__traceback__
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if file.startswith(places):
            found.append((file, tb.tb_lineno, tb.tb_frame))
        tb = tb.tb_next
    return found


def _explain(error: BaseException, path: str, place: str) -> str:
    """What is wrong, in the words of the check, or with the line of the answer that failed."""
    theirs = _frames(error, path)
    checks = _frames(error, place)
    said = str(error)
    stub = theirs and linecache.getline(*theirs[-1][:2]).lstrip().startswith("raise ")
    if isinstance(error, NotImplementedError) and stub:  # torch, too, raises it
        return f"{path}, line {theirs[-1][1]}: the stub is still there (NotImplementedError)"
    if isinstance(error, SystemExit):
        said = "the answer ends Python before the check is done"
    if isinstance(error, AssertionError) and checks and not theirs:
        file, line, _ = checks[-1]
        asserted = _statement(file, line)
        return f"{said}\n  the check asserts: {asserted}" if said else f"not so: {asserted}"
    if checks and not theirs:  # a wrong type or shape, or parameters that were not asked for
        return f"the check cannot use the answer\n{_where(error, place)}"
    return _where(error, path, said)


def _where(error: BaseException, place: str, said: str | None = None) -> str:
    """An error and the last line of these files that it came through."""
    said = str(error) if said is None else said
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    for file, line, _ in _frames(error, place)[-1:]:
        text = f"{file}, line {line}: {text}\n  {linecache.getline(file, line).strip()}"
    return text


def _statement(file: str, line: int) -> str:
    """The assertion at a line, on one line, without its message."""
    for node in ast.walk(ast.parse("".join(linecache.getlines(file)))):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or line):
            return ast.unparse(node.test)
    return linecache.getline(file, line).strip()
