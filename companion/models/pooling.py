"""From the outputs of a sequence to one vector: the last valid one, or all of them together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from companion.attention import masked_softmax
from companion.checks import check_size

__all__ = ["POOLINGS", "AttentionPooling", "pool_last", "pool_max", "pool_mean"]


def pool_last(y: Tensor, valid: Tensor, directions: int = 1) -> Tensor:
    r"""The output at the last valid step; of a backward half, that at the first step.

    Either is the output of a direction that has read the whole sequence. ``y[:, -1]`` is neither:
    in a padded row it is padding, and its backward half has read one token.

    Args:
        y: outputs (B, T, directions·H), 0 where they are padding.
        valid: bool (B, T).
        directions: 2 if the second half of the features comes from a backward direction.

    Returns:
        (B, directions·H); 0 for a row of length 0.

    Example:
        >>> y = torch.tensor([[[1.0, 10.0], [2.0, 20.0], [0.0, 0.0]]])
        >>> pool_last(y, torch.tensor([[True, True, False]]), directions=2)
        tensor([[ 2., 10.]])
    """
    if y.shape[1] == 0:
        return y.sum(1)
    half = y.shape[2] // directions
    last = (valid.sum(1) - 1).clamp(min=0)
    forward = y[torch.arange(y.shape[0], device=y.device), last, :half]
    return torch.cat([forward, y[:, 0, half:]], 1)


def pool_max(y: Tensor, valid: Tensor, directions: int = 1) -> Tensor:
    """The largest value of each feature over the valid steps; 0 for a row of length 0.

    Arguments and result as of :func:`pool_last`.

    Example:
        >>> y = torch.tensor([[[-1.0], [-2.0], [0.0]]])
        >>> pool_max(y, torch.tensor([[True, True, False]])).item()
        -1.0
    """
    if y.shape[1] == 0:
        return y.sum(1)
    largest = y.masked_fill(~valid[..., None], -torch.inf).amax(1)
    return torch.where(valid.any(1, keepdim=True), largest, torch.zeros_like(largest))


def pool_mean(y: Tensor, valid: Tensor, directions: int = 1) -> Tensor:
    """The mean of each feature over the valid steps; 0 for a row of length 0.

    Arguments and result as of :func:`pool_last`.

    Example:
        >>> y = torch.tensor([[[1.0], [2.0], [0.0]]])
        >>> pool_mean(y, torch.tensor([[True, True, False]])).item()
        1.5
    """
    return y.sum(1) / valid.sum(1, keepdim=True).clamp(min=1)


class AttentionPooling(nn.Module):
    r"""A weighted mean of the outputs whose weights are learned.

    .. math::

        e_t = v^\top \tanh(W y_t + b), \qquad
        \alpha = \mathrm{softmax}(e_{1..n}), \qquad \bar y = \sum_{t=1}^{n} \alpha_t y_t

    Args:
        size: number of features of :math:`y_t`.
        device, dtype: of the weights.

    Source:
        Yang et al. (2016), "Hierarchical attention networks", equations 5 to 7.

    Example:
        >>> pool = AttentionPooling(4)
        >>> y, valid = torch.ones(2, 3, 4), torch.tensor([[True, True, False], [False] * 3])
        >>> pool(y * valid[..., None], valid).shape, pool.weights(y, valid).sum(1).tolist()
        (torch.Size([2, 4]), [1.0, 0.0])
    """

    def __init__(
        self,
        size: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_size("size", size)
        self.hidden = nn.Linear(size, size, device=device, dtype=dtype)
        self.score = nn.Linear(size, 1, bias=False, device=device, dtype=dtype)

    def weights(self, y: Tensor, valid: Tensor) -> Tensor:
        """The weights (B, T): 0 at padding, and a sum of 1 unless the row has length 0."""
        e = self.score(torch.tanh(self.hidden(y))).squeeze(-1)
        return masked_softmax(e, valid)

    def forward(self, y: Tensor, valid: Tensor, directions: int = 1) -> Tensor:
        """The weighted mean (B, size); arguments as of :func:`pool_last`."""
        return (self.weights(y, valid)[..., None] * y).sum(1)


POOLINGS: dict[str, Any] = {"last": pool_last, "max": pool_max, "mean": pool_mean}
