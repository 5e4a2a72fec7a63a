"""torch's exporter to ONNX, quiet, and with what was to stay open checked to be open."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from companion.onnx_parts import OPSET

__all__ = ["Names", "exported"]


class Names(NamedTuple):
    """What an ONNX file takes and gives, by name.

    Args:
        inputs: the input; ``"lengths"`` where it was asked for; ``"state_0"``, ….
        outputs: ``"y"``; ``"next_state_0"``, …, which are given as ``"state_0"``, … to go on.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def exported(
    module: nn.Module, args: tuple[Tensor, ...], sizes: list[dict[int, Any]], names: Names
) -> Any:
    """What torch's exporter makes of a module f(x, *rest), with these sizes of each left open."""
    x, *rest = sizes
    try:
        with _quiet(), torch.no_grad():
            proto = torch.onnx.export(
                module.eval(),
                args,
                dynamo=True,
                input_names=names.inputs,
                output_names=names.outputs,
                dynamic_shapes=(x, tuple(rest)) if rest else (x,),
                opset_version=OPSET,
                external_data=False,
                verbose=False,
            ).model_proto  # type: ignore[union-attr]
    except torch.onnx.OnnxExporterError as error:
        raise ValueError(f"model: torch cannot export it: {error.__cause__ or error}") from error
    for value, axes in zip(proto.graph.input, sizes, strict=True):
        for axis in axes:
            if dim := value.type.tensor_type.shape.dim[axis].dim_value:
                raise ValueError(
                    f"model: expected any size in dimension {axis} of {value.name}, but the model "
                    f"runs with {dim} alone; does it read the size with len() or int()?"
                )
    return proto


# what the exporter says of its own parts, by the loggers that say it
REMARKS = {
    "torch.onnx._internal.exporter._registration": "torchvision is not installed",
    "onnxscript.optimizer._constant_folding": "Skipping constant folding",
}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says of its own parts, whatever the model."""

    def tells(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(REMARKS[record.name])

    loggers = [logging.getLogger(name) for name in REMARKS]
    for logger in loggers:
        logger.addFilter(tells)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*isinstance.treespec, LeafSpec.*", FutureWarning)
            warnings.filterwarnings("ignore", "# The axis name: ", UserWarning)
            yield
    finally:
        for logger in loggers:
            logger.removeFilter(tells)
