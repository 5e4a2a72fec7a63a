"""Tagged sentences in people's files: columns, as CoNLL files have them, and CoNLL-U."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from companion.data.conllu import read_conllu
from companion.tasks.files import FileError, ending_of, read_lines

__all__ = ["COLUMNS", "Sentence", "read_sentences"]

COLUMNS = (".conll", ".conllu")


class Sentence(NamedTuple):
    """The lines of a sentence's tokens, the tokens, and their tags; none if none are read."""

    lines: list[int]
    words: list[str]
    tags: list[str]


def read_sentences(
    path: str | Path, column: str = "upos", tagged: bool = True, trained: str | None = None
) -> list[Sentence]:
    """Read sentences: a token a line, its tag in the last column, an empty line after each.

    In columns, these stand apart by tabs, or else by spaces, as many in every line; further ones
    in between are passed over, and so are sentences of one token ``-DOCSTART-`` and comments.

    Args:
        path: of a file; CoNLL-U if it ends in ``.conllu``, otherwise columns.
        column: of CoNLL-U, the one with the tags.
        tagged: whether there must be a tag.
        trained: ending of the file that a run was trained on, which says what a file is whose own
            ending says nothing.

    Raises:
        FileError: the file, the line and what is wrong with it.
    """
    ending = ending_of(path)
    if ending not in COLUMNS and trained is not None:
        ending = trained
    lines = read_lines(path)
    found = (
        _conllu(path, lines, column, tagged)
        if ending == ".conllu"
        else _columns(path, lines, tagged)
    )
    if not found:
        raise FileError(path, "expected sentences, got none")
    return found


def _columns(path: str | Path, lines: list[str], tagged: bool) -> list[Sentence]:
    found: list[Sentence] = []
    begun, width, first = False, 0, 0
    usual = next((line for line in lines if line.strip() and not line.startswith("# ")), None)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            begun = False
            continue
        following = lines[number] if number < len(lines) else ""
        like = following if following.strip() and not following.startswith("# ") else usual
        if is_comment(line, like, begun):
            continue
        columns = _split(line)
        if tagged and len(columns) < 2:
            raise FileError(
                path, f"expected a token and a tag, got one column: {line.strip()[:40]!r}", number
            )
        if not columns[0] or (tagged and not columns[-1]):
            what = "token" if not columns[0] else "tag"
            raise FileError(path, f"expected a {what}, got an empty column", number)
        if columns[0] == "-DOCSTART-":
            continue
        if not first:
            width, first = len(columns), number
            if width == 10 and "\t" in line and re.fullmatch(r"1|1-\d+|0\.1", columns[0]):
                fault = "expected a token and a tag, got CoNLL-U; let its name end in .conllu"
                raise FileError(path, fault, number)
        if len(columns) != width:
            raise FileError(
                path,
                f"expected columns as in line {first}, {width} of them, got {len(columns)}: "
                f"{line.strip()[:40]!r}; a token with a space in it needs tabs on both sides",
                number,
            )
        if not begun:
            found.append(Sentence([], [], []))
            begun = True
        found[-1].lines.append(number)
        found[-1].words.append(columns[0])
        if tagged:
            found[-1].tags.append(columns[-1])
    return found


def is_comment(line: str, like: str | None, inside: bool) -> bool:
    r"""Whether a line in columns is a comment, and not the token ``#`` with its tag.

    A comment begins with ``#`` and a space. It says ``name = value``, ``newdoc`` or ``newpar``,
    or has no tab where the tokens have tabs, or stands before a sentence and has another number
    of columns.

    Args:
        line: that may be one.
        like: a line with a token, the next one if there is; None: no line of the file is one.
        inside: whether tokens of the sentence came before.

    Example:
        >>> is_comment("# sent_id = 3", "the\tDET", False), is_comment("# newpar", "a\tX", False)
        (True, True)
        >>> is_comment("#\tSYM", "the\tDET", False), is_comment("# SYM", "the DET", False)
        (False, False)
    """
    if not line.startswith("# "):
        return False
    if like is None or re.match(r"# *([^\s=]+ *= |(newdoc|newpar)\s*$)", line + " "):
        return True
    if "\t" in like:
        return "\t" not in line
    return not inside and len(_split(line)) != len(_split(like))


def _split(line: str) -> list[str]:
    columns = line.split("\t") if "\t" in line else line.split()
    return [column.strip() for column in columns]


def _conllu(path: str | Path, lines: list[str], column: str, tagged: bool) -> list[Sentence]:
    try:
        sentences = read_conllu(lines)
    except ValueError as error:
        at = re.fullmatch(r"source, line (\d+): (.*)", str(error), re.DOTALL)
        assert at is not None
        raise FileError(path, at[2], int(at[1])) from None
    # the words are the lines with a whole number, in order
    numbers = (n for n, line in enumerate(lines, 1) if line.partition("\t")[0].isdecimal())
    found = []
    for sentence in sentences:
        words, tags = sentence.column("form"), sentence.column(column)
        places = [next(numbers) for _ in words]
        if tagged and "_" in tags:
            n = tags.index("_")
            fault = f"expected a tag for every word, got none for {words[n]!r}"
            raise FileError(path, fault, places[n], column)
        found.append(Sentence(places, words, tags if tagged else []))
    return found
