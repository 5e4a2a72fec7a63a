"""Residual blocks around any mixers of time: recurrences, attention, or some of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.attention.causal import CausalAttention
from companion.cells import ARCHITECTURES, Cell
from companion.cells.base import check_tensor
from companion.cells.noise import check_probability
from companion.checks import check_size, check_sizes
from companion.layers import Recurrence
from companion.run.plan import check_lengths

__all__ = ["Backbone", "Block"]

# what is the same for all blocks, or would break the contract of one
FIXED = frozenset(
    ("batch_first", "bidirectional", "device", "dtype", "embed_dim", "hidden_size", "input_size")
) | {"num_heads"}


class Block(nn.Module):
    r"""One mixer of time and one feed-forward part, each with its own way around it.

    .. math::

        a = x + P\, \mathrm{mix}(\mathrm{norm}(x)), \qquad
        y = a + W_2\, \mathrm{gelu}(W_1\, \mathrm{norm}(a))

    Args:
        mixer: a layer with the contract of :class:`companion.Recurrence`, batch first.
        size: features of input and output, :math:`E`; those the mixer reads.
        expand: the feed-forward part is this many times as wide; 0: there is none.
        dropout: probability of dropping an entry of what is added, while training.
        device, dtype: of the weights.

    The product :math:`P` is there only where the mixer does not give E features.
    """

    def __init__(
        self,
        mixer: nn.Module,
        size: int,
        expand: float = 4,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.dropout = check_probability("dropout", dropout)
        self.norm, self.mixer = nn.LayerNorm(size, **new), mixer
        given = int(mixer.output_size)  # type: ignore[arg-type]
        self.project = nn.Linear(given, size, **new) if given != size else None
        self.forward_norm = nn.LayerNorm(size, **new) if expand else None
        wide = round(expand * size)
        self.wide = nn.Linear(size, wide, **new) if expand else None
        self.narrow = nn.Linear(wide, size, **new) if expand else None

    def initial_state(self, batch_size: int) -> Any:
        """That of the mixer."""
        return self.mixer.initial_state(batch_size)  # type: ignore[operator]

    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One time step: (B, E) and a state give (B, E) and the next state."""
        y, state = self.mixer.step(self.norm(x_t), state)  # type: ignore[operator]
        return self._after(x_t, y), state

    def forward(self, x: Tensor, state: Any, **given: Any) -> tuple[Tensor, Any]:
        """The whole sequence (B, T, E); ``given`` is for the mixer."""
        y, state = self.mixer(self.norm(x), state, **given)
        return self._after(x, y), state

    def _after(self, x: Tensor, y: Tensor) -> Tensor:
        """What waits for nothing: the way around the mixer, and the feed-forward part."""
        y = y if self.project is None else self.project(y)
        x = x + F.dropout(y, self.dropout, self.training)
        if self.wide is None or self.narrow is None or self.forward_norm is None:
            return x
        y = self.narrow(F.gelu(self.wide(self.forward_norm(x))))
        return x + F.dropout(y, self.dropout, self.training)


class Backbone(nn.Module):
    r"""Blocks one upon another, the mixer of each chosen by a word.

    .. math:: x^{(0)} = W x, \qquad x^{(k)} = \mathrm{block}_k(x^{(k-1)}), \qquad
        y = \mathrm{norm}(x^{(K)})

    A word is a name of ``companion.ARCHITECTURES`` or ``"attention"``: ``["gru"] * 4`` is a deep
    residual GRU, ``["attention"] * 4`` a Transformer decoder, and ``["sru", "attention"]`` a
    hybrid; ``["griffin", "griffin", "attention"]``, with one ``kv_heads`` and a window, has the
    mixers of Griffin. It is called as any recurrent layer is, and stands wherever a model of
    ``companion.models`` takes the name of a cell: ``LanguageModel(V, cell=["sru", "attention"])``.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of features between the blocks and of the output, :math:`E`.
        layers: a word, or a subclass of :class:`companion.Cell`, for each block; K in all.
        num_layers: how many times over.
        expand: the feed-forward part of a block is this many times as wide; 0: there is none.
        heads: of each attention.
        window: how many steps an attention sees; None: all.
        dropout: probability of dropping an entry of what a block adds, while training.
        device, dtype: of the weights.
        options: for a word the further keyword arguments of its layer,
            ``{"attention": {"kv_heads": 1}}``.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        input (B, T, D), output (B, T, E); the state is a tuple of those of the K blocks. The
        product :math:`W` is there only where D is not E.

    Source:
        Vaswani et al. (2017), with normalization in front as in Xiong et al. (2020).

    Example:
        >>> layer = Backbone(3, 8, ["gru", "attention"], heads=2)
        >>> y, state = layer(torch.zeros(2, 7, 3), lengths=[7, 5])
        >>> y.shape, len(state), state[1].steps.tolist()
        (torch.Size([2, 7, 8]), 2, [7, 5])
    """

    directions = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        layers: Sequence[str | type[Cell]],
        num_layers: int = 1,
        *,
        expand: float = 4,
        heads: int = 4,
        window: int | None = None,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        check_sizes(input_size=(input_size, 1), hidden_size=(hidden_size, 1))
        check_size("num_layers", num_layers)
        if isinstance(expand, bool) or not isinstance(expand, int | float):
            raise TypeError(f"expand: expected a number, got {type(expand).__name__}")
        if not (expand == 0 or (math.isfinite(expand) and round(expand * hidden_size) >= 1)):
            raise ValueError(
                f"expand: expected 0 or a factor of at least 1 / {hidden_size}, got {expand}"
            )
        check_size("heads", heads)
        if window is not None:
            check_size("window", window)
        check_probability("dropout", dropout)
        words = _words(layers)
        options = {} if options is None else options
        if not isinstance(options, Mapping):
            raise TypeError(f"options: expected a mapping, got {type(options).__name__}")
        for name in options:
            if name not in words:
                raise ValueError(f"options: expected words of layers, {words}, got {name!r}")
            if not isinstance(options[name], Mapping):
                got = type(options[name]).__name__
                raise TypeError(f"options[{name!r}]: expected a mapping, got {got}")
            if taken := sorted(FIXED & set(options[name])):
                raise ValueError(
                    f"options[{name!r}]: expected options of the layer, got {taken[0]!r}, which "
                    "the backbone decides"
                )
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, hidden_size
        self.words = words * num_layers
        self.input = (
            nn.Linear(input_size, hidden_size, **new) if input_size != hidden_size else None
        )
        self.blocks = nn.ModuleList()
        for word in self.words:
            given: Mapping[str, Any] = options.get(word, {}) if isinstance(word, str) else {}
            mixer: nn.Module
            if word == "attention":
                given = {"window": window, **given}
                mixer = CausalAttention(hidden_size, heads, **new, **given)
            else:
                mixer = Recurrence(word, hidden_size, hidden_size, **new, **given)
            self.blocks.append(Block(mixer, hidden_size, expand, dropout, **new))
        self.norm = nn.LayerNorm(hidden_size, **new)

    def initial_state(self, batch_size: int) -> tuple[Any, ...]:
        """The state before the first step, one of each block."""
        return tuple(block.initial_state(batch_size) for block in self.blocks)  # type: ignore[operator]

    def step(self, x_t: Tensor, state: Sequence[Any] | None = None) -> tuple[Tensor, Any]:
        """One time step, for streaming: (B, D) gives (B, E) and the next state.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        """
        self._check("x_t", x_t, 2)
        y = x_t if self.input is None else self.input(x_t)
        after = []
        for block, s in zip(self.blocks, self._states(state), strict=True):
            y, s = block.step(y, s)  # type: ignore[operator]
            after.append(s)
        return self.norm(y), tuple(after)

    def forward(
        self,
        x: Tensor,
        state: Sequence[Any] | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        reset: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Any, ...]]:
        """The whole sequence.

        Args:
            x: (B, T, D).
            state: the state before the first step, as :meth:`initial_state` or an earlier call
                gives it; default: the initial state.
            lengths: (B,) how many steps of each row are valid; the rest may hold NaN.
            reset: bool (B, T): set the state to the initial one before this step.

        Returns:
            The outputs (B, T, E), 0 where it is padding, and the state after each row's last
            valid step.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        """
        self._check("x", x, 3)
        padding = None
        known = check_lengths(lengths, x.shape[0], x.shape[1], True)
        if known is not None:
            padding = torch.arange(x.shape[1], device=x.device) >= known.to(x.device)[:, None]
            x = x.masked_fill(padding[..., None], 0.0)  # else NaN, times 0 in a gradient
        y = x if self.input is None else self.input(x)
        after = []
        for block, s in zip(self.blocks, self._states(state), strict=True):
            y, s = block(y, s, lengths=known, reset=reset)
            after.append(s)
        y = self.norm(y)
        return (y if padding is None else y.masked_fill(padding[..., None], 0.0)), tuple(after)

    def _check(self, name: str, x: Any, dims: int) -> None:
        check_tensor(name, x, self.norm.weight)
        if x.dim() != dims or x.shape[-1] != self.input_size:
            shape = ", ".join(("B", "T")[: dims - 1])
            raise ValueError(
                f"{name}: expected ({shape}, {self.input_size}), got {tuple(x.shape)}"
            )

    def _states(self, state: Any) -> Sequence[Any]:
        if state is None:
            return [None] * len(self.blocks)
        if not isinstance(state, tuple | list) or len(state) != len(self.blocks):
            got = len(state) if isinstance(state, tuple | list) else type(state).__name__
            raise TypeError(
                f"state: expected a tuple of {len(self.blocks)}, one of each block, got {got}"
            )
        return state


def _words(layers: Any) -> list[str | type[Cell]]:
    """The words of the blocks; raise for one that names nothing."""
    if isinstance(layers, str) or not isinstance(layers, Sequence):
        raise TypeError(f"layers: expected a list of words, got {layers!r}")
    if not layers:
        raise ValueError("layers: expected at least one word")
    for word in layers:
        cell = isinstance(word, type) and issubclass(word, Cell)
        if not cell and word != "attention" and word not in ARCHITECTURES:
            raise ValueError(
                f"layers: expected 'attention' or one of {sorted(ARCHITECTURES)}, got {word!r}"
            )
    return list(layers)
