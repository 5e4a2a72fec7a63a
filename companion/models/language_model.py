"""A text in, the distribution of each next token out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells import State
from companion.cells.noise import check_probability
from companion.checks import check_flag, check_size, check_sizes
from companion.layers import Recurrence
from companion.models.parts import (
    Layers,
    LockedDropout,
    check_batch,
    check_tokens,
    layers,
    valid_steps,
)
from companion.models.sampling import continued
from companion.weight_drop import weight_drop as drop_weights

__all__ = ["LanguageModel"]


class LanguageModel(nn.Module):
    r"""Embeddings, recurrent layers, and a score for each token that may come next.

    .. math::

        h_{1..T} = \mathrm{layers}(e_{x_1}, \dots, e_{x_T}), \qquad
        P(x_{t+1} = v \mid x_{1..t}) \propto \exp(e_v^\top W h_t + b_v)

    Tied, input and output read the same embeddings :math:`e_v`; the projection :math:`W` is there
    only where the sizes differ. The layers are recurrences of one layer each, so that the dropout
    between them can be locked. The noise is that of AWD-LSTM, all of it off at first.

    Args:
        vocab_size: number of tokens, :math:`V`.
        embedding_dim: size of the embeddings.
        hidden_size: number of hidden units of each layer, :math:`H`.
        cell: name of an architecture, a subclass of :class:`companion.Cell`, or a list of such
            words: a :class:`Backbone`.
        num_layers: number of layers, :math:`L`.
        tied: whether input and output share one table (Inan et al. 2017; Press and Wolf 2017).
        dropout: locked dropout, one mask for all steps of a batch: a number, or three, for the
            embeddings, between layers, and for the output of the last layer.
        word_dropout: probability of dropping a token of the vocabulary, wherever it stands in the
            batch, from the embeddings (Gal and Ghahramani 2016).
        weight_drop: probability of dropping an entry of the recurrent weights; see
            :func:`companion.weight_drop`.
        device, dtype: of the weights.
        options: further keyword arguments of :class:`companion.Recurrence`, for each layer.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Source:
        Mikolov et al. (2010) for the model; Merity et al. (2018), "Regularizing and optimizing
        LSTM language models", for the noise.

    Example:
        >>> model = LanguageModel(100, embedding_dim=8, hidden_size=16, num_layers=2)
        >>> logits, state = model(torch.randint(100, (2, 7)))
        >>> logits.shape, len(state)
        (torch.Size([2, 7, 100]), 2)
        >>> model.sample(torch.tensor([1, 2, 3]), steps=4, temperature=0.8, top_k=10).shape
        torch.Size([4])
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_dim: int = 128,
        hidden_size: int = 128,
        cell: Layers = "lstm",
        num_layers: int = 1,
        *,
        tied: bool = True,
        dropout: float | Sequence[float] = 0.0,
        word_dropout: float = 0.0,
        weight_drop: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        check_sizes(vocab_size=(vocab_size, 1), embedding_dim=(embedding_dim, 1))
        check_size("num_layers", num_layers)
        check_flag("tied", tied)
        if options.get("bidirectional"):
            raise ValueError("bidirectional: expected False: the backward half reads what is next")
        rates = tuple(dropout) if isinstance(dropout, tuple | list) else (dropout,) * 3
        if len(rates) != 3:
            raise ValueError(
                "dropout: expected a number or three (embeddings, between layers, output), "
                f"got {len(rates)}"
            )
        rates = tuple(check_probability("dropout", p) for p in rates)
        self.word_dropout = check_probability("word_dropout", word_dropout)
        check_probability("weight_drop", weight_drop)
        self.noisy = any((*rates, word_dropout, weight_drop))
        self.vocab_size, self.tied = vocab_size, tied

        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.embedding = nn.Embedding(vocab_size, embedding_dim, **new)
        self.layers = nn.ModuleList()
        width = embedding_dim
        for _ in range(num_layers):
            layer = layers(cell, width, hidden_size, 1, **new, **options)
            if weight_drop:
                if not isinstance(layer, Recurrence):
                    raise ValueError("weight_drop: expected 0 for a list of words")
                layer = drop_weights(layer, weight_drop)
            self.layers.append(layer)
            width = layer.output_size
        between = [rates[1]] * (num_layers - 1)
        self.dropouts = nn.ModuleList(map(LockedDropout, (rates[0], *between, rates[2])))
        if not tied:
            self.output = nn.Linear(width, vocab_size, **new)
        else:
            # the table is registered once, under one name: a file holds it once, too
            self.bias = nn.Parameter(torch.zeros(vocab_size, **new))
            if width != embedding_dim:
                self.projection = nn.Linear(width, embedding_dim, bias=False, **new)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)  # N(0, 1) would make wild tied scores

    def initial_state(self, batch_size: int) -> tuple[State, ...]:
        """The state before the first token: one of each layer."""
        return tuple(layer.initial_state(batch_size) for layer in self.layers)  # type: ignore[operator]

    def embed(self, tokens: Tensor) -> Tensor:
        """The embeddings (B, T, E) of tokens (B, T), some words dropped while training."""
        table = self.embedding.weight
        if self.training and self.word_dropout:
            table = table * F.dropout(table.new_ones(len(table), 1), self.word_dropout)
        return F.embedding(tokens, table)

    def features(
        self,
        tokens: Tensor,
        state: Sequence[State] | None = None,
        reset: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Tensor, Tensor, tuple[State, ...]]:
        """Outputs of the last layer before and after its dropout, (B, T, H), and the state."""
        B, T = check_batch("tokens", tokens)
        valid = None if lengths is None else valid_steps(lengths, B, T, tokens.device)
        states = self._states(state)
        raw = dropped = self.dropouts[0](
            self.embed(check_tokens("tokens", tokens, self.vocab_size, valid))
        )
        after = []
        for layer, dropout, s in zip(self.layers, self.dropouts[1:], states, strict=True):
            raw, s = layer(dropped, s, lengths=lengths, reset=reset)
            dropped = dropout(raw)
            after.append(s)
        return raw, dropped, tuple(after)

    def decode(self, features: Tensor) -> Tensor:
        """Scores (..., V) of the next token from outputs (..., H) of the last layer."""
        if not self.tied:
            return self.output(features)
        if hasattr(self, "projection"):
            features = self.projection(features)
        return F.linear(features, self.embedding.weight, self.bias)

    def forward(
        self,
        tokens: Tensor,
        state: Sequence[State] | None = None,
        reset: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Tensor, tuple[State, ...]]:
        """Scores of what follows each token.

        Args:
            tokens: integers (B, T).
            state: the state before the first token, as :meth:`initial_state` or an earlier call
                gives it; default: the initial state.
            reset: bool (B, T): the state is set to the initial one before this token.
            lengths: (B,) how many tokens of each row are valid; default: all.

        Returns:
            The logits (B, T, V), and the state after each row's last valid token. The logits at
            padding are the same whatever the padding holds, and mean nothing.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, values or device.
        """
        _, dropped, after = self.features(tokens, state, reset, lengths)
        return self.decode(dropped), after

    def step(
        self, tokens: Tensor, state: Sequence[State] | None = None
    ) -> tuple[Tensor, tuple[State, ...]]:
        """One token further: tokens (B,) and a state give logits (B, V) and the next state.

        Raises:
            ValueError: if the model trains with noise, whose masks are of a whole sequence.
            TypeError: if an argument has the wrong type.
        """
        if self.training and self.noisy:
            raise ValueError(
                "step: dropout keeps one mask for a whole sequence, which steps one by one do "
                "not know; call eval() to stream, or forward to train"
            )
        tokens = check_tokens("tokens", tokens, self.vocab_size)
        if tokens.dim() != 1:
            raise ValueError(f"tokens: expected shape (B,), got {tuple(tokens.shape)}")
        y = self.embed(tokens)
        after = []
        for layer, s in zip(self.layers, self._states(state), strict=True):
            y, s = layer.step(y, s)  # type: ignore[operator]
            after.append(s)
        return self.decode(y), tuple(after)

    @torch.no_grad()
    def sample(
        self,
        prompt: Tensor,
        steps: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Go on with a text, one token after another; the state is carried, nothing read twice.

        Args:
            prompt: integers (T,), or (B, T) for several texts; T ≥ 1.
            steps: how many tokens to draw, N.
            temperature, top_k, top_p: of :func:`next_token_probabilities`; temperature 0 always
                takes the likeliest token.
            generator: draws; default: torch's own. On the device of the model.

        Returns:
            int64 (N,) or (B, N), the tokens after the prompt. The model runs in evaluation mode,
            and is in its own again afterwards.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape or values.
        """
        return continued(self, prompt, steps, temperature, top_k, top_p, generator)

    def _states(self, state: Sequence[State] | None) -> Sequence[State | None]:
        if state is None:
            return [None] * len(self.layers)
        if not isinstance(state, tuple | list) or len(state) != len(self.layers):
            got = len(state) if isinstance(state, tuple | list) else type(state).__name__
            raise TypeError(
                f"state: expected a tuple of {len(self.layers)}, one of each layer, got {got}"
            )
        return state
