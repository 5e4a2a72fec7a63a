"""A stream through a file of ONNX."""

from __future__ import annotations

import importlib.util
import json
import os
from typing import Any

import numpy as np

from companion.checks import check_size

__all__ = ["OnnxStream"]


class OnnxStream:
    """A stream through an ONNX file of :func:`to_onnx`: the state stays here between the calls.

    Called with the next input, an array, a single step or a piece of a sequence as the file has
    it, it gives the output. ``state`` holds the arrays by name; none is changed in place, so that
    what was kept of an earlier one can be put back.

    Args:
        path: of the file; one that has a state, without lengths.
        batch_size: number of streams that run side by side.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if the file has no state, or was not written by :func:`to_onnx`.
        ImportError: if onnxruntime is missing.

    Example:
        >>> import companion, tempfile, torch
        >>> from companion.export import to_onnx
        >>> path, gru = os.path.join(tempfile.mkdtemp(), "gru.onnx"), companion.GRU(3, 4)
        >>> _ = to_onnx(gru, path, form="step")
        >>> stream = OnnxStream(path)
        >>> [stream(torch.zeros(1, 3).numpy()).shape for _ in range(2)]
        [(1, 4), (1, 4)]
    """

    def __init__(self, path: str | os.PathLike[str], batch_size: int = 1) -> None:
        check_size("batch_size", batch_size)
        if importlib.util.find_spec("onnxruntime") is None:
            raise ImportError('onnxruntime is missing; pip install -e ".[export]"')
        import onnxruntime

        self.session = onnxruntime.InferenceSession(
            os.fspath(path), providers=["CPUExecutionProvider"]
        )
        about = self.session.get_modelmeta().custom_metadata_map.get("companion")
        self.about = {} if about is None else json.loads(about)
        if not self.about.get("axes"):
            raise ValueError(f"path: expected a file of to_onnx with a state, got {path}")
        self.input, *rest = self.session.get_inputs()
        if any(i.name == "lengths" for i in rest):
            raise ValueError(f"path: expected a file that takes no lengths, got {path}")
        self.batch_size = batch_size
        self.state: dict[str, Any] = {}
        self.restart()

    def restart(self, rows: Any = slice(None)) -> None:
        """Set the state to the initial one, in all streams or in those of these indices."""
        if not isinstance(rows, slice) and np.ndim(rows) == 0:
            rows = [rows]
        changed = {}
        known = zip(self.about["axes"], self.about["initial"], strict=True)
        for k, (axis, row) in enumerate(known):
            values = np.asarray(row["values"], np.float32)
            start = np.expand_dims(np.broadcast_to(values, row["shape"]), axis)
            if (before := self.state.get(f"state_{k}")) is None:
                before = np.repeat(start, self.batch_size, axis)
            after = before.copy()
            after[(slice(None),) * axis + (rows,)] = start
            changed[f"state_{k}"] = after
        self.state = changed

    def __call__(self, x: Any) -> Any:
        """The next input, an array, gives the next output."""
        x, rows, dims = np.asarray(x), self.about["rows"], len(self.input.shape)
        if x.ndim != dims or x.shape[rows] != self.batch_size:
            raise ValueError(
                f"x: expected {dims} dimensions, with {self.batch_size} (batch_size) in dimension "
                f"{rows}, got {x.shape}"
            )
        kind = np.int64 if self.input.type == "tensor(int64)" else np.float32
        x = x.astype(kind, casting="same_kind", copy=False)
        y, *after = self.session.run(None, {self.input.name: x, **self.state})
        self.state = {f"state_{k}": s for k, s in enumerate(after)}
        return y
