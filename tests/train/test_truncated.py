"""Truncated BPTT: what it keeps, what it drops, and the trainer that carries the state."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType, SimpleNamespace

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


@dataclass(frozen=True)
class Memory:
    h: torch.Tensor
    steps: int
    deeper: tuple = ()

    def __post_init__(self):
        assert self.steps, "a state is copied, not made anew"


def history():
    return torch.ones(2, requires_grad=True) * 2


def test_dataclasses_and_mappings_keep_their_type():
    t = history()
    state = Memory(t, 3, (Memory(t, 1),))
    new = detached(state)
    assert type(new) is Memory and new.steps == 3 and torch.equal(new.h, t)
    assert not new.h.requires_grad and not new.deeper[0].h.requires_grad
    assert state.h is t and state.deeper[0].h is t, "the given one is unchanged"
    for mapping in (OrderedDict(b=t, a=[t]), UserDict(b=t, a=[t]), defaultdict(list, b=t, a=[t])):
        new = detached(mapping)
        assert type(new) is type(mapping) and list(new) == ["b", "a"]
        assert not new["b"].requires_grad and not new["a"][0].requires_grad
        assert mapping["b"] is t and mapping["a"][0] is t
    assert new["unknown"] == [], "a defaultdict has its default still"
    assert type(detached(MappingProxyType({"a": t}))) is dict


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


@pytest.mark.parametrize(
    "make, name",
    [
        (lambda t: deque([t]), "deque"),
        (lambda t: {t}, "set"),
        (lambda t: frozenset([t]), "frozenset"),
        (lambda t: {"a": t}.values(), "dict_values"),
        (lambda t: Plain(h=t), "Plain"),
        (lambda t: SimpleNamespace(h=[{"a": t}]), "SimpleNamespace"),
        (lambda t: ({"a": [deque([(t,)])]}, t), "deque"),
        (lambda t: partial(print, t), "partial"),
        (lambda t: partial(print, sep=[t]), "partial"),
    ],
)
def test_a_container_that_would_keep_its_history_is_an_error(make, name):
    with pytest.raises(TypeError, match=f"^state: cannot detach the tensors in a {name}$"):
        detached(make(history()))


@pytest.mark.parametrize(
    "value", ["h", b"h", 3, None, {1, 2}, deque([1]), range(3), Plain(h=1), Plain, torch.float32]
)
def test_what_holds_no_tensor_passes(value):
    assert detached(value) is value and detached([value])[0] is value


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
    for k, kind, message in (
        (0, ValueError, "^k: expected at least 1, got 0"),
        (-1, ValueError, "^k: expected at least 1, got -1"),
        (2.0, TypeError, "^k: expected an int, got float"),
        (True, TypeError, "^k: expected an int, got bool"),
    ):
        with pytest.raises(kind, match=message):
            truncated_gradient(rnn, x, loss, k)
    with pytest.raises(ValueError, match=r"x: expected \(B, T, D\)"):
        truncated_gradient(rnn, x[0], loss, 2)
    packed = nn.utils.rnn.pack_padded_sequence(x, [7, 5], batch_first=True)
    with pytest.raises(TypeError, match=r"x: expected a tensor .* got PackedSequence"):
        truncated_gradient(rnn, packed, loss, 2)
    with pytest.raises(TypeError, match=r"layer: expected a torch.nn.Module, got function"):
        truncated_gradient(lambda x, s: (x, s), x, loss, 2)
    for wrong in (None, 1.0):
        with pytest.raises(TypeError, match="loss: expected it to give a tensor, got"):
            truncated_gradient(rnn, x, lambda y, t, wrong=wrong: wrong, 2)
    with pytest.raises(ValueError, match=r"loss: expected a scalar, got shape \(2, 2\)"):
        truncated_gradient(rnn, x, lambda y, t: y.sum(2), 2)


def test_two_directions_cannot_be_cut():
    """Backwards, a state would go to the chunk before."""
    for kind in (companion.RNN, nn.RNN):
        layer = kind(3, 4, batch_first=True, bidirectional=True)
        with pytest.raises(ValueError, match="^layer: expected one direction"):
            truncated_gradient(layer, torch.ones(2, 7, 3), lambda y, t: y.sum(), 3)


def test_a_layer_that_is_not_batch_first_is_an_error():
    """It would be cut along its batch, without a word."""
    for layer in (companion.RNN(3, 4), nn.RNN(3, 4)):
        with pytest.raises(ValueError, match="^layer: expected batch_first=True"):
            truncated_gradient(layer, torch.ones(2, 7, 3), lambda y, t: y.sum(), 3)


def test_the_history_of_the_given_state_is_cut_off():
    rnn, x, loss = setup()
    # made by the layer itself, whose weights it would lead to
    _, state = rnn(x[:, :3])
    want, _ = truncated_gradient(rnn, x[:, 3:], loss, 2, state.detach())
    for _ in range(2):  # a second time: the graph of the state was neither used nor freed
        found, _ = truncated_gradient(rnn, x[:, 3:], loss, 2, state)
        for name, gradient in want.items():
            torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-12)
    assert state.requires_grad


def test_frozen_weights_have_no_gradient_and_change_no_other():
    rnn, x, loss = setup()
    whole, _ = truncated_gradient(rnn, x, loss, 3)
    rnn.weight_hh_l0.requires_grad_(False)
    found, _ = truncated_gradient(rnn, x, loss, 3)
    assert set(found) == set(whole) - {"weight_hh_l0"}
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, whole[name], rtol=0, atol=1e-12)
    found, state = truncated_gradient(rnn.requires_grad_(False), x, loss, 3)
    assert found == {} and torch.equal(state, rnn(x)[1])
    # an input with history makes the loss differentiable, but in no weight
    assert truncated_gradient(rnn, x.clone().requires_grad_(), loss, 3)[0] == {}


def test_chunks_whose_loss_has_no_gradient_add_nothing():
    rnn, x, loss = setup()

    def at_the_end(y, t):
        return loss(y, t) if t == 6 else torch.zeros(())

    found, _ = truncated_gradient(rnn, x, at_the_end, 3)
    _, state = rnn(x[:, :6])
    want, _ = truncated_gradient(rnn, x[:, 6:], lambda y, t: loss(y, 6), 3, state)
    for name, gradient in want.items():
        assert gradient.abs().max() > 0
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-12)


def test_it_is_a_gradient_under_no_grad_too():
    rnn, x, loss = setup()
    want, _ = truncated_gradient(rnn, x, loss, 3)
    with torch.no_grad():
        found, _ = truncated_gradient(rnn, x, loss, 3)
    assert all(torch.equal(found[name], gradient) for name, gradient in want.items())


def test_no_step_leaves_the_state():
    rnn, x, loss = setup()
    given = randn(2, 2, 4).requires_grad_()
    for state, want in ((None, rnn.initial_state(2)), (given, given.detach())):
        found, final = truncated_gradient(rnn, x[:, :0], loss, 2, state)
        assert torch.equal(final, want) and not final.requires_grad
        assert set(found) == set(dict(rnn.named_parameters()))
        assert all(gradient.eq(0).all() for gradient in found.values())


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


@pytest.mark.parametrize("third", [{"acc": 1.0}, {"acc": 1, "n": torch.tensor(2.0)}])
def test_metrics_are_no_state(third):
    model = nn.Linear(1, 1)
    sgd = torch.optim.SGD(model.parameters(), 0.1)

    def forgot(model, batch, state):
        return model(batch).mean(), 1, third

    with pytest.raises(TypeError, match="^objective must return its new state last.*metrics, sta"):
        Trainer(model, forgot, sgd, stateful=True).fit([torch.ones(1, 1)])


@pytest.mark.parametrize("state", [{}, {"h": torch.ones(2)}, {"n": 1, "h": torch.ones(1)}, None])
def test_a_dict_may_be_the_state(state):
    model, seen = nn.Linear(1, 1), []

    def objective(model, batch, carried):
        seen.append(carried)
        return model(batch).mean(), 1, copy.copy(state)

    sgd = torch.optim.SGD(model.parameters(), 0.1)
    Trainer(model, objective, sgd, stateful=True).fit([torch.ones(1, 1)] * 2)
    assert seen[0] is None and type(seen[1]) is type(state)
    for key, value in (state or {}).items():
        assert torch.equal(torch.as_tensor(seen[1][key]), torch.as_tensor(value))


def counting(seen):
    """An objective whose state is the number of batches; a batch is (weight, next state)."""

    def objective(model, batch, state):
        seen.append(state)
        weight, new = batch
        return model.weight.sum() * (1 if weight else math.nan), weight, new

    return objective


def carried():
    seen = []
    model = nn.Linear(1, 1)
    sgd = torch.optim.SGD(model.parameters(), 0.0)
    trainer = Trainer(model, counting(seen), sgd, stateful=True)
    return trainer, seen


def test_a_batch_of_weight_0_whose_state_is_nan_leaves_the_state():
    one, two = torch.ones(2), torch.full((2,), 2.0)
    nan, infinite = torch.tensor([2.0, math.nan]), torch.tensor([2.0, -math.inf])
    batches = [(1, (one,)), (0, (nan,)), (1, (two,)), (0, (infinite,)), (1, (one,))]
    trainer, seen = carried()
    for run in (trainer.fit, trainer.evaluate):
        seen.clear()
        run(batches)
        got = [None if state is None else state[0].tolist() for state in seen]
        assert got == [None, [1, 1], [1, 1], [2, 2], [2, -math.inf]]


def test_an_evaluation_within_an_epoch_leaves_its_state():
    batches = [(1, torch.tensor(float(n))) for n in range(4)]
    trainer, seen = carried()

    def pausing():
        for n, batch in enumerate(batches):
            if n == 2:
                trainer.evaluate(batches[:2])
                with pytest.raises(TypeError):  # also when it fails
                    trainer.evaluate([batches[0], (None, None)])
            yield batch

    trainer.fit(pausing())
    got = [None if state is None else state.item() for state in seen]
    assert got == [None, 0] + [None, 0] + [None, 0] + [1, 2]


def test_an_evaluation_by_the_objective_leaves_the_buffers_before_the_batch():
    class Counter(nn.Linear):
        def __init__(self):
            super().__init__(1, 1)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            if self.training:
                self.calls += 1
            return super().forward(x)

    model = Counter()

    def objective(model, x):
        loss = model(x).mean()
        if model.training:
            trainer.evaluate([torch.ones(1, 1)])
        return loss, 1

    trainer = Trainer(model, objective, torch.optim.SGD(model.parameters(), 0.0))
    trainer.fit([torch.ones(1, 1), torch.full((1, 1), math.nan)])
    assert model.calls == 1, "the skipped batch does not count"


def test_no_state_outlives_its_epoch():
    trainer, _ = carried()
    trainer.fit([(1, torch.ones(3))])
    assert trainer._state is None  # it may be large
    with pytest.raises(TypeError):
        trainer.fit([(1, torch.ones(3)), (None, None)])
    assert trainer._state is None


def test_an_iterator_cannot_be_looked_into():
    for make in (iter, lambda ts: (t for t in ts), lambda ts: map(id, ts)):
        state = make([history()])
        with pytest.raises(
            TypeError, match="^state: cannot look for tensors in a .*; give a list"
        ):
            detached({"h": state})
