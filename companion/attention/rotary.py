"""Positions as rotations: what a query and a key have in common depends on their distance."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.checks import check_number

__all__ = ["rotated"]


def rotated(x: Tensor, position: Tensor, base: float = 10000.0) -> Tensor:
    r"""Pairs of features turned by angles that grow with the position.

    .. math::

        (x_{i}, x_{i + d/2}) \mapsto
        (x_i \cos \theta - x_{i + d/2} \sin \theta,\;
        x_i \sin \theta + x_{i + d/2} \cos \theta), \qquad \theta = p \, b^{-2i/d}

    The product of a query at p and a key at s then depends on p − s alone.

    Args:
        x: (B, T, n, d), d even.
        position: integers (B, T), :math:`p`.
        base: :math:`b`.

    Returns:
        (B, T, n, d), of the dtype of ``x``; the angles are computed in float64.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape or values.

    Source:
        Su et al. (2021), equation 34, with the pairs (i, i + d/2) in place of (2i, 2i + 1).

    Example:
        >>> x = torch.ones(1, 2, 1, 2)
        >>> rotated(x, torch.tensor([[0, 1]]))[0, :, 0]
        tensor([[ 1.0000,  1.0000],
                [-0.3012,  1.3818]])
    """
    for name, given in (("x", x), ("position", position)):
        if not isinstance(given, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(given).__name__}")
    if not x.is_floating_point():
        raise TypeError(f"x: expected a floating-point tensor, got {x.dtype}")
    if x.dim() != 4 or x.shape[-1] % 2:
        raise ValueError(f"x: expected shape (B, T, n, d) with d even, got {tuple(x.shape)}")
    if position.shape != x.shape[:2]:
        raise ValueError(
            f"position: expected shape {tuple(x.shape[:2])}, got {tuple(position.shape)}"
        )
    check_number("base", base)
    if base <= 0:
        raise ValueError(f"base: expected a number above 0, got {base}")
    half = x.shape[-1] // 2
    turns = base ** -(torch.arange(half, device=x.device, dtype=torch.float64) / half)
    angle = (position[..., None].double() * turns)[:, :, None]  # (B, T, 1, d / 2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
