"""Every architecture, one file each, and the registry that names them.

Adding an architecture means one file here and one line in :data:`ARCHITECTURES`; the contract
(``tests/test_contract.py``) then applies to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from companion.cells.base import Cell, State, bind, flat_state, map_state
from companion.cells.gru import GRUCell
from companion.cells.initialize import spectral_radius
from companion.cells.lstm import LSTMCell
from companion.cells.vanilla import RNNCell

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "Cell",
    "GRUCell",
    "LSTMCell",
    "RNNCell",
    "State",
    "bind",
    "find",
    "flat_state",
    "map_state",
    "spectral_radius",
]


@dataclass(frozen=True)
class Architecture:
    """A cell with the options that make it this architecture.

    Args:
        cell: a subclass of :class:`companion.Cell`.
        options: keyword arguments the cell is always made with.
    """

    cell: type[Cell]
    options: Mapping[str, Any] = field(default_factory=dict)


ARCHITECTURES: dict[str, Architecture] = {
    "rnn": Architecture(RNNCell),
    "rnn_relu": Architecture(RNNCell, {"nonlinearity": "relu"}),
    "lstm": Architecture(LSTMCell),
    "lstm_1997": Architecture(LSTMCell, {"forget_gate": False}),
    "lstm_peephole": Architecture(LSTMCell, {"peephole": True}),
    "lstm_coupled": Architecture(LSTMCell, {"coupled": True}),
    "lstm_layer_norm": Architecture(LSTMCell, {"layer_norm": True}),
    "gru": Architecture(GRUCell),
    "gru_reset_before": Architecture(GRUCell, {"reset_after": False}),
}


def find(cell: str | type[Cell]) -> Architecture:
    """The architecture a name stands for, or the one made of a cell class alone.

    Raises:
        ValueError: if no architecture has this name.
        TypeError: if it is neither a name nor a subclass of Cell.
    """
    if isinstance(cell, str):
        if cell in ARCHITECTURES:
            return ARCHITECTURES[cell]
        raise ValueError(f"cell: expected one of {sorted(ARCHITECTURES)}, got {cell!r}")
    if isinstance(cell, type) and issubclass(cell, Cell):
        return Architecture(cell)
    raise TypeError(f"cell: expected a name or a subclass of Cell, got {cell!r}")
