"""What several models share: checked tokens, masks of valid steps, recurrences, locked dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells import Cell
from companion.cells.noise import check_probability
from companion.layers import Recurrence
from companion.run.plan import check_lengths

__all__ = [
    "LockedDropout",
    "check_batch",
    "check_names",
    "check_tokens",
    "recurrence",
    "valid_steps",
]


def valid_steps(lengths: Any, B: int, T: int, device: torch.device) -> Tensor:
    """bool (B, T): which steps are valid; all of them where ``lengths`` is None."""
    known = check_lengths(lengths, B, T, True)
    if known is None:
        return torch.ones(B, T, dtype=torch.bool, device=device)
    return torch.arange(T, device=device) < known.to(device)[:, None]


def check_tokens(
    name: str, tokens: Any, vocab_size: int, valid: Tensor | None = None, fill: int = 0
) -> Tensor:
    """Tokens as int64, with ``fill`` where they are padding, which may hold any number.

    Args:
        name: of the argument, for the message.
        tokens: integers, of any shape.
        vocab_size: the number of tokens, :math:`V`.
        valid: bool, of the shape of ``tokens``; None: all are.
        fill: what stands where nothing is valid.

    Returns:
        int64, a new tensor where something was filled in.

    Raises:
        TypeError: they are no tensor of integers.
        ValueError: a valid one is not from 0 to V − 1.
    """
    if not isinstance(tokens, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(tokens).__name__}")
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise TypeError(f"{name}: expected integers, the indices of tokens, got {tokens.dtype}")
    tokens = tokens.long()
    if valid is not None:
        tokens = tokens.masked_fill(~valid, fill)
    # torch's own embedding says "index out of range in self", or stops the GPU for good
    if tokens.numel() and not tokens.is_meta:
        low, high = (int(v) for v in tokens.aminmax())
        if low < 0 or high >= vocab_size:
            raise ValueError(
                f"{name}: expected indices from 0 to {vocab_size - 1} (vocab_size is "
                f"{vocab_size}), got {low if low < 0 else high}"
            )
    return tokens


def check_batch(name: str, x: Any) -> tuple[int, int]:
    """B and T of a tensor whose first two dimensions are these and the only ones."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}")
    if x.dim() != 2:
        raise ValueError(f"{name}: expected shape (B, T), got {tuple(x.shape)}")
    return x.shape[0], x.shape[1]


def recurrence(
    cell: str | type[Cell], input_size: int, hidden_size: int, num_layers: int, **options: Any
) -> Recurrence:
    """A batch-first recurrence, whose dropout is left out where there is nothing in between."""
    if "batch_first" in options:
        raise ValueError("batch_first: not an option here; the model's inputs are (B, T)")
    if num_layers == 1 and "dropout" in options:
        check_probability("dropout", options.pop("dropout"))
    return Recurrence(cell, input_size, hidden_size, num_layers, **options)


class LockedDropout(nn.Module):
    r"""Dropout with one mask for all steps of a sequence ("variational").

    .. math:: \tilde x_t = x_t \odot m / (1 - p), \qquad m \sim B(1 - p)

    Args:
        p: probability of dropping a feature of a sequence.

    Shapes:
        (B, T, F) in and out; the mask is (B, 1, F).

    Source:
        Gal and Ghahramani (2016).

    Example:
        >>> y = LockedDropout(0.5)(torch.ones(2, 7, 3))
        >>> bool((y == y[:, :1]).all()), y.unique().tolist() in ([0.0], [2.0], [0.0, 2.0])
        (True, True)
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = check_probability("p", p)

    def forward(self, x: Tensor) -> Tensor:
        """Drop features while training; in evaluation the input itself."""
        if not (self.training and self.p):
            return x
        return x * F.dropout(x.new_ones(x.shape[0], 1, x.shape[2]), self.p)

    def extra_repr(self) -> str:
        """The rate."""
        return f"p={self.p}"


def check_names(name: str, value: Any, known: Sequence[str]) -> None:
    """Raise unless ``value`` is one of the names."""
    if value not in known:
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, known))}, got {value!r}")
