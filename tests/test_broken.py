"""What a breaker found in the gated layers: each fault with the behavior that is right."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.fx.experimental.proxy_tensor
from torch.nn.utils import parametrize, prune
from torch.nn.utils.rnn import PackedSequence

import companion
from companion import GRUCell, LSTMCell, RNNCell

from .helpers import D, H, assert_close, randn

LAYERS = [companion.RNN, companion.LSTM, companion.GRU]
layers = pytest.mark.parametrize("kind", LAYERS, ids=lambda k: k.__name__)


@pytest.mark.parametrize(
    "kind, options",
    [
        *(
            (companion.LSTM, {n: v})
            for n, v in [
                ("forget_gate", "False"),
                ("peephole", "no"),
                ("layer_norm", 1e-5),
                ("coupled", 1),
            ]
        ),
        (companion.GRU, {"reset_after": "before"}),
        *((k, {"bias": v}) for k in (LSTMCell, RNNCell, GRUCell) for v in ("no", 2, None)),
    ],
)
def test_a_flag_is_true_or_false(kind, options):
    with pytest.raises(TypeError, match=f"{next(iter(options))}: expected True or False, got"):
        kind(D, H, **options)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, torch.ones(4), "1", 1j])
def test_the_forget_bias_is_a_finite_number(value):
    with pytest.raises((TypeError, ValueError), match="forget_bias: expected a"):
        companion.LSTM(D, H, forget_bias=value)


@layers
def test_gradients_of_large_layers_are_contiguous(kind):
    layer = kind(96, 160)  # large enough for oneDNN's product
    y = layer(torch.randn(6, 40, 96))[0]
    grads = torch.autograd.grad(y.sum(), list(layer.parameters()))
    assert all(g.is_contiguous() for g in grads)
    assert len({g.data_ptr() for g in grads}) == len(grads)  # no two share their storage


@layers
def test_a_weight_that_overlaps_itself(kind):
    class Toeplitz(torch.nn.Module):
        def forward(self, v):
            return v.reshape(-1)[: v.shape[0] + 95].unfold(0, 96, 1)

    layer, x = kind(96, 160), torch.randn(6, 40, 96)
    parametrize.register_parametrization(layer, "weight_ih_l0", Toeplitz(), unsafe=True)
    assert_close(layer(x)[0], layer(x, form="loop")[0], 1e-5)


@layers
def test_step_names_its_own_arguments(kind):
    with pytest.raises((TypeError, ValueError), match="^state"):
        kind(D, H).step(torch.zeros(2, D), torch.zeros(1, 2, H + 1))


@pytest.mark.parametrize("kind", [RNNCell, LSTMCell, GRUCell], ids=lambda k: k.__name__)
def test_reset_parameters_reaches_every_weight(kind):
    cell = kind(D, H)
    parametrize.register_parametrization(cell, "weight_ih", torch.nn.Identity())
    before = {n: p.detach().clone() for n, p in cell.named_parameters()}
    cell.reset_parameters()
    assert all(not torch.equal(p, before[n]) for n, p in cell.named_parameters())
    x = torch.randn(2, D)
    assert_close(cell(x, None), cell(x))


@layers
def test_reset_parameters_refuses_weights_that_a_hook_computes(kind):
    layer = kind(D, H)
    prune.l1_unstructured(layer, "weight_hh_l0", 0.5)
    with pytest.raises(ValueError, match="reset_parameters: weight_hh_l0 is computed by a hook"):
        layer.reset_parameters()
    layer(torch.zeros(4, 2, D))  # it runs all the same


@layers
def test_lengths_stay_where_they_are(kind):
    layer, x, lengths = kind(D, H), torch.zeros(5, 2, D), torch.tensor([5, 3])
    with torch.device("meta"):
        layer(x, lengths=lengths)
    with pytest.raises(ValueError, match="lengths: expected their values, got a tensor on meta"):
        layer(x, lengths=lengths.to("meta"))
    with pytest.raises(ValueError, match="reset: expected its values"):
        layer(x, reset=torch.zeros(5, 2, dtype=torch.bool, device="meta"))
    with pytest.raises(TypeError, match="lengths: expected 2 integers"):
        layer(x, lengths=[5, True])


@pytest.mark.skipif(
    not hasattr(torch, "get_autocast_dtype"),
    reason="torch.export of torch 2.3 cannot follow object.__new__, by which weights are lent",
)
@layers
def test_export_may_leave_the_batch_open(kind):
    layer, B = kind(D, H).eval(), torch.export.Dim("B", min=2)
    x = torch.randn(5, 4, D)
    program = torch.export.export(layer, (x,), dynamic_shapes={"input": {1: B}})
    other = torch.randn(5, 7, D)
    assert_close(program.module()(other)[0], layer(other)[0], 1e-6)


@pytest.mark.skipif(
    not hasattr(torch.compiler, "is_exporting"), reason="this torch does not say that it exports"
)
def test_export_of_lengths_is_refused_by_name():
    args = torch.zeros(5, 2, D), None
    with pytest.raises(ValueError, match="lengths, reset: expected None under torch.export"):
        torch.export.export(companion.GRU(D, H), args, {"lengths": torch.tensor([5, 3])})


def test_a_pair_may_come_in_a_list_as_in_torch():
    lstm, cell, x = companion.LSTM(D, H), LSTMCell(D, H), torch.randn(5, 2, D)
    h, c = torch.randn(1, 2, H), torch.randn(1, 2, H)
    assert_close(lstm(x, [h, c])[0], lstm(x, (h, c))[0], 0)
    assert_close(cell(x[0], [h[0], c[0]]), cell(x[0], (h[0], c[0])), 0)


def test_convert_gates_names_what_is_wrong():
    w = torch.arange(8)
    for given, kind, message in [
        ((np.arange(8), "lstm", "torch", "onnx"), TypeError, "w: expected a tensor, got ndarray"),
        ((w, "lstm", "torch", "onnx", None), TypeError, "dim: expected an int, got None"),
        ((w, "lstm", "torch", "onnx", True), TypeError, "dim: expected an int"),
        ((w, ["lstm"], "torch", "onnx"), ValueError, "cell: expected one of"),
        ((w, "lstm", "torch", ["onnx"]), ValueError, "target: expected one of"),
        ((w[:0], "lstm", "torch", "onnx"), ValueError, "w: expected 4 equal blocks"),
    ]:
        with pytest.raises(kind, match=message):
            companion.convert_gates(*given)


@layers
def test_other_messages_name_the_argument(kind):
    layer, x = kind(D, H), torch.zeros(5, 2, D)
    with pytest.raises(ValueError, match="form: expected None or one of"):
        layer(x, form=["loop"])
    for index in ("0", 0.5, True):
        with pytest.raises(TypeError, match="layer: expected an int"):
            layer.cell(index)
    with pytest.raises(ValueError, match="input: expected a dense tensor, got a torch.sparse_coo"):
        layer(x.to_sparse())
    with pytest.raises(ValueError, match="input: expected a dense tensor, got a nested one"):
        layer(torch.nested.nested_tensor([x[0], x[1]], layout=torch.jagged))
    with pytest.raises(ValueError, match="dtype: expected one with fractions"):
        kind(D, H, dtype=torch.int64)
    for sizes in ([1, 2], [2, 2], [3, 0]):
        with pytest.raises(ValueError, match="input.batch_sizes: expected positive sizes that"):
            layer(PackedSequence(torch.zeros(3, D), torch.tensor(sizes)))


def test_a_layer_shows_its_options():
    assert repr(companion.LSTM(D, H, peephole=True)) == "LSTM(3, 4, peephole=True)"
    assert repr(companion.GRU(D, H, reset_after=False)) == "GRU(3, 4, reset_after=False)"
    assert (
        repr(companion.Recurrence("lstm_coupled", D, H))
        == "Recurrence(LSTMCell, 3, 4, coupled=True)"
    )
    assert repr(companion.LSTM(D, H)) == "LSTM(3, 4)"


@layers
@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("B, width", [(4, H), (64, 80)], ids=["small", "large"])
@pytest.mark.parametrize(
    "dtype, tol", [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 0.05)]
)
def test_small_signals_keep_their_relative_precision(kind, scale, B, width, dtype, tol):
    torch.manual_seed(0)
    layer = kind(D, width, bias=False, dtype=torch.float64)
    x = randn(8, B, D) * scale
    want = layer(x, form="loop")[0]
    expected = torch.autograd.grad(want.sum(), list(layer.parameters()))
    layer.to(dtype)
    y = layer(x.to(dtype))[0]
    found = torch.autograd.grad(y.sum(), list(layer.parameters()))
    for a, b in zip((y, *found), (want, *expected), strict=True):
        assert ((a.double() - b).norm() / b.norm()).item() < tol


@layers
def test_make_fx_records_the_loop(kind):
    layer, x = kind(D, H), torch.randn(5, 2, D)
    graph = torch.fx.experimental.proxy_tensor.make_fx(lambda x: layer(x)[0])(x)
    assert_close(graph(x), layer(x)[0], 1e-6)


@layers
def test_a_backward_under_autocast_after_a_forward_without(kind):
    layer, x = kind(32, 48), torch.randn(5, 4, 32)
    y = layer(x)[0].sum()
    want = torch.autograd.grad(y, list(layer.parameters()), retain_graph=True)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad(y, list(layer.parameters()))
    assert_close(found, want, 0)


# ---------------------------------------------------------------- the second breaker


def test_the_clock_is_exact_in_low_precision():
    torch.manual_seed(0)
    for dtype, T in ((torch.bfloat16, 301), (torch.float16, 3001)):
        layer, x = companion.ClockworkRNN(D, 8, dtype=dtype), torch.randn(1, T, D).to(dtype)
        time = layer(x)[1][1]
        assert torch.equal(time, torch.full_like(time, T % 8))


@pytest.mark.parametrize(
    "cell, weight, want",
    [
        (LSTMCell(D, H, forget_bias=3.0), "bias_ih", lambda b: (b[H : 2 * H] == 3).all()),
        (LSTMCell(D, H, chrono=50), "bias_ih", lambda b: (b[:H] == -b[H : 2 * H]).all()),
        (LSTMCell(D, H, layer_norm=True), "norm_ih", lambda g: (g == 1).all()),
        (
            LSTMCell(D, H, layer_norm=True),
            "norm_c",
            lambda g: (g[0] == 1).all() and not g[1].any(),
        ),
        (GRUCell(D, H, chrono=1000.0), "bias_ih", lambda b: (b[H : 2 * H] > 1).any()),
    ],
)
def test_reset_parameters_sets_options_behind_a_parametrization(cell, weight, want):
    parametrize.register_parametrization(cell, weight, torch.nn.Identity())
    for _ in range(3):
        cell.reset_parameters()
        assert want(getattr(cell, weight))


@pytest.mark.parametrize("T", [300, 1000])
def test_sums_over_time_do_not_stagnate_in_bfloat16(T):
    torch.manual_seed(0)
    layer = companion.IndRNN(D, 8, nonlinearity="tanh")
    x = torch.rand(1, T, D)
    (want,) = torch.autograd.grad(layer(x)[0].sum(), layer.weight_hh_l0)
    layer, x = layer.bfloat16(), x.bfloat16()
    (found,) = torch.autograd.grad(layer(x)[0].sum(), layer.weight_hh_l0)
    assert (found.float() - want).norm() < 0.03 * want.norm()


def test_representations_of_the_other_layers_show_their_options():
    for made, text in [
        (companion.SRU(D, H, gates_see_state=False), "SRU(3, 4, gates_see_state=False)"),
        (companion.IndRNN(D, H, nonlinearity="tanh"), "IndRNN(3, 4, nonlinearity=tanh)"),
        (companion.Recurrence("rnn_relu", D, H), "Recurrence(RNNCell, 3, 4, nonlinearity=relu)"),
        (companion.QRNNCell(D, H, pooling="ifo"), "QRNNCell(3, 4, pooling=ifo)"),
        (LSTMCell(D, H, peephole=True, bias=False), "LSTMCell(3, 4, bias=False, peephole=True)"),
    ]:
        assert repr(made) == text


def test_other_cells_name_what_is_wrong():
    for kind in (
        companion.IndRNNCell,
        companion.QRNNCell,
        companion.SRUCell,
        companion.ClockworkRNNCell,
    ):
        with pytest.raises(TypeError, match="bias: expected True or False"):
            kind(D, H, bias="no")
    for make, kind, message in [
        (lambda: companion.SRUCell(D, H, highway_bias=1000), ValueError, "highway_bias: expected"),
        (
            lambda: companion.IndRNNCell(D, H, nonlinearity=[]),
            ValueError,
            "nonlinearity: expected",
        ),
        (lambda: companion.QRNNCell(D, H, pooling=[]), ValueError, "pooling: expected"),
        (
            lambda: companion.LSTM(D, H, dtype="float32"),
            TypeError,
            "dtype: expected a torch.dtype",
        ),
        (lambda: companion.Architecture(torch.nn.Linear), TypeError, "cell: expected a subclass"),
        (lambda: companion.Architecture(LSTMCell, "x"), TypeError, "options: expected a mapping"),
        (
            lambda: companion.ClockworkRNN(D, H, dtype=torch.cfloat),
            ValueError,
            "dtype: expected a",
        ),
    ]:
        with pytest.raises(kind, match=message):
            make()
