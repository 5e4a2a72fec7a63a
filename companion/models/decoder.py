"""The half of a sequence-to-sequence model that writes."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells import Cell, State, flat_state
from companion.cells.noise import check_probability
from companion.checks import check_sizes
from companion.models.encoder import Encoded, pick_rows
from companion.models.parts import check_tokens, recurrence

__all__ = ["Decoder", "Written"]


class Written(NamedTuple):
    """Where a decoder stands: between two steps.

    Attributes:
        state: of its recurrence.
        feed: (B, H), the attentional vector of the step before, if it is fed; else None.
        encoded: the memory.
        keys: what the attention has prepared of it; else None.
    """

    state: State
    feed: Tensor | None
    encoded: Encoded
    keys: Tensor | None

    def select(self, rows: Tensor) -> Written:
        """The same of some rows, in their order; a row may be taken several times."""
        feed = None if self.feed is None else self.feed[rows]
        keys = None if self.keys is None else self.keys[rows]
        return Written(pick_rows(self.state, rows), feed, self.encoded.select(rows), keys)


class Decoder(nn.Module):
    r"""A language model whose first state is all it knows of the source.

    .. math::

        h_t, s_t = \mathrm{recurrence}(E_{y_{t-1}}, s_{t-1}), \qquad
        \text{logits}_t = U h_t + b

    Args:
        vocab_size: number of target tokens, :math:`V`.
        embedding_dim: size of their embeddings.
        hidden_size: number of hidden units, :math:`H`.
        cell: name of an architecture or a subclass of :class:`companion.Cell`.
        num_layers: number of stacked layers.
        dropout: while training, probability of dropping an entry of the embeddings, of an output
            between layers, and of what the scores are computed from.
        device, dtype: of the weights.
        options: further keyword arguments of :class:`companion.Recurrence`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Source:
        Sutskever, Vinyals and Le (2014).

    Example:
        >>> from companion.models import Encoder
        >>> encoder, decoder = Encoder(100, 16, 12, bidirectional=False), Decoder(50, 16, 12)
        >>> encoded = encoder(torch.randint(100, (2, 7)))
        >>> start = decoder.start(encoded, encoded.state)
        >>> logits, weights, after = decoder(torch.randint(50, (2, 3)), start)
        >>> logits.shape, weights
        (torch.Size([2, 3, 50]), None)
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int = 64,
        hidden_size: int = 128,
        cell: str | type[Cell] = "gru",
        num_layers: int = 1,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        _more_input: int = 0,
        **options: Any,
    ) -> None:
        super().__init__()
        check_sizes(vocab_size=(vocab_size, 1), embedding_dim=(embedding_dim, 1))
        if options.get("bidirectional"):
            raise ValueError("bidirectional: expected False: the backward half reads what is next")
        self.vocab_size, self.dropout = vocab_size, check_probability("dropout", dropout)
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.embedding = nn.Embedding(vocab_size, embedding_dim, **new)
        self.recurrence = recurrence(
            cell,
            embedding_dim + _more_input,
            hidden_size,
            num_layers,
            dropout=dropout,
            **new,
            **options,
        )
        self.output = nn.Linear(self.recurrence.output_size, vocab_size, **new)

    def embed(self, tokens: Tensor) -> Tensor:
        """The embeddings of tokens of any shape, some entries dropped while training."""
        tokens = check_tokens("tokens", tokens, self.vocab_size)
        return F.dropout(self.embedding(tokens), self.dropout, self.training)

    def scores(self, features: Tensor) -> Tensor:
        """Scores (..., V) from what the decoder computed."""
        return self.output(F.dropout(features, self.dropout, self.training))

    def start(self, encoded: Encoded, state: State) -> Written:
        """Before the first step, with the state that the bridge gives."""
        return Written(state, None, encoded, None)

    def forward(self, tokens: Tensor, written: Written) -> tuple[Tensor, Tensor | None, Written]:
        """Several steps whose inputs are known, as in teacher forcing.

        One call over time, where no step has to wait for an attention.

        Args:
            tokens: integers (B, T), what was written before each step.
            written: where to begin, as :meth:`start` or an earlier call gives it.

        Returns:
            the logits (B, T, V), the weights of attention (B, T, S), if there is one, and where
            the decoder stands then.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, values or device.
        """
        _check_rows(tokens, written, 2)
        features, weights, written = self._run(self.embed(tokens), written)
        return self.scores(features), weights, written

    def step(self, token: Tensor, written: Written) -> tuple[Tensor, Tensor | None, Written]:
        """One step, as in writing: the same as ``forward`` with T = 1, and faster.

        Args:
            token: integers (B,), what was written before this step.
            written: where the decoder stands.

        Returns:
            the logits (B, V), the weights of attention (B, S), if there is one, and where the
            decoder stands then.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, values or device; if
                the decoder trains with ``recurrent_dropout``, whose mask is one for all steps.
        """
        _check_rows(token, written, 1)
        features, weights, written = self._step(self.embed(token), written)
        return self.scores(features), weights, written

    def _run(self, x: Tensor, written: Written) -> tuple[Tensor, Tensor | None, Written]:
        """What the scores (B, T, V) are computed from, of embeddings (B, T, E)."""
        y, state = self.recurrence(x, written.state)
        return y, None, written._replace(state=state)

    def _step(self, x_t: Tensor, written: Written) -> tuple[Tensor, Tensor | None, Written]:
        """The same of one step: (B, E)."""
        y, state = self.recurrence.step(x_t, written.state)
        return y, None, written._replace(state=state)


def _check_rows(tokens: Any, written: Written, dim: int) -> None:
    """Raise unless there are tokens, (B,) or (B, T), for each row that is being written."""
    B = flat_state(written.state)[0].shape[1]
    if isinstance(tokens, Tensor) and (tokens.dim() != dim or len(tokens) != B):
        shape = f"({B}, T)" if dim == 2 else f"({B},)"
        raise ValueError(
            f"{'tokens' if dim == 2 else 'token'}: expected shape {shape}, for the {B} rows that "
            f"are being written, got {tuple(tokens.shape)}"
        )
