"""Truncated BPTT: what it keeps, what it drops, and the trainer that carries the state."""

from __future__ import annotations

from collections import namedtuple

import pytest
import torch
from torch import nn

import companion
from companion.train import Trainer, TrainingDiverged, detached, truncated_gradient

from ..helpers import randn

Pair = namedtuple("Pair", "h c")


def test_detached_reaches_every_tensor_however_nested():
    """Lightning#8145: detach missed tuples."""
    t = torch.ones(2, requires_grad=True) * 2
    state = detached({"a": (t, [t, None]), "b": Pair(t, (t,)), "n": 3})
    leaves = [state["a"][0], state["a"][1][0], state["b"].h, state["b"].c[0]]
    assert all(not leaf.requires_grad and torch.equal(leaf, t) for leaf in leaves)
    assert isinstance(state["b"], Pair) and state["a"][1][1] is None and state["n"] == 3
    assert t.requires_grad


def setup(T=7, layers=2):
    torch.manual_seed(0)
    rnn = companion.RNN(3, 4, layers, batch_first=True, dtype=torch.float64)
    x, w = randn(2, T, 3), randn(T, 4)
    return rnn, x, lambda y, t: (y.sin() * w[t : t + y.shape[1]]).sum()


@pytest.mark.parametrize("k", [7, 8, 100])
def test_one_chunk_is_the_true_gradient(k):
    rnn, x, loss = setup()
    y, final = rnn(x)
    loss(y, 0).backward()
    found, state = truncated_gradient(rnn, x, loss, k)
    for name, p in rnn.named_parameters():
        torch.testing.assert_close(found[name], p.grad, rtol=0, atol=1e-12)
    torch.testing.assert_close(state, final)
    assert not state.requires_grad


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_it_drops_exactly_the_terms_that_cross_a_cut(k):
    """Against a run whose state is detached by hand at every cut."""
    rnn, x, loss = setup()
    total, state = torch.zeros(()).double(), None
    outputs = []
    for t in range(7):
        if t % k == 0 and state is not None:
            state = state.detach()
        y_t, state = rnn.step(x[:, t], state)
        outputs.append(y_t)
        total = total + loss(y_t[:, None], t)
    total.backward()
    found, final = truncated_gradient(rnn, x, loss, k)
    for name, p in rnn.named_parameters():
        torch.testing.assert_close(found[name], p.grad, rtol=0, atol=1e-12)
    torch.testing.assert_close(final, state.detach())
    whole, _ = truncated_gradient(rnn, x, loss, 7)
    assert (whole["weight_hh_l0"] - found["weight_hh_l0"]).abs().max() > 1e-3  # biased


def test_bad_arguments_are_named():
    rnn, x, loss = setup()
    for k in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match="k: expected an int of at least 1"):
            truncated_gradient(rnn, x, loss, k)
    with pytest.raises(ValueError, match=r"x: expected \(B, T, D\)"):
        truncated_gradient(rnn, x[0], loss, 2)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = companion.RNN(1, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x, state):
        y, state = self.rnn(x, state)
        return self.head(y), state


def stateful(model, batch, state):
    stateful.seen.append(state)
    x, y = batch
    out, state = model(x, state)
    return nn.functional.mse_loss(out, y), y.numel(), {"lag": 0.0}, (state, [state])


def first_only(model, batch, state):
    loss, weight, metrics, (state, _) = stateful(model, batch, state)
    return loss, weight, metrics, state


def test_the_trainer_carries_the_state_and_starts_each_pass_anew():
    torch.manual_seed(0)
    model = Reader()
    x = torch.randn(4, 12, 1)
    chunks = [(x[:, t : t + 3], x[:, t : t + 3].roll(1, 1)) for t in range(0, 12, 3)]
    trainer = Trainer(model, first_only, torch.optim.SGD(model.parameters(), 0.0), stateful=True)
    stateful.seen = []
    trainer.fit(chunks, chunks, epochs=2)
    assert [s is None for s in stateful.seen] == ([True, False, False, False] * 4)
    assert all(s is None or not s.requires_grad for s in stateful.seen)
    # learning rate 0: the carried states are those of one long run
    _, want = model.rnn(x[:, :9])
    torch.testing.assert_close(stateful.seen[3], want)


def test_steps_of_the_trainer_are_truncated_gradients():
    """With plain gradient descent, the first step's change is the chunk's gradient, scaled."""
    torch.manual_seed(0)
    model = Reader().double()
    x, w = randn(4, 3, 1), model.rnn.weight_hh_l0
    before, stateful.seen = w.detach().clone(), []
    out, _ = model(x, None)
    (want,) = torch.autograd.grad(nn.functional.mse_loss(out, x), w)
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    Trainer(model, first_only, sgd, stateful=True).fit([(x, x)])
    torch.testing.assert_close(w.detach(), before - 0.1 * want)


def test_a_bad_step_drops_the_state():
    torch.manual_seed(0)
    model, stateful.seen = Reader(), []
    x = torch.randn(2, 3, 1)
    bad = torch.full((2, 3, 1), float("nan"))
    sgd = torch.optim.SGD(model.parameters(), 0.0)
    trainer = Trainer(model, first_only, sgd, stateful=True, max_bad_steps=2)
    trainer.fit([(x, x), (bad, x), (x, x), (x, x)])
    assert [s is None for s in stateful.seen] == [True, False, True, False]
    assert len(trainer.history.skipped) == 1
    with pytest.raises(TrainingDiverged):
        trainer.fit([(bad, x), (bad, x)])


def test_a_stateful_objective_must_return_its_state():
    model = nn.Linear(1, 1)
    sgd = torch.optim.SGD(model.parameters(), 0.1)

    def forgot(model, batch, state):
        return model(batch).mean(), 1

    with pytest.raises(TypeError, match=r"\(mean_loss, weight, state\).*got a tuple of 2"):
        Trainer(model, forgot, sgd, stateful=True).fit([torch.ones(1, 1)])
