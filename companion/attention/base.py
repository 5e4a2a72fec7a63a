"""What every attention shares: masks, the softmax, and the weighted mean of a memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from companion.cells.base import check_tensor
from companion.checks import check_sizes

__all__ = ["Attended", "Attention", "check_keys", "check_query", "masked_softmax", "readable"]


class Attended(NamedTuple):
    """What attention returns.

    Attributes:
        context: the weighted means of the memory, (B, T, M).
        weights: (B, T, S), of several heads (B, n, T, S).
    """

    context: Tensor
    weights: Tensor


def masked_softmax(scores: Tensor, valid: Tensor) -> Tensor:
    """Softmax over the valid entries of the last dimension.

    Args:
        scores: (..., S); where they are not valid they may be anything, NaN included.
        valid: bool, of a shape that broadcasts to that of the scores.

    Returns:
        (..., S): 0 where not valid, and a sum of 1, or of 0 where nothing is valid. Its gradient
        is finite there too, and 0.

    Raises:
        TypeError: if ``valid`` is no tensor of bool.

    Example:
        >>> masked_softmax(torch.zeros(2, 3), torch.tensor([[True, True, False], [False] * 3]))
        tensor([[0.5000, 0.5000, 0.0000],
                [0.0000, 0.0000, 0.0000]])
    """
    check_mask("valid", valid)
    # a softmax over nothing is NaN, also as a gradient: there it is taken over zeros, and hidden
    empty = ~valid.any(-1, keepdim=True)
    scores = scores.masked_fill(~valid, -torch.inf).masked_fill(empty, 0.0)
    return scores.softmax(-1) * valid


class Attention(nn.Module):
    """The base of the scores: masks, the softmax, and the weighted mean.

    A subclass writes ``scores(query, keys)``, and ``prepare(memory)`` if part of its score needs
    the memory alone. A decoder calls ``prepare`` once a sequence, and then ``read``.

    Args:
        query_size: features of a query, :math:`D`.
        memory_size: features of the memory, :math:`M`.

    Raises:
        TypeError, ValueError: if a size is no positive int.
    """

    def __init__(self, query_size: int, memory_size: int) -> None:
        super().__init__()
        check_sizes(query_size=(query_size, 1), memory_size=(memory_size, 1))
        self.query_size, self.memory_size = query_size, memory_size

    def prepare(self, memory: Tensor) -> Tensor:
        """The keys (B, S, K): what the score needs of the memory (B, S, M) alone."""
        return memory

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores (B, T, S) of queries (B, T, D) and keys (B, S, K)."""
        raise NotImplementedError("write scores(query, keys) in your subclass")

    def weights(self, query: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
        """Weights (B, T, S) of the memory; ``valid`` is (B, 1 or T, S)."""
        return masked_softmax(self.scores(query, keys), valid)

    def forward(
        self,
        query: Tensor,
        memory: Tensor,
        valid: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Attended:
        """The means of the memory, one for each query.

        Args:
            query: (B, T, D).
            memory: (B, S, M).
            valid: bool (B, S), or (B, T, S) for each query its own: what may be attended to;
                default: all. (torch's own ``key_padding_mask`` is the opposite.) Memory that no
                query may attend to is never read and may hold NaN.
            keys: what :meth:`prepare` gave for this memory, to spare computing it again.

        Returns:
            the context (B, T, M), 0 where a query may attend to nothing, and the weights
            (B, T, S).

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        """
        like = next(self.parameters(), None)
        check_query(query, memory, self.query_size, self.memory_size, like)
        memory, valid = readable(memory, valid, query.shape[1])
        if keys is None:
            keys = self.prepare(memory)
        else:
            check_keys(keys, memory, tuple(memory.shape[:2]))
            keys = keys.masked_fill(~valid.any(1)[..., None], 0.0)
        return self.read(query, memory, valid, keys)

    def read(self, query: Tensor, memory: Tensor, valid: Tensor, keys: Tensor) -> Attended:
        """The same of what is known to fit, and of memory that is finite where it is padding.

        Args:
            query, memory, keys: as of :meth:`forward`.
            valid: bool (B, 1 or T, S).
        """
        weights = self.weights(query, keys, valid)
        return Attended(weights @ memory, weights)


def check_query(query: Tensor, memory: Tensor, D: int, M: int, like: Tensor | None) -> None:
    """Raise unless the query is (B, T, D) and the memory (B, S, M), alike and as the weights."""
    check_tensor("query", query, like)
    check_tensor("memory", memory, query if like is None else like)
    for name, x, size in (("query", query, D), ("memory", memory, M)):
        if x.dim() != 3 or x.shape[2] != size:
            raise ValueError(f"{name}: expected shape (B, steps, {size}), got {tuple(x.shape)}")
    if query.shape[0] != memory.shape[0]:
        raise ValueError(
            f"memory: expected a batch of {query.shape[0]}, as the query has, "
            f"got {memory.shape[0]}"
        )


def check_keys(keys: Any, memory: Tensor, lead: tuple[int, ...]) -> None:
    """Raise unless the keys have the dtype and device of the memory, and ``lead`` in front."""
    check_tensor("keys", keys, memory)
    if keys.dim() != len(lead) + 1 or keys.shape[:-1] != lead:
        raise ValueError(
            f"keys: expected what prepare(memory) gives, shape {lead} and its features, "
            f"got {tuple(keys.shape)}"
        )


def check_mask(name: str, valid: Any) -> None:
    """Raise unless a mask is a tensor of bool."""
    if not isinstance(valid, Tensor) or valid.dtype != torch.bool:
        got = valid.dtype if isinstance(valid, Tensor) else type(valid).__name__
        raise TypeError(f"{name}: expected a tensor of bool, true where to attend, got {got}")


def readable(memory: Tensor, valid: Tensor | None, T: int) -> tuple[Tensor, Tensor]:
    """The memory, 0 where no query may attend to it, and the mask as (B, 1 or T, S)."""
    B, S = memory.shape[:2]
    if valid is None:
        return memory, torch.ones(B, 1, S, dtype=torch.bool, device=memory.device)
    check_mask("valid", valid)
    if valid.shape not in ((B, S), (B, T, S)):
        raise ValueError(
            f"valid: expected shape {(B, S)} or {(B, T, S)}, got {tuple(valid.shape)}"
        )
    if valid.device != memory.device:
        raise ValueError(f"valid: expected it on {memory.device}, got {valid.device}")
    valid = valid if valid.dim() == 3 else valid[:, None]
    return memory.masked_fill(~valid.any(1)[..., None], 0.0), valid
