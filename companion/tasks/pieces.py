"""A text of a language model as batches in which every token but the first is a target once."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from companion.data.streaming import StreamBatch, Streams
from companion.models.likelihood import UNKNOWN as NOT_COUNTED

__all__ = ["Pieces", "side_by_side"]


class Pieces:
    """The pieces of some streams.

    Args:
        streams: int64 (B, L), −100 behind a text's end.
        steps: tokens of a piece.
        masked: whether the unknown token, 0, counts for nothing as a target: training had none.
    """

    def __init__(self, streams: Tensor, steps: int, masked: bool) -> None:
        self.streams, self.masked = Streams(streams, steps, None), masked

    def __len__(self) -> int:
        return len(self.streams)

    def __iter__(self) -> Iterator[StreamBatch]:
        return map(self._piece, self.streams)

    def _piece(self, batch: StreamBatch) -> StreamBatch:
        y = batch.y.masked_fill(batch.y == 0, NOT_COUNTED) if self.masked else batch.y
        return batch._replace(x=batch.x.clamp(min=0), y=y)


def side_by_side(tokens: Tensor, count: int) -> Tensor:
    r"""A text in streams that leave nothing out.

    With :math:`T = \lceil (N - 1) / B \rceil`, row b has the tokens :math:`bT \dots (b + 1) T`:
    the last token of a row, which is only a target, is the first of the next one. Behind the
    text's end stands −100, which does not count.

    Args:
        tokens: int64 (N,), N at least 2.
        count: :math:`B`.

    Returns:
        int64 (B, T + 1).

    Example:
        >>> import torch
        >>> side_by_side(torch.arange(6), 2)
        tensor([[   0,    1,    2,    3],
                [   3,    4,    5, -100]])
    """
    length = -(-(len(tokens) - 1) // count)
    whole = tokens.new_full((count * length + 1,), NOT_COUNTED)
    whole[: len(tokens)] = tokens
    return whole.unfold(0, length + 1, length)
