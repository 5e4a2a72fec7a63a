"""A text in, a class out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.noise import check_probability
from companion.checks import check_sizes
from companion.models.parts import (
    Layers,
    check_batch,
    check_names,
    check_tokens,
    counted_targets,
    layers,
    valid_steps,
)
from companion.models.pooling import POOLINGS, AttentionPooling

__all__ = ["TextClassifier", "classification_objective"]


class TextClassifier(nn.Module):
    r"""Embeddings, a recurrence, one vector for the whole text, and a score for each class.

    .. math::

        y_{1..n} = \mathrm{recurrence}(E_{x_1}, \dots, E_{x_n}), \qquad
        \text{logits} = W \, \mathrm{pool}(y_1, \dots, y_n) + b

    The result depends on the n valid tokens of a row alone: not on how far it is padded, on what
    the padding holds, or on the other rows of the batch. A row of length 0 pools to 0, so that
    its logits are b.

    Args:
        vocab_size: number of tokens, :math:`V`.
        classes: number of classes, :math:`C`.
        embedding_dim: size of the embeddings, :math:`E`.
        hidden_size: number of hidden units of each direction, :math:`H`.
        cell: name of an architecture, a subclass of :class:`companion.Cell`, or a list of such
            words: a :class:`Backbone`.
        num_layers: number of stacked layers.
        bidirectional: whether to run both directions.
        dropout: while training, probability of dropping an entry of the embeddings, of an output
            between layers, and of the pooled vector.
        pooling: ``"last"``: the output at the last valid step, and of the backward direction
            that at the first; ``"max"`` or ``"mean"`` over the valid steps; ``"attention"``: a
            mean whose weights are learned.
        padding_idx: a token whose embedding is 0 and stays so, such as that of ``<pad>``.
        device, dtype: of the weights.
        options: further keyword arguments of :class:`companion.Recurrence`, such as
            ``forget_bias`` or ``recurrent_dropout``.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Example:
        >>> model = TextClassifier(100, 3, embedding_dim=8, hidden_size=16, pooling="attention")
        >>> tokens, lengths = torch.randint(100, (2, 7)), torch.tensor([7, 4])
        >>> model(tokens, lengths).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        vocab_size: int,
        classes: int,
        embedding_dim: int = 64,
        hidden_size: int = 128,
        cell: Layers = "lstm",
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        pooling: str = "last",
        padding_idx: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        check_sizes(vocab_size=(vocab_size, 1), classes=(classes, 1))
        check_sizes(embedding_dim=(embedding_dim, 1))
        check_names("pooling", pooling, (*POOLINGS, "attention"))
        self.dropout = check_probability("dropout", dropout)
        self.vocab_size, self.classes, self.pooling = vocab_size, classes, pooling
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.embedding = embedding(vocab_size, embedding_dim, padding_idx, **new)
        self.recurrence = layers(
            cell,
            embedding_dim,
            hidden_size,
            num_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            **new,
            **options,
        )
        size = self.recurrence.output_size
        if pooling == "attention":
            self.attention = AttentionPooling(size, **new)
        self.output = nn.Linear(size, classes, **new)

    def outputs(
        self, tokens: Tensor, lengths: Tensor | Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        """What the pooling reads: the outputs (B, T, ·), and which are valid, bool (B, T)."""
        valid = valid_steps(lengths, *check_batch("tokens", tokens), tokens.device)
        tokens = check_tokens("tokens", tokens, self.vocab_size, valid)
        x = F.dropout(self.embedding(tokens), self.dropout, self.training)
        return self.recurrence(x, lengths=lengths)[0], valid

    def forward(self, tokens: Tensor, lengths: Tensor | Sequence[int] | None = None) -> Tensor:
        """Scores of the classes.

        Args:
            tokens: integers (B, T); padding may hold any integer.
            lengths: (B,) how many tokens of each row are valid; default: all.

        Returns:
            The logits (B, C).

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, values or device.
        """
        y, valid = self.outputs(tokens, lengths)
        pool = self.attention if self.pooling == "attention" else POOLINGS[self.pooling]
        pooled = pool(y, valid, self.recurrence.directions)
        return self.output(F.dropout(pooled, self.dropout, self.training))


def embedding(vocab_size: int, size: int, padding_idx: int | None, **new: Any) -> nn.Embedding:
    """A table of embeddings; raise unless ``padding_idx`` is one of its rows."""
    if padding_idx is not None:
        check_sizes(padding_idx=(padding_idx, 0))
        if padding_idx >= vocab_size:
            raise ValueError(
                f"padding_idx: expected less than {vocab_size} (vocab_size), got {padding_idx}"
            )
    return nn.Embedding(vocab_size, size, padding_idx, **new)


def classification_objective(
    model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, int, dict[str, Tensor]]:
    """What :class:`companion.train.Trainer` minimizes for a classifier: the cross-entropy.

    Args:
        model: gives logits (B, C) for ``model(tokens, lengths)``.
        batch: tokens (B, T), lengths (B,), labels int64 (B,). A label of −100 is unknown and
            not counted.

    Returns:
        The mean over the counted rows, their number, and the share of right answers,
        ``"accuracy"``; a mean of 0 if nothing counts.

    Example:
        >>> model = TextClassifier(100, 3)
        >>> batch = torch.randint(100, (2, 7)), torch.tensor([7, 4]), torch.tensor([0, 2])
        >>> loss, rows, metrics = classification_objective(model, batch)
        >>> loss.shape, rows, list(metrics)
        (torch.Size([]), 2, ['accuracy'])
    """
    tokens, lengths, labels = batch
    logits = model(tokens, lengths)
    count = int(counted_targets("labels", labels, logits, size="classes").sum())
    # of no row torch's mean would be NaN
    loss = F.cross_entropy(logits, labels.long()) if count else logits[:0].sum()
    right = (logits.detach().argmax(-1) == labels).sum() / max(count, 1)
    return loss, count, {"accuracy": right}
