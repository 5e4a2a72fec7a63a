"""``companion exercise``: the chapters' exercises on a reader's own file."""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
from difflib import get_close_matches
from pathlib import Path

from companion.commands.frame import OK, USAGE, CommandError, Parser, complain, width
from companion.exercises import (
    Exercise,
    WrongAnswer,
    chapters,
    check_answer,
    heading,
    read_exercises,
)

__all__ = ["exercise"]

# paragraphs of Markdown whose lines stay as they are
OWN_LINES = ("$", "|", "- ", "`", "1. ", ":")


def exercise(parser: Parser) -> None:
    """List the chapters' exercises, begin one, check an answer."""
    parser.epilog = textwrap.dedent(
        """\
        An answer is a Python file that defines the function or class which the exercise asks for.
        It is run, and may use every name of the chapter as if it were the chapter's next cell.

        examples:
          python -m companion exercise                           every exercise, a line each
          python -m companion exercise gru-half-life             its text, and a stub to begin with
          python -m companion exercise gru-half-life > mine.py   the same, as a file to write in
          python -m companion exercise gru-half-life mine.py     is it right, and if not, why
        """
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="the name of an exercise")
    parser.add_argument("file", metavar="FILE", nargs="?", help="the answer; - for standard input")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        known = {e.name: e for chapter in chapters() for e in read_exercises(chapter)}
    except FileNotFoundError as error:
        raise CommandError(str(error)) from None
    if options.name is None:
        return _list(list(known.values()))
    wanted = options.name.lower().removeprefix("ex-")
    chosen = known.get(wanted)
    if chosen is None:
        near = [name for name in known if wanted in name] or get_close_matches(wanted, known)
        hint = f"; there is {', '.join(near)}" if near else "; without a name all are listed"
        raise CommandError(f"NAME: no exercise {options.name!r}{hint}", USAGE)
    if options.file is None:
        print(_page(chosen))
        return OK
    return _check(chosen, options.file)


def _list(exercises: list[Exercise]) -> int:
    chapter = ""
    for e in exercises:
        if e.chapter != chapter:
            chapter = e.chapter
            print(f"\n{chapter}")
        print(textwrap.shorten(f"{e.name}  {heading(e)}", width() - 2, placeholder=" …"))
    print(f"\n{len(exercises)} exercises. One of them: python -m companion exercise NAME")
    return OK


def _page(e: Exercise) -> str:
    """The text as a docstring, and the stub: a file to begin with."""
    title = f"{e.title}. " if e.title else ""
    plain = re.sub(r"\{[\w:]+\}`([^`]*)`", r"`\1`", e.text).replace('"""', "'''")
    text = "\n\n".join(
        part if part.startswith(OWN_LINES) else textwrap.fill(part, 96)
        for part in re.split(r"\n{2,}", plain.strip())
    )
    return (
        f'r"""{title}An exercise of the chapter book/{e.chapter}.ipynb.\n\n{text}\n\n'
        f'Check it: python -m companion exercise {e.name} FILE\n"""\n\n{_imports(e)}\n\n\n{e.stub}'
    )


def _imports(e: Exercise) -> str:
    """The imports of the chapter, for an editor's sake; while checking they are there anyway."""
    found: dict[str, None] = {}
    for cell in e.cells:
        for node in ast.parse(cell).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                found[ast.unparse(node)] = None
    return "\n".join(found)


def _check(chosen: Exercise, file: str) -> int:
    try:
        answer = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(f"{file}: expected UTF-8 text ({error.reason})") from None
    try:
        said = check_answer(chosen, answer, file, complain)
    except (WrongAnswer, RuntimeError) as error:
        raise CommandError(str(error)) from None
    if said.splitlines()[-1:] != ["ok"]:
        print("ok")
    return OK
