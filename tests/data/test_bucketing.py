"""Buckets: every index once an epoch, like lengths together, the same under the same seed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from companion.data import bucket_batches, pad

LENGTHS = torch.randint(1, 91, (500,), generator=torch.Generator().manual_seed(0)).tolist()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 12), max_size=40),
    st.integers(1, 7),
    st.booleans(),
    st.booleans(),
    st.integers(1, 4),
    st.integers(0, 5),
)
def test_every_index_once(lengths, size, by_tokens, shuffle, pool, seed):
    limit = {"max_tokens": 12 * size} if by_tokens else {"batch_size": size}
    sampler = bucket_batches(lengths, **limit, shuffle=shuffle, pool=pool, seed=seed)
    for _ in range(2):
        expected = len(sampler)
        epoch = list(sampler)
        assert len(epoch) == expected
        assert sorted(i for batch in epoch for i in batch) == list(range(len(lengths)))
        for batch in epoch:
            assert batch
            if by_tokens:
                assert len(batch) * max(lengths[i] for i in batch) <= 12 * size
        if not by_tokens:  # all are full, but the last may be short
            assert {len(batch) for batch in epoch[:-1]} <= {size}
            assert all(0 < len(batch) <= size for batch in epoch[-1:])


def test_in_order_of_length_without_shuffling():
    sampler = bucket_batches([3, 1, 2, 1, 5], 2, shuffle=False)
    # shortest first, and of equal lengths the one that comes first
    assert list(sampler) == list(sampler) == [[1, 3], [2, 0], [4]]
    # 1 + 1 + 2 fill three rows of two places; with the 3 they would be four of three
    assert list(bucket_batches([3, 1, 2, 1, 5], max_tokens=6, shuffle=False)) == [
        [1, 3, 2],
        [0],
        [4],
    ]


def test_padding_is_what_is_counted():
    sampler = bucket_batches([3, 1, 2, 1, 5], 2, shuffle=False)
    assert sampler.padding() == 1 - 12 / (2 * 1 + 2 * 3 + 5)
    assert bucket_batches([], 2).padding() == bucket_batches([0, 0], 2).padding() == 0
    # two places a batch, one of them padding
    assert bucket_batches([1, 0], 2, shuffle=False).padding() == 0.5


def test_larger_pools_pad_less():
    shares = [bucket_batches(LENGTHS, 10, pool=pool).padding() for pool in (1, 5, 50)]
    assert shares[0] > 2 * shares[1] > 4 * shares[2]
    # a pool of one batch is plain shuffling, up to the order inside a batch
    order = torch.randperm(500, generator=torch.Generator().manual_seed(3))
    plain = {frozenset(rows.tolist()) for rows in order.split(10)}
    assert {frozenset(batch) for batch in bucket_batches(LENGTHS, 10, pool=1, seed=3)} == plain


def test_epochs_differ_and_the_seed_repeats_them():
    def epochs(seed):
        sampler = bucket_batches(LENGTHS, 16, seed=seed, pool=5)
        return [list(sampler) for _ in range(3)]

    first = epochs(0)
    assert first[0] != first[1] != first[2] and epochs(0) == first and epochs(1) != first
    # batches do not come in the order of their lengths
    longest = [max(LENGTHS[i] for i in batch) for batch in first[0]]
    assert longest != sorted(longest)
    before = torch.get_rng_state()
    generator = torch.Generator().manual_seed(0)
    sampler = bucket_batches(LENGTHS, 16, seed=9, generator=generator, pool=5)
    assert [list(sampler) for _ in range(3)] == first
    assert torch.equal(before, torch.get_rng_state())


def test_looking_ahead_draws_nothing():
    curious = bucket_batches(LENGTHS, max_tokens=300)
    plain = bucket_batches(LENGTHS, max_tokens=300)
    for _ in range(3):
        n, _ = len(curious), curious.padding()
        epoch = list(curious)
        assert n == len(epoch) and epoch == list(plain)
    dropped = iter(curious)  # an epoch that is started counts
    next(dropped)
    list(plain)
    assert list(curious) == list(plain)


def test_a_loader_with_it():
    texts = [list(range(1, n + 1)) for n in LENGTHS]
    loader = DataLoader(texts, batch_sampler=bucket_batches(LENGTHS, 32), collate_fn=pad)
    assert len(loader) == 16
    rows = [row[:n].tolist() for x, lengths in loader for row, n in zip(x, lengths, strict=True)]
    assert sorted(rows) == sorted(texts)


def test_lengths_as_a_tensor_are_copied():
    lengths = torch.tensor([3, 1, 2], dtype=torch.int32)
    sampler = bucket_batches(lengths, 1, shuffle=False)
    lengths.zero_()
    assert list(sampler) == [[1], [2], [0]]
    plain = list(bucket_batches([3, 1, 2, 5], 2))
    with torch.device("meta"):  # what is made on it has no values at all
        assert list(bucket_batches([3, 1, 2, 5], 2)) == plain


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (dict(), ValueError, "^batch_size, max_tokens: expected one of the two, got .*None.*None"),
        (dict(batch_size=2, max_tokens=9), ValueError, "expected one of the two.*=2 .*=9"),
        (dict(batch_size=0), ValueError, "^batch_size: expected at least 1, got 0"),
        (dict(batch_size=True), TypeError, "^batch_size: expected an int, got bool"),
        (dict(max_tokens=2.5), TypeError, "^max_tokens: expected an int, got float"),
        (dict(batch_size=2, pool=0), ValueError, "^pool: .*got 0"),
        (dict(batch_size=2, pool=None), TypeError, "^pool: expected an int, got NoneType"),
        (dict(batch_size=2, generator=3), TypeError, "^generator: .*torch.Generator, got int"),
        (dict(max_tokens=4), ValueError, r"longest length, 5 \(sequence 1\), got 4"),
        (dict(lengths=[1, -1], batch_size=1), ValueError, r"^lengths\[1\]: expected 0 or more"),
        (dict(lengths=[1, 1.5], batch_size=1), TypeError, "^lengths: expected N whole numbers"),
        (dict(lengths=["ab"], batch_size=1), TypeError, "^lengths: expected N whole numbers"),
        (dict(lengths=torch.ones(2), batch_size=1), TypeError, "^lengths: .*torch.float32"),
        (dict(lengths=torch.ones(2, 2).int(), batch_size=1), TypeError, r"^lengths: .*\(2, 2\)"),
        (dict(batch_size=1, seed="a"), TypeError, "^seed must be an int"),
    ],
)
def test_what_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        bucket_batches(**{"lengths": [1, 5, 2], **arguments})
