"""Tokenizers by the names that torchtext gave them."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["basic_english", "get_tokenizer"]

# Marks that become tokens of their own, and marks that only part words. A quotation mark is not
# among them: it goes without a trace, before anything else is looked for.
TOKENS, GAPS = "'.,()!?", ";:"
TABLE = str.maketrans({mark: f" {mark} " for mark in TOKENS} | dict.fromkeys(GAPS, " "))


def basic_english(line: str) -> list[str]:
    """Cut a line into lower-case tokens, as torchtext 0.18's ``basic_english`` does.

    ``' . , ( ) ! ?`` are tokens of their own; ``"`` is dropped, so that what stood on both sides
    of it grows together; ``;``, ``:`` and ``<br />`` count as spaces. Everything else, hyphens
    and dollar signs too, stays where it is.

    Args:
        line: of any length.

    Returns:
        The tokens, none of them empty.

    Raises:
        TypeError: line is no string.

    Source: torchtext 0.18, ``torchtext/data/utils.py``: lower case, twelve replacements one after
    another, and a cut at white space. Each replaces one character by itself or nothing between
    spaces, except ``<br />``, which only the removal of ``"`` can complete; so this order gives
    the same tokens.

    Example:
        >>> basic_english('"Don\\'t," she said: it\\'s 3.50<br />for U.S. well-being!')
        ['don', "'", 't', ',', 'she', 'said', 'it', "'", 's', '3', '.', '50', 'for', 'u', '.',
         's', '.', 'well-being', '!']
    """
    if not isinstance(line, str):
        raise TypeError(f"line: expected a str, got {type(line).__name__} {line!r:.60}")
    plain = line.lower().replace('"', "").replace("<br />", " ")
    return plain.translate(TABLE).split()


def get_tokenizer(tokenizer: str | Callable[[str], list[str]] | None) -> Callable[..., list[str]]:
    """The function that cuts a line into tokens.

    Args:
        tokenizer: ``"basic_english"``; None for ``str.split``, a cut at white space; or a function
            of your own, which is given back. The names of torchtext that need other packages
            (``"spacy"``, ``"moses"`` …) are not known here.

    Returns:
        A function from a string to a list of tokens.

    Raises:
        ValueError: the name is another one.

    Example:
        >>> get_tokenizer("basic_english")("You can now install it using pip!")
        ['you', 'can', 'now', 'install', 'it', 'using', 'pip', '!']
    """
    if tokenizer is None:
        return str.split
    if callable(tokenizer):
        return tokenizer
    if tokenizer == "basic_english":
        return basic_english
    raise ValueError(
        f"tokenizer: expected 'basic_english', None or a function, got {tokenizer!r}; "
        "that of another library is a function, such as MosesTokenizer().tokenize"
    )
