"""The check of sizes that cells and generated data share."""

from __future__ import annotations

import pytest

from companion.cells import base
from companion.checks import check_size, check_sizes


@pytest.mark.parametrize(
    "value, kind, message",
    [
        (True, TypeError, r"n: expected an int, got bool \(True\)"),
        (2.0, TypeError, r"n: expected an int, got float \(2.0\)"),
        ("2", TypeError, r"n: expected an int, got str \('2'\)"),
        (1, ValueError, "n: expected at least 2, got 1"),
    ],
)
def test_sizes_are_checked(value, kind, message):
    with pytest.raises(kind, match=f"^{message}$"):
        check_size("n", value, 2)
    with pytest.raises(kind, match=f"^{message}$"):
        check_sizes(first=(0, 0), n=(value, 2))


def test_there_is_one_check():
    check_sizes(a=(0, 0), b=(7, 2))
    assert base.check_size is check_size
