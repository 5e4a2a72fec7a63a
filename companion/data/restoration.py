"""Case and punctuation taken off a text and put back: a tagging task whose labels come free.

A transcript of speech has neither capitals nor marks. A tagger that gives each word its label puts
them back, and any text that has them teaches it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import zip_longest

__all__ = ["RESTORATION_LABELS", "case_and_punctuation", "restore_text"]

CASES: dict[str, Callable[[str], str]] = {
    "lower": lambda word: word,
    "Capitalized": lambda word: word[:1].upper() + word[1:],
    "UPPER": lambda word: _upper(word),
}
# What may follow a word, by how often it does in the addresses of 1961 to 2021: 5.1 %, 5.1 % and
# 1.0 %, then 0.23 %, 0.23 % and 0.05 %. The next, "!", comes to 0.01 % and counts as a full stop.
MARKS = ("", ",", ".", "-", ":", ";", "?")
LABELS = {case + mark: (case, mark) for case in CASES for mark in MARKS}
RESTORATION_LABELS: tuple[str, ...] = tuple(LABELS)
ALIKE = {"!": ".", "…": ".", "—": "-", "–": "-", "‑": "-", "‐": "-"}

# A word: letters and digits, with an apostrophe between letters or in 60's, with what numbers,
# fractions and times have between digits, with the points of U.S., with $ before and % after.
RUN = r"(?:[^\W_][\u0300-\u036f]*)+"  # an accent may be a character of its own
WORD = re.compile(
    rf"""[$£€]?{RUN}
        (?: ['’](?=[^\W\d_]) {RUN}
          | (?<=\d)[.,:/](?=\d) {RUN}
          | (?<=\b[^\W\d_])\.(?=[^\W\d_]\b) [^\W_] )*
        %? | [&+%]""",
    re.VERBOSE,
)


def case_and_punctuation(text: str) -> tuple[list[str], list[str]]:
    """Turn a text into words without case and punctuation, and the label that gives them back.

    A label is the case of the word, ``lower``, ``Capitalized`` or ``UPPER`` (of two letters at
    least: I and A are ``Capitalized``), and the mark that follows it, one of ``, . - : ; ?`` or
    none: ``Capitalized,``. Words joined by a hyphen or a dash are words of their own, the first
    one with the mark ``-``. Of several marks the first counts; ``!`` counts as ``.``.

    What no label can say is lost: quotation marks and brackets, capitals inside a word (McCain),
    spaces beside a dash, lines and paragraphs. A capital whose small letter would not give it
    back, such as İ or ẞ, is left as it is. For the rest, ``restore_text`` is the inverse; and
    whatever the text, a second round changes nothing more.

    Args:
        text: of a language with capitals and with spaces between words.

    Returns:
        N words in lower case but for such capitals, and N labels, each one of the 21 in
        ``RESTORATION_LABELS``.

    Raises:
        TypeError: text is no string.

    Example:
        >>> words, labels = case_and_punctuation("Yes, the U.S. is well-known. Isn't it?")
        >>> words
        ['yes', 'the', 'u.s', 'is', 'well', 'known', "isn't", 'it']
        >>> labels
        ['Capitalized,', 'lower', 'UPPER.', 'lower', 'lower-', 'lower.', 'Capitalized', 'lower?']
        >>> restore_text(words, labels)
        "Yes, the U.S. is well-known. Isn't it?"
    """
    if not isinstance(text, str):
        raise TypeError(f"text: expected a str, got {type(text).__name__}")
    found = list(WORD.finditer(text))
    words, labels = [], []
    for match, following in zip_longest(found, found[1:]):
        end = len(text) if following is None else following.start()
        written = match[0].replace("’", "'")
        word = _lower(written)
        words.append(word)
        labels.append(_case(word, written) + _mark(text[match.end() : end]))
    return words, labels


def restore_text(words: Sequence[str], labels: Sequence[str]) -> str:
    """Write words with the case and the marks that their labels say.

    Args:
        words: N words in lower case.
        labels: N of ``RESTORATION_LABELS``, such as a tagger predicts.

    Returns:
        The text. A space follows every word but the last and those with the mark ``-``.

    Raises:
        ValueError: the numbers differ, or there is no such label.

    Example:
        >>> restore_text(["hello", "nato"], ["Capitalized,", "UPPER."])
        'Hello, NATO.'
    """
    if len(words) != len(labels):
        raise ValueError(f"labels: expected one for each of {len(words)} words, got {len(labels)}")
    pieces = []
    for word, label in zip(words, labels, strict=True):
        if label not in LABELS:
            raise ValueError(
                f"labels: expected some of RESTORATION_LABELS, like 'Capitalized,', got {label!r}"
            )
        case, mark = LABELS[label]
        pieces.append(CASES[case](word) + mark + ("" if mark == "-" else " "))
    return "".join(pieces).removesuffix(" ")


def _lower(word: str) -> str:
    """Small letters; a capital that they would not give back stays."""
    return "".join(c.lower() if c.lower().upper() == c else c for c in word)


def _upper(word: str) -> str:
    """Capitals up to the apostrophe: NATO's, not NATO'S."""
    head, apostrophe, ending = word.partition("'")
    return head.upper() + apostrophe + ending


def _case(word: str, written: str) -> str:
    for case, write in CASES.items():
        if write(word) == written:
            return case
    return "Capitalized" if written[:1] != word[:1] else "lower"


def _mark(gap: str) -> str:
    """The first mark between a word and the next."""
    for sign in gap:
        sign = ALIKE.get(sign, sign)
        if sign in MARKS:
            return sign
    return ""
