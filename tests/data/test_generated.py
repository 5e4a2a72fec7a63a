"""Generated tasks: their answers by another road."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from companion.data import MarkovChain
from companion.data import generated as g


def test_copying_answers_what_was_read():
    task = g.copying(5, symbols=6, length=4, delay=7, seed=3)
    assert task.x.shape == task.y.shape == (5, 15)
    for x, y in zip(task.x.tolist(), task.y.tolist(), strict=True):
        assert y[-4:] == x[:4] and set(x[:4]) <= set(range(1, 7))
        assert x[4:] == [0] * 6 + [7] + [0] * 4 and y[:-4] == [0] * 11
    assert task.scored.sum() == 20 and task.chance == 1 / 6
    assert (g.copying(1, delay=1).x[0, 10] == 9).all()  # "now" at once


def test_adding_marks_one_number_in_each_half():
    task = g.adding(200, T=7, seed=1)
    marks = task.x[..., 1]
    assert (marks[:, :3].sum(1) == 1).all() and (marks[:, 3:].sum(1) == 1).all()
    assert set(marks.flatten().tolist()) == {0.0, 1.0}
    torch.testing.assert_close((task.x[..., 0] * marks).sum(1), task.y)
    task = g.adding(200_000, T=2)
    assert ((task.y - 1) ** 2).mean().item() == pytest.approx(task.chance, abs=0.003)


def test_parity_and_first_token():
    task = g.parity(4, T=9, seed=2)
    for x, y in zip(task.x.tolist(), task.y.tolist(), strict=True):
        assert y == [sum(x[: t + 1]) % 2 for t in range(9)]
    task = g.first_token_recall(50, lag=0)
    assert task.x.shape == (50, 1) and (task.x[:, 0] == task.y).all()


def test_anbn_scores_exactly_what_is_certain():
    task = g.anbn([3, 1])
    text = ["".join("ab$"[i] for i in row) for row in task.x]
    assert text == ["$aaabbb", "$ab$$$$"]
    for row, y, scored in zip(text, task.y.tolist(), task.scored.tolist(), strict=True):
        n = row.count("a")
        for t, counts in enumerate(scored):
            assert counts == (n < t <= 2 * n)
            if counts:
                assert "ab$"[y[t]] == ("b" if t < 2 * n else "$")


@pytest.mark.parametrize("counts", [[1], [1, 1], [1, 2], [3, 1, 4], [5, 5, 5]])
def test_anbn_chance_is_that_of_the_best_constant_answer(counts):
    task = g.anbn(counts)
    answers = task.y[task.scored]
    best = max((answers == symbol).double().mean().item() for symbol in range(3))
    assert task.chance == pytest.approx(best)


@pytest.mark.parametrize(
    "counts, message",
    [
        ([1.9, 2.5], r"expected ints, got float \(1.9\)"),
        ([2.0], "expected ints, got float"),
        ([True], r"expected ints, got bool \(True\)"),
        (["3"], "expected ints, got str"),
        ("33", "expected a list of ints, got str"),
        (3, "expected a list of ints, got int"),
        ({1, 2}, "expected a list of ints, got set"),
        (None, "expected a list of ints, got NoneType"),
        ([[1]], "expected ints, got list"),
        (torch.tensor([1.0]), "expected ints, got float"),
        (torch.tensor([True]), "expected ints, got bool"),
        (torch.tensor(3), "expected a list of ints, got Tensor"),
    ],
)
def test_anbn_takes_integers_only(counts, message):
    with pytest.raises(TypeError, match="^counts: " + message):
        g.anbn(counts)


@pytest.mark.parametrize(
    "counts", [(1, 3), torch.tensor([1, 3]), np.array([1, 3]), [np.int64(1), 3], range(1, 4, 2)]
)
def test_anbn_takes_integers_in_any_sequence(counts):
    assert torch.equal(g.anbn(counts).x, g.anbn([1, 3]).x)


def test_selective_copying_ignores_the_noise():
    task = g.selective_copying(20, T=12, symbols=5, length=3, seed=4)
    for x, y in zip(task.x.tolist(), task.y.tolist(), strict=True):
        assert [v for v in x[:12] if v] == y[12:] and x[12:] == [6, 6, 6]
    assert (g.selective_copying(3, T=4, length=4).x[:, :4] > 0).all()


def test_markov_chain_is_what_it_says():
    P = torch.tensor([[0.5, 0.5, 0.0], [0.1, 0.6, 0.3], [0.8, 0.0, 0.2]]).double()
    chain = MarkovChain(P)
    torch.testing.assert_close(chain.stationary @ P, chain.stationary)
    x = chain.sample(200, 500, seed=5)
    counts = torch.zeros(3, 3)
    for row in x.tolist()[:50]:
        for a, b in pairwise(row):
            counts[a, b] += 1
    torch.testing.assert_close(counts / counts.sum(1, keepdim=True), P.float(), rtol=0, atol=0.02)
    nll = -P[x[:, :-1], x[:, 1:]].log().mean().item()
    assert nll == pytest.approx(chain.entropy_rate, abs=0.01)
    assert chain.perplexity == pytest.approx(math.exp(chain.entropy_rate))
    fair = MarkovChain(torch.full((4, 4), 0.25))
    assert fair.entropy_rate == pytest.approx(math.log(4)) and fair.perplexity == pytest.approx(4)


@pytest.mark.parametrize("slow", [1e-3, 1e-10, 1e-16])
def test_a_chain_that_switches_rarely_has_one_stationary_distribution(slow):
    """Kept as off-diagonal numbers, which a difference to 1 would round away."""
    P = torch.tensor([[1 - slow, slow], [2 * slow, 1 - 2 * slow]], dtype=torch.float64)
    assert MarkovChain(P).stationary.tolist() == pytest.approx([2 / 3, 1 / 3], rel=1e-12)


def test_stationary_against_an_eigenvector():
    P = torch.rand(6, 6, generator=torch.Generator().manual_seed(0)).double()
    P = P / P.sum(1, keepdim=True)
    values, vectors = np.linalg.eig(P.numpy().T)
    v = vectors[:, np.abs(values - 1).argmin()].real
    np.testing.assert_allclose(MarkovChain(P).stationary.numpy(), v / v.sum(), rtol=1e-12)


def test_chains_that_leave_symbols_for_good_end_in_the_others():
    P = torch.tensor([[0.5, 0.25, 0.25, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0.9, 0.1, 0, 0]])
    chain = MarkovChain(P)
    assert chain.stationary.tolist() == [0, 0.5, 0.5, 0] and chain.entropy_rate == 0
    assert set(chain.sample(20, 5).flatten().tolist()) == {1, 2}
    absorbing = MarkovChain(torch.tensor([[0.5, 0.5, 0.0], [0.1, 0.0, 0.9], [0.0, 0.0, 1.0]]))
    assert absorbing.stationary.tolist() == [0, 0, 1] and absorbing.perplexity == 1
    # a long way into it: 64 steps
    line = torch.eye(65).roll(1, 1)
    line[-1] = torch.eye(65)[-1]
    assert MarkovChain(line).stationary.tolist() == [0] * 64 + [1]
    ring = MarkovChain(torch.eye(65).roll(1, 1))
    torch.testing.assert_close(ring.stationary, torch.full((65,), 1 / 65).double())
    assert MarkovChain(torch.ones(1, 1)).stationary.tolist() == [1]


def test_two_ways_to_end_are_refused():
    P = torch.tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(ValueError, match="more than one stationary"):
        MarkovChain(P)


def test_chains_can_be_compared_and_kept_in_sets():
    P = torch.full((2, 2), 0.5)
    a, b = MarkovChain(P), MarkovChain(P)
    assert a == a and a != b and len({a, b, a}) == 2


def test_a_chain_keeps_its_own_numbers():
    P = torch.full((2, 2), 0.5, dtype=torch.float64, requires_grad=True)
    chain = MarkovChain(P)
    with torch.no_grad():
        P[0, 0] = 7
    assert chain.transition.tolist() == [[0.5, 0.5]] * 2 and not chain.transition.requires_grad
    assert chain.stationary.tolist() == chain.stationary.tolist() == [0.5, 0.5]
    assert chain.transition.tolist() == [[0.5, 0.5]] * 2


@pytest.mark.parametrize(
    "transition, message",
    [
        ([[0.5, 0.5], [0.5, 0.5]], "a tensor, got list"),
        (np.full((2, 2), 0.5), "a tensor, got ndarray"),
        (torch.ones(1, 1, dtype=torch.long), "floating-point numbers, got torch.int64"),
        (torch.ones(1, 1, dtype=torch.complex64), "floating-point numbers, got torch.complex64"),
    ],
)
def test_what_is_no_tensor_of_numbers(transition, message):
    with pytest.raises(TypeError, match=f"^transition: expected {message}$"):
        MarkovChain(transition)


def test_seeds_decide_and_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    for f in (
        lambda s: g.copying(3, seed=s).x,
        lambda s: g.adding(3, 9, seed=s).x,
        lambda s: g.parity(3, 9, seed=s).x,
        lambda s: g.first_token_recall(3, 9, seed=s).x,
        lambda s: g.selective_copying(3, 9, seed=s).x,
        lambda s: MarkovChain(torch.full((3, 3), 1 / 3)).sample(3, 9, seed=s),
    ):
        assert torch.equal(f(1), f(1)) and not torch.equal(f(1), f(2))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: g.copying(1, delay=0), "delay: expected at least 1, got 0"),
        (lambda: g.adding(1, T=1), "T: expected at least 2"),
        (lambda: g.parity(-1, T=1), "n: expected at least 0"),
        (lambda: g.anbn([0]), "counts: expected some numbers of at least 1"),
        (lambda: g.anbn([]), "counts: expected"),
        (lambda: g.selective_copying(1, T=2, length=3), "length: expected at most T = 2, got 3"),
        (lambda: MarkovChain(torch.eye(2)), "more than one stationary"),
        (lambda: MarkovChain(torch.ones(2, 2)), "sum to 1"),
        (lambda: MarkovChain(torch.ones(2, 3)), "square"),
        (lambda: MarkovChain(torch.ones(0, 0)), "square"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_empty_draws():
    assert g.copying(0).x.shape == (0, 40) and g.adding(0, 5).y.shape == (0,)
    assert MarkovChain(torch.full((2, 2), 0.5)).sample(0, 3).shape == (0, 3)
    assert g.parity(2, T=0).y.shape == (2, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: g.copying(3),
        lambda: g.adding(3, T=6),
        lambda: g.first_token_recall(3, lag=4),
        lambda: g.parity(3, T=6),
        lambda: g.anbn([1, 3]),
        lambda: g.selective_copying(3, T=6),
    ],
)
def test_a_default_device_changes_no_task(make):
    wanted = make()
    with torch.device("meta"):
        task = make()
    assert all(torch.equal(a, b) for a, b in zip(task[:3], wanted[:3], strict=True))


def test_a_default_device_changes_no_chain():
    P = torch.tensor([[0.9, 0.1], [0.5, 0.5]])
    wanted = MarkovChain(P).sample(3, 5)
    with torch.device("meta"):
        chain = MarkovChain(P)
        assert torch.equal(chain.sample(3, 5), wanted)
        assert chain.stationary.tolist() == pytest.approx([5 / 6, 1 / 6])


def test_spike_delays_are_what_lies_between_the_spikes():
    task = g.spike_delays(300, T=20, shortest=5, longest=9, seed=1)
    for x, y in zip(task.x[..., 0], task.y.tolist(), strict=True):
        first, second = x.nonzero().flatten().tolist()
        assert second - first == y + 5 and x.sum() == 2
    assert set(task.y.tolist()) == set(range(5)) and task.chance == 1 / 5
    with pytest.raises(ValueError, match="T: expected at least 10, got 9"):
        g.spike_delays(1, T=9, shortest=5, longest=9)
