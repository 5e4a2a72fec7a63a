"""What networks read: words or characters, how they become a text again, the shape of a word."""

from __future__ import annotations

from collections.abc import Container, Iterable

__all__ = ["SHAPES", "all_unknown", "joined", "shape_of", "tokens_of"]

SHAPES = ("small", "Capital", "CAPITALS", "number", "mark")


def tokens_of(text: str, units: str, ended: bool = True) -> list[str]:
    r"""Cut a text into tokens; the end of a line is one.

    Args:
        text: one line or several.
        units: ``"words"`` or ``"characters"``.
        ended: whether the last line has an end, also where the text does not show it.

    Example:
        >>> tokens_of("a  bee\nsea", "words"), tokens_of("ab", "characters", ended=False)
        (['a', 'bee', '\n', 'sea', '\n'], ['a', 'b'])
    """
    if ended and not text.endswith("\n"):
        text += "\n"
    if units == "characters":
        return list(text)
    lines = text.split("\n")
    found = [token for line in lines[:-1] for token in (*line.split(), "\n")]
    return found + lines[-1].split()


def joined(tokens: Iterable[str], units: str, amid: bool) -> str:
    r"""Tokens as a text; ``amid``: it goes on in a line that has words already.

    Example:
        >>> joined(["bee", "\n", "sea"], "words", amid=True)
        ' bee\nsea'
    """
    if units == "characters":
        return "".join(tokens)
    text = ""
    for token in tokens:
        text += " " + token if amid and token != "\n" else token
        amid = token != "\n"
    return text


def all_unknown(tokens: Iterable[str], known: Container[str]) -> int:
    r"""How many tokens there are if none of them is known, else 0; ends of lines aside.

    Example:
        >>> all_unknown(["q", "\n"], {"a", "\n"}), all_unknown(["q", "a"], {"a"})
        (1, 0)
    """
    count = 0
    for token in tokens:
        if token != "\n":
            if token in known:
                return 0
            count += 1
    return count


def shape_of(word: str) -> int:
    """Number of a word's shape among ``SHAPES``.

    Example:
        >>> [SHAPES[shape_of(word)] for word in ("rain", "Rain", "UN", "42", "!")]
        ['small', 'Capital', 'CAPITALS', 'number', 'mark']
    """
    if any(c.isdigit() for c in word):
        return 3
    if not any(c.isalpha() for c in word):
        return 4
    if word.isupper() and len(word) > 1:
        return 2
    return int(word[0].isupper())
