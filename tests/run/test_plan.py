"""Plans worked out by hand."""

from __future__ import annotations

import torch

from companion.run import plan_packed, plan_ragged, plan_whole

CPU = torch.device("cpu")


def test_the_picture_in_the_docstring():
    """Row 0: a b c; row 1: d e | f.  Flattened (T, B): a d b e c f."""
    reset = torch.tensor([[False, False, False], [False, False, True]])
    plan = plan_ragged(3, 2, None, reset, CPU)
    assert plan.sizes == [3, 2, 1]
    letters = "adbecf"
    assert "".join(letters[i] for i in plan.index) == "adfbec"
    assert plan.owner.tolist() == [0, 1, 1]
    flipped = plan.index[plan.flip]
    assert "".join(letters[i] for i in flipped) == "cefbda"
    # forward: both rows start from the given state; backward: it enters row 1 in its last sequence
    assert plan.enters[0].tolist() == [True, True, False]
    assert plan.enters[1].tolist() == [True, False, True]
    assert plan.leaves[0].tolist() == [0, 2]
    assert plan.leaves[1].tolist() == [0, 1]


def test_lengths_sort_longest_first_and_keep_empty_rows():
    plan = plan_ragged(3, 4, torch.tensor([1, 3, 0, 2]), None, CPU)
    assert plan.sizes == [3, 2, 1]
    assert plan.owner.tolist() == [1, 3, 0, 2]
    # flattened (T, B): row t*4 + b
    assert plan.index.tolist() == [1, 3, 0, 5, 7, 9]
    assert plan.leaves[0].tolist() == [2, 0, 3, 1]


def test_a_reset_at_the_first_step_drops_the_given_state_of_the_forward_direction_only():
    plan = plan_ragged(2, 1, None, torch.tensor([[True, False]]), CPU)
    assert plan.sizes == [1, 1]
    given, initial = torch.tensor([[7.0]]), torch.tensor([[0.0]])
    assert plan.start(given, initial, 0).item() == 0
    assert plan.start(given, initial, 1).item() == 7


def test_resets_beyond_the_length_do_nothing():
    reset = torch.tensor([[False, False, True]])
    plan = plan_ragged(3, 1, torch.tensor([2]), reset, CPU)
    assert plan.sizes == [1, 1] and plan.owner.tolist() == [0]


def test_whole_rows_need_no_index():
    plan = plan_whole(4, 2)
    assert plan.sizes == [2, 2, 2, 2] and plan.index is None
    x = torch.arange(8).view(8, 1)
    assert plan.mirror(x).flatten().tolist() == [6, 7, 4, 5, 2, 3, 0, 1]
    assert plan_whole(0, 2).sizes == []
    empty = torch.empty(0, 3)
    assert plan_whole(3, 0).mirror(empty).shape == (0, 3)


def test_a_packed_sequence_is_in_order_already():
    plan = plan_packed(torch.tensor([3, 1]), CPU)
    assert plan.sizes == [3, 1] and plan.index is None and plan.owner is None
    assert plan.mirror(torch.arange(4)).tolist() == [3, 1, 2, 0]


def dense(T, B, lengths, reset):
    """The same plan read off a table with one line a sequence."""
    sequences = []
    for b in range(B):
        cuts = [0, *(t for t in range(1, lengths[b]) if reset[b][t]), lengths[b]]
        sequences += [(b, i, j) for i, j in zip(cuts, cuts[1:], strict=False) if i < j or not i]
    sequences.sort(key=lambda s: s[1] - s[2])  # stable: longest first
    longest = max((j - i for _, i, j in sequences), default=0)
    sizes = [sum(j - i > t for _, i, j in sequences) for t in range(longest)]
    index = [(i + t) * B + b for t in range(longest) for b, i, j in sequences if j - i > t]
    place = {
        (b, i + t): n
        for n, (t, b, i) in enumerate(
            (t, b, i) for t in range(longest) for b, i, j in sequences if j - i > t
        )
    }
    flip = [place[b, j - 1 - t] for t in range(longest) for b, i, j in sequences if j - i > t]
    return sizes, index, flip, [b for b, _, _ in sequences]


def test_against_a_table():
    g = torch.Generator().manual_seed(0)
    for _ in range(200):
        T, B = (int(torch.randint(1, 8, (), generator=g)) for _ in range(2))
        lengths = torch.randint(0, T + 1, (B,), generator=g)
        reset = torch.rand(B, T, generator=g) < 0.4
        plan = plan_ragged(T, B, lengths, reset, CPU)
        sizes, index, flip, owner = dense(T, B, lengths.tolist(), reset.tolist())
        assert plan.sizes == sizes and plan.index.tolist() == index
        assert plan.flip.tolist() == flip and plan.owner.tolist() == owner


def test_many_resets_need_no_more_room_than_rows():
    """A table of steps × sequences would have 32 × 2000 × 16,000 entries here."""
    T, B = 2000, 32
    reset = torch.ones(B, T, dtype=torch.bool)
    reset[0] = False
    plan = plan_ragged(T, B, None, reset, CPU)
    assert len(plan.index) == T * B and len(plan.sizes) == T and plan.sizes[:2] == [62001, 1]


def test_flip_is_made_only_where_it_is_asked_for():
    plan = plan_ragged(3, 2, torch.tensor([3, 1]), None, CPU, mirrored=False)
    assert plan.flip is None
