"""Scaled dot-product attention in several heads, with the weights of ``torch.nn``."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.attention.base import (
    Attended,
    check_keys,
    check_query,
    masked_softmax,
    readable,
)
from companion.cells.noise import check_probability
from companion.checks import check_flag, check_size

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    r"""Several attentions side by side, each to a part of the features.

    .. math::

        \alpha^i = \mathrm{softmax}\bigl( (Q W_Q^i)(M W_K^i)^\top / \sqrt{d} \bigr), \qquad
        Y = [\alpha^1 M W_V^1; \dots; \alpha^n M W_V^n]\, W_O, \qquad d = E / n

    The weights have the names and shapes of ``torch.nn.MultiheadAttention``: either loads the
    other's ``state_dict``.

    Args:
        embed_dim: features of query, memory and output, :math:`E`.
        num_heads: :math:`n`, which divides them.
        dropout: probability of dropping a weight of attention while training.
        bias: whether the four products have biases.
        device, dtype: of the weights.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Source:
        Vaswani et al. (2017), section 3.2.

    Example:
        >>> attend = MultiHeadAttention(8, 2)
        >>> context, weights = attend(torch.ones(3, 4, 8), torch.ones(3, 5, 8))
        >>> context.shape, weights.shape
        (torch.Size([3, 4, 8]), torch.Size([3, 2, 4, 5]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size("embed_dim", embed_dim)
        check_size("num_heads", num_heads)
        check_flag("bias", bias)
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim: expected a multiple of {num_heads} heads, got {embed_dim}"
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.dropout = check_probability("dropout", dropout)
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim, **new))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim, **new)) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias, **new)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights as torch does: Glorot's uniform law, biases 0."""
        nn.init.xavier_uniform_(self.in_proj_weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def _project(self, x: Tensor, part: int) -> Tensor:
        """Part 0, 1, 2 (query, key, value) of x (B, T, E), as (B, n, T, d)."""
        own = slice(part * self.embed_dim, (part + 1) * self.embed_dim)
        bias = None if self.in_proj_bias is None else self.in_proj_bias[own]
        return (
            F.linear(x, self.in_proj_weight[own], bias)
            .unflatten(2, (self.num_heads, -1))
            .transpose(1, 2)
        )

    def prepare(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory (B, S, E), each (B, n, S, d): a cache for more queries."""
        return self._project(memory, 1), self._project(memory, 2)

    def _cached(self, keys: Any, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values that were given, checked."""
        if not isinstance(keys, tuple) or len(keys) != 2:
            raise TypeError(
                f"keys: expected the pair that prepare(memory) gives, got {type(keys).__name__}"
            )
        (B, S, E), n = memory.shape, self.num_heads
        for part in keys:
            check_keys(part, memory, (B, n, S))
            if part.shape[3] != E // n:
                raise ValueError(f"keys: expected {E // n} features a head, got {part.shape[3]}")
        return keys

    def forward(
        self,
        query: Tensor,
        memory: Tensor,
        valid: Tensor | None = None,
        keys: tuple[Tensor, Tensor] | None = None,
    ) -> Attended:
        """The means of the memory, one for each query.

        Args:
            query: (B, T, E).
            memory: (B, S, E); the query itself for self-attention.
            valid: bool (B, S), or (B, T, S) for each query its own: what may be attended to;
                default: all. (torch's own ``key_padding_mask`` is the opposite.) Memory that no
                query may attend to is never read and may hold NaN.
            keys: what :meth:`prepare` gave for this memory.

        Returns:
            the context (B, T, E), and the weights (B, n, T, S) of the heads, before dropout.
            Where a query may attend to nothing, the heads give 0 and the context is the bias of
            the last product.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        """
        check_query(query, memory, self.embed_dim, self.embed_dim, self.in_proj_weight)
        memory, valid = readable(memory, valid, query.shape[1])
        if keys is None:
            k, v = self.prepare(memory)
        else:
            unread = ~valid.any(1)[:, None, :, None]
            k, v = (part.masked_fill(unread, 0.0) for part in self._cached(keys, memory))
        q = self._project(query, 0)
        scores = q @ k.mT / math.sqrt(q.shape[-1])  # (B, n, T, S)
        weights = masked_softmax(scores, valid[:, None])
        heads = F.dropout(weights, self.dropout, self.training) @ v  # (B, n, T, d)
        return Attended(self.out_proj(heads.transpose(1, 2).flatten(2)), weights)
