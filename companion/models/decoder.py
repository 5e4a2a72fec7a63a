"""The half of a sequence-to-sequence model that writes, without attention and with it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.attention import (
    AdditiveAttention,
    Attention,
    ConcatAttention,
    DotAttention,
    GeneralAttention,
)
from companion.cells import Cell, State, flat_state
from companion.cells.base import flat_sizes
from companion.cells.noise import check_probability
from companion.checks import check_flag, check_sizes
from companion.models.encoder import Encoded, pick_rows
from companion.models.parts import check_names, check_tokens, recurrence

__all__ = ["AttentionDecoder", "Decoder", "Written"]

SCORES = ("additive", "concat", "dot", "general")


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
        """Several steps whose inputs are known, as in teacher forcing: one call over time.

        Args:
            tokens: integers (B, T), what was written before each step.
            written: where to begin, as :meth:`start` or an earlier call gives it.

        Returns:
            the logits (B, T, V), no weights of attention, and where the decoder stands then.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, values or device.
        """
        y, state = self.recurrence(self.embed(tokens), written.state)
        return self.scores(y), None, written._replace(state=state)


class AttentionDecoder(Decoder):
    r"""A decoder that looks at the whole memory before each token it writes.

    With ``query="after"`` (Luong) the state after the step asks, and what it is told goes into
    the scores; with ``query="before"`` (Bahdanau) the state before the step asks, and what it is
    told goes into the step too:

    .. math::

        \text{after:}\quad h_t = \mathrm{step}([E_{y_{t-1}}; \tilde h_{t-1}]), \quad
        \bar m_t = \mathrm{attend}(h_t, m)

        \text{before:}\quad \bar m_t = \mathrm{attend}(s_{t-1}, m), \quad
        h_t = \mathrm{step}([E_{y_{t-1}}; \bar m_t])

    and in both :math:`\tilde h_t = \tanh(W [\bar m_t; h_t])`,
    :math:`\text{logits}_t = U \tilde h_t + b`. The entry :math:`\tilde h_{t-1}` is there with
    ``input_feeding`` alone; without it the query "after" lets a whole known target run in one
    call, since no step waits for an attention.

    Args:
        vocab_size: number of target tokens, :math:`V`.
        memory_size: features of the memory, :math:`M`.
        embedding_dim: size of the embeddings.
        hidden_size: number of hidden units, :math:`H`.
        attention: ``"additive"``, ``"concat"``, ``"dot"``, ``"general"``, or an
            :class:`companion.attention.Attention` with queries of H features.
        query: ``"after"`` or ``"before"``.
        input_feeding: whether a step reads the attentional vector of the step before; only with
            ``query="after"``.
        cell, num_layers, dropout, device, dtype, options: as of :class:`Decoder`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Source:
        Luong, Pham and Manning (2015), equations 5 and 6, section 3.3 (input feeding); Bahdanau,
        Cho and Bengio (2015), whose output layer (a maxout) is replaced by that of Luong.

    Example:
        >>> from companion.models import Bridge, Encoder
        >>> encoder, decoder = Encoder(100, 16, 12), AttentionDecoder(50, 24, 16, 12)
        >>> bridge = Bridge(encoder.recurrence, decoder.recurrence)
        >>> encoded = encoder(torch.randint(100, (2, 7)), lengths=[7, 4])
        >>> start = decoder.start(encoded, bridge(encoded.state))
        >>> logits, weights, after = decoder(torch.randint(50, (2, 3)), start)
        >>> logits.shape, weights.shape, weights[1, 0, 4:].tolist()
        (torch.Size([2, 3, 50]), torch.Size([2, 3, 7]), [0.0, 0.0, 0.0])
    """

    def __init__(
        self,
        vocab_size: int,
        memory_size: int,
        embedding_dim: int = 64,
        hidden_size: int = 128,
        attention: str | Attention = "general",
        query: str = "after",
        input_feeding: bool = False,
        cell: str | type[Cell] = "gru",
        num_layers: int = 1,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        check_sizes(memory_size=(memory_size, 1), hidden_size=(hidden_size, 1))
        check_names("query", query, ("after", "before"))
        check_flag("input_feeding", input_feeding)
        if query == "before" and input_feeding:
            raise ValueError(
                'input_feeding: expected False with query="before", whose step reads the context '
                "itself"
            )
        width = options.get("proj_size") or hidden_size
        super().__init__(
            vocab_size,
            embedding_dim,
            hidden_size,
            cell,
            num_layers,
            dropout,
            device,
            dtype,
            _more_input=memory_size if query == "before" else width * input_feeding,
            **options,
        )
        self.query, self.input_feeding, width = query, input_feeding, self.recurrence.output_size
        asks = flat_sizes(self.recurrence.cell(0).state_size)[0]
        if query == "before" and asks != width:
            raise ValueError(
                f'query: expected "after" with this cell, whose state has {asks} features where '
                f"its output has {width}"
            )
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.attention = _attention(attention, width, memory_size, new)
        self.combine = nn.Linear(memory_size + width, width, bias=False, **new)

    def start(self, encoded: Encoded, state: State) -> Written:
        """Before the first step: the keys are prepared, the vector that is fed is 0."""
        keys = self.attention.prepare(encoded.memory)
        feed = None
        if self.input_feeding:
            feed = encoded.memory.new_zeros(len(encoded.memory), self.recurrence.output_size)
        return Written(state, feed, encoded, keys)

    def attend(self, query: Tensor, written: Written) -> tuple[Tensor, Tensor]:
        """Contexts (B, T, M) and weights (B, T, S) of queries (B, T, H)."""
        memory, valid, _ = written.encoded
        context, weights = self.attention(query, memory, valid, written.keys)
        return context, weights

    def attentional(self, context: Tensor, y: Tensor) -> Tensor:
        """The attentional vector tanh(W [context; y])."""
        return torch.tanh(self.combine(torch.cat([context, y], -1)))

    def forward(self, tokens: Tensor, written: Written) -> tuple[Tensor, Tensor | None, Written]:
        """Several steps whose inputs are known.

        Args:
            tokens: integers (B, T), what was written before each step.
            written: where to begin, as :meth:`start` or an earlier call gives it.

        Returns:
            the logits (B, T, V), the weights of attention (B, T, S), and where the decoder stands
            then.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, values or device.
        """
        x = self.embed(tokens)  # (B, T, E)
        if self.query == "after" and not self.input_feeding:
            y, state = self.recurrence(x, written.state)
            context, weights = self.attend(y, written)
            features = self.attentional(context, y)
            return self.scores(features), weights, written._replace(state=state)
        vectors, looks = [], []
        for x_t in x.unbind(1):
            vector, look, written = self._step(x_t[:, None], written)
            vectors.append(vector)
            looks.append(look)
        if not vectors:  # T = 0
            width, S = self.combine.out_features, written.encoded.memory.shape[1]
            return self.scores(x.new_zeros(len(x), 0, width)), x.new_zeros(len(x), 0, S), written
        return self.scores(torch.cat(vectors, 1)), torch.cat(looks, 1), written

    def _step(self, x_t: Tensor, written: Written) -> tuple[Tensor, Tensor, Written]:
        """One step that waits for an attention: x_t (B, 1, E) gives (B, 1, H) and (B, 1, S)."""
        if self.query == "before":
            asks = flat_state(written.state)[0][-1][:, None]  # the state of the last layer
            context, weights = self.attend(asks, written)
            y, state = self.recurrence(torch.cat([x_t, context], -1), written.state)
        else:
            assert written.feed is not None
            fed = torch.cat([x_t, written.feed[:, None]], -1)
            y, state = self.recurrence(fed, written.state)
            context, weights = self.attend(y, written)
        vector = self.attentional(context, y)
        feed = vector[:, 0] if self.input_feeding else None
        return vector, weights, written._replace(state=state, feed=feed)


def _attention(
    given: str | Attention, query_size: int, memory_size: int, new: dict[str, Any]
) -> Attention:
    if isinstance(given, Attention):
        if (given.query_size, given.memory_size) != (query_size, memory_size):
            raise ValueError(
                f"attention: expected sizes {query_size} of queries and {memory_size} of the "
                f"memory, got {given.query_size} and {given.memory_size}"
            )
        return given
    check_names("attention", given, SCORES)
    if given == "dot":
        return DotAttention(query_size, memory_size)
    if given == "general":
        return GeneralAttention(query_size, memory_size, **new)
    kind = AdditiveAttention if given == "additive" else ConcatAttention
    return kind(query_size, memory_size, query_size, **new)
