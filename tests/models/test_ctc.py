"""CTC by brute force: every path through the frames, collapsed and summed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from companion.models import collapse, ctc_beam_search, ctc_forward, ctc_greedy, ctc_loss


def logits(T, C, seed=0):
    return torch.randn(T, C, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def totals(log_probs, blank=0):
    """The log-probability of every sequence of labels, each path counted on its own."""
    found: dict[tuple, list] = {}
    T, C = log_probs.shape
    for path in itertools.product(range(C), repeat=T):
        said, before = [], None
        for label in path:
            if label != before and label != blank:
                said.append(label)
            before = label
        log_p = sum(log_probs[t, label] for t, label in enumerate(path))
        found.setdefault(tuple(said), []).append(torch.as_tensor(log_p, dtype=torch.float64))
    return {said: torch.stack(parts).logsumexp(0) for said, parts in found.items()}


def test_collapse():
    for path, want in [
        ([], []),
        ([0, 0], []),
        ([1, 1, 2], [1, 2]),
        ([1, 0, 1], [1, 1]),
        ([0, 1, 1, 0, 0, 1, 2, 2, 0], [1, 1, 2]),
    ]:
        assert collapse(path) == want
    assert collapse([0, 2, 0, 0], blank=2) == [0, 0]


# ---------------------------------------------------------------- the recursion


@pytest.mark.parametrize("T, C, blank", [(1, 3, 0), (2, 2, 0), (4, 3, 0), (4, 3, 2), (3, 4, 1)])
def test_forward_is_the_sum_over_all_paths(T, C, blank):
    log_probs = logits(T, C).log_softmax(-1).requires_grad_()
    for said, want in totals(log_probs, blank).items():
        found = ctc_forward(log_probs, said, blank)
        torch.testing.assert_close(found, want)
        ours, theirs = (
            torch.autograd.grad(v, log_probs, retain_graph=True)[0] for v in (found, want)
        )
        torch.testing.assert_close(ours, theirs)


def test_all_targets_together_are_certain():
    log_probs = logits(4, 3).log_softmax(-1)
    targets = [t for n in range(5) for t in itertools.product((1, 2), repeat=n)]
    equal = [sum(a == b for a, b in zip(t, t[1:], strict=False)) for t in targets]
    fitting = [t for t, e in zip(targets, equal, strict=True) if len(t) + e <= 4]
    total = sum(ctc_forward(log_probs, t).exp() for t in fitting)
    assert total.item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("target", [[], [1], [2, 2], [1, 2, 1], [3, 3, 3], [1, 2, 3, 1, 2]])
def test_forward_equals_torch_with_its_gradient(target):
    z = logits(7, 4).requires_grad_()
    ours = -ctc_forward(z.log_softmax(-1), target)
    theirs = F.ctc_loss(
        z.log_softmax(-1)[:, None],
        torch.tensor([target], dtype=torch.long),
        torch.tensor([7]),
        torch.tensor([len(target)]),
        reduction="sum",
    )
    torch.testing.assert_close(ours, theirs)
    a, b = (torch.autograd.grad(v, z)[0] for v in (ours, theirs))
    torch.testing.assert_close(a, b)
    assert torch.autograd.gradcheck(lambda z: ctc_forward(z.log_softmax(-1), target), z)


def test_forward_where_labels_are_impossible():
    """Frames that exclude a label, or the blank: the paths left, and −∞ if there is none."""
    z = logits(4, 3)
    z[1, 2] = z[2, 0] = z[3, 1] = -math.inf
    log_probs = z.log_softmax(-1).requires_grad_()
    impossible = 0
    for said, want in totals(log_probs).items():
        found = ctc_forward(log_probs, said)
        (g,) = torch.autograd.grad(found, log_probs)
        assert g.isfinite().all()
        if want == -math.inf:
            assert found == -math.inf and g.eq(0).all()
            impossible += 1
        else:
            torch.testing.assert_close(found, want)
            # each frame of a path has one label: the derivatives of a frame sum to 1
            torch.testing.assert_close(g.sum(1), torch.ones_like(g[:, 0]))
    assert 0 < impossible < len(totals(log_probs))
    assert ctc_forward(torch.full((2, 3), math.nan), [1]).isnan()


def test_forward_of_no_frames_and_in_half_precision():
    assert ctc_forward(torch.zeros(0, 3), []).item() == 0
    z = logits(6, 4).log_softmax(-1)
    half = z.to(torch.bfloat16).requires_grad_()
    found = ctc_forward(half, [1, 1])
    assert found.item() == pytest.approx(ctc_forward(z, [1, 1]).item(), abs=0.1)
    found.backward()
    assert half.grad.isfinite().all()


# ---------------------------------------------------------------- the loss


def test_loss_of_a_batch_and_its_reductions():
    z = torch.stack([logits(6, 4, seed) for seed in range(3)]).log_softmax(-1)
    targets, lengths = [[1, 2], [3, 3, 3], []], [4, 6, 5]
    want = torch.stack([-ctc_forward(z[b, : lengths[b]], targets[b]) for b in range(3)])
    torch.testing.assert_close(ctc_loss(z, targets, lengths, reduction="none"), want)
    torch.testing.assert_close(ctc_loss(z, targets, lengths, reduction="sum"), want.sum())
    mean = (want / torch.tensor([2, 3, 1])).mean()
    torch.testing.assert_close(ctc_loss(z, targets, lengths), mean)
    padded = torch.tensor([[1, 2, -1], [3, 3, 3], [0, 0, 0]])
    torch.testing.assert_close(ctc_loss(z, padded, lengths, [2, 3, 0]), mean)
    torch.testing.assert_close(
        F.ctc_loss(z.transpose(0, 1), padded, torch.tensor(lengths), torch.tensor([2, 3, 0])), mean
    )
    z[0, 4:] = math.nan  # padding is not read
    torch.testing.assert_close(ctc_loss(z, targets, lengths), mean)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_loss_of_half_precision_is_that_of_float32(dtype):
    z = torch.stack([logits(6, 4, seed) for seed in range(2)]).log_softmax(-1).to(dtype)
    half, single = z.clone().requires_grad_(), z.float().requires_grad_()
    found, want = (ctc_loss(x, [[1, 2], [3, 3]], reduction="none") for x in (half, single))
    assert found.dtype == torch.float32 and torch.equal(found, want)
    found.sum().backward()
    want.sum().backward()
    assert torch.equal(half.grad, single.grad.to(dtype))


def test_numbers_of_numpy_are_labels():
    z = torch.stack([logits(6, 4, seed) for seed in range(2)]).log_softmax(-1)
    want = ctc_loss(z, [[1, 2], [3]])
    for targets in ([np.array([1, 2]), np.array([3])], [list(np.array([1, 2])), (np.int32(3),)]):
        assert torch.equal(ctc_loss(z, targets), want)
    assert torch.equal(ctc_loss(z, np.array([[1, 2], [3, 9]]), None, [2, 1]), want)
    assert torch.equal(ctc_forward(z[0], np.array([1, 2])), ctc_forward(z[0], [1, 2]))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_no_row_costs_nothing(reduction):
    z = torch.zeros(0, 4, 3, requires_grad=True)
    loss = ctc_loss(z, [], reduction=reduction)
    assert loss.item() == 0
    loss.backward()


def test_empty_target_costs_blanks_alone():
    """Case 34: −Σ log p(blank), with a finite gradient, in rows of any length."""
    z = torch.stack([logits(5, 3, seed) for seed in range(3)]).requires_grad_()
    lengths = [5, 2, 0]
    loss = ctc_loss(z.log_softmax(-1), [[], [], []], lengths, reduction="none")
    want = [-z.log_softmax(-1)[b, :n, 0].sum() for b, n in enumerate(lengths)]
    torch.testing.assert_close(loss, torch.stack(want))
    (g,) = torch.autograd.grad(loss.sum(), z)
    assert g.isfinite().all() and g[0].abs().sum() > 0 and g[2].eq(0).all()
    assert ctc_loss(z.log_softmax(-1)[:, :0], [[], [], []], reduction="sum").item() == 0
    assert ctc_loss(z.log_softmax(-1)[:0], [], reduction="none").shape == (0,)


def test_too_few_frames_names_the_row():
    """Case 35: equal neighbors need a blank between them; torch's loss would be infinite."""
    z = torch.zeros(3, 4, 3).log_softmax(-1).requires_grad_()
    with pytest.raises(
        ValueError, match=r"targets\[1\]: expected at least 3 frames \(2 labels, 1 blank b.*got 2"
    ):
        ctc_loss(z, [[1, 2], [1, 1], [2]], [4, 2, 4])
    with pytest.raises(
        ValueError, match=r"targets\[2\]: expected at least 1 frames \(1 label\), got 0"
    ):
        ctc_loss(z, [[1, 2], [1, 1], [2]], [4, 3, 0])
    with pytest.raises(ValueError, match=r"^target: .*5 frames \(3 labels, 2 blanks"):
        ctc_forward(z[0], [1, 1, 1])
    loss = ctc_loss(z, [[1, 2], [1, 1], [2]], [4, 2, 4], reduction="none", zero_infinity=True)
    assert loss[1] == 0 and (loss[[0, 2]] > 0).all()
    (g,) = torch.autograd.grad(loss.sum(), z)
    assert g[1].eq(0).all() and g.isfinite().all()


@pytest.mark.parametrize("blank", [0, 2])
def test_a_blank_inside_the_target_is_refused(blank):
    """Case 36: torch takes it without a word."""
    z = torch.zeros(2, 4, 3).log_softmax(-1)
    with pytest.raises(ValueError, match=rf"targets\[1\]: .*alone, got {blank}, the blank"):
        ctc_loss(z, [[1], [1, blank]], blank=blank)
    with pytest.raises(ValueError, match=r"^target: .*the blank"):
        ctc_forward(z[0], [blank], blank)
    lengths = [1, 1]  # padded with the blank, as usual: behind the labels it may stand
    assert ctc_loss(z, torch.tensor([[1, blank]] * 2), None, lengths, blank=blank).isfinite()


def test_errors_name_the_argument():
    z = torch.zeros(2, 4, 3)
    cases = [
        (lambda: ctc_loss(z[0], [[1]]), ValueError, r"log_probs: expected shape \(B, T, C\)"),
        (lambda: ctc_loss(z, [[1]]), ValueError, "targets: expected 2, one for each row, got 1"),
        (lambda: ctc_loss(z, [[1], [3]]), ValueError, r"targets\[1\]: .*0 to 2, got 3"),
        (lambda: ctc_loss(z, [[1], [0.5]]), TypeError, r"targets\[1\]: expected integers"),
        (lambda: ctc_loss(z, [[1], [1]], [5, 4]), ValueError, "lengths: .*0 to 4"),
        (lambda: ctc_loss(z, [[1], [1]], blank=3), ValueError, "blank: expected less than 3"),
        (lambda: ctc_loss(z, [[1], [1]], reduction="max"), ValueError, "reduction: .*'max'"),
        (lambda: ctc_loss(z, torch.ones(2, 2).long()), ValueError, "targets: .*target_lengths"),
        (
            lambda: ctc_loss(z, torch.ones(2, 2).long(), None, [1, 3]),
            ValueError,
            "target_lengths: expected values from 0 to 2, the columns of targets, got .1, 3.",
        ),
        (lambda: ctc_loss(z, None), TypeError, "^targets: expected sequences.*got NoneType"),
        (lambda: ctc_loss(z, [1, 2]), TypeError, r"^targets\[0\]: expected a seq.*got int \(1\)"),
        (
            lambda: ctc_loss(z, torch.ones(2, 2), None, [1, 1]),
            TypeError,
            r"^targets\[0\]: expected integers, got 1.0",
        ),
        (lambda: ctc_forward(z[0], 1), TypeError, r"^target: expected a seq.*got int \(1\)"),
        (lambda: ctc_forward(z[0], [0.5]), TypeError, "^target: expected integers, got 0.5"),
        (lambda: ctc_forward(z[0], [7]), ValueError, "^target: .*0 to 2, got 7"),
        (lambda: ctc_beam_search(z[0], scorer=3), TypeError, "^scorer: .*function, got int"),
        (lambda: ctc_beam_search(z[0] * math.nan), ValueError, "^log_probs: .*got NaN"),
        (lambda: ctc_greedy(z * math.nan), ValueError, "^log_probs: .*valid frames, got NaN"),
        (
            lambda: ctc_loss(z, [[1], [1]], None, [1, 1]),
            ValueError,
            "target_lengths: .*None.*1, 1",
        ),
        (lambda: ctc_forward(z, [1]), ValueError, r"log_probs: .*shape \(T, C\)"),
        (lambda: ctc_greedy(z[0]), ValueError, r"log_probs: .*shape \(B, T, C\)"),
        (lambda: ctc_beam_search(z), ValueError, r"log_probs: .*shape \(T, C\)"),
        (lambda: ctc_beam_search(z[0], 0), ValueError, "beam: expected at least 1, got 0"),
        (lambda: ctc_beam_search(z[0], blank=5), ValueError, "blank: expected less than 3"),
        (lambda: ctc_beam_search(z[0], weight="a"), TypeError, "weight: expected a number"),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()


# ---------------------------------------------------------------- decoding


def test_greedy_is_the_best_path_of_the_valid_frames():
    paths = torch.tensor([[1, 1, 0, 1, 2], [0, 2, 2, 1, 1]])
    log_probs = F.one_hot(paths, 3).double().log_softmax(-1)
    assert ctc_greedy(log_probs) == [[1, 1, 2], [2, 1]]
    assert ctc_greedy(log_probs, [3, 1]) == [[1], []]
    assert ctc_greedy(log_probs, blank=1) == [[0, 2], [0, 2]]
    assert ctc_greedy(log_probs[:, :0]) == [[], []]
    log_probs[1, 1:] = math.nan  # padding is not read
    assert ctc_greedy(log_probs, [3, 1]) == [[1], []]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    T=st.integers(0, 5),
    C=st.integers(2, 3),
    seed=st.integers(0, 1000),
    weight=st.sampled_from([0.0, 0.5, 2.0]),
    bonus=st.sampled_from([0.0, -0.7, 1.3]),
    last=st.booleans(),
)
def test_wide_beam_is_brute_force(T, C, seed, weight, bonus, last):
    """Every sequence of labels with its probability, the language model's, and the bonus."""
    blank = C - 1 if last else 0
    log_probs = (2 * logits(T, C, seed)).log_softmax(-1)
    table = logits(C + 1, C, seed + 1).log_softmax(-1).tolist()  # a bigram model

    def scorer(prefix, label):
        return table[prefix[-1] if prefix else C][label]

    found = ctc_beam_search(log_probs, 10**6, blank, scorer=scorer, weight=weight, bonus=bonus)
    wanted = totals(log_probs, blank)
    assert {h.labels for h in found} == set(wanted)
    for h in found:
        spoken = sum(scorer(h.labels[:k], label) for k, label in enumerate(h.labels))
        assert h.log_prob == pytest.approx(wanted[h.labels].item(), abs=1e-9)
        assert h.score == pytest.approx(h.log_prob + weight * spoken + bonus * len(h.labels))
    assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


def test_narrow_beam_keeps_the_best_prefixes():
    """Width 1 by hand: after frame 1 only the blank's prefix is left, and so on."""
    p = torch.tensor([[0.6, 0.4], [0.6, 0.4]], dtype=torch.float64)
    found = ctc_beam_search(p.log(), beam=1)
    # prefix () with 0.6; then () 0.36 against (1) 0.24
    assert [h.labels for h in found] == [()] and math.exp(found[0].score) == pytest.approx(0.36)
    found = ctc_beam_search(p.log(), beam=2)
    assert [h.labels for h in found] == [(1,), ()]
    assert math.exp(found[0].score) == pytest.approx(0.64)


def test_language_model_and_bonus_change_the_winner():
    p = torch.tensor([[0.1, 0.5, 0.4]], dtype=torch.float64)
    assert ctc_beam_search(p.log())[0].labels == (1,)
    prefer = lambda prefix, label: math.log(0.9 if label == 2 else 0.1)  # noqa: E731
    assert ctc_beam_search(p.log(), scorer=prefer)[0].labels == (2,)
    assert ctc_beam_search(p.log(), scorer=prefer, weight=0.0)[0].labels == (1,)
    assert ctc_beam_search(p.log(), bonus=-3.0)[0].labels == ()


def test_a_language_model_without_weight_forbids_nothing():
    """0 · log 0 is no part of the score."""
    p = torch.tensor([[0.1, 0.5, 0.4]] * 2, dtype=torch.float64)

    def never(prefix, label):
        return -math.inf

    assert ctc_beam_search(p.log(), scorer=never, weight=0) == ctc_beam_search(p.log())
    assert ctc_beam_search(p.log(), scorer=never)[0].labels == ()


def test_impossible_labels_are_not_said():
    p = torch.tensor([[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], dtype=torch.float64)
    found = ctc_beam_search(p.log())
    assert [h.labels for h in found] == [(), (2,)]
    assert all(math.exp(h.score) == pytest.approx(0.5) for h in found)
