"""Weights, files and states that these tests share."""

from __future__ import annotations

import ast
import importlib.util
import sys
from importlib.metadata import distribution
from types import ModuleType

import torch
from torch import Tensor, nn

B, T = 2, 11


def moved(layer: nn.Module) -> nn.Module:
    """The layer, every weight off its start: none that is 0 or 1, or the same as its neighbor."""
    with torch.no_grad():
        for w in layer.parameters():
            w.add_(0.3 * torch.randn_like(w))
    return layer


def weights(layer: nn.Module) -> dict[str, Tensor]:
    """Those of the first layer, by the names of the cell."""
    return {n.removesuffix("_l0"): w.detach() for n, w in layer.named_parameters()}


def given(peer: nn.Module, table: dict[str, Tensor]) -> nn.Module:
    """The peer in float64 with the weights of the table, which must name every one of them."""
    peer.double().load_state_dict(table)
    return peer.eval()


def steps(layer: nn.Module, x: Tensor) -> Tensor:
    """One step after the other."""
    state, outputs = layer.initial_state(len(x)), []
    for x_t in x.unbind(1):
        y, state = layer.step(x_t, state)
        outputs.append(y)
    return torch.stack(outputs, 1)


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def located(library: str, path: str) -> str:
    """Where a file of an installed library lies."""
    return str(distribution(library).locate_file(path))


def load_file(library: str, path: str) -> ModuleType:
    """A file, or a folder's package, without the package that it lies in.

    That may want Triton, a compiler, or libraries that this file does not need.
    """
    name = path.replace("/", "_").replace(".", "_")
    package = path.endswith("__init__.py")
    where = located(library, path)
    spec = importlib.util.spec_from_file_location(
        name,
        where,
        submodule_search_locations=[where.removesuffix("/__init__.py")] if package else None,
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if package:
        sys.modules[name] = module  # its relative imports look there
    spec.loader.exec_module(module)
    return module


def load_class(library: str, path: str, name: str, **names: object) -> type:
    """One class of a file whose imports are not all there; ``names`` are what it uses of them."""
    with open(located(library, path), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    space: dict[str, object] = dict(names)
    exec(compile(ast.Module([found], []), path, "exec"), space)
    return space[name]  # type: ignore[return-value]
