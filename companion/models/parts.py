"""What several models share: checked tokens, masks of valid steps, recurrences, locked dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells import Cell
from companion.cells.noise import check_probability
from companion.layers import Recurrence
from companion.models.backbone import Backbone
from companion.run.plan import check_lengths
from companion.run.tracing import is_exported

__all__ = [
    "Layers",
    "LockedDropout",
    "check_batch",
    "check_names",
    "check_tokens",
    "counted_targets",
    "layers",
    "mean",
    "recurrence",
    "valid_steps",
]

# a name, a cell of one's own, or a list of such words: a backbone
Layers: TypeAlias = str | type[Cell] | Sequence[str | type[Cell]]

UNKNOWN = -100  # a target that does not count, as in torch


def valid_steps(lengths: Any, B: int, T: int, device: torch.device) -> Tensor:
    """bool (B, T): which steps are valid; all of them where ``lengths`` is None."""
    known = check_lengths(lengths, B, T, True)
    if known is None:
        return torch.ones(B, T, dtype=torch.bool, device=device)
    return torch.arange(T, device=device) < known.to(device)[:, None]


def check_tokens(
    name: str,
    tokens: Any,
    vocab_size: int,
    valid: Tensor | None = None,
    size: str = "vocab_size",
) -> Tensor:
    """Tokens as int64, with 0 where they are padding, which may hold any number.

    Args:
        name: of the argument, for the message.
        tokens: integers, of any shape.
        vocab_size: the number of tokens, :math:`V`.
        valid: bool, of the shape of ``tokens``; None: all are.
        size: name of that number, for the message.

    Returns:
        int64, a new tensor where something was filled in.

    Raises:
        TypeError: they are no tensor of integers.
        ValueError: a valid one is not from 0 to V − 1.
    """
    if not isinstance(tokens, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(tokens).__name__}")
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise TypeError(f"{name}: expected integers, got {tokens.dtype}")
    tokens = tokens.long()
    if valid is not None:
        tokens = tokens.masked_fill(~valid, 0)
    # torch's own embedding says "index out of range in self", or stops the GPU for good
    if tokens.numel() and not tokens.is_meta and not is_exported():
        low, high = (int(v) for v in tokens.aminmax())
        if low < 0 or high >= vocab_size:
            raise ValueError(
                f"{name}: expected indices from 0 to {vocab_size - 1} ({size} is "
                f"{vocab_size}), got {low if low < 0 else high}"
            )
    return tokens


def counted_targets(
    name: str, targets: Any, logits: Tensor, valid: Tensor | None = None, size: str = "vocab_size"
) -> Tensor:
    """Which targets count: those that are valid and not −100; bool, of their shape.

    Args:
        name: of the argument, for the message.
        targets: integers (…), indices into the last dimension of the logits.
        logits: (…, C).
        valid: bool (…); None: all are.
        size: name of C, for the message.

    Raises:
        TypeError: they are no tensor of integers.
        ValueError: they have another shape, or one that counts is not from 0 to C − 1.
    """
    if isinstance(targets, Tensor) and targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"{name}: expected shape {tuple(logits.shape[:-1])}, one for each place of the "
            f"logits, got {tuple(targets.shape)}"
        )
    known = targets != UNKNOWN if valid is None else valid & (targets != UNKNOWN)
    check_tokens(name, targets, logits.shape[-1], known, size)
    return known


def mean(x: Tensor) -> Tensor:
    """The mean over everything; 0 over nothing, where torch's is NaN."""
    return x.mean() if x.numel() else x.sum()


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


def layers(
    cell: Layers, input_size: int, hidden_size: int, num_layers: int, **options: Any
) -> Recurrence | Backbone:
    """A recurrence; or, of a list of words, a backbone of these, ``num_layers`` times over."""
    if not isinstance(cell, list | tuple):
        return recurrence(cell, input_size, hidden_size, num_layers, **options)  # type: ignore[arg-type]
    if options.pop("bidirectional", False):
        raise ValueError("bidirectional: expected False for a list of words, got True")
    return Backbone(input_size, hidden_size, cell, num_layers, **options)


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
        if x.dim() != 3:
            raise ValueError(f"x: expected shape (B, T, F), got {tuple(x.shape)}")
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
