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
