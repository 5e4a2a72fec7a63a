"""Streams: torch's batchify and get_batch, states that go on, and documents that do not."""

import pytest
import torch
from torch.nn.functional import one_hot

from companion import LSTM
from companion.data import stream_batches


def batchify(data, bsz):
    """As in PyTorch's word language model example: (L, B), time first."""
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def get_batch(source, i, bptt):
    n = min(bptt, len(source) - 1 - i)
    return source[i : i + n], source[i + 1 : i + 1 + n]


@pytest.mark.parametrize("n", [8, 9, 11, 40, 41])
@pytest.mark.parametrize("batch_size", [1, 3, 4])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 33])
def test_batches_are_those_of_the_example(n, batch_size, steps):
    text = torch.randint(50, (n,), generator=torch.Generator().manual_seed(n))
    streams = stream_batches(text, batch_size, steps)
    source = batchify(text, batch_size)
    wanted = [get_batch(source, i, steps) for i in range(0, len(source) - 1, steps)]
    assert len(streams) == len(wanted)
    for batch, (x, y) in zip(streams, wanted, strict=True):
        assert torch.equal(batch.x, x.t()) and torch.equal(batch.y, y.t())
        assert batch.reset is None and batch.x.dtype == torch.int64
    assert streams.tokens == sum(y.numel() for _, y in wanted)


def test_known_streams():
    streams = stream_batches([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 2, 3)
    # eleven tokens: the last is left out; the last batch has one step
    assert [b.x.tolist() for b in streams] == [[[0, 1, 2], [5, 6, 7]], [[3], [8]]]
    assert [b.y.tolist() for b in streams] == [[[1, 2, 3], [6, 7, 8]], [[4], [9]]]
    assert (len(streams), streams.tokens) == (2, 8)
    assert repr(streams) == "Streams(2 streams of 5 tokens, 2 batches of 3 steps)"
    assert [b.x.tolist() for b in streams] == [b.x.tolist() for b in streams]  # a second epoch


def test_resets_stand_after_the_ends():
    #                 stream 0: 1 0 2 3 0 4     stream 1: 5 6 7 0 0 8
    text = torch.tensor([1, 0, 2, 3, 0, 4, 5, 6, 7, 0, 0, 8])
    for steps in (1, 2, 3, 5):
        resets = torch.cat([b.reset for b in stream_batches(text, 2, steps, end=0)], 1)
        assert resets.dtype == torch.bool
        assert resets.int().tolist() == [[1, 0, 1, 0, 0], [1, 0, 0, 0, 1]]


def test_carried_states_make_the_whole():
    text = torch.randint(9, (41,), generator=torch.Generator().manual_seed(1))
    layer = LSTM(9, 5, batch_first=True, dtype=torch.float64)
    pieces = stream_batches(text, 3, 4)
    (whole,) = stream_batches(text, 3, 99)
    state, found = None, []
    for x, _, _ in pieces:
        y, state = layer(one_hot(x, 9).double(), state)
        found.append(y)
    wanted, _ = layer(one_hot(whole.x, 9).double())
    torch.testing.assert_close(torch.cat(found, 1), wanted, rtol=0, atol=1e-12)


def test_resets_make_every_document_its_own():
    end = 0
    text = torch.tensor([3, 1, 4, 0, 1, 5, 0, 2, 6, 5, 3, 5, 8, 0, 7, 0])
    layer = LSTM(9, 5, batch_first=True, dtype=torch.float64)
    state, found = None, []
    for x, _, reset in stream_batches(text, 1, 3, end=end):
        y, state = layer(one_hot(x, 9).double(), state, reset=reset)
        found.append(y[0])
    documents = [[3, 1, 4, 0], [1, 5, 0], [2, 6, 5, 3, 5, 8, 0], [7]]
    wanted = [layer(one_hot(torch.tensor([d]), 9).double())[0][0] for d in documents]
    torch.testing.assert_close(torch.cat(found), torch.cat(wanted), rtol=0, atol=1e-12)
    # a state of an epoch before has no part in the next one
    first = next(iter(stream_batches(text, 1, 3, end=end)))
    y, _ = layer(one_hot(first.x, 9).double(), state, reset=first.reset)
    torch.testing.assert_close(y[0], found[0], rtol=0, atol=1e-12)


def test_dtypes_and_devices():
    streams = stream_batches(torch.arange(9, dtype=torch.int32), 2, 2)
    assert next(iter(streams)).y.dtype == torch.int64
    with torch.device("meta"):
        assert next(iter(stream_batches([1, 2, 3, 4], 2, 2))).x.tolist() == [[1], [3]]
    assert next(iter(stream_batches(torch.arange(9, device="meta"), 2, 2))).x.is_meta


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (dict(batch_size=0), ValueError, "^batch_size: expected at least 1, got 0"),
        (dict(steps=1.0), TypeError, "^steps: expected an int, got float"),
        (dict(batch_size=6), ValueError, "^tokens: expected at least 12, two for each of 6"),
        (dict(tokens=[]), ValueError, "^tokens: expected at least 4.*got 0"),
        (dict(tokens=["a", "b"]), TypeError, "^tokens: expected whole numbers.*Vocab"),
        (dict(tokens="abcdef"), TypeError, "^tokens: expected whole numbers"),
        (dict(tokens=torch.ones(9)), TypeError, "^tokens: .*torch.float32"),
        (dict(tokens=torch.ones(9).bool()), TypeError, "^tokens: .*torch.bool"),
        (dict(tokens=torch.ones(3, 3).int()), ValueError, r"^tokens: .*got \(3, 3\)"),
        (dict(end="x"), TypeError, "^end: expected a whole number, 'str' .*Vocab"),
        (dict(end=1.5), TypeError, "^end: expected a whole number, 'float'"),
    ],
)
def test_what_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        stream_batches(**{"tokens": list(range(10)), "batch_size": 2, "steps": 3, **arguments})
