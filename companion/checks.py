"""Checks of arguments that every part of the package shares."""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["check_flag", "check_generator", "check_number", "check_size", "check_sizes"]


def check_size(name: str, value: Any, least: int = 1) -> None:
    """Raise unless ``value`` is an int of at least ``least``.

    Args:
        name: of the argument, for the message.
        value: what was given.
        least: the smallest value allowed.

    Raises:
        TypeError: if it is no int (a bool is none).
        ValueError: if it is too small.

    Example:
        >>> check_size("hidden_size", 0)
        Traceback (most recent call last):
        ValueError: hidden_size: expected at least 1, got 0
    """
    if isinstance(value, torch.SymInt):
        return  # a size that torch.export leaves open
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected an int, got {type(value).__name__} ({value!r})")
    if value < least:
        raise ValueError(f"{name}: expected at least {least}, got {value}")


def check_flag(name: str, value: Any) -> None:
    """Raise unless ``value`` is a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}: expected True or False, got {value!r}")


def check_generator(generator: Any) -> None:
    """Raise unless ``generator`` is None or one of torch's."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator: expected a torch.Generator, got {type(generator).__name__} "
            f"({generator!r})"
        )


def check_number(name: str, value: Any) -> None:
    """Raise unless ``value`` is a finite real number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}: expected a number, got {type(value).__name__} ({value!r})")
    if not math.isfinite(value):
        raise ValueError(f"{name}: expected a finite number, got {value}")


def check_sizes(**sizes: tuple[Any, int]) -> None:
    """Raise unless each ``name=(value, least)`` is an int of at least ``least``."""
    for name, (value, least) in sizes.items():
        check_size(name, value, least)
