"""Tokens and their indices, with the names and the results of torchtext 0.18.

torchtext is no longer developed and its last release loads with torch 2.3 alone; code written for
its ``Vocab`` runs with this one. Characters are tokens too: a ``str`` is an iterable of them.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import SupportsIndex

__all__ = ["Vocab", "build_vocab_from_iterator", "vocab"]


class Vocab:
    """A two-way table between V tokens and the indices 0 … V − 1.

    A token that is not in the table gives the default index, or ``RuntimeError`` while none is
    set; none is set at first, also when there is an ``<unk>``. Errors have torchtext's types.

    Args:
        tokens: the tokens in the order of their indices, each once.

    Raises:
        RuntimeError: a token occurs twice.
        TypeError: a token is not a string.

    Example:
        >>> v = Vocab(["<unk>", "a", "b"])
        >>> v.set_default_index(v["<unk>"])
        >>> v(["b", "a", "z"]), v.lookup_tokens([1, 2])
        ([2, 1, 0], ['a', 'b'])
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self._itos: list[str] = []
        self._stoi: dict[str, int] = {}
        self._default_index: int | None = None
        for token in tokens:
            if _checked(token) in self._stoi:
                raise RuntimeError(f"Duplicate token found in tokens list: {token!r}")
            self._stoi[token] = len(self._itos)
            self._itos.append(token)

    def __len__(self) -> int:
        return len(self._itos)

    def __contains__(self, token: object) -> bool:
        return token in self._stoi

    def __getitem__(self, token: str) -> int:
        index = self._stoi.get(_checked(token), self._default_index)
        if index is None:
            raise RuntimeError(
                f"Token {token!r} not found and default index is not set; "
                "set_default_index(vocab['<unk>']) gives unknown tokens an index"
            )
        return index

    def __call__(self, tokens: Iterable[str]) -> list[int]:
        """The same as ``lookup_indices``.

        Args:
            tokens: of a text, in order.

        Returns:
            Their indices.

        Raises:
            RuntimeError: a token is not in the table and there is no default index.
            TypeError: a token is not a string.
        """
        return self.lookup_indices(tokens)

    def __repr__(self) -> str:
        head = ", ".join(map(repr, self._itos[:3])) + (", ..." if len(self) > 3 else "")
        return f"Vocab({len(self)} tokens: {head})"

    forward = __call__

    def set_default_index(self, index: int | None) -> None:
        """Set the index of unknown tokens.

        It is a number, not a token: inserting a token before it does not move it.

        Args:
            index: any integer (−1 is allowed), or ``None``: an unknown token is an error.

        Raises:
            TypeError: index is neither.

        Example:
            >>> v = Vocab(["a"])
            >>> v.set_default_index(-1)
            >>> v["z"]
            -1
        """
        self._default_index = None if index is None else operator.index(index)

    def get_default_index(self) -> int | None:
        """Index of unknown tokens.

        Returns:
            The index, ``None`` while it is not set.
        """
        return self._default_index

    def append_token(self, token: str) -> None:
        """Add a token at the end.

        Args:
            token: the new one; its index is V, the number of tokens before.

        Raises:
            RuntimeError: the token is there already.
            TypeError: it is not a string.
        """
        self.insert_token(token, len(self))

    def insert_token(self, token: str, index: int) -> None:
        """Add a token at ``index``; the tokens from there on move up by one.

        Args:
            token: the new one.
            index: where, from 0 to V.

        Raises:
            RuntimeError: the token is there already, or index is not in [0, V].
            TypeError: token is not a string, or index no integer.

        Example:
            >>> v = Vocab(["a", "b"])
            >>> v.insert_token("<unk>", 0)
            >>> v.get_itos()
            ['<unk>', 'a', 'b']
        """
        index = operator.index(index)
        if not 0 <= index <= len(self):
            raise RuntimeError(
                f"Specified index {index} is out of bounds for vocab of size {len(self)}"
            )
        if _checked(token) in self._stoi:
            raise RuntimeError(
                f"Token {token!r} already exists in the Vocab with index: {self._stoi[token]}"
            )
        self._itos.insert(index, token)
        for i in range(index, len(self)):
            self._stoi[self._itos[i]] = i

    def lookup_token(self, index: SupportsIndex) -> str:
        """Token of one index.

        Args:
            index: an integer, or a tensor with one.

        Returns:
            The token.

        Raises:
            RuntimeError: index is not in [0, V); negative ones do not count from the end.
            TypeError: it is no integer.
        """
        i = operator.index(index)
        if not 0 <= i < len(self):
            raise RuntimeError(
                f"Specified index {i} is out of bounds for vocab of size {len(self)}"
            )
        return self._itos[i]

    def lookup_tokens(self, indices: Iterable[SupportsIndex]) -> list[str]:
        """Tokens of several indices.

        Args:
            indices: a list, or a one-dimensional integer tensor.

        Returns:
            The tokens, in the same order.

        Raises:
            RuntimeError: an index is not in [0, V).
            TypeError: an index is no integer.
        """
        return [self.lookup_token(index) for index in indices]

    def lookup_indices(self, tokens: Iterable[str]) -> list[int]:
        """Indices of several tokens.

        Args:
            tokens: in any order; a ``str`` counts as its characters.

        Returns:
            Their indices, in the same order.

        Raises:
            RuntimeError: a token is not in the table and there is no default index.
            TypeError: a token is not a string.
        """
        return [self[token] for token in tokens]

    def get_stoi(self) -> dict[str, int]:
        """The table from token to index.

        Returns:
            A copy of it.
        """
        return dict(self._stoi)

    def get_itos(self) -> list[str]:
        """The table from index to token.

        Returns:
            A copy of it, a list of the V tokens.
        """
        return list(self._itos)


def vocab(
    ordered_dict: Mapping[str, int],
    min_freq: int = 1,
    specials: Sequence[str] | None = None,
    special_first: bool = True,
) -> Vocab:
    """Build a ``Vocab`` from a mapping token → frequency, in the order of the mapping.

    Args:
        ordered_dict: tokens and how often each occurs; it is not changed.
        min_freq: tokens that occur less often are left out.
        specials: tokens that are always in, in this order, however rare.
        special_first: specials come before the others (True) or after them.

    Example:
        >>> vocab({"b": 2, "a": 5, "c": 1}, min_freq=2, specials=["<unk>"]).get_itos()
        ['<unk>', 'b', 'a']
    """
    if not isinstance(ordered_dict, Mapping):
        got = type(ordered_dict).__name__
        raise TypeError(f"ordered_dict: expected a mapping from tokens to numbers, got {got}")
    extra = _specials(specials)
    known = set(extra)
    tokens = [t for t, count in ordered_dict.items() if count >= min_freq and t not in known]
    return Vocab([*extra, *tokens] if special_first else [*tokens, *extra])


def build_vocab_from_iterator(
    iterator: Iterable[Iterable[str]],
    min_freq: int = 1,
    specials: Sequence[str] | None = None,
    special_first: bool = True,
    max_tokens: int | None = None,
) -> Vocab:
    """Build a ``Vocab`` from texts: the most frequent token first, ties in code-point order.

    Args:
        iterator: gives one iterable of tokens a text (a string counts as its characters).
        min_freq: tokens that occur less often are left out.
        specials: tokens that are always in, in this order, however rare.
        special_first: specials come before the others (True) or after them.
        max_tokens: at most this many tokens, specials included.

    Returns:
        The vocabulary; no default index is set.

    Raises:
        AssertionError: max_tokens leaves no room beside the specials.

    Example:
        >>> v = build_vocab_from_iterator(["banana", "bandana"], specials=["<pad>"])
        >>> v.get_itos()
        ['<pad>', 'a', 'n', 'b', 'd']
    """
    counts: Counter[str] = Counter()
    for tokens in iterator:
        counts.update(tokens)
    extra = _specials(specials)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], _checked(item[0])))
    if max_tokens is not None:
        if len(extra) >= max_tokens:
            raise AssertionError(
                f"max_tokens: expected more than the {len(extra)} specials, got {max_tokens}"
            )
        # specials that also occur in the texts use up a place here, as in torchtext
        ordered = ordered[: max_tokens - len(extra)]
    return vocab(dict(ordered), min_freq, extra, special_first)


def _checked(token: str) -> str:
    if not isinstance(token, str):
        raise TypeError(f"token: expected a str, got {type(token).__name__} {token!r}")
    return token


def _specials(specials: Sequence[str] | None) -> list[str]:
    # "<pad>" instead of ["<pad>"] would make five specials of one character each
    if isinstance(specials, str):
        raise TypeError(f"specials: expected a list of tokens, got the str {specials!r}")
    return list(specials or [])
