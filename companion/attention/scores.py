"""The scores of Bahdanau and of Luong, each in a few lines, and attention within a window."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.attention.base import Attention, masked_softmax
from companion.checks import check_flag, check_size

__all__ = [
    "AdditiveAttention",
    "ConcatAttention",
    "DotAttention",
    "GeneralAttention",
    "LocalAttention",
]


class AdditiveAttention(Attention):
    r"""The score of a network with one hidden layer.

    .. math:: e_{ts} = v^\top \tanh(W q_t + U m_s)

    Args:
        query_size: :math:`D`.
        memory_size: :math:`M`.
        hidden_size: rows of :math:`W` and :math:`U`.
        device, dtype: of the weights.

    Source:
        Bahdanau, Cho and Bengio (2015), appendix A.1.2. There the query is the decoder's state
        *before* the step.

    Example:
        >>> attend = AdditiveAttention(4, 6, 8)
        >>> context, weights = attend(torch.ones(2, 3, 4), torch.ones(2, 5, 6))
        >>> context.shape, weights[0, 0]
        (torch.Size([2, 3, 6]), tensor([0.2000, 0.2000, 0.2000, 0.2000, 0.2000], ...))
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        hidden_size: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(query_size, memory_size)
        check_size("hidden_size", hidden_size)
        new: dict[str, Any] = {"bias": False, "device": device, "dtype": dtype}
        self.query = nn.Linear(query_size, hidden_size, **new)
        self.key = nn.Linear(memory_size, hidden_size, **new)
        self.score = nn.Linear(hidden_size, 1, **new)

    def prepare(self, memory: Tensor) -> Tensor:
        """U m_s."""
        return self.key(memory)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """v' tanh(W q_t + U m_s)."""
        hidden = torch.tanh(self.query(query)[:, :, None] + keys[:, None])  # (B, T, S, K)
        return self.score(hidden).squeeze(-1)


class ConcatAttention(Attention):
    r"""The score of a network that reads query and memory side by side.

    .. math:: e_{ts} = v^\top \tanh(W [q_t; m_s])

    The product falls in two halves, so that this is the additive score by another name
    (:class:`AdditiveAttention`) and another start: one matrix is drawn for both halves.

    Args:
        query_size: :math:`D`.
        memory_size: :math:`M`.
        hidden_size: rows of :math:`W`.
        device, dtype: of the weights.

    Source:
        Luong, Pham and Manning (2015), section 3.1, "concat".

    Example:
        >>> ConcatAttention(4, 6, 8)(torch.ones(2, 3, 4), torch.ones(2, 5, 6)).context.shape
        torch.Size([2, 3, 6])
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        hidden_size: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(query_size, memory_size)
        check_size("hidden_size", hidden_size)
        new: dict[str, Any] = {"bias": False, "device": device, "dtype": dtype}
        self.both = nn.Linear(query_size + memory_size, hidden_size, **new)
        self.score = nn.Linear(hidden_size, 1, **new)

    def prepare(self, memory: Tensor) -> Tensor:
        """The half of W [q; m] that reads the memory."""
        return F.linear(memory, self.both.weight[:, self.query_size :])

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """v' tanh(W [q_t; m_s])."""
        asked = F.linear(query, self.both.weight[:, : self.query_size])
        return self.score(torch.tanh(asked[:, :, None] + keys[:, None])).squeeze(-1)


class DotAttention(Attention):
    r"""The score of a product, without weights.

    .. math:: e_{ts} = q_t^\top m_s, \qquad \text{or scaled}\quad q_t^\top m_s / \sqrt{D}

    Args:
        query_size: :math:`D`.
        memory_size: :math:`M`, which must equal it.
        scaled: whether to divide by the root of the size.

    Raises:
        ValueError: if the two sizes differ.

    Source:
        Luong, Pham and Manning (2015), section 3.1, "dot"; scaled: Vaswani et al. (2017), (1).

    Example:
        >>> q, m = torch.eye(2)[None] * 9, torch.eye(2)[None]
        >>> DotAttention(2, 2)(q, m).weights.round(decimals=3)
        tensor([[[1., 0.],
                 [0., 1.]]])
    """

    def __init__(self, query_size: int, memory_size: int, scaled: bool = False) -> None:
        super().__init__(query_size, memory_size)
        check_flag("scaled", scaled)
        if query_size != memory_size:
            raise ValueError(
                f"memory_size: expected {query_size}, the size of a query, since a dot product "
                f"has as many entries on either side, got {memory_size}; GeneralAttention takes "
                "different sizes"
            )
        self.scaled = scaled

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """q_t' m_s."""
        scale = 1 / math.sqrt(self.query_size) if self.scaled else 1.0
        return (scale * query) @ keys.mT


class GeneralAttention(Attention):
    r"""The score of a product through a matrix.

    .. math:: e_{ts} = q_t^\top W m_s

    Args:
        query_size: :math:`D`.
        memory_size: :math:`M`.
        device, dtype: of the weights.

    Source:
        Luong, Pham and Manning (2015), section 3.1, "general". There the query is the decoder's
        state *after* the step.

    Example:
        >>> GeneralAttention(4, 6)(torch.ones(2, 3, 4), torch.ones(2, 5, 6)).weights.shape
        torch.Size([2, 3, 5])
    """

    def __init__(
        self,
        query_size: int,
        memory_size: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(query_size, memory_size)
        self.key = nn.Linear(memory_size, query_size, bias=False, device=device, dtype=dtype)

    def prepare(self, memory: Tensor) -> Tensor:
        """W m_s."""
        return self.key(memory)

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        """q_t' (W m_s)."""
        return query @ keys.mT


class LocalAttention(Attention):
    r"""Attention within a window around a place that the query predicts ("local-p").

    .. math::

        p_t = S\, \sigma(v^\top \tanh(W q_t)), \qquad
        \alpha_{ts} = \mathrm{softmax}(e_{t \cdot})_s\,
        \exp\!\Bigl(-\frac{(s - p_t)^2}{2 \sigma^2}\Bigr), \qquad \sigma = \frac{w}{2}

    The softmax is over the memory within :math:`w` steps of :math:`p_t`; :math:`S` is the number
    of valid steps of the row. The weights need not sum to 1.

    Args:
        inner: the attention that scores.
        window: :math:`w`.
        device, dtype: of the weights.

    Source:
        Luong, Pham and Manning (2015), section 3.2, equations 9 and 10.

    Example:
        >>> attend = LocalAttention(GeneralAttention(4, 6), window=2)
        >>> attend(torch.ones(1, 1, 4), torch.ones(1, 99, 6)).weights.count_nonzero().item() <= 5
        True
    """

    def __init__(
        self,
        inner: Attention,
        window: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not isinstance(inner, Attention) or isinstance(inner, LocalAttention):
            raise TypeError(
                f"inner: expected an Attention with a score of its own, got {type(inner).__name__}"
            )
        super().__init__(inner.query_size, inner.memory_size)
        check_size("window", window)
        new: dict[str, Any] = {"bias": False, "device": device, "dtype": dtype}
        self.inner, self.window = inner, window
        self.hidden = nn.Linear(self.query_size, self.query_size, **new)
        self.place = nn.Linear(self.query_size, 1, **new)

    def prepare(self, memory: Tensor) -> Tensor:
        """That of the inner attention."""
        return self.inner.prepare(memory)

    def places(self, query: Tensor, valid: Tensor) -> Tensor:
        """The predicted places p_t, (B, T, 1), between 0 and the number of valid steps.

        In float32 at least: bfloat16 has no whole numbers beyond 256 but the even ones.
        """
        place = self.place(torch.tanh(self.hidden(query)))
        place = place.to(torch.promote_types(place.dtype, torch.float32))
        return valid.sum(-1, keepdim=True) * torch.sigmoid(place)

    def weights(self, query: Tensor, keys: Tensor, valid: Tensor) -> Tensor:
        """Softmax within the window, times a bell around the place."""
        away = torch.arange(keys.shape[1], device=keys.device) - self.places(query, valid)
        near = masked_softmax(self.inner.scores(query, keys), valid & (away.abs() <= self.window))
        return near * torch.exp(-2 * (away / self.window) ** 2).to(near.dtype)
