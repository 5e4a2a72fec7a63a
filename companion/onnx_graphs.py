"""What is done to a graph of ONNX: a Scan for each placeholder, weights in int8, names tidied."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from companion.onnx_parts import DOMAIN

__all__ = ["finish", "with_int8", "with_scans"]

FLOAT, INT64 = 1, 7  # as ONNX numbers its types
LEAST = 1024  # entries of a matrix that is worth a scale for each row
# what reads a matrix as one; decays and the like, which one multiplies by, stay as they are
PRODUCTS = ("MatMul", "Gemm", "Gather", "Transpose", "RNN", "LSTM", "GRU")


def with_scans(model: Any, body: Callable[[int, bool], Any]) -> Any:
    """Replace every placeholder of an ONNX model by a Scan, in place.

    Args:
        model: what the exporter gave of a prepared model.
        body: of the number of an update, and whether it is given ``t`` and ``lengths``, the ONNX
            model, whose outputs are y and the next state.

    Returns:
        The model itself.
    """
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for k, node in enumerate(nodes):
        if node.domain != DOMAIN:
            model.graph.node.append(node)
            continue
        given = {a.name: a.i for a in node.attribute}
        ragged = len(node.input) > 1 + given["states"]
        inner = body(given["update"], ragged)
        known = {o.domain for o in model.opset_import}
        model.opset_import.extend(o for o in inner.opset_import if o.domain not in known)
        model.functions.extend(inner.functions)
        model.graph.node.extend(_scan(f"scan_{k}_", node, inner.graph, given["backward"], ragged))
    kept = [o for o in model.opset_import if o.domain != DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    return model


def with_int8(model: Any) -> Any:
    r"""Store matrices as int8, with a scale for each output unit, in place.

    .. math:: q = \mathrm{round}(w / s), \qquad s = \max |w| / 127

    Args:
        model: an ONNX model.

    Returns:
        The model itself.
    """
    for graph in _graphs(model.graph):
        rows = {}  # the dimension of the output units: a MatMul has them behind, a Gemm in front
        for node in graph.node:
            if node.op_type in PRODUCTS:
                behind = node.op_type == "MatMul"
                rows.update(dict.fromkeys(node.input, -1 if behind else -2))
        kept, new = [], []
        for tensor in graph.initializer:
            small = len(tensor.dims) < 2 or math.prod(tensor.dims) < LEAST
            if tensor.data_type != FLOAT or small or tensor.name not in rows:
                kept.append(tensor)
                continue
            parts, node = _quantized(tensor, len(tensor.dims) + rows[tensor.name])
            kept.extend(parts)
            new.append(node)
        nodes = list(graph.node)
        del graph.initializer[:], graph.node[:]
        graph.initializer.extend(kept)
        graph.node.extend(new + nodes)
    return model


def _quantized(tensor: Any, axis: int) -> tuple[list[Any], Any]:
    """The int8 values and the scales of a float tensor, and the node that joins them again."""
    from onnx import helper, numpy_helper

    w = numpy_helper.to_array(tensor)
    others = tuple(d for d in range(w.ndim) if d != axis)
    scale = np.maximum(np.abs(w).max(others) / 127, np.finfo(np.float32).tiny)
    q = np.rint(w / np.expand_dims(scale, others)).astype(np.int8)
    names = [f"{tensor.name}_int8", f"{tensor.name}_scale"]
    parts = [numpy_helper.from_array(a, n) for a, n in zip((q, scale), names, strict=True)]
    return parts, helper.make_node("DequantizeLinear", names, [tensor.name], axis=axis)


def finish(model: Any, about: str) -> Any:
    """Leave out where the source lay, and say what the file is.

    Args:
        model: an ONNX model, changed in place.
        about: what is written into it under the name ``"companion"``.

    Returns:
        The model itself.
    """
    from onnx import checker, helper

    for graph in _graphs(model.graph):
        values = (graph.input, graph.output, graph.initializer, graph.value_info)
        for part in (graph, *graph.node, *(v for some in values for v in some)):
            part.ClearField("metadata_props")
            part.ClearField("doc_string")
    helper.set_model_props(model, {"companion": about})
    checker.check_model(model)
    return model


def _graphs(graph: Any) -> Iterator[Any]:
    """A graph and those within it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _scan(prefix: str, node: Any, graph: Any, backward: bool, ragged: bool) -> list[Any]:
    """The nodes that stand for one placeholder: a Scan, and what turns its rows or counts."""
    from onnx import compose, helper

    u, *state = node.input
    y, *after = node.output
    before: list[Any] = []
    behind: list[Any] = []
    options: dict[str, Any] = {}
    lengths = state.pop() if ragged else ""

    def make(operator: str, inputs: list[str], output: str, **attributes: Any) -> Any:
        return helper.make_node(operator, inputs, [output], **attributes)

    scanned, given = [u], y
    if backward and ragged:  # each row from its own end
        scanned, given = [f"{prefix}turned"], f"{prefix}turned_y"
        turned: dict[str, Any] = {"time_axis": 0, "batch_axis": 1}
        before.append(make("ReverseSequence", [u, lengths], scanned[0], **turned))
        behind.append(make("ReverseSequence", [given, lengths], y, **turned))
    elif backward:
        options = {"scan_input_directions": [1], "scan_output_directions": [1]}
    if ragged:  # the step, 0 to T − 1
        zero, one, T, t = (f"{prefix}{name}" for name in ("zero", "one", "T", "t"))
        before += [
            make("Constant", [], zero, value=helper.make_tensor(zero, INT64, [], [0])),
            make("Constant", [], one, value=helper.make_tensor(one, INT64, [], [1])),
            make("Shape", [u], f"{T}_as_list", start=0, end=1),
            make("Squeeze", [f"{T}_as_list"], T),
            make("Range", [zero, T, one], t),
        ]
        scanned.append(t)

    graph = compose.add_prefix_graph(graph, prefix)
    u_t, *rest = graph.input
    if ragged:
        *rest, step, known = rest
        for inner in graph.node:  # a graph within a graph sees the names around it
            for k, name in enumerate(inner.input):
                if name == known.name:
                    inner.input[k] = lengths
    order = [*rest, u_t, step] if ragged else [*rest, u_t]
    outputs = [*graph.output[1:], graph.output[0]]
    del graph.input[:], graph.output[:], graph.value_info[:]
    graph.input.extend(order)
    graph.output.extend(outputs)
    scan = helper.make_node(
        "Scan",
        [*state, *scanned],
        [*after, given],
        body=graph,
        num_scan_inputs=len(scanned),
        **options,
    )
    return [*before, scan, *behind]
