"""The half of a sequence-to-sequence model that reads: a memory, and a state to begin with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells import Cell, State, flat_state, map_state
from companion.cells.base import flat_sizes
from companion.cells.noise import check_probability
from companion.checks import check_flag, check_sizes
from companion.layers import Recurrence
from companion.models.parts import check_batch, check_tokens, recurrence, valid_steps

__all__ = ["Bridge", "Encoded", "Encoder"]


class Encoded(NamedTuple):
    """What an :class:`Encoder` leaves of a source.

    Attributes:
        memory: the outputs of its last layer, (B, S, M), 0 where it is padding.
        valid: bool (B, S), the steps that are not padding.
        state: its final state, of all layers and directions.
    """

    memory: Tensor
    valid: Tensor
    state: State

    def select(self, rows: Tensor) -> Encoded:
        """The same of some rows, in their order; a row may be taken several times."""
        return Encoded(self.memory[rows], self.valid[rows], pick_rows(self.state, rows))


def pick_rows(state: State, rows: Tensor) -> State:
    """A state (L, B, H) of some rows."""
    return cast(State, map_state(lambda s: s[:, rows], state))


class Encoder(nn.Module):
    r"""Embeddings and a recurrence over the source.

    .. math:: m_{1..S}, s_S = \mathrm{recurrence}(E_{x_1}, \dots, E_{x_S})

    Args:
        vocab_size: number of source tokens.
        embedding_dim: size of their embeddings.
        hidden_size: number of hidden units of each direction, :math:`H`.
        cell: name of an architecture or a subclass of :class:`companion.Cell`.
        num_layers: number of stacked layers.
        bidirectional: whether a step of the memory knows what follows.
        dropout: while training, probability of dropping an entry of the embeddings, and of an
            output between layers.
        device, dtype: of the weights.
        options: further keyword arguments of :class:`companion.Recurrence`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Example:
        >>> encoder = Encoder(100, 16, 12)
        >>> memory, valid, state = encoder(torch.randint(100, (2, 7)), lengths=[7, 4])
        >>> memory.shape, valid.sum(1).tolist(), state.shape
        (torch.Size([2, 7, 24]), [7, 4], torch.Size([2, 2, 12]))
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int = 64,
        hidden_size: int = 128,
        cell: str | type[Cell] = "gru",
        num_layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        check_sizes(vocab_size=(vocab_size, 1), embedding_dim=(embedding_dim, 1))
        self.vocab_size, self.dropout = vocab_size, check_probability("dropout", dropout)
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.embedding = nn.Embedding(vocab_size, embedding_dim, **new)
        self.recurrence = recurrence(
            cell,
            embedding_dim,
            hidden_size,
            num_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            **new,
            **options,
        )

    @property
    def output_size(self) -> int:
        """Features of the memory, :math:`M`."""
        return self.recurrence.output_size

    def forward(self, tokens: Tensor, lengths: Tensor | Sequence[int] | None = None) -> Encoded:
        """Read sources.

        Args:
            tokens: integers (B, S); padding may hold any integer.
            lengths: (B,) how many tokens of each row are valid; default: all.

        Returns:
            the memory, which steps of it are valid, and the final state. None of them depends on
            padding or on the other rows.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, values or device.
        """
        B, S = check_batch("tokens", tokens)
        valid = valid_steps(lengths, B, S, tokens.device)
        x = self.embedding(check_tokens("tokens", tokens, self.vocab_size, valid))
        x = F.dropout(x, self.dropout, self.training)  # (B, S, E)
        memory, state = self.recurrence(x, lengths=lengths)
        return Encoded(memory, valid, state)


class Bridge(nn.Module):
    r"""From the final state of one recurrence to the first of another.

    .. math:: s_0 = \tanh(W [\overrightarrow{s}; \overleftarrow{s}] + b)

    for each layer and each tensor of the state. Where both states have the same form already, and
    nothing has to be joined, it has no weights and passes the state on. What is no feature of
    the past (the time of a clockwork RNN, the window of a QRNN) is never read and starts as ever.

    Args:
        source: the recurrence that has read.
        target: the one to begin, with as many layers.
        learned: whether to use the product where the state could be passed on as well.
        device, dtype: of the weights.

    Raises:
        TypeError: if ``learned`` is no bool.
        ValueError: if the numbers of layers differ.

    Source:
        Bahdanau, Cho and Bengio (2015), appendix A.2.2 (the first state, there of the backward
        half alone); passed on: Sutskever et al. (2014).

    Example:
        >>> from companion import GRU, LSTM
        >>> read, write = GRU(3, 4, batch_first=True, bidirectional=True), LSTM(3, 5)
        >>> h, c = Bridge(read, write)(read(torch.ones(2, 7, 3))[1])
        >>> h.shape, c.shape
        (torch.Size([1, 2, 5]), torch.Size([1, 2, 5]))
    """

    def __init__(
        self,
        source: Recurrence,
        target: Recurrence,
        learned: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_flag("learned", learned)
        if source.num_layers != target.num_layers:
            raise ValueError(
                f"num_layers: expected as many in encoder and decoder, got {source.num_layers} "
                f"and {target.num_layers}"
            )
        own, other = target.cell(0), source.cell(0)
        self.directions, self.layers = source.directions, target.num_layers
        sizes, given = _features(own), _features(other)
        self.single = not isinstance(own.state_size, tuple)
        same = type(own) is type(other) and sizes == given and self.directions == 1
        self.maps = nn.ModuleList()
        self.feeds = [min(k, len(given) - 1) for k in range(len(sizes))]
        self._target = [target]  # in a list: the decoder registers it
        if same and not learned:
            return
        for _ in range(self.layers):
            for size, feed in zip(sizes, self.feeds, strict=True):
                width = self.directions * given[feed]
                self.maps.append(nn.Linear(width, size, device=device, dtype=dtype))

    def forward(self, state: State) -> State:
        """The first state of the target, from the final one of the source."""
        parts = [  # one (L, B, directions * size) of each tensor
            s.unflatten(0, (self.layers, self.directions)).transpose(1, 2).flatten(2)
            for s in flat_state(state)
        ]
        first = list(flat_state(self._target[0].initial_state(parts[0].shape[1])))
        n = len(self.feeds)
        for k, feed in enumerate(self.feeds):
            maps = list(self.maps)[k::n]  # one a layer
            joined = [f(x) for f, x in zip(maps, parts[feed], strict=False)]
            first[k] = torch.tanh(torch.stack(joined)) if joined else parts[feed]
        return first[0] if self.single else cast(State, tuple(first))


def _features(cell: Cell) -> tuple[int, ...]:
    """Sizes of those tensors of a state that are features of the past."""
    sizes = flat_sizes(cell.state_size)
    return sizes if cell.zoned is None else sizes[: max(cell.zoned, 1)]
