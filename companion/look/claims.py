"""`claim`: a number in the text that is checked each time the chapter runs."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

__all__ = ["claim"]

ROWS = 196  # claims of the source notes, the rows of book/claims.yml


def claim(
    id: int | str,
    measured: Any,
    stated: float | None = None,
    tol: float | None = None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    what: str = "",
) -> None:
    """Check a measured value against what the text states, and print the *stated* value.

    The forms exclude each other::

        claim(id, measured, stated, tol)      |measured - stated| <= tol
        claim(id, measured, at_least=bound)   measured >= bound
        claim(id, measured, at_most=bound)    measured <= bound
        claim(id, holds)                      a bool, or an array of bools that must all be true

    What was measured is never printed, so the output is the same on every machine and nbval can
    compare it. ``nan`` and ``inf`` never agree with anything.

    Args:
        id: row of ``book/claims.yml`` (1 … 196), or a string for a number of the chapter's own.
        measured: number or bool; a tensor or array counts if it has one element.
        stated: the number in the text.
        tol: largest absolute difference allowed, required with ``stated``; 0 means exact. To any
            other a few units in the last place are added: 1.1 agrees with 1.0 to 0.1.
        at_least: lower bound on ``measured``.
        at_most: upper bound on ``measured``.
        what: short description of the number, for the printed line.

    Raises:
        AssertionError: if the claim does not hold.
        TypeError: if the arguments are none of the forms, or ``measured`` has many elements.
        ValueError: if ``id``, ``stated``, ``tol`` or a bound has no usable value.

    Example:
        >>> claim(21, (4, 4) == (4, 4), what="shape of W_hh")
        [21] shape of W_hh: holds
        >>> claim("pi", 3.14159, 3.14, 0.01, what="π")
        [pi] π = 3.14 ± 0.01
        >>> claim("surnames", 0.81, at_least=0.7, what="accuracy")
        [surnames] accuracy ≥ 0.7
    """
    label = _label(id)
    what = _one_line(what)
    head = f"{label} {what}".rstrip()
    bounds = {"stated": stated, "at_least": at_least, "at_most": at_most}
    given = [name for name, value in bounds.items() if value is not None]
    if len(given) > 1:
        raise TypeError(f"claim {label}: {' and '.join(given)} exclude each other; give one")
    if (tol is None) != (stated is None):
        missing, present = ("tol", "stated") if tol is None else ("stated", "tol")
        raise TypeError(f"claim {label}: {present} needs {missing} (tol=0 means exact)")
    kind, value = _reduce(label, measured)
    if not given:
        if kind != "bool":
            raise TypeError(
                f"claim {label}: measured is {value!r}, no bool; "
                "give stated and tol, at_least=, at_most=, or compare first"
            )
        if not value:
            raise AssertionError(f"{head}: stated to hold, measured False")
        print(f"{head}: holds")
        return
    if kind == "bool":
        raise TypeError(f"claim {label}: measured is a bool; {given[0]} needs a number")
    bound = _finite(label, given[0], bounds[given[0]])
    if stated is not None:
        margin = _finite(label, "tol", tol)
        if margin < 0:
            raise ValueError(f"claim {label}: tol must be >= 0, got {tol!r}")
        holds = _agree(value, bound, margin)
        text = f"{_number(bound)} ± {_number(margin)}"
        line = f"{head} = {text}"
    elif at_least is not None:
        holds, text = value >= bound, f"≥ {_number(bound)}"
        line = f"{head} {text}"
    else:
        holds, text = value <= bound, f"≤ {_number(bound)}"
        line = f"{head} {text}"
    if not (holds and _is_finite(value)):
        raise AssertionError(f"{head}: stated {text}, measured {value!r}")
    print(line)


def _label(id: int | str) -> str:
    if isinstance(id, bool) or not isinstance(id, int | str):
        raise TypeError(f"claim: id must be an int or a str, got {type(id).__name__}: {id!r}")
    if isinstance(id, int) and not 1 <= id <= ROWS:
        raise ValueError(f"claim: id must be a row of claims.yml, 1 ... {ROWS}, got {id}")
    if isinstance(id, str) and (not id.strip() or id != _one_line(id) or set(id) & set("[]")):
        raise ValueError(f"claim: id must be one line of text without brackets, got {id!r}")
    return f"[{id}]"


def _one_line(text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"claim: what must be a str, got {type(text).__name__}: {text!r}")
    return " ".join(text.split())


def _reduce(label: str, measured: Any) -> tuple[str, Any]:
    """Return ("bool", bool) or ("number", int or float): no array gets past this point."""
    if isinstance(measured, bool):
        return "bool", measured
    if isinstance(measured, int | float):
        return "number", measured
    shape = getattr(measured, "shape", None)
    if shape is None or not hasattr(measured, "item"):
        raise TypeError(
            f"claim {label}: measured must be a number or a bool, "
            f"got {type(measured).__name__}: {measured!r}"
        )
    if hasattr(measured, "detach"):
        measured = measured.detach()
    count = math.prod(shape)
    if count == 0:
        raise TypeError(f"claim {label}: measured has no element (shape {tuple(shape)})")
    if count > 1:
        if not str(measured.dtype).endswith("bool"):
            raise TypeError(
                f"claim {label}: measured has shape {tuple(shape)}; reduce it first, "
                "for example (a - b).abs().max()"
            )
        return "bool", bool(measured.all())
    value = measured.item()
    if not isinstance(value, bool | int | float):
        raise TypeError(f"claim {label}: measured must be real, got {value!r}")
    return ("bool" if isinstance(value, bool) else "number"), value


def _finite(label: str, name: str, value: Any) -> int | float:
    kind, number = _reduce(label, value)
    if kind == "bool" or not _is_finite(number):
        raise ValueError(f"claim {label}: {name} must be a finite number, got {value!r}")
    return number


def _is_finite(number: int | float) -> bool:
    return isinstance(number, int) or math.isfinite(number)


def _agree(value: int | float, bound: int | float, margin: int | float) -> bool:
    """|value - bound| <= margin, in exact arithmetic: no difference is rounded or overflows."""
    if not _is_finite(value):
        return False
    size, tolerance = Fraction(max(abs(value), abs(bound))), Fraction(margin)
    if margin and not all(isinstance(number, int) for number in (value, bound, margin)):
        tolerance += 4 * Fraction(sys.float_info.epsilon) * size  # 1.1 and 0.1 were rounded
    return abs(Fraction(value) - Fraction(bound)) <= tolerance


def _number(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.12g}"
