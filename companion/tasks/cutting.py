"""Texts as tokens, back again, and how far texts that were written are from the right ones."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Literal

__all__ = ["NAMES", "Units", "cut", "joined", "plain", "scores", "token_error"]

Units = Literal["characters", "words", "spaces"]
NAMES = {"characters": "characters", "words": "words", "spaces": "tokens"}


def plain(text: str, units: str) -> str:
    r"""A text as its tokens give it back: without the white space that they do not keep.

    Example:
        >>> plain(" a  b ", "characters"), plain(" a  b ", "words")
        ('a  b', 'a b')
    """
    return text.strip() if units == "characters" else " ".join(text.split())


def cut(text: str, units: str) -> list[str]:
    r"""The tokens of a plain text; a word or a mark keeps the space before it, the first has one.

    Accents and vowels that are characters of their own are of the word or the mark before them.

    Example:
        >>> cut("No, why?", "words"), cut("HH AH0", "spaces"), cut("ab", "characters")
        ([' No', ',', ' why', '?'], ['HH', 'AH0'], ['a', 'b'])
    """
    if units == "characters":
        return list(text)
    return text.split() if units == "spaces" else _words().findall(f" {text}")


@cache
def _words() -> re.Pattern[str]:
    """Words and marks, each with the combining characters that follow, for which re has no class.

    The joiners of scripts that write letters together, U+200C and U+200D, are inside words too.
    """
    # all of them but the selectors of variants, U+E0100 to U+E01EF, are below U+20000
    points = [*range(0x20000), *range(0xE0100, 0xE01F0)]
    combining = "".join(chr(n) for n in points if unicodedata.category(chr(n))[0] == "M")
    return re.compile(rf" ?\w[\w\u200c\u200d{combining}]*| ?[^\w\s][{combining}]*")


def joined(tokens: Sequence[str], units: str) -> str:
    r"""The text of these tokens.

    Example:
        >>> text = "Don't: L'écraser ?"
        >>> joined(cut(text, "words"), "words") == text
        True
    """
    return " ".join(tokens) if units == "spaces" else plain("".join(tokens), units)


def scores(written: Sequence[str], right: Sequence[str], units: str) -> dict[str, float]:
    """What share is right as a whole, the edits for each right token, BLEU and chrF of words.

    Args:
        written, right: texts, as many of each.
        units: of :func:`cut`; BLEU and chrF are left out unless they are words.
    """
    from companion.train.metrics import bleu, chrf

    same = sum(a == b for a, b in zip(written, right, strict=True))
    numbers = {"exact": same / len(right), "token_error": token_error(written, right, units)}
    if units == "words":
        numbers |= {"bleu": bleu(written, right), "chrf": chrf(written, right)}
    return numbers


def token_error(written: Sequence[str], right: Sequence[str], units: str) -> float:
    """Substitutions, deletions and insertions for each right token.

    Example:
        >>> token_error(["deux cent"], ["deux cents"], "characters")
        0.1
    """
    from companion.train.metrics import error_rate

    names: dict[str, str] = {}  # a token may be a space, which a symbol of error_rate may not
    both = [
        [[names.setdefault(token, str(len(names))) for token in cut(t, units)] for t in texts]
        for texts in (written, right)
    ]
    return error_rate(*both)
