"""pad and batches."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence

from companion.data import batches, pad


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(1, 99), max_size=6), min_size=1, max_size=6))
def test_what_was_padded_comes_back(sequences):
    padded, lengths = pad(sequences, value=0)
    assert padded.shape == (len(sequences), max(map(len, sequences)))
    assert padded.dtype == lengths.dtype == torch.int64
    for row, length, sequence in zip(padded.tolist(), lengths.tolist(), sequences, strict=True):
        assert row[:length] == sequence
        assert row[length:] == [0] * (padded.shape[1] - len(sequence))


@pytest.mark.parametrize("batch_first", [True, False])
def test_features_value_and_layout(batch_first):
    a, b = torch.randn(3, 2), torch.randn(1, 2)
    padded, lengths = pad([a, b], value=-1.5, batch_first=batch_first)
    assert padded.shape == ((2, 3, 2) if batch_first else (3, 2, 2))
    rows = padded if batch_first else padded.transpose(0, 1)
    assert torch.equal(rows[0], a) and torch.equal(rows[1, :1], b)
    assert (rows[1, 1:] == -1.5).all()
    assert lengths.tolist() == [3, 1]


def test_lengths_go_into_pack_padded_sequence():
    padded, lengths = pad([torch.ones(2, 1), torch.ones(3, 1)])
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        padded, lengths, batch_first=True, enforce_sorted=False
    )
    assert packed.batch_sizes.tolist() == [2, 2, 1]


def test_sequences_of_length_zero():
    padded, lengths = pad([torch.empty(0, 4), torch.ones(2, 4)])
    assert padded.shape == (2, 2, 4) and lengths.tolist() == [0, 2]
    padded, lengths = pad([torch.empty(0, 4), torch.empty(0, 4)])
    assert padded.shape == (2, 0, 4) and lengths.tolist() == [0, 0]
    # an empty list says nothing of its dtype or its features: it takes those of the others
    padded, _ = pad([[], torch.ones(2, 4, dtype=torch.float64)])
    assert padded.shape == (2, 2, 4) and padded.dtype == torch.float64
    padded, _ = pad([[], []])
    assert padded.shape == (2, 0) and padded.dtype == torch.int64


def test_gradients_pass_and_nothing_is_changed():
    a = torch.ones(2, requires_grad=True)
    b = torch.ones(1)
    padded, _ = pad([a, b], value=float("nan"))
    padded[0].sum().backward()
    assert a.grad.tolist() == [1, 1] and b.tolist() == [1]


@pytest.mark.parametrize(
    ("sequences", "error", "words"),
    [
        ([], ValueError, "expected at least one sequence"),
        (torch.ones(2, 3), TypeError, "expected a list of tensors.*got Tensor"),
        ("abc", TypeError, "got str"),
        ((x for x in [[1]]), TypeError, "got generator"),
        ([[1], "ab"], TypeError, r"sequences\[1\].*got str"),
        ([["a", "b"]], TypeError, r"sequences\[0\]: expected numbers.*Vocab"),
        ([[1], None], TypeError, r"sequences\[1\].*got NoneType"),
        ([[1], [[1, 2], [3]]], TypeError, r"sequences\[1\]: expected numbers"),
        ([torch.tensor(3)], ValueError, r"sequences\[0\].*without dimensions"),
        ([torch.ones(2, 3), torch.ones(2, 4)], ValueError, r"sequences\[1\]: expected shape"),
        ([torch.ones(2), torch.ones(2, 1)], ValueError, r"sequences\[1\]"),
        ([[1], [1.5]], ValueError, r"sequences\[1\].*int64.*float32"),
        ([torch.ones(1), torch.ones(1, device="meta")], ValueError, r"sequences\[1\].*meta"),
    ],
)
def test_pad_refuses(sequences, error, words):
    with pytest.raises(error, match=words):
        pad(sequences)


def rows(data):
    return [row for (x,) in data for row in x.tolist()]


def test_in_order_with_a_short_last_batch():
    data = batches(torch.arange(7), list("abcdefg"), batch_size=3)
    assert len(data) == 3
    got = [(x.tolist(), names) for x, names in data]
    assert got == [([0, 1, 2], list("abc")), ([3, 4, 5], list("def")), ([6], ["g"])]
    assert got == [(x.tolist(), names) for x, names in data]  # a second epoch


def test_columns_stay_together_when_shuffled():
    n = 50
    seen = []
    for x, y, names in batches(
        torch.arange(n),
        torch.arange(n) * 2,
        [str(i) for i in range(n)],
        batch_size=8,
        shuffle=True,
    ):
        assert (y == 2 * x).all() and names == [str(i) for i in x.tolist()]
        seen += x.tolist()
    assert sorted(seen) == list(range(n)) and seen != list(range(n))


def test_every_epoch_is_new_and_the_seed_repeats_them():
    def three_epochs(seed):
        data = batches(torch.arange(50), batch_size=7, shuffle=True, seed=seed)
        return [rows(data) for _ in range(3)]

    first = three_epochs(0)
    assert first[0] != first[1] != first[2] != first[0]
    assert three_epochs(0) == first
    assert three_epochs(1)[0] != first[0]


def test_the_global_generator_is_not_touched():
    before = torch.get_rng_state()
    rows(batches(torch.arange(9), batch_size=2, shuffle=True))
    assert torch.equal(before, torch.get_rng_state())


def test_a_given_generator_is_used():
    order = torch.randperm(9, generator=torch.Generator().manual_seed(5)).tolist()
    generator = torch.Generator().manual_seed(5)
    data = batches(torch.arange(9), batch_size=4, shuffle=True, generator=generator)
    assert rows(data) == order
    assert rows(batches(torch.arange(9), batch_size=4, shuffle=True, seed=5)) == order


def test_an_epoch_that_is_dropped_counts():
    whole = batches(torch.arange(30), batch_size=4, shuffle=True)
    rows(whole)
    broken = batches(torch.arange(30), batch_size=4, shuffle=True)
    next(iter(broken))
    assert rows(broken) == rows(whole)


def test_collate():
    data = batches(
        [[1, 2], [3]], torch.tensor([0, 1]), batch_size=2, collate=lambda s, y: (*pad(s), y)
    )
    ((x, lengths, y),) = data
    assert x.tolist() == [[1, 2], [3, 0]] and lengths.tolist() == [2, 1] and y.tolist() == [0, 1]


def test_nothing_and_more_than_there_is():
    for shuffle in (True, False):
        data = batches(torch.empty(0, 3), [], batch_size=4, shuffle=shuffle)
        assert len(data) == 0 and list(data) == []
    assert [x.tolist() for (x,) in batches(torch.arange(2), batch_size=100)] == [[0, 1]]


@pytest.mark.parametrize(
    ("columns", "options", "error", "words"),
    [
        ((), {}, ValueError, "at least one column"),
        ((torch.ones(3), [1, 2]), {}, ValueError, "equal lengths, got 3, 2"),
        (("abc",), {}, TypeError, r"columns\[0\].*got str"),
        ((iter([1]),), {}, TypeError, r"columns\[0\].*got list_iterator"),
        ((torch.tensor(1),), {}, ValueError, r"columns\[0\].*no dimension"),
        (([1],), {"batch_size": 0}, ValueError, "at least 1, got 0"),
        (([1],), {"batch_size": 2.0}, TypeError, "batch_size.*got float"),
        (([1],), {"batch_size": True}, TypeError, "batch_size.*got bool"),
        (([1],), {"generator": 3}, TypeError, "^generator: expected a torch.Generator, got int"),
    ],
)
def test_batches_refuses(columns, options, error, words):
    with pytest.raises(error, match=words):
        batches(*columns, **{"batch_size": 2, **options})


def test_a_default_device_changes_nothing():
    sequences = [torch.arange(3.0), torch.arange(1.0)]
    plain, wanted = pad(sequences), list(batches(torch.arange(5), batch_size=2, shuffle=True))
    with torch.device("meta"):  # what is made on it has no values at all
        padded, lengths = pad(sequences)
        assert padded.device.type == "cpu" and lengths.device.type == "cpu"
        assert lengths.tolist() == plain[1].tolist() == [3, 1]
        column = torch.arange(5, device="cpu")
        shuffled = list(batches(column, batch_size=2, shuffle=True))
        assert [b.tolist() for (b,) in shuffled] == [b.tolist() for (b,) in wanted]
        in_order = list(batches(column, batch_size=5))
        assert in_order[0][0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.int64, 1.5),
        (torch.int64, float("nan")),
        (torch.int64, 2**63),
        (torch.int64, 2**53 + 1),  # would become 2**53 on its way through torch
        (torch.uint8, -1),
        (torch.uint8, 300),
        (torch.bool, 2),
        (torch.float16, 1e5),  # the largest is 65504
        (torch.float32, 10**400),
    ],
)
def test_padding_that_the_dtype_does_not_hold(dtype, value):
    with pytest.raises(ValueError, match=f"^value: .*{dtype} .*got "):
        pad([torch.ones(2, dtype=dtype), torch.ones(1, dtype=dtype)], value=value)


def test_padding_within_the_range_that_is_refused():
    """The message is true of 2**53 + 1 too, which is a whole number within the range."""
    with pytest.raises(ValueError, match="9223372036854775807 that float64 holds too, got 9007"):
        pad([[1, 2], [3]], value=2**53 + 1)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.int64, -1.0),
        (torch.int64, -(2**63)),
        (torch.uint8, 255),
        (torch.bool, True),
        (torch.float16, 65504),
        (torch.float32, float("-inf")),
        (torch.int64, torch.tensor(7)),
        (torch.int16, np.int64(7)),
    ],
)
def test_padding_that_the_dtype_holds(dtype, value):
    padded, _ = pad([torch.ones(2, dtype=dtype), torch.ones(1, dtype=dtype)], value=value)
    assert padded.dtype == dtype and padded[1, 1].item() == value


@pytest.mark.parametrize("value", [None, "x", [0], 1j])
def test_padding_that_is_no_number(value):
    with pytest.raises(TypeError, match="^value: expected a number"):
        pad([[1, 2], [3]], value=value)


@pytest.mark.parametrize(
    "column",
    [{0: 1, 1: 2}, b"ab", iter([1]), 5, pack_sequence([torch.zeros(2)])],
)
def test_columns_without_numbered_rows(column):
    with pytest.raises(TypeError, match=r"^columns\[0\]: expected a tensor or a sequence"):
        batches(column, batch_size=1)


def test_arrays_are_columns():
    x = np.arange(10).reshape(5, 2)
    parts = [part for (part,) in batches(x, batch_size=2, shuffle=True, seed=1)]
    assert [part.shape for part in parts] == [(2, 2), (2, 2), (1, 2)]
    assert sorted(np.concatenate(parts).tolist()) == x.tolist()
    with pytest.raises(ValueError, match="no dimension"):
        batches(np.array(1), batch_size=1)


def test_seed_and_collate_are_checked():
    with pytest.raises(TypeError, match="^seed must be an int"):
        batches([1], batch_size=1, seed="a")
    with pytest.raises(TypeError, match="^collate: expected a function, got int"):
        batches([1], batch_size=1, collate=5)
