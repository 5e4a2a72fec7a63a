"""A decoder that looks back at the whole source."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from companion.attention import (
    AdditiveAttention,
    Attention,
    ConcatAttention,
    DotAttention,
    GeneralAttention,
)
from companion.attention.base import readable
from companion.cells import Cell, State, flat_state
from companion.cells.base import flat_sizes
from companion.checks import check_flag, check_sizes
from companion.models.decoder import Decoder, Written
from companion.models.encoder import Encoded
from companion.models.parts import check_names

__all__ = ["AttentionDecoder"]

SCORES = ("additive", "concat", "dot", "general")


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
        if (query == "before" or input_feeding) and options.get("recurrent_dropout"):
            raise ValueError(
                "recurrent_dropout: expected 0 where each step waits for an attention, since its "
                f"mask is one for all steps, got {options['recurrent_dropout']}"
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
        memory, _ = readable(encoded.memory, encoded.valid, 1)  # once, not at each step
        feed = None
        if self.input_feeding:
            feed = memory.new_zeros(len(memory), self.recurrence.output_size)
        encoded = encoded._replace(memory=memory)
        return Written(state, feed, encoded, self.attention.prepare(memory))

    def attend(self, query: Tensor, written: Written) -> tuple[Tensor, Tensor]:
        """Contexts (B, T, M) and weights (B, T, S) of queries (B, T, H)."""
        memory, valid, _ = written.encoded
        assert written.keys is not None
        context, weights = self.attention.read(query, memory, valid[:, None], written.keys)
        return context, weights

    def attentional(self, context: Tensor, y: Tensor) -> Tensor:
        """The attentional vector tanh(W [context; y])."""
        return torch.tanh(self.combine(torch.cat([context, y], -1)))

    def _run(self, x: Tensor, written: Written) -> tuple[Tensor, Tensor | None, Written]:
        if self.query == "after" and not self.input_feeding:
            y, state = self.recurrence(x, written.state)
            context, weights = self.attend(y, written)
            return self.attentional(context, y), weights, written._replace(state=state)
        width, S = self.combine.out_features, written.encoded.memory.shape[1]
        vectors, looks = [x.new_zeros(len(x), 0, width)], [x.new_zeros(len(x), 0, S)]
        for x_t in x.unbind(1):
            vector, look, written = self._step(x_t, written)
            vectors.append(vector[:, None])
            looks.append(look[:, None])
        return torch.cat(vectors, 1), torch.cat(looks, 1), written

    def _step(self, x_t: Tensor, written: Written) -> tuple[Tensor, Tensor, Written]:
        if self.query == "before":
            asks = flat_state(written.state)[0][-1]  # the state of the last layer
            context, weights = self.attend(asks[:, None], written)
            x_t = torch.cat([x_t, context[:, 0]], -1)
        elif written.feed is not None:
            x_t = torch.cat([x_t, written.feed], -1)
        y, state = self.recurrence.step(x_t, written.state)
        if self.query == "after":
            context, weights = self.attend(y[:, None], written)
        vector = self.attentional(context[:, 0], y)
        feed = vector if self.input_feeding else None
        return vector, weights[:, 0], written._replace(state=state, feed=feed)


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
    if not isinstance(given, str):
        raise TypeError(f"attention: expected a name or an Attention, got {type(given).__name__}")
    check_names("attention", given, SCORES)
    if given == "dot":
        return DotAttention(query_size, memory_size)
    if given == "general":
        return GeneralAttention(query_size, memory_size, **new)
    kind = AdditiveAttention if given == "additive" else ConcatAttention
    return kind(query_size, memory_size, query_size, **new)
