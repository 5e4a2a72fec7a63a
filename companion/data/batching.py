"""Sequences of different lengths in one tensor, and data sets in batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_sequence

from companion.checks import check_generator, check_size
from companion.reproduce import cpu_generator

__all__ = ["Batches", "batches", "pad"]


def pad(
    sequences: Sequence[Tensor | Sequence[Any]],
    value: float = 0,
    batch_first: bool = True,
) -> tuple[Tensor, Tensor]:
    """Put B sequences of different lengths into one tensor, padded on the right.

    Args:
        sequences: B tensors of shape (T_i, …), alike but for T_i, or B lists of numbers.
            T_i may be 0. An empty list takes the dtype and the shape of the others. Lists become
            tensors on torch's default device, as with ``torch.tensor``.
        value: what stands in the places after a sequence's end; a number that the dtype of the
            sequences holds.
        batch_first: the result is (B, T, …) if True, (T, B, …) if False; T = max T_i.

    Returns:
        The padded tensor, and the lengths T_i as int64 of shape (B,) on the CPU, where
        ``pack_padded_sequence`` wants them.

    Raises:
        ValueError: no sequence at all (dtype and shape would be a guess), or shapes, dtypes or
            devices differ, or an entry has no time dimension, or ``value`` is not in the dtype.
        TypeError: an entry is neither a tensor nor a list of numbers, or ``value`` is no number.

    Example:
        >>> padded, lengths = pad([[5, 6, 7], [8]])
        >>> padded.tolist(), lengths.tolist()
        ([[5, 6, 7], [8, 0, 0]], [3, 1])
    """
    if isinstance(sequences, (Tensor, str)) or not isinstance(sequences, Sequence):
        raise TypeError(
            "sequences: expected a list of tensors or of lists of numbers, "
            f"got {type(sequences).__name__}"
        )
    tensors = [_tensor(sequence, i) for i, sequence in enumerate(sequences)]
    if not tensors:
        raise ValueError("sequences: expected at least one sequence, got none")
    like = next((t for t in tensors if t is not None), torch.empty(0, dtype=torch.int64))
    filled = [like[:0] if t is None else t for t in tensors]
    for i, t in enumerate(filled):
        expected = (tuple(like.shape[1:]), like.dtype, like.device)
        if (got := (tuple(t.shape[1:]), t.dtype, t.device)) != expected:
            raise ValueError(
                f"sequences[{i}]: expected shape (T, *{expected[0]}), {expected[1]} on "
                f"{expected[2]} like the first, got (T, *{got[0]}), {got[1]} on {got[2]}"
            )
    fill = _filling(value, like.dtype)
    padded = pad_sequence(filled, batch_first=batch_first, padding_value=fill)
    return padded, torch.tensor([len(t) for t in filled], device="cpu")


def _filling(value: Any, dtype: torch.dtype) -> float:
    """The padding value, if a tensor of this dtype can hold it: torch would wrap or cut it."""
    if isinstance(value, Tensor) and value.ndim == 0:
        value = value.item()
    is_number: bool = isinstance(value, Real)
    if not is_number:
        raise TypeError(f"value: expected a number, got {type(value).__name__} {value!r:.60}")
    finite = -math.inf < value < math.inf
    if dtype.is_floating_point or dtype.is_complex:
        fits = not finite or abs(value) <= torch.finfo(dtype).max
        least, most = "", ""
    else:
        info = None if dtype == torch.bool else torch.iinfo(dtype)
        low, high = (0, 1) if info is None else (info.min, info.max)
        # pad_sequence takes a float, which must be this integer still
        fits = finite and low <= value <= high and int(float(value)) == value
        exact = " that float64 holds too" if high > 2**53 else ""
        least, most = f", a whole number in {low}", f" ... {high}{exact}"
    if not fits:
        raise ValueError(
            f"value: expected what the sequences' {dtype} can hold{least}{most}, got {value!r}"
        )
    return float(value)


def _tensor(sequence: Tensor | Sequence[Any], i: int) -> Tensor | None:
    """One sequence as a tensor; None for an empty list, whose dtype nobody knows."""
    if isinstance(sequence, (list, tuple)):
        if not sequence:
            return None
        try:
            sequence = torch.tensor(sequence)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(
                f"sequences[{i}]: expected numbers, got {sequence!r:.60}; "
                "a Vocab turns tokens into numbers"
            ) from error
    if not isinstance(sequence, Tensor):
        raise TypeError(
            f"sequences[{i}]: expected a tensor or a list of numbers, "
            f"got {type(sequence).__name__}"
        )
    if sequence.ndim == 0:
        raise ValueError(
            f"sequences[{i}]: expected shape (T, ...), got a tensor without dimensions"
        )
    return sequence


class Batches:
    """The batches of a data set; every ``for`` over it is one epoch. Made by ``batches``.

    Attributes:
        columns: N rows each.
        batch_size: rows in a batch; the last one may be shorter.
        shuffle: each epoch has an order of its own.
        generator: on the CPU; draws the orders.
        collate: makes a batch of its parts; None leaves the tuple.

    Example:
        >>> data = batches([10, 20, 30], torch.arange(3), batch_size=2)
        >>> len(data), [names for names, _ in data]
        (2, [[10, 20], [30]])
    """

    def __init__(
        self,
        columns: tuple[Any, ...],
        batch_size: int,
        shuffle: bool,
        generator: torch.Generator,
        collate: Callable[..., Any] | None,
    ) -> None:
        self.columns = columns
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.generator = generator
        self.collate = collate

    def __len__(self) -> int:
        return -(-len(self.columns[0]) // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        n = len(self.columns[0])
        if self.shuffle:
            order = torch.randperm(n, generator=self.generator, device="cpu")
        else:
            order = torch.arange(n, device="cpu")
        # the order is drawn here, not at the first batch: an epoch that is started and dropped
        # counts as one epoch
        return (self._batch(rows) for rows in order.split(self.batch_size) if len(rows))

    def _batch(self, rows: Tensor) -> Any:
        parts = tuple(_rows(column, rows) for column in self.columns)
        return parts if self.collate is None else self.collate(*parts)


def _rows(column: Any, rows: Tensor) -> Any:
    if isinstance(column, Tensor):
        return column[rows.to(column.device)]
    if isinstance(column, np.ndarray):
        return column[rows.numpy()]
    return [column[i] for i in rows.tolist()]


def batches(
    *columns: Any,
    batch_size: int,
    shuffle: bool = False,
    seed: int = 0,
    generator: torch.Generator | None = None,
    collate: Callable[..., Any] | None = None,
) -> Batches:
    """Cut the columns of a data set into batches.

    Args:
        columns: N rows each: a tensor or NumPy array (N, …), of which a batch has a tensor or an
            array, or a sequence, of which it has a list. A batch holds the same rows of all.
        batch_size: rows in a batch; the last batch is shorter if N is no multiple of it.
        shuffle: each epoch takes the rows in a new order. The same seed gives the same orders
            in the same succession, on every machine and device.
        seed: of a generator of its own, on the CPU; torch's global generator is not touched.
        generator: a CPU generator to use in place of ``seed``.
        collate: called with the parts of a batch, one argument a column; the batch is what it
            returns. Without it the batch is the tuple of the parts.

    Returns:
        An object to iterate over, once an epoch; its ``len`` is the number of batches, 0 if
        N = 0.

    Raises:
        ValueError: no column, columns of different lengths, or batch_size below 1.
        TypeError: a column without rows that can be counted and looked up by number: an iterator,
            a string, a mapping, a PackedSequence; batch_size, seed, generator or collate is not
            what it should be.

    Example:
        >>> data = batches([[1, 2], [3], [4, 5, 6]], "aba".split("b"), batch_size=2)
        Traceback (most recent call last):
        ValueError: columns: expected equal lengths, got 3, 2
        >>> for x, lengths in batches([[1, 2], [3], [4]], batch_size=2, collate=pad):
        ...     print(x.tolist(), lengths.tolist())
        [[1, 2], [3, 0]] [2, 1]
        [[4]] [1]
    """
    if not columns:
        raise ValueError("columns: expected at least one column, got none")
    for i, column in enumerate(columns):
        rows = hasattr(column, "__getitem__") and hasattr(column, "__len__")
        if not rows or isinstance(column, str | bytes | Mapping | PackedSequence):
            raise TypeError(
                f"columns[{i}]: expected a tensor or a sequence of N rows, "
                f"got {type(column).__name__}"
            )
        if isinstance(column, Tensor | np.ndarray) and column.ndim == 0:
            raise ValueError(f"columns[{i}]: expected shape (N, ...), got no dimension")
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ValueError(f"columns: expected equal lengths, got {', '.join(map(str, lengths))}")
    check_size("batch_size", batch_size)
    if collate is not None and not callable(collate):
        raise TypeError(f"collate: expected a function, got {type(collate).__name__} {collate!r}")
    return Batches(columns, batch_size, shuffle, order_generator(seed, generator), collate)


def order_generator(seed: int, generator: torch.Generator | None) -> torch.Generator:
    """The generator given, or one of one's own from the seed; it draws orders on the CPU."""
    check_generator(generator)
    if generator is None:
        return cpu_generator(seed)
    if generator.device.type != "cpu":
        raise ValueError(
            "generator: expected one on the CPU, so that every device sees the same order, "
            f"got one on {generator.device}"
        )
    return generator
