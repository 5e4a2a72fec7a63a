"""Models as ONNX files, which run without Python and without this package; weights in int8."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from companion.attention.causal import CausalAttention
from companion.checks import check_flag
from companion.layers import Recurrence
from companion.onnx_exporter import Names, exported
from companion.onnx_graphs import finish, with_int8, with_scans
from companion.onnx_parts import Update, freeze, ours, prepared
from companion.onnx_stream import OnnxStream
from companion.quantize import quantized
from companion.train.storage import write_bytes

__all__ = ["Names", "OnnxStream", "quantized", "to_onnx"]

FORMS = ("sequence", "step")
B, T = 5, 7  # of the example: sizes that no other dimension is likely to have
NEEDED = ("onnx", "onnxscript")


def to_onnx(
    model: nn.Module,
    path: str | os.PathLike[str],
    *,
    form: str = "sequence",
    lengths: bool = False,
    int8: bool = False,
    example: Tensor | None = None,
) -> Names:
    r"""Write a model to an ONNX file, in float32 and evaluation mode.

    The sizes of batch and time stay open. A model with a state takes it and gives the next one,
    so that a runtime can go on where it stopped: pieces of a sequence, down to single steps, give
    what the whole gives. RNN, LSTM and GRU, with peepholes or coupled gates as well, become the
    operators of that name, every other cell a Scan around its update.

    Args:
        model: a recurrent layer of this package or of torch.nn, a model of ``companion.models``,
            or a module made of such; one without a state of its own starts from the initial one.
        path: of the file; what is there is replaced when the new one is whole.
        form: ``"sequence"``: ``model(x)``, the whole sequence; ``"step"``: ``model.step(x_t)``,
            one step, without a dimension of time.
        lengths: whether the file takes the lengths of the rows, int64 (B,), as well.
        int8: whether the matrices of products, and embeddings, are stored in 8 bits, with one
            scale for each output unit (of a recurrence: of each unit of a gate); decays and what
            has under 1024 numbers are not. A runtime reads them as float32: a quarter of the
            room; long sequences are as fast, single steps slower.
        example: an input, where the model does not say by ``input_size`` or ``vocab_size`` what
            it takes; batch first.

    Returns:
        The names of what the file takes and gives.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or value, or the model does
            something that ONNX has no form for.
        ImportError: if the packages of the extra ``export`` are missing.
        OSError: if the file cannot be written there.
        RuntimeError: if torch is older than 2.8.

    Shapes:
        as of ``model(x)`` and ``model.step(x_t)``; of a state as ``model.initial_state(B)`` has
        them.

    Example:
        >>> import companion, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "gru.onnx")
        >>> to_onnx(companion.GRU(3, 4), path).inputs
        ('input', 'state_0')
    """
    file = _file(path)
    _check(model, form, lengths, int8, example)
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        names, proto = _made(model, form, lengths, int8, example)
    _write(file, proto)
    return names


def _made(
    model: Any, form: str, lengths: bool, int8: bool, example: Tensor | None
) -> tuple[Names, Any]:
    """The names, and what is written."""
    model = ours(copy.deepcopy(model)).cpu().float().eval()
    for module in list(model.modules()):
        if isinstance(module, Recurrence):
            freeze(module)
    call: Any = model.step if form == "step" else model.forward
    name = next(iter(inspect.signature(call).parameters))
    x, open_sizes = _example(model, form, example)
    rows = next(d for d, size in open_sizes.items() if size.__name__ == "batch")
    n = x.shape[rows]
    state = model.initial_state(n) if hasattr(model, "initial_state") else ()
    parts = _flat(state)
    names = Names(
        (name, *(["lengths"] if lengths else []), *(f"state_{k}" for k in range(len(parts)))),
        ("y", *(f"next_state_{k}" for k in range(len(parts)))),
    )
    batch = _open("batch")
    axes = _batch_axes(model) if parts else []
    starts = [_start(p.select(a, 0)) for p, a in zip(parts, axes, strict=True)]
    updates: list[Update] = []
    if form == "sequence":
        model, updates = prepared(model)
    proto = exported(
        _Flat(model, form, state, lengths),
        (x, *([torch.full((n,), x.shape[1 - rows])] if lengths else []), *parts),
        [open_sizes, *([{0: batch}] if lengths else []), *({a: batch} for a in axes)],
        names,
    )
    with_scans(proto, lambda k, ragged: _body(updates[k], ragged))
    if int8:
        with_int8(proto)
    about = {"form": form, "rows": rows, "axes": axes, "initial": starts}
    return names, finish(proto, json.dumps(about))


class _Flat(nn.Module):
    """A model whose state comes and goes tensor by tensor."""

    def __init__(self, model: nn.Module, form: str, state: Any, lengths: bool) -> None:
        super().__init__()
        self.model, self.form, self.state, self.lengths = model, form, state, lengths

    def forward(self, x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """The input, lengths if there are any, and the tensors of the state."""
        call: Any = self.model.step if self.form == "step" else self.model
        given: dict[str, Any] = {}
        if self.lengths:
            given["lengths"], *rest = rest  # type: ignore[assignment]
        if not rest:
            y = call(x, **given)
            return (y[0] if isinstance(y, tuple) else y,)
        y, after = call(x, _like(self.state, iter(rest)), **given)
        return (y, *_flat(after))


def _flat(state: Any) -> list[Tensor]:
    """The tensors of a state, however deep the tuples."""
    if isinstance(state, tuple | list):
        return [tensor for part in state for tensor in _flat(part)]
    return [state]


def _like(state: Any, tensors: Iterator[Tensor]) -> Any:
    """The tensors in the tuples of a state."""
    if isinstance(state, tuple | list):
        return tuple(_like(part, tensors) for part in state)
    return next(tensors)


def _start(row: Tensor) -> dict[str, Any]:
    """The initial state of one stream, as JSON has it."""
    return {"shape": list(row.shape), "values": row.tolist() if row.any() else 0}


def _batch_axes(model: Any) -> list[int]:
    """Which dimension of each tensor of a state is the batch."""
    one, two = (_flat(model.initial_state(n)) for n in (1, 2))
    return [
        next(d for d in range(a.dim()) if a.shape[d] != b.shape[d])
        for a, b in zip(one, two, strict=True)
    ]


def _example(model: Any, form: str, example: Tensor | None) -> tuple[Tensor, dict[int, Any]]:
    """An input, and which of its sizes are left open."""
    batch, time = _open("batch"), _open("time")
    step = form == "step"
    time_first = isinstance(model, Recurrence) and not model.batch_first
    axes = {0: batch} if step else {0: time, 1: batch} if time_first else {0: batch, 1: time}
    if example is not None:
        if example.dim() < len(axes):
            raise ValueError(
                f"example: expected at least {len(axes)} dimensions, got {tuple(example.shape)}"
            )
        x = example.detach().cpu()
        for axis in axes:  # the exporter takes a size of 1 for one that is always 1
            x = torch.cat([x, x], axis) if x.shape[axis] == 1 else x
        return x.float() if x.is_floating_point() else x, axes
    lead = (B,) if step else (T, B) if time_first else (B, T)
    new: dict[str, Any] = {"device": "cpu"}  # whatever the default is
    if hasattr(model, "vocab_size"):
        return torch.zeros(lead, **new, dtype=torch.int64), axes
    if hasattr(model, "vocab_sizes"):
        tail = (len(model.vocab_sizes),) if model.features else ()
        return torch.zeros((*lead, *tail), **new, dtype=torch.int64), axes
    size = model.horizon.columns if hasattr(model, "horizon") else model.input_size
    return torch.zeros(*lead, size, **new, dtype=torch.float32), axes


def _open(name: str) -> Any:
    return torch.export.Dim(name)


def _body(update: Update, ragged: bool) -> Any:
    """The ONNX model of one update."""
    update.ragged = ragged
    u, state = update.example(B)
    batch, count = {0: _open("batch")}, range(len(state))
    more = [torch.tensor(0), torch.full((B,), T)] if ragged else []
    return exported(
        update,
        (u, *state, *more),
        [batch, *(batch for _ in count), *([{}, batch] if ragged else [])],
        Names(
            ("u", *(f"s_{k}" for k in count), *(("t", "lengths") if ragged else ())),
            ("y", *(f"next_{k}" for k in count)),
        ),
    )


def _file(path: Any) -> Path:
    """The path of a file that can be there."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path: expected the path of a file, got {type(path).__name__}")
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"path: expected the path of a file, got the folder {file}")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"path: there is no folder {file.parent}")
    return file


def _check(model: Any, form: Any, lengths: Any, int8: Any, example: Any) -> None:
    """Raise for what is no model that can be written so, or where a package is missing."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a module, got {type(model).__name__}")
    if form not in FORMS:
        raise ValueError(f"form: expected one of {', '.join(map(repr, FORMS))}, got {form!r}")
    check_flag("lengths", lengths)
    check_flag("int8", int8)
    if example is not None and not isinstance(example, Tensor):
        raise TypeError(f"example: expected a tensor, got {type(example).__name__}")
    steps = hasattr(model, "step") or isinstance(model, nn.RNNBase)
    if form == "step" and (lengths or not steps):
        what = "lengths: one step has none" if lengths else f"{type(model).__name__} has no step"
        raise ValueError(f'form: expected "sequence", got "step"; {what}')
    for module in model.modules():
        if form == "step" and getattr(module, "bidirectional", False):
            raise ValueError('form: expected "sequence", got "step"; both directions need the end')
        if isinstance(module, CausalAttention):
            raise ValueError(
                "model: expected recurrences, got one with attention, whose cache grows with "
                "every step"
            )
    known = any(hasattr(model, n) for n in ("vocab_size", "vocab_sizes", "horizon", "input_size"))
    if example is None and not known:
        raise ValueError(
            f"example: expected an input, since {type(model).__name__} does not say what it takes"
        )
    if importlib.util.find_spec("torch.onnx.ops") is None:
        raise RuntimeError(f"to_onnx needs torch 2.8 or later, this is {torch.__version__}")
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f'{", ".join(missing)}: missing; pip install -e ".[export]"')
    importlib.import_module("torch.onnx.ops")


def _write(path: Path, proto: Any) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        write_bytes(partial, proto.SerializeToString())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
