"""A sequence in, a label for each of its tokens out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.noise import check_probability
from companion.checks import check_sizes
from companion.models.parts import Layers, check_tokens, counted_targets, layers, valid_steps

__all__ = ["Tagger", "tagging_objective"]


class Tagger(nn.Module):
    r"""Embeddings, a recurrence, and scores of the labels at every step.

    .. math::

        y_{1..n} = \mathrm{recurrence}(E_{x_1}, \dots, E_{x_n}), \qquad
        \text{logits}_t = W y_t + b

    A token may come with further features, each with a table of its own: its ending, or whether
    it is capitalized. Then ``vocab_size`` is a tuple, the tokens are (B, T, K), and the K
    embeddings of a token stand one behind the other.

    Args:
        vocab_size: number of tokens, :math:`V`; or K numbers, one for each feature of a token.
        tags: number of labels, :math:`C`.
        embedding_dim: size of the embeddings; or K sizes.
        hidden_size: number of hidden units of each direction, :math:`H`.
        cell: name of an architecture, a subclass of :class:`companion.Cell`, or a list of such
            words: a :class:`Backbone`.
        num_layers: number of stacked layers.
        bidirectional: whether the label of a token may depend on those that follow.
        dropout: while training, probability of dropping an entry of the embeddings and of the
            outputs of each layer.
        device, dtype: of the weights.
        options: further keyword arguments of :class:`companion.Recurrence`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Source:
        Huang et al. (2015), "Bidirectional LSTM-CRF models for sequence tagging", without the CRF.

    Example:
        >>> model = Tagger((100, 30), 5, embedding_dim=(16, 8), hidden_size=12)
        >>> words, endings = torch.randint(100, (2, 7)), torch.randint(30, (2, 7))
        >>> model(torch.stack([words, endings], -1), lengths=[7, 4]).shape
        torch.Size([2, 7, 5])
    """

    def __init__(
        self,
        vocab_size: int | Sequence[int],
        tags: int,
        embedding_dim: int | Sequence[int] = 64,
        hidden_size: int = 128,
        cell: Layers = "lstm",
        num_layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        check_sizes(tags=(tags, 1))
        self.features = isinstance(vocab_size, tuple | list)  # whether tokens have several
        sizes = tuple(vocab_size) if isinstance(vocab_size, tuple | list) else (vocab_size,)
        if not sizes:
            raise ValueError(
                f"vocab_size: expected a number, or one for each feature, got {vocab_size!r}"
            )
        if isinstance(embedding_dim, tuple | list):
            widths = tuple(embedding_dim)
        else:
            widths = (embedding_dim,) * len(sizes)
        if len(widths) != len(sizes):
            raise ValueError(
                f"embedding_dim: expected a number, or one for each of {len(sizes)} features as "
                f"in vocab_size, got {embedding_dim!r}"
            )
        for V, E in zip(sizes, widths, strict=True):
            check_sizes(vocab_size=(V, 1), embedding_dim=(E, 1))
        self.vocab_sizes, self.tags = sizes, tags
        self.dropout = check_probability("dropout", dropout)
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.embeddings = nn.ModuleList(
            nn.Embedding(V, E, **new) for V, E in zip(sizes, widths, strict=True)
        )
        self.recurrence = layers(
            cell,
            sum(widths),
            hidden_size,
            num_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            **new,
            **options,
        )
        self.output = nn.Linear(self.recurrence.output_size, tags, **new)

    def forward(self, tokens: Tensor, lengths: Tensor | Sequence[int] | None = None) -> Tensor:
        """Scores of the labels.

        Args:
            tokens: integers (B, T), or (B, T, K) if a token has K features; padding may hold any
                integer.
            lengths: (B,) how many tokens of each row are valid; default: all.

        Returns:
            The logits (B, T, C), 0 where it is padding.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, values or device.
        """
        if not isinstance(tokens, Tensor):
            raise TypeError(f"tokens: expected a tensor, got {type(tokens).__name__}")
        K = len(self.vocab_sizes)
        if tokens.dim() != 2 + self.features or (self.features and tokens.shape[2] != K):
            shape = f"(B, T, {K})" if self.features else "(B, T)"
            raise ValueError(f"tokens: expected shape {shape}, got {tuple(tokens.shape)}")
        valid = valid_steps(lengths, tokens.shape[0], tokens.shape[1], tokens.device)
        parts = []
        columns = tokens.unbind(2) if self.features else (tokens,)
        for k, (column, table) in enumerate(zip(columns, self.embeddings, strict=True)):
            name = f"tokens[..., {k}]" if self.features else "tokens"
            parts.append(table(check_tokens(name, column, self.vocab_sizes[k], valid)))
        x = F.dropout(torch.cat(parts, 2), self.dropout, self.training)  # (B, T, E)
        y, _ = self.recurrence(x, lengths=lengths)
        logits = self.output(F.dropout(y, self.dropout, self.training))
        return logits * valid[..., None]  # without the bias at padding


def tagging_objective(
    model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, int, dict[str, Tensor]]:
    """What :class:`companion.train.Trainer` minimizes for a tagger: the cross-entropy a token.

    Args:
        model: gives logits (B, T, C) for ``model(tokens, lengths)``.
        batch: tokens (B, T) or (B, T, K), lengths (B,), tags int64 (B, T), which may hold any
            number where they are padding. A valid tag of −100 is unknown and not counted.

    Returns:
        The mean over the counted tokens of the batch, their number, and the share of right
        labels, ``"accuracy"``; a mean of 0 if nothing counts.

    Example:
        >>> model = Tagger(100, 5)
        >>> tokens, tags = torch.randint(100, (2, 7)), torch.randint(5, (2, 7))
        >>> loss, count, _ = tagging_objective(model, (tokens, torch.tensor([7, 4]), tags))
        >>> count
        11
    """
    tokens, lengths, tags = batch
    logits = model(tokens, lengths)
    B, T, _ = logits.shape
    valid = valid_steps(lengths, B, T, logits.device)
    counted = counted_targets("tags", tags, logits, valid, "tags")
    count = int(counted.sum())
    logits, tags = logits[counted], tags[counted].long()  # (count, C), (count,)
    loss = F.cross_entropy(logits, tags, reduction="sum") / max(count, 1)
    right = (logits.detach().argmax(-1) == tags).sum() / max(count, 1)
    return loss, count, {"accuracy": right}
