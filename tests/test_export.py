"""Files of ONNX against the models they were made of; products in eight bits."""

from __future__ import annotations

import copy
import functools
import importlib
import logging
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import companion
from companion.cells import Cell, flat_state
from companion.models import Forecaster, LanguageModel, Tagger, TextClassifier
from companion.quantize import QuantizedRecurrence
from tests.helpers import D, H

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
from companion.export import OnnxStream, quantized, to_onnx  # noqa: E402

exports = pytest.mark.skipif(
    not hasattr(torch.onnx, "ops"), reason="torch before 2.8 has no operators of ONNX by name"
)
TOLERANCE = 1e-5
SIZES = ((1, 1), (1, 3), (2, 3), (3, 1), (7, 3), (33, 1), (257, 3))  # T, B


@pytest.fixture(autouse=True, scope="module")
def one_table():
    """Let torch read its table of ONNX' operators once, not for each file: a third of the time."""
    if not hasattr(torch.onnx, "ops"):
        yield
        return
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with pytest.MonkeyPatch.context() as patch:
        table = functools.cache(ONNXRegistry.from_torchlib)
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(table))
        yield


def flat(state):
    """The tensors of a state, however deep the tuples."""
    return [t for s in state for t in flat(s)] if isinstance(state, tuple) else [state]


def runner(path):
    """The runtime as a function of tensors."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]

    def run(*tensors):
        feed = dict(zip(names, (t.numpy() for t in tensors), strict=True))
        return [torch.from_numpy(out) for out in session.run(None, feed)]

    return run


def assert_same(got, expected):
    """As many tensors, of the same shapes and values."""
    assert len(got) == len(expected)
    for g, e in zip(got, expected, strict=True):
        assert g.shape == e.shape
        torch.testing.assert_close(g, e, rtol=TOLERANCE, atol=TOLERANCE)


@torch.no_grad()
def started(layer, B):
    """A state that steps lead to, and its tensors."""
    x = torch.randn(B, 3, D) if layer.batch_first else torch.randn(3, B, D)
    state = layer(x)[1]
    return state, flat(state)


LAYERS = {
    "rnn": lambda: companion.RNN(D, H, 2, batch_first=True),
    "relu, time first": lambda: companion.RNN(D, H, nonlinearity="relu"),
    "lstm": lambda: companion.LSTM(D, H, 2, batch_first=True),
    "both ways": lambda: companion.LSTM(D, H, 2, bidirectional=True, batch_first=True),
    "no bias": lambda: companion.GRU(D, H, bias=False, bidirectional=True),
    "peepholes": lambda: companion.LSTM(D, H, peephole=True, batch_first=True),
    "coupled": lambda: companion.LSTM(D, H, coupled=True, batch_first=True),
    "coupled peepholes": lambda: companion.LSTM(D, H, peephole=True, coupled=True),
    "gru": lambda: companion.GRU(D, H, 2, batch_first=True),
    "reset before": lambda: companion.GRU(D, H, reset_after=False, bidirectional=True),
}
SCANNED = {
    "griffin": lambda: companion.Griffin(D, H, heads=2),
    "projected, zoneout": lambda: companion.LSTM(D, H, proj_size=2, zoneout=0.3),
    "sru": lambda: companion.SRU(D, H, bidirectional=True),
    "lru": lambda: companion.LRU(D, H),
}


WHOLE = ["lstm", "no bias", "sru", "lru"]  # of the others the rows are of different lengths


@exports
@pytest.mark.parametrize(
    "kind, lengths",
    [*((k, False) for k in WHOLE), *((k, True) for k in LAYERS | SCANNED if k != "lru")],
)
def test_a_layer_of_any_batch_and_length(kind, lengths, tmp_path):
    torch.manual_seed(0)
    layer = (LAYERS | SCANNED)[kind]().eval()
    if kind in LAYERS:  # bounded by tanh: large enough to tell one gate from another
        with torch.no_grad():
            for p in layer.parameters():
                p.mul_(2)
    to_onnx(layer, tmp_path / "m.onnx", lengths=lengths)
    found = {node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node}
    assert ("Scan" in found) == (kind in SCANNED)
    run = runner(tmp_path / "m.onnx")
    for T, B in SIZES:
        state, parts = started(layer, B)
        x = torch.randn(B, T, D)
        given, keywords = [], {}
        if lengths:
            n = torch.tensor([T, 0, T // 2])[:B]
            x[torch.arange(T) >= n[:, None]] = torch.nan  # never read
            given, keywords = [n], {"lengths": n}
        x = x if layer.batch_first else x.transpose(0, 1).contiguous()
        with torch.no_grad():
            y, after = layer(x, state, **keywords)
        assert_same(run(x, *given, *parts), [y, *flat(after)])
    if kind in ("lstm", "lru") and not lengths:  # pieces give the whole, the last of the above
        outputs = []
        for piece in x.split([1, 1, 4, 251], 1):
            y, *parts = run(piece, *parts)
            outputs.append(y)
        assert_same([torch.cat(outputs, 1), *parts], run(x, *flat(state)))


def each_cell():
    """The first architecture of each class of cells."""
    known = {}
    for name in companion.ARCHITECTURES:
        known.setdefault(type(companion.Recurrence(name, D, H).cell(0)), name)
    return known.values()


@exports
@pytest.mark.parametrize("name", each_cell())
def test_one_step_of_every_architecture(name, tmp_path, caplog):
    torch.manual_seed(0)
    layer = companion.Recurrence(name, D, H)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names = to_onnx(layer, tmp_path / "m.onnx", form="step")
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert names.inputs[:2] == ("x_t", "state_0")
    assert names.outputs[1:] == tuple(f"next_{n}" for n in names.inputs[1:])
    run = runner(tmp_path / "m.onnx")
    for B in (1, 3):
        state, parts = started(layer, B)
        x_t = torch.randn(B, D)
        with torch.no_grad():
            y, after = layer.step(x_t, state)
        assert_same(run(x_t, *parts), [y, *flat_state(after)])


MODELS = {
    "lstm lm": lambda: LanguageModel(50, 8, 16, "lstm", 2),
    "dropped, untied lm": lambda: LanguageModel(50, 8, 16, "gru", tied=False, weight_drop=0.5),
    "backbone lm": lambda: LanguageModel(50, 8, 16, ["gru", "mingru"]),
    "classifier": lambda: TextClassifier(50, 3, 8, 16, bidirectional=True, dropout=0.5),
    "attention": lambda: TextClassifier(50, 3, 8, 16, "gru", pooling="attention"),
    "max": lambda: TextClassifier(50, 3, 8, 16, "gru", pooling="max"),
    "tagger": lambda: Tagger(50, 3, 8, 16),
    "two features": lambda: Tagger([50, 50], 3, 8, 16),
    "forecaster": lambda: Forecaster(2, 4, cell="gru", relative=True, quantiles=(0.1, 0.5)),
}


def an_input(kind, B, T):
    if kind == "forecaster":
        return torch.randn(B, T, 2)
    return torch.randint(50, (B, T, 2) if kind == "two features" else (B, T))


@exports
@pytest.mark.parametrize("kind", MODELS)
def test_models(kind, tmp_path):
    torch.manual_seed(0)
    model = MODELS[kind]()
    stateful, training = isinstance(model, LanguageModel), model.training
    lengths = kind != "lstm lm"
    to_onnx(model, tmp_path / "m.onnx", lengths=lengths)
    assert model.training == training
    run = runner(tmp_path / "m.onnx")
    model.eval()
    for B, T in ((1, 1), (3, 2), (2, 33)):
        x, n = an_input(kind, B, T), torch.tensor([T, 1, 2])[:B]
        keywords = {"lengths": n} if lengths else {}
        with torch.no_grad():
            if stateful:
                state = model(an_input(kind, B, 3))[1]
                y, after = model(x, state, **keywords)
                expected, parts = [y, *flat(after)], flat(state)
            else:
                expected, parts = [model(x, **keywords)], []
        assert_same(run(x, *([n] if lengths else []), *parts), expected)


@exports
def test_a_stream_keeps_its_state_and_forgets_when_told(tmp_path):
    torch.manual_seed(0)
    model = LanguageModel(50, 8, 16, "lstm", 2).eval()
    to_onnx(model, tmp_path / "m.onnx", form="step")
    stream, tokens = OnnxStream(tmp_path / "m.onnx", batch_size=2), torch.randint(50, (2, 6))
    with torch.no_grad():
        expected = model(tokens)[0]
        alone = model(tokens[1:, 3:])[0]
    for t in range(6):
        if t == 3:
            stream.restart([1])
        y = torch.from_numpy(stream(tokens[:, t].numpy()))
        assert_same([y[0]], [expected[0, t]])
        assert_same([y[1]], [expected[1, t] if t < 3 else alone[0, t - 3]])
    kept = stream.state
    stream.restart()
    first = tokens[:, 0].int().numpy()  # of another size than the file's
    assert_same([torch.from_numpy(stream(first))], [expected[:, 0]])
    stream.state = kept
    stream.restart(1)
    assert all(s[:, 0].any() and not s[:, 1].any() for s in stream.state.values())
    assert all(s[:, 1].any() for s in kept.values())
    with pytest.raises(ValueError, match=r"x: expected 1 dimensions, with 2 .* got \(3,\)"):
        stream(np.zeros(3, np.int64))
    with pytest.raises(TypeError, match="float64.* to .*int64"):
        stream(np.zeros(2))
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        stream.restart([7])


@exports
def test_a_stream_starts_where_the_cell_says(tmp_path):
    class Counter(Cell):
        """Counts on from 3."""

        def __init__(self, input_size, hidden_size, bias=True, **new):
            super().__init__(input_size, hidden_size)
            self.scale = self.weight(hidden_size, **new)
            nn.init.ones_(self.scale)

        def initial_state(self, batch_size, like=None):
            return super().initial_state(batch_size, like) + 3

        def prepare(self, x):
            return x

        def update(self, u_t, h):
            h = h + self.scale * u_t
            return h, h.clone()

    to_onnx(companion.Recurrence(Counter, 1, 1), tmp_path / "m.onnx")
    stream = OnnxStream(tmp_path / "m.onnx")
    ones = np.ones((1, 4, 1), np.float32)
    assert stream(ones).ravel().tolist() == [4, 5, 6, 7]
    assert stream(ones).ravel().tolist() == [8, 9, 10, 11]
    stream.restart()
    assert stream(ones).ravel().tolist() == [4, 5, 6, 7]


@exports
@pytest.mark.parametrize("kind", ["gru", "mingru"])
def test_int8_takes_a_quarter_and_errs_by_half_a_step(kind, tmp_path):
    torch.manual_seed(0)
    layer = companion.Recurrence(kind, 64, 64)
    x, state = torch.randn(2, 20, 64), flat(layer.initial_state(2))
    path = tmp_path / "m.onnx"
    to_onnx(layer, path, int8=True)
    assert path.stat().st_size < sum(4 * p.numel() for p in layer.parameters()) / 2
    with torch.no_grad():
        assert 0 < (runner(path)(x, *state)[0] - layer(x)[0]).abs().max() < 0.02
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in initializers(onnx.load(path).graph)}
    matrices = [n.removesuffix("_int8") for n in stored if n.endswith("_int8")]
    assert len(matrices) == (2 if kind == "gru" else 1)
    for name in matrices:  # 127 is the largest entry of each output unit
        q, scale = stored[f"{name}_int8"], stored[f"{name}_scale"]
        axis = q.shape.index(len(scale))
        peaks = np.abs(q.astype(int)).max(tuple(d for d in range(q.ndim) if d != axis))
        assert (peaks == 127).all()


def test_in_int8_what_is_no_matrix_of_a_product_stays_as_it_is():
    from onnx import TensorProto, helper, numpy_helper

    from companion.onnx_graphs import with_int8

    w = np.random.default_rng(0).normal(size=(2, 32, 32)).astype(np.float32)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 32]) for n in "xy")
    nodes = [helper.make_node("MatMul", ["x", "a"], ["z"]), helper.make_node("Mul", "zb", "y")]
    values = [numpy_helper.from_array(part, name) for part, name in zip(w, "ab", strict=True)]
    graph = helper.make_graph(nodes, "g", [x], [y], values)
    stored = {t.name for t in with_int8(helper.make_model(graph)).graph.initializer}
    assert stored == {"a_int8", "a_scale", "b"}


def initializers(graph):
    """Those of a graph and of the graphs within it."""
    yield from graph.initializer
    for node in graph.node:
        for a in node.attribute:
            if a.HasField("g"):
                yield from initializers(a.g)


@exports
def test_the_file_tells_nothing_of_where_it_was_made_and_nothing_is_said(tmp_path, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        to_onnx(companion.SRU(D, H), tmp_path / "m.onnx")
    said = capfd.readouterr()
    assert said.out == said.err == ""
    data = (tmp_path / "m.onnx").read_bytes()
    assert b".py" not in data and b"wt" not in data.replace(b"next", b"")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@exports
def test_a_model_of_ones_own_and_the_model_is_left_as_it_was(tmp_path):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = companion.GRU(D, H, batch_first=True, dtype=torch.float64)
            self.theirs = nn.GRU(H, H, batch_first=True, dtype=torch.float64)
            self.again = self.theirs

        def forward(self, x):
            return self.again(self.theirs(self.layer(x)[0])[0])[0].sum(-1)

    torch.manual_seed(0)
    model = Own()
    before = model.state_dict()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        to_onnx(model, tmp_path / "m.onnx", example=torch.zeros(1, 1, D).double())
    x = torch.randn(2, 9, D)
    with torch.no_grad():
        assert_same(runner(tmp_path / "m.onnx")(x), [model.double()(x.double()).float()])
    assert model.training and all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert isinstance(model.layer, companion.GRU) and "_lend" not in model.layer.__dict__


class FixedBatch(nn.Module):
    """Reads its batch size as a number."""

    input_size = D

    def forward(self, x):
        return x + torch.zeros(len(x), 1, 1)


@exports
@pytest.mark.parametrize(
    "model, options, error, message",
    [
        (3, {}, TypeError, "model: expected a module, got int"),
        (nn.Sequential(), {}, ValueError, "example: expected an input, since Sequential"),
        (companion.GRU(D, H), {"form": "loop"}, ValueError, "form: expected one of 'sequence'"),
        (companion.GRU(D, H), {"lengths": 1}, TypeError, "lengths: expected True or False"),
        (companion.GRU(D, H), {"example": [1]}, TypeError, "example: expected a tensor"),
        (companion.GRU(D, H), {"example": torch.zeros(3)}, ValueError, "at least 2 dimensions"),
        (companion.GRU(D, H), {"form": "step", "lengths": True}, ValueError, "one step has none"),
        (Tagger(5, 2, 4, 4), {"form": "step"}, ValueError, "Tagger has no step"),
        (
            companion.GRU(D, H, bidirectional=True),
            {"form": "step"},
            ValueError,
            "both directions",
        ),
        (LanguageModel(5, 8, 8, ["attention"]), {}, ValueError, "whose cache grows"),
        (FixedBatch(), {}, ValueError, "runs with 5 alone"),
    ],
)
def test_what_cannot_be_written_is_refused(model, options, error, message, tmp_path):
    with pytest.raises(error, match=message):
        to_onnx(model, tmp_path / "m.onnx", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "path, error, message",
    [
        (3, TypeError, "path: expected the path of a file, got int"),
        ("", IsADirectoryError, "path: expected the path of a file, got the folder"),
        ("nowhere/m.onnx", FileNotFoundError, "path: there is no folder nowhere"),
    ],
)
def test_a_path_is_looked_at_first(path, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        to_onnx(companion.GRU(D, H), path)


@exports
def test_what_is_there_is_left_where_a_write_fails(monkeypatch, tmp_path):
    def fails(path, data):
        path.write_bytes(data[:9])
        raise OSError("no space")

    path = tmp_path / "m.onnx"
    path.write_bytes(b"before")
    monkeypatch.setattr(companion.export, "write_bytes", fails)
    with pytest.raises(OSError, match="no space"):
        to_onnx(nn.GRU(D, H), path, form="step")
    assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    to_onnx(nn.GRU(D, H), path, lengths=True)
    with pytest.raises(ValueError, match="path: expected a file that takes no lengths"):
        OnnxStream(path)


def test_an_old_torch_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.onnx.ops", None)
    with pytest.raises(RuntimeError, match="to_onnx needs torch 2.8 or later"):
        to_onnx(companion.GRU(D, H), tmp_path / "m.onnx")


@exports
def test_a_missing_package_is_named(monkeypatch, tmp_path):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n: None if n == "onnxscript" else find(n)
    )
    with pytest.raises(ImportError, match=r'onnxscript: missing; pip install -e ".\[export\]"'):
        to_onnx(companion.GRU(D, H), tmp_path / "m.onnx")


def test_the_package_starts_without_onnx():
    import subprocess

    code = "import companion, sys; print([n for n in sys.modules if 'onnx' in n.split('.')[0]])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


QUANTIZED = {
    "gru": lambda: companion.GRU(D, 32, 2, batch_first=True),
    "lstm": lambda: companion.LSTM(D, 32, bidirectional=True),
    "by name, no bias": lambda: companion.Recurrence("lstm", D, 32, bias=False),
}


class Mixed(nn.Module):
    """A recurrence of any kind, and a product behind it, both met twice."""

    def __init__(self, recurrent):
        super().__init__()
        self.recurrent, self.linear = recurrent, nn.Linear(D, D, dtype=torch.float64)
        self.recurrent_again, self.linear_again = self.recurrent, self.linear

    def forward(self, x):
        x = self.linear(self.recurrent(x)[0])
        return self.linear_again(self.recurrent_again(x)[0])


class OwnLSTM(nn.LSTM):
    """Of whatever equations."""


@pytest.mark.parametrize("kind", QUANTIZED)
@torch.no_grad()
def test_products_in_8_bits_err_little(kind):
    torch.manual_seed(0)
    layer = QUANTIZED[kind]()
    small = quantized(layer)
    assert isinstance(small, QuantizedRecurrence)
    state, _ = started(layer, 3)
    x, n = torch.randn(3, 9, D), torch.tensor([9, 0, 4])
    x[torch.arange(9) >= n[:, None]] = torch.nan
    x = x if layer.batch_first else x.transpose(0, 1)
    for y, (q, exact) in zip(
        ("y", "state"),
        zip(small(x, state, lengths=n), layer(x, state, lengths=n), strict=True),
        strict=True,
    ):
        for a, b in zip(flat(q), flat(exact), strict=True):
            assert a.shape == b.shape, y
            assert 0 < (a - b).abs().max() < 0.03
    if layer.directions == 1:
        whole, end = small(x.nan_to_num(), state)
        steps = []
        for x_t in x.nan_to_num().unbind(1):
            y, state = small.step(x_t, state)
            steps.append(y)
        # the inputs of a product have one scale: here of all rows of a step, in both
        torch.testing.assert_close(torch.stack(steps, 1), whole, rtol=0, atol=0.02)
        assert flat(end)[0].shape == flat(state)[0].shape
    else:
        with pytest.raises(ValueError, match="cannot run step by step"):
            small.step(torch.zeros(1, D))


@torch.no_grad()
def test_torch_leaves_a_bare_gru_alone_and_we_do_not():
    torch.manual_seed(0)
    gru, x = nn.GRU(D, 32), torch.randn(5, 2, D)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = torch.ao.quantization.quantize_dynamic(gru, {nn.GRU}, dtype=torch.qint8)
    assert type(left) is nn.GRU and torch.equal(left(x)[0], gru(x)[0])
    small = quantized(gru)
    assert type(small).__name__ == "GRU" and not isinstance(small, nn.GRU)
    assert 0 < (small(x)[0] - gru(x)[0]).abs().max() < 0.03
    assert size(small) < 0.5 * size(gru)


@pytest.mark.parametrize("kind", [companion.GRU, nn.LSTM])
@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_nothing_stays_float_where_it_stands_in_two_places(kind, bias):
    torch.manual_seed(0)
    model = Mixed(kind(D, D, bias=bias, dtype=torch.float64))
    small, x = quantized(model), torch.randn(5, 2, D)
    kinds = [type(m) for m in small.modules()]
    for module in (small.linear, small.linear_again):
        assert "Quantized" in repr(module)
    for module in (small.recurrent, small.recurrent_again):
        assert "Quantized" in repr(module)
    assert not {nn.Linear, nn.GRU, nn.LSTM, companion.GRU} & set(kinds)
    error = (small(x) - model(x.double())).abs().max()
    assert 0 < error < 0.03
    again = copy.deepcopy(small).train()
    assert torch.equal(again(x), small(x))
    other = quantized(Mixed(kind(D, D, bias=bias, dtype=torch.float64)))
    other.load_state_dict(small.state_dict())
    assert torch.equal(other(x), small(x))


@torch.no_grad()
def test_a_weight_in_8_bits_can_be_read():
    torch.manual_seed(0)
    linear = nn.Linear(40, 30)
    small = quantized(linear)
    step = linear.weight.abs().max() / 127
    assert (small.weight - linear.weight).abs().max() <= step * 0.51
    assert torch.equal(small.bias, linear.bias)
    model = LanguageModel(50, 8, 16, ["gru", "attention"]).eval()  # whose attention reads them
    tokens = torch.randint(50, (2, 5))
    assert 0 < (quantized(model)(tokens)[0] - model(tokens)[0]).abs().max() < 0.05


def size(module):
    """Bytes of what a module would save."""
    import io

    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return len(file.getvalue())


@pytest.mark.parametrize("kind", ["lstm lm", "classifier", "tagger", "forecaster"])
@torch.no_grad()
def test_models_in_8_bits(kind):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MODELS[kind]().eval()
        small = quantized(model)
        x = an_input(kind, 2, 9)
        got, expected = (flat(m(x)) for m in (small, model))
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape and 0 < (a - b).abs().max() < 0.03
    assert any(isinstance(m, QuantizedRecurrence) for m in small.modules())
    assert not any(isinstance(m, QuantizedRecurrence) for m in model.modules())


@pytest.mark.parametrize(
    "model, error, message",
    [
        (3, TypeError, "model: expected a module, got int"),
        (companion.Mamba(D, H), ValueError, "got MambaCell; to_onnx"),
        (companion.LSTM(D, H, peephole=True), ValueError, "has no peephole=True"),
        (companion.LSTM(D, H, proj_size=2), ValueError, "no proj_size in 8 bits"),
        (companion.GRU(D, H, zoneout=0.1), ValueError, "no zoneout in 8 bits"),
        (Mixed(nn.RNN(D, D)), ValueError, "expected LSTMs and GRUs, .* got RNN"),
        (Mixed(companion.LSTMCell(D, D)), ValueError, "expected LSTMs and GRUs, .* got LSTMCell"),
        (Mixed(nn.GRUCell(D, D)), ValueError, "expected LSTMs and GRUs, .* got GRUCell"),
        (Mixed(OwnLSTM(D, D)), ValueError, "expected LSTMs and GRUs, .* got OwnLSTM"),
        (nn.LSTM(D, H, proj_size=2), ValueError, "no proj_size in 8 bits"),
        (nn.Embedding(3, 4), ValueError, "expected an LSTM, a GRU or a Linear, got Embedding"),
    ],
)
def test_what_torch_cannot_quantize_is_refused(model, error, message):
    with pytest.raises(error, match=message):
        quantized(model)


def test_quantized_layers_refuse_what_torch_cannot_run():
    small = quantized(companion.GRU(D, H))
    with pytest.raises(ValueError, match="reset: expected None"):
        small(torch.zeros(3, 2, D), reset=torch.zeros(3, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="lengths: expected values from 0 to 3"):
        small(torch.zeros(3, 2, D), lengths=[4, 1])
    with pytest.raises(ValueError, match=r"x: expected \(T, B, 3\), got \(2, 3\)"):
        small(torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"x_t: expected \(B, 3\), got \(3,\)"):
        small.step(torch.zeros(3))
    packed = nn.utils.rnn.pack_sequence([torch.zeros(2, D)])
    with pytest.raises(TypeError, match="x: expected a tensor, got PackedSequence"):
        small(packed)
