"""Cells as a user would write them: with modules and buffers inside, without weights, wrong."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import companion
from companion import Cell, Recurrence, RNNCell
from companion.cells import Architecture

from ..helpers import randn


class Inside(Cell):
    """Everything a module may hold: two Linears, a norm, a Dropout, a buffer, a weight."""

    def __init__(self, input_size, hidden_size, bias=True, **new):
        super().__init__(input_size, hidden_size)
        self.a = nn.Linear(input_size, hidden_size, bias, **new)
        self.b = nn.Sequential(nn.Linear(hidden_size, hidden_size, **new), nn.Dropout(0.5))
        self.norm = nn.LayerNorm(hidden_size, **new)
        self.gain = self.weight(hidden_size, **new)
        self.register_buffer("scale", torch.full((hidden_size,), 0.5, **new))
        self.register_buffer("scratch", torch.zeros(1, **new), persistent=False)
        self.reset_parameters()

    def prepare(self, x):
        return self.a(x)

    def update(self, u_t, h):
        h = self.scale * torch.tanh(self.norm(u_t + self.b(h))) + self.gain + self.scratch
        return h, h


def inside(**options):
    torch.manual_seed(0)
    options = {"num_layers": 2, "bidirectional": True, "dtype": torch.float64, **options}
    return Recurrence(Inside, 3, 4, **options)


def test_modules_and_buffers_inside_a_cell_belong_to_the_layer():
    layer = inside()
    names = set(layer.state_dict())
    for end in ("_l0", "_l0_reverse", "_l1", "_l1_reverse"):
        assert {f"a{end}.weight", f"b{end}.0.bias", f"norm{end}.weight"} <= names
        assert {f"gain{end}", f"scale{end}"} <= names and f"scratch{end}" not in names
    assert len(list(layer.parameters())) == 4 * 7
    x = randn(2, 5, 3)
    y, _ = layer.eval()(x, lengths=[5, 3])
    y.sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())
    assert torch.equal(layer(x)[0], layer(x)[0])  # the Dropout sleeps
    assert not torch.equal(layer.train()(x)[0], layer(x)[0])


def test_they_are_saved_loaded_copied_and_moved():
    layer, x = inside().eval(), randn(2, 5, 3)
    fresh = inside().eval()
    fresh.reset_parameters()
    with torch.no_grad():
        fresh.scale_l0.fill_(9.0)
    assert not torch.equal(fresh(x)[0], layer(x)[0])
    fresh.load_state_dict(layer.state_dict(), strict=True)
    for other in (fresh, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x)[0], layer(x)[0])
        nn.init.zeros_(other.a_l0.weight)
        assert not torch.equal(other(x)[0], layer(x)[0])
    single = copy.deepcopy(layer).float()
    assert single(x.float())[0].dtype == torch.float32 and single.scale_l1.dtype == torch.float32
    assert inside(device="meta")(x.to("meta"))[0].is_meta


def test_the_layer_is_the_loop_of_the_cell():
    layer = inside(num_layers=1, bidirectional=False).eval()
    cell = Inside(3, 4, dtype=torch.float64).eval()
    cell.load_state_dict({k.replace("_l0", "", 1): v for k, v in layer.state_dict().items()})
    x, h = randn(2, 5, 3), torch.zeros(2, 4).double()
    for t in range(5):
        y, h = cell.step(x[:, t], h)
        torch.testing.assert_close(layer(x)[0][:, t], y)


def test_reset_parameters_draws_what_is_inside():
    layer = inside()
    before = copy.deepcopy(layer.state_dict())
    layer.reset_parameters()
    changed = {k for k, v in layer.state_dict().items() if not torch.equal(v, before[k])}
    assert {"a_l0.weight", "b_l1_reverse.0.weight", "gain_l1"} <= changed
    assert "scale_l0" not in changed


def test_a_cell_without_weights_runs():
    class Mean(Cell):
        def __init__(self, input_size, hidden_size, bias=True, **new):
            super().__init__(input_size, hidden_size)

        def prepare(self, x):
            return x

        def update(self, u_t, h):
            h = 0.5 * h + 0.5 * u_t
            return h, h

    layer = Recurrence(Mean, 4, 4)
    x = torch.ones(2, 5, 4, dtype=torch.float64)
    outputs = list(map(layer, [x, x]))
    assert len(outputs) == 2 and outputs[0][0].dtype == torch.float64
    assert outputs[0][0][0, :, 0].tolist() == [0.5, 0.75, 0.875, 0.9375, 0.96875]
    assert layer(x, lengths=[5, 2])[1][0, 1, 0] == 0.75
    assert layer.step(x[:, 0])[0].shape == Mean(4, 4)(x[:, 0]).shape == (2, 4)
    assert layer.initial_state(3).shape == (1, 3, 4) and Mean(4, 4).initial_state(2).shape == (
        2,
        4,
    )


def test_a_learned_initial_state_gets_its_gradient():
    class Learned(RNNCell):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.h0 = nn.Parameter(torch.full_like(self.bias_ih, 0.5))

        def initial_state(self, batch_size, like=None):
            return self.h0.expand(batch_size, -1)

    layer = Recurrence(Learned, 3, 4, num_layers=2, bidirectional=True)
    reset = torch.zeros(2, 5, dtype=torch.bool)
    reset[0, 2] = True
    y, _ = layer(torch.randn(2, 5, 3), reset=reset)
    y.sum().backward()
    assert layer.initial_state(3)[1, 2].tolist() == [0.5] * 4
    for end in ("_l0", "_l0_reverse", "_l1", "_l1_reverse"):
        assert getattr(layer, "h0" + end).grad.abs().sum() > 0


def test_a_parametrization_made_in_the_cell_stays():
    class Orthogonal(RNNCell):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            torch.nn.utils.parametrizations.orthogonal(self, "weight_hh")

    layer = Recurrence(Orthogonal, 3, 4)
    w = layer.cell(0).weight_hh
    torch.testing.assert_close(w @ w.t(), torch.eye(4))
    layer(torch.randn(2, 5, 3))[0].sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


@pytest.mark.parametrize("module", ["layer", "cell"])
def test_reset_parameters_reaches_behind_a_parametrization(module):
    made = companion.RNN(3, 4) if module == "layer" else RNNCell(3, 4, recurrent_init="identity")
    name = "weight_hh_l0" if module == "layer" else "weight_hh"
    torch.nn.utils.parametrizations.spectral_norm(made, name)
    original = made.parametrizations[name].original
    with torch.no_grad():
        original.fill_(7.0)
    made.reset_parameters()
    assert not (original == 7).any()
    torch.nn.utils.parametrize.remove_parametrizations(made, name)
    torch.nn.utils.parametrizations.weight_norm(made, name)
    with pytest.raises(ValueError, match=f"reset_parameters: {name} is parametrized by several"):
        made.reset_parameters()


def test_a_broken_parametrization_is_not_an_absent_bias():
    class Typo(nn.Module):
        def forward(self, b):
            return b.no_such_method()

    rnn = companion.RNN(3, 4)
    parametrize.register_parametrization(rnn, "bias_hh_l0", Typo(), unsafe=True)
    with pytest.raises(AttributeError):
        rnn(torch.zeros(2, 5, 3))
    rnn = companion.RNN(3, 4)
    del rnn.bias_hh_l0
    with pytest.raises(AttributeError, match="bias_hh_l0"):
        rnn(torch.zeros(2, 5, 3))


@pytest.mark.parametrize("layer, direction", [(0, 1), (-1, 0), (2, 0), (0, -1)])
def test_a_cell_that_is_not_there(layer, direction):
    with pytest.raises(IndexError, match="(layer|direction): expected 0 to"):
        companion.RNN(3, 4, 2).cell(layer, direction)


# ---------------------------------------------------------------- wrong cells say what is wrong


def variant(**methods):
    return type("Variant", (RNNCell,), methods)


@pytest.mark.parametrize(
    "update, kind, message",
    [
        (
            lambda s, u, h: (u, h.mean(1, keepdim=True)),
            ValueError,
            "update: state: expected shape",
        ),
        (
            lambda s, u, h: (torch.cat([u, u], 1), h),
            ValueError,
            "update: expected outputs of shape",
        ),
        (lambda s, u, h: (u, [h]), TypeError, "update: state: expected one tensor, got list"),
        (
            lambda s, u, h: (u, h.float()),
            ValueError,
            "update: state: expected dtype torch.float64",
        ),
        (lambda s, u, h: (None, h), (ValueError, TypeError), "expected|NoneType"),
    ],
)
def test_what_update_returns_is_checked(update, kind, message):
    layer = Recurrence(variant(update=update), 3, 4, num_layers=2, dtype=torch.float64)
    x = randn(2, 1, 3)
    with pytest.raises(kind, match=message):
        layer(x)
    with pytest.raises(kind, match=message):
        layer.step(x[:, 0])


def test_a_list_as_state_is_refused_before_it_is_cut():
    layer = Recurrence(variant(update=lambda s, u, h: (u, [u])), 3, 4)
    with pytest.raises(
        TypeError, match="state: expected a tensor or a tuple of tensors, got a list"
    ):
        layer(torch.zeros(2, 5, 3), lengths=[5, 2])


def test_constructors_that_do_not_fit():
    class Bare(Cell):
        def __init__(self, input_size, hidden_size):
            super().__init__(input_size, hidden_size)

    with pytest.raises(TypeError, match="expected Bare to take bias, device and dtype"):
        Recurrence(Bare, 3, 4)
    with pytest.raises(TypeError, match="cell: expected Cell to take bias"):
        Recurrence(Cell, 3, 4)

    class Widening(RNNCell):
        def __init__(self, input_size, hidden_size, **new):
            super().__init__(input_size, hidden_size, **new)
            self.state_size = input_size

    with pytest.raises(ValueError, match="states of one size in all layers, got 3 .* and 4"):
        Recurrence(Widening, 3, 4, num_layers=2)


def test_an_architecture_keeps_its_options():
    with pytest.raises(ValueError, match="nonlinearity: expected 'relu', which makes 'rnn_relu'"):
        Recurrence("rnn_relu", 3, 4, nonlinearity="tanh")
    assert Recurrence("rnn_relu", 3, 4, nonlinearity="relu").cell(0).nonlinearity == "relu"
    assert Architecture(RNNCell).options == {}


def test_weights_that_were_never_drawn_are_nan():
    class Forgot(RNNCell):
        def reset_parameters(self):
            pass

    assert Recurrence(Forgot, 3, 4)(torch.zeros(2, 5, 3))[0].isnan().all()


def test_initializers_that_do_nothing_are_refused():
    with pytest.raises(TypeError, match=r"expected spectral_radius\(0.9\), say, got it uncalled"):
        companion.RNN(3, 4, recurrent_init=companion.spectral_radius)
    with pytest.raises(TypeError, match="fills a matrix in place, got one that returns Tensor"):
        companion.RNN(3, 4, recurrent_init=lambda w: torch.eye(len(w)))
    with pytest.raises(TypeError, match="radius: expected a number, got str"):
        companion.spectral_radius("a")


@pytest.mark.parametrize("flag", ["bias", "batch_first", "bidirectional"])
def test_flags_are_flags(flag):
    with pytest.raises(TypeError, match=f"{flag}: expected True or False, got 'no'"):
        companion.RNN(3, 4, **{flag: "no"})


def test_step_of_a_cell_does_not_broadcast():
    cell = RNNCell(3, 4)
    with pytest.raises(ValueError, match=r"state: expected shape \(5, 4\), got \(1, 4\)"):
        cell.step(torch.zeros(5, 3), torch.zeros(1, 4))
    with pytest.raises(ValueError, match=r"x_t: expected \(B, 3\)"):
        cell.step(torch.zeros(2, 5, 3), torch.zeros(2, 4))
    with pytest.raises(ValueError, match="batch_size: expected at least 0, got -1"):
        cell.initial_state(-1)


# ---------------------------------------------------------------- surroundings


def test_another_default_device():
    rnn, x = companion.RNN(3, 4, bidirectional=True, batch_first=True), torch.randn(2, 5, 3)
    reset = torch.zeros(2, 5, dtype=torch.bool)
    packed = torch.nn.utils.rnn.pack_sequence([x[0], x[1, :3]])
    want = rnn(x, lengths=[5, 2], reset=reset)[0], rnn(packed)[0].data
    with torch.device("meta"):
        found = rnn(x, lengths=[5, 2], reset=reset)[0], rnn(packed)[0].data
    for a, b in zip(want, found, strict=True):
        assert torch.equal(a, b)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_tracing_records_the_loop():
    rnn, x = companion.RNN(3, 4), torch.randn(5, 2, 3)
    traced = torch.jit.trace(rnn, x, check_trace=False)
    torch.testing.assert_close(traced(2 * x)[0], rnn(2 * x)[0])


@pytest.mark.parametrize("lengths, T", [(None, 0), ([0, 0], 3)])
def test_without_a_step_every_weight_has_a_zero_gradient(lengths, T):
    rnn = companion.RNN(3, 4, 2, bidirectional=True, batch_first=True)
    rnn(torch.zeros(2, T, 3), lengths=lengths)[0].sum().backward()
    assert all(p.grad is not None and (p.grad == 0).all() for p in rnn.parameters())


def test_the_dropout_warning_points_at_the_caller():
    for make in (
        lambda: companion.RNN(3, 4, dropout=0.5),
        lambda: Recurrence("rnn", 3, 4, dropout=0.5),
    ):
        with pytest.warns(UserWarning, match="no effect") as seen:
            make()
        assert seen[0].filename == __file__
