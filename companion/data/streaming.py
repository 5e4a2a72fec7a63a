"""One long text as parallel streams, read a piece at a time: batches of a language model."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from companion.checks import check_sizes

__all__ = ["StreamBatch", "Streams", "stream_batches"]


class StreamBatch(NamedTuple):
    """A piece of B streams.

    Its weight, for a mean over tokens, is ``y.numel()``.

    Attributes:
        x: int64 (B, T), what is read.
        y: int64 (B, T), what comes next: the target at each place.
        reset: bool (B, T), True where the state is to be the initial one before the token is
            read; None if there is no end of a document to go by.
    """

    x: Tensor
    y: Tensor
    reset: Tensor | None


class Streams:
    """The pieces of B parallel streams; every ``for`` over it is one epoch from the beginning.

    Made by ``stream_batches``. There is no order to shuffle: the state at the end of a piece is
    the one before the next.

    Attributes:
        streams: int64 (B, L), the text in B stretches of equal length, one below the other.
        steps: tokens of a piece; the last piece may have fewer.
        end: token at the end of a document; None if there is none.
    """

    def __init__(self, streams: Tensor, steps: int, end: int | None) -> None:
        self.streams = streams
        self.steps = steps
        self.end = end

    @property
    def tokens(self) -> int:
        """Targets in an epoch, B (L − 1)."""
        return self.streams.shape[0] * (self.streams.shape[1] - 1)

    def __len__(self) -> int:
        return -(-(self.streams.shape[1] - 1) // self.steps)

    def __iter__(self) -> Iterator[StreamBatch]:
        return (self._piece(t) for t in range(0, self.streams.shape[1] - 1, self.steps))

    def __repr__(self) -> str:
        b, n = self.streams.shape
        return f"Streams({b} streams of {n} tokens, {len(self)} batches of {self.steps} steps)"

    def _piece(self, start: int) -> StreamBatch:
        stop = min(start + self.steps, self.streams.shape[1] - 1)
        x, y = self.streams[:, start:stop], self.streams[:, start + 1 : stop + 1]
        if self.end is None:
            return StreamBatch(x, y, None)
        # a document begins after the end of another, and a stream begins as if after one
        reset = torch.ones_like(x, dtype=torch.bool)
        known = self.streams[:, max(start - 1, 0) : stop - 1] == self.end
        reset[:, x.shape[1] - known.shape[1] :] = known
        return StreamBatch(x, y, reset)


def stream_batches(
    tokens: Tensor | Sequence[int],
    batch_size: int,
    steps: int,
    *,
    end: int | None = None,
) -> Streams:
    """Cut a text into B parallel streams, and these into pieces of T steps.

    The text of N tokens becomes B stretches of L = ⌊N / B⌋, one a row; up to B − 1 tokens at its
    end are left out. A batch is the next T columns, with each token's successor as target; the
    last batch is shorter if T does not divide L − 1. Row b of a batch goes on where row b of the
    batch before ended, so a state is carried from batch to batch and cut only in the gradient.

    Args:
        tokens: int (N,), the whole text, its documents one after another.
        batch_size: B, the number of streams.
        steps: T, the tokens of a piece.
        end: the token at the end of each document. With it a batch says in ``reset`` where a
            document begins; a layer that is given ``reset=batch.reset`` starts afresh there. The
            first token of a stream counts as a beginning, though it may be amid a document.

    Returns:
        An object to iterate over, once an epoch. Its ``len`` is the number of batches, its
        ``tokens`` the number of targets. Batches are views of one tensor, on the device of
        ``tokens``.

    Raises:
        TypeError: tokens, batch_size, steps or end are no whole numbers.
        ValueError: tokens have another shape than (N,), or N < 2 B: no stream had a target;
            batch_size or steps is not positive.

    Source: the functions ``batchify`` and ``get_batch`` of PyTorch's word language model example,
    here with the batch first.

    Example:
        >>> for x, y, _ in stream_batches(torch.arange(11), batch_size=2, steps=3):
        ...     print(x.tolist(), y.tolist())
        [[0, 1, 2], [5, 6, 7]] [[1, 2, 3], [6, 7, 8]]
        [[3], [8]] [[4], [9]]
    """
    check_sizes(batch_size=(batch_size, 1), steps=(steps, 1))
    if not isinstance(tokens, Tensor):
        try:
            numbers = [operator.index(token) for token in tokens]
        except TypeError as error:
            raise TypeError(
                f"tokens: expected whole numbers, {error}; a Vocab turns tokens into numbers"
            ) from error
        tokens = torch.tensor(numbers, dtype=torch.int64, device="cpu")
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise TypeError(f"tokens: expected whole numbers, got {tokens.dtype}")
    if tokens.ndim != 1:
        raise ValueError(f"tokens: expected shape (N,), got {tuple(tokens.shape)}")
    length = len(tokens) // batch_size
    if length < 2:
        raise ValueError(
            f"tokens: expected at least {2 * batch_size}, two for each of {batch_size} streams, "
            f"got {len(tokens)}"
        )
    whole = tokens[: batch_size * length].to(torch.int64)
    try:
        last = None if end is None else operator.index(end)
    except TypeError as error:
        raise TypeError(
            f"end: expected a whole number, {error}; a Vocab turns tokens into numbers"
        ) from error
    return Streams(whole.reshape(batch_size, length), steps, last)
