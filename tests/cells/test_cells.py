"""The base class, the registry and the vanilla cell, against arithmetic done by hand."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch

import companion
from companion.cells import Architecture, bind, find, map_state


def test_the_vanilla_update_by_hand():
    cell = companion.RNNCell(2, 1, dtype=torch.float64)
    with torch.no_grad():
        cell.weight_ih.copy_(torch.tensor([[0.5, -1.0]]))
        cell.weight_hh.fill_(2.0)
        cell.bias_ih.fill_(0.25)
        cell.bias_hh.fill_(-0.75)
    x, h = torch.tensor([[1.0, 0.5]]).double(), torch.tensor([[0.3]], dtype=torch.float64)
    # 0.5·1 − 1·0.5 + 0.25 + 2·0.3 − 0.75 = 0.1
    y, after = cell.step(x, h)
    assert y.item() == after.item() == pytest.approx(math.tanh(0.1), abs=1e-15)
    relu = companion.RNNCell(2, 1, nonlinearity="relu", dtype=torch.float64)
    relu.load_state_dict(cell.state_dict())
    assert relu(x, h).item() == pytest.approx(0.1, abs=1e-15)
    assert relu(-x, h).item() == pytest.approx(0.1, abs=1e-15)  # x's two products cancel
    assert relu(x, -h).item() == 0  # 0.25 − 0.75 − 0.6 < 0


def test_prepare_takes_any_leading_shape_and_is_the_product_with_the_input():
    cell = companion.RNNCell(3, 4)
    x = torch.randn(2, 5, 3)
    want = x @ cell.weight_ih.t() + cell.bias_ih + cell.bias_hh
    torch.testing.assert_close(cell.prepare(x), want)


def test_bind_reads_other_weights_and_leaves_the_cell_alone():
    cell = companion.RNNCell(3, 4)
    zeros = {name: torch.zeros_like(w) for name, w in cell.weights().items()}
    bound = bind(cell, zeros)
    x = torch.randn(2, 3)
    assert (bound(x, torch.ones(2, 4)) == 0).all()
    y, _ = bound.step(x, torch.ones(2, 4))
    assert (y == 0).all() and list(bound.parameters()) == []
    assert (cell(x) != 0).all() and len(list(cell.parameters())) == 4


def test_a_cell_of_one_s_own_runs_in_a_layer():
    class Counter(companion.Cell):
        """h_t = h_{t-1} + w · 1."""

        def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
            super().__init__(input_size, hidden_size)
            self.w = self.weight(hidden_size, device=device, dtype=dtype)
            self.reset_parameters()

        def reset_parameters(self):
            torch.nn.init.ones_(self.w)

        def prepare(self, x):
            return x.new_ones(*x.shape[:-1], self.hidden_size) * self.w

        def update(self, u_t, h):
            h = h + u_t
            return h, h

    layer = companion.Recurrence(Counter, 3, 2, num_layers=2, bidirectional=True)
    y, state = layer(torch.randn(2, 5, 3), lengths=[5, 3])
    assert y[0, :, 0].tolist() == [1, 2, 3, 4, 5] and y[0, :, 2].tolist() == [5, 4, 3, 2, 1]
    assert y[1, :, 0].tolist() == [1, 2, 3, 0, 0] and y[1, :, 2].tolist() == [3, 2, 1, 0, 0]
    assert state[:, :, 0].tolist() == [[5, 3]] * 4
    assert repr(layer) == "Recurrence(Counter, 3, 2, num_layers=2, bidirectional=True)"


def test_an_unfinished_cell_says_what_is_missing():
    class Nothing(companion.Cell):
        def __init__(self, input_size, hidden_size, **new):
            super().__init__(input_size, hidden_size)
            self.w = self.weight(1)

    with pytest.raises(NotImplementedError, match="Nothing has no prepare"):
        Nothing(2, 3).step(torch.zeros(1, 2), torch.zeros(1, 3))


def test_registry():
    assert find("rnn").cell is companion.RNNCell
    assert find(companion.RNNCell) == Architecture(companion.RNNCell)
    with pytest.raises(ValueError, match="cell: expected one of .*'rnn'.*got 'elman'"):
        companion.Recurrence("elman", 2, 3)
    for bad in (3, int, companion.RNNCell(2, 3)):
        with pytest.raises(TypeError, match="cell: expected a name or a subclass of Cell"):
            companion.Recurrence(bad, 2, 3)


def test_map_state_refuses_states_of_different_length():
    with pytest.raises(ValueError):
        map_state(lambda a, b: a, (1, 2), (1,))


@pytest.mark.parametrize(
    "bad, kind, message",
    [
        (torch.zeros(2, 4), ValueError, "input: expected last dimension 3"),
        (torch.zeros(1, 2, 3), ValueError, "input: expected 1 or 2 dimensions, got 3"),
        (torch.zeros(2, 3).double(), ValueError, "input: expected dtype torch.float32"),
        ([[0.0] * 3], TypeError, "input: expected a tensor, got list"),
    ],
)
def test_a_cell_names_bad_input(bad, kind, message):
    with pytest.raises(kind, match=message):
        companion.RNNCell(3, 4)(bad)


def test_a_cell_names_a_bad_state():
    cell, x = companion.RNNCell(3, 4), torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"hx: expected shape \(2, 4\), got \(1, 4\)"):
        cell(x, torch.zeros(1, 4))  # torch would broadcast here in silence
    with pytest.raises(TypeError, match="hx: expected one tensor, got tuple"):
        cell(x, (torch.zeros(2, 4), torch.zeros(2, 4)))


def test_import_is_light():
    heavy = {"matplotlib", "pandas", "sklearn", "pooch", "tqdm", "accelerate", "yaml", "IPython"}
    code = (
        "import sys, torch; before = set(sys.modules); import companion; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; print(*sorted(new))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "companion" in out.stdout.split() and not heavy & set(out.stdout.split())


def test_the_public_names_are_all_there():
    for name in companion.__all__:
        assert getattr(companion, name).__doc__ or name == "ARCHITECTURES"
