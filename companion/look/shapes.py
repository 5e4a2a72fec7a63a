"""The shape ledger: shape comments that are checked, so that they cannot lie."""

from __future__ import annotations

import re
from typing import TypeVar

__all__ = ["ShapeLedger", "shapes"]

_Array = TypeVar("_Array")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TOKEN = re.compile(r"(?:[A-Za-z][A-Za-z0-9_]*|\d+)(?:[*+-](?:[A-Za-z][A-Za-z0-9_]*|\d+))*")


class ShapeLedger:
    """A table of tensors and their shapes in named dimensions, one meaning a letter.

    Args:
        **sizes: known dimensions, for example ``B=3, H=6``.

    Example:
        >>> import torch
        >>> ledger = ShapeLedger(B=2)
        >>> x = ledger.check("x", torch.zeros(2, 5, 4), "B T D")
        >>> W = ledger.check("W", torch.zeros(12, 4), "3*D D")
        >>> print(ledger)
        x  (B, T, D)  = (2, 5, 4)
        W  (3*D, D)   = (12, 4)
        >>> ledger.check("h", torch.zeros(2, 6), "B D")
        Traceback (most recent call last):
        ...
        ValueError: h: expected (B, D) = (2, 4), got (2, 6)
    """

    def __init__(self, **sizes: int) -> None:
        self.sizes: dict[str, int] = {}
        self.rows: list[tuple[str, str, str]] = []
        for letter, size in sizes.items():
            if not _NAME.fullmatch(letter):
                raise ValueError(
                    f"{letter!r}: a dimension is named by a letter A-Z or a-z, then letters, "
                    "digits or _"
                )
            if isinstance(size, bool) or not isinstance(size, int):
                raise TypeError(f"{letter} must be an int, got {type(size).__name__}: {size!r}")
            if size < 0:
                raise ValueError(f"{letter} must be >= 0, got {size}")
            self.sizes[letter] = size

    def check(self, name: str, x: _Array, letters: str) -> _Array:
        """Check the shape of ``x``, enter it in the table, and return ``x``.

        Args:
            name: what the tensor is called.
            x: a tensor or array (anything with ``shape``).
            letters: one word a dimension: a letter (bound to the size at its first use),
                a number, or products and sums of these without spaces (``2*H``, ``T-1``).
                The empty string stands for a number without dimensions.

        Returns:
            ``x`` itself.

        Raises:
            ValueError: if the shape differs, naming tensor, letters, expected and got; or if
                ``letters`` cannot be read or uses an unknown letter inside a formula.
            TypeError: if ``x`` has no shape, or ``letters`` is no string.
        """
        if not isinstance(letters, str):
            raise TypeError(
                f"{name}: letters must be a str such as 'B T D', "
                f"got {type(letters).__name__}: {letters!r}"
            )
        shape = getattr(x, "shape", None)
        if shape is None:
            raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}")
        got = tuple(int(n) for n in shape)
        words = letters.replace(",", " ").split()
        for word in words:
            if not _TOKEN.fullmatch(word):
                raise ValueError(f"{name}: cannot read {word!r} in letters {letters!r}")
        sizes = dict(self.sizes)
        if len(words) == len(got):
            for word, size in zip(words, got, strict=True):
                if _NAME.fullmatch(word):
                    sizes.setdefault(word, size)
        expected = tuple(_value(name, word, sizes, len(words) == len(got)) for word in words)
        written = _tuple(words)
        if expected != got:
            raise ValueError(f"{name}: expected {written} = {_tuple(expected)}, got {_tuple(got)}")
        self.sizes = sizes  # only a shape that was right binds letters
        self.rows.append((name, written, _tuple(got)))
        return x

    def table(self) -> str:
        """Return the table as text: name, letters, numbers."""
        wide = max((len(name) for name, _, _ in self.rows), default=0)
        broad = max((len(letters) for _, letters, _ in self.rows), default=0)
        return "\n".join(f"{a:{wide}}  {b:{broad}}  = {c}" for a, b, c in self.rows)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return self.table() or f"ShapeLedger({self.sizes})"

    def __enter__(self) -> ShapeLedger:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None and self.rows:
            print(self)


def shapes(**sizes: int) -> ShapeLedger:
    """Open a shape ledger; as a context it prints its table at the end.

    Args:
        **sizes: known dimensions. Other letters are bound at their first use.

    Returns:
        the ledger, whose ``check(name, x, "B T D")`` verifies and returns ``x``.

    Raises:
        TypeError, ValueError: if a size is not a whole number ≥ 0.
        ValueError: if a dimension has a name that ``check`` cannot read.

    Example:
        >>> import torch
        >>> with shapes(B=3, T=5, D=4) as ledger:
        ...     x = ledger.check("x", torch.zeros(3, 5, 4), "B T D")
        ...     h = ledger.check("h_n", torch.zeros(1, 3, 6), "1 B H")
        x    (B, T, D)  = (3, 5, 4)
        h_n  (1, B, H)  = (1, 3, 6)
    """
    return ShapeLedger(**sizes)


def _value(name: str, word: str, sizes: dict[str, int], same_rank: bool) -> int | str:
    """Evaluate sums and differences of products; a letter still free stays as it is."""

    def factor(text: str) -> int:
        if text.isdigit():
            return int(text)
        if text not in sizes:
            raise ValueError(f"{name}: the letter {text} in {word!r} has no size yet")
        return sizes[text]

    if not same_rank and any(letter not in sizes for letter in _NAME.findall(word)):
        return word
    total, sign = 0, 1
    for part in re.findall(r"[+-]|[^+-]+", word):
        if part in "+-":
            sign = 1 if part == "+" else -1
            continue
        product = 1
        for text in part.split("*"):
            product *= factor(text)
        total += sign * product
    return total


def _tuple(items: list[str] | tuple[object, ...]) -> str:
    return f"({', '.join(map(str, items))}{',' if len(items) == 1 else ''})"
