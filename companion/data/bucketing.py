"""Batches of sequences of like lengths, so that little of a batch is padding."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.utils.data import Sampler

from companion.checks import check_size
from companion.data.batching import order_generator

__all__ = ["BucketBatches", "bucket_batches"]


class BucketBatches(Sampler[list[int]]):
    """The indices of the batches of one epoch after another. Made by ``bucket_batches``.

    Attributes:
        lengths: int64 (N,), of the sequences.
        batch_size: sequences in a batch, None if ``max_tokens`` decides.
        max_tokens: places in a padded batch at most, None if ``batch_size`` decides.
        shuffle: each epoch is composed and ordered anew.
        generator: on the CPU; draws the epochs.
        pool: batches' worth of sequences that are sorted together.
        drop_last: False; every sequence is in a batch.
    """

    drop_last = False  # what accelerate asks a batch sampler for, beside batch_size

    def __init__(
        self,
        lengths: Tensor,
        batch_size: int | None,
        max_tokens: int | None,
        shuffle: bool,
        generator: torch.Generator,
        pool: int,
    ) -> None:
        self.lengths = lengths
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        self.shuffle = shuffle
        self.generator = generator
        self.pool = pool

    def __len__(self) -> int:
        """The number of batches of the epoch that comes next."""
        n = len(self.lengths)
        if self.batch_size is not None:
            return -(-n // self.batch_size)
        # by max_tokens the number depends on which sequences meet; a copy of the generator looks
        # ahead and leaves the epoch to come as it is
        ahead = torch.Generator("cpu")
        ahead.set_state(self.generator.get_state())
        return len(self._epoch(ahead))

    def __iter__(self) -> Iterator[list[int]]:
        # drawn here, not at the first batch: an epoch that is started and dropped counts as one
        return iter(self._epoch(self.generator))

    def padding(self) -> float:
        """Share of padding in the epoch that comes next.

        Returns:
            1 − (sum of the lengths) / (places in the padded batches); 0 if there is no place.
        """
        ahead = torch.Generator("cpu")
        ahead.set_state(self.generator.get_state())
        sizes = self.lengths.tolist()
        places = sum(
            len(batch) * max(sizes[i] for i in batch) for batch in self._epoch(ahead) if batch
        )
        return 1 - sum(sizes) / places if places else 0.0

    def _epoch(self, generator: torch.Generator) -> list[list[int]]:
        sizes = self.lengths.tolist()
        n = len(sizes)
        if not self.shuffle:
            return self._cut(sorted(range(n), key=sizes.__getitem__), sizes)
        order = torch.randperm(n, generator=generator, device="cpu").tolist()
        batches: list[list[int]] = []
        for pool in self._pools(order, sizes):
            batches += self._cut(sorted(pool, key=sizes.__getitem__), sizes)
        # the only batch that may be short stays the last one, where a loader looks for it: to
        # share batches out among processes, accelerate counts on all before it to be full
        short = self.batch_size is not None and n % self.batch_size > 0
        full = len(batches) - short
        places = torch.randperm(full, generator=generator, device="cpu").tolist()
        return [batches[i] for i in places] + batches[full:]

    def _pools(self, order: list[int], sizes: list[int]) -> Iterator[list[int]]:
        """Sequences in the order drawn, so many together as ``pool`` batches may hold."""
        if self.batch_size is not None:
            step = self.pool * self.batch_size
            yield from (order[i : i + step] for i in range(0, len(order), step))
            return
        assert self.max_tokens is not None
        pool: list[int] = []
        tokens = 0
        for i in order:
            if pool and tokens + sizes[i] > self.pool * self.max_tokens:
                yield pool
                pool, tokens = [], 0
            pool.append(i)
            tokens += sizes[i]
        if pool:
            yield pool

    def _cut(self, ordered: list[int], sizes: list[int]) -> list[list[int]]:
        """Sequences of increasing length into batches."""
        if self.batch_size is not None:
            step = self.batch_size
            return [ordered[i : i + step] for i in range(0, len(ordered), step)]
        assert self.max_tokens is not None
        batches: list[list[int]] = []
        for i in ordered:
            # the one that comes is the longest, so it says how far the others are padded
            if batches and (len(batches[-1]) + 1) * sizes[i] <= self.max_tokens:
                batches[-1].append(i)
            else:
                batches.append([i])
        return batches


def bucket_batches(
    lengths: Sequence[int] | Tensor,
    batch_size: int | None = None,
    *,
    max_tokens: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    generator: torch.Generator | None = None,
    pool: int = 50,
) -> BucketBatches:
    """Put sequences of like lengths into batches: a ``batch_sampler`` for torch's ``DataLoader``.

    The sequences are shuffled, cut into pools, sorted within each pool and cut into batches, and
    the batches are shuffled. Every index comes exactly once an epoch. A larger pool means less
    padding and less chance in who meets whom; with a pool of one batch this is plain shuffling.
    Without ``shuffle`` all sequences make one pool, shortest first: the least padding there is.

    Args:
        lengths: of the N sequences, 0 or more each.
        batch_size: sequences in a batch; the last batch has fewer if N is no multiple of it.
        max_tokens: in place of ``batch_size``: a padded batch has at most so many places, the
            number of its sequences times the length of the longest. Batches of short sequences
            hold more of them, and each costs about the same memory and time.
        shuffle: compose and order each epoch anew.
        seed: of a generator of its own, on the CPU; torch's global generator is not touched.
        generator: a CPU generator to use in place of ``seed``.
        pool: batches' worth of sequences that are sorted together.

    Returns:
        An object to iterate over, once an epoch, that gives lists of indices. Its ``len`` is the
        number of batches; with ``max_tokens`` that is the number of the epoch that comes next.

    Raises:
        ValueError: both or neither of batch_size and max_tokens; one, or pool, that is not
            positive; a negative length, or one above max_tokens.
        TypeError: one of them, or a length, is no whole number; generator is none.

    Example:
        >>> texts = [[1, 2, 3], [4], [5, 6, 7], [8, 9]]
        >>> from torch.utils.data import DataLoader
        >>> from companion.data import pad
        >>> sampler = bucket_batches([len(t) for t in texts], 2, shuffle=False)
        >>> for x, lengths in DataLoader(texts, batch_sampler=sampler, collate_fn=pad):
        ...     print(x.tolist(), lengths.tolist())
        [[4, 0], [8, 9]] [1, 2]
        [[1, 2, 3], [5, 6, 7]] [3, 3]
    """
    sizes = _lengths(lengths)
    if (batch_size is None) == (max_tokens is None):
        raise ValueError(
            "batch_size, max_tokens: expected one of the two, "
            f"got batch_size={batch_size!r} and max_tokens={max_tokens!r}"
        )
    check_size("pool", pool)
    for name, value in {"batch_size": batch_size, "max_tokens": max_tokens}.items():
        if value is not None:
            check_size(name, value)
    if max_tokens is not None and len(sizes) and int(sizes.max()) > max_tokens:
        i = int(sizes.argmax())
        raise ValueError(
            f"max_tokens: expected at least the longest length, {int(sizes[i])} (sequence {i}), "
            f"got {max_tokens}; cut the sequence, or leave it out"
        )
    drawing = order_generator(seed, generator)
    return BucketBatches(sizes, batch_size, max_tokens, shuffle, drawing, pool)


def _lengths(lengths: Sequence[int] | Tensor) -> Tensor:
    """The lengths as int64 of shape (N,), each at least 0."""
    if isinstance(lengths, Tensor):
        if lengths.ndim != 1 or lengths.dtype == torch.bool or lengths.is_floating_point():
            raise TypeError(
                "lengths: expected N whole numbers, "
                f"got {lengths.dtype} of shape {tuple(lengths.shape)}"
            )
        sizes = lengths.detach().to("cpu", torch.int64, copy=True)
    else:
        try:
            numbers = [operator.index(length) for length in lengths]
        except TypeError as error:
            raise TypeError(f"lengths: expected N whole numbers, {error}") from error
        sizes = torch.tensor(numbers, dtype=torch.int64, device="cpu")
    if len(sizes) and int(sizes.min()) < 0:
        i = int(sizes.argmin())
        raise ValueError(f"lengths[{i}]: expected 0 or more, got {int(sizes[i])}")
    return sizes
