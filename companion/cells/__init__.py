"""Every architecture, one file each, and the registry that names them.

Adding an architecture means one file here and one line in :data:`ARCHITECTURES`; the contract
(``tests/test_contract.py``) then applies to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from companion.cells.base import Cell, State, bind, flat_state, map_state
from companion.cells.clockwork import ClockworkRNNCell
from companion.cells.deltanet import DeltaNetCell
from companion.cells.griffin import GriffinCell, RGLRUCell
from companion.cells.gru import GRUCell
from companion.cells.indrnn import IndRNNCell
from companion.cells.initialize import spectral_radius
from companion.cells.linear import LinearCell
from companion.cells.linear_attention import LinearAttentionCell
from companion.cells.lru import LRUCell
from companion.cells.lstm import LSTMCell
from companion.cells.mamba import Mamba2Cell, MambaCell
from companion.cells.matrix import MatrixCell
from companion.cells.minimal import MinGRUCell, MinLSTMCell
from companion.cells.qrnn import QRNNCell
from companion.cells.retnet import RetNetCell
from companion.cells.rwkv import RWKV7Cell, RWKVCell
from companion.cells.s4 import S4Cell
from companion.cells.s4d import S4DCell
from companion.cells.sru import SRU2017Cell, SRUCell
from companion.cells.vanilla import RNNCell
from companion.cells.xlstm import MLSTMCell, SLSTMCell

__all__ = [
    "ARCHITECTURES",
    "Architecture",
    "Cell",
    "ClockworkRNNCell",
    "DeltaNetCell",
    "GRUCell",
    "GriffinCell",
    "IndRNNCell",
    "LRUCell",
    "LSTMCell",
    "LinearAttentionCell",
    "LinearCell",
    "MinGRUCell",
    "MinLSTMCell",
    "MLSTMCell",
    "Mamba2Cell",
    "MambaCell",
    "MatrixCell",
    "QRNNCell",
    "RGLRUCell",
    "RNNCell",
    "S4Cell",
    "S4DCell",
    "RWKV7Cell",
    "RWKVCell",
    "RetNetCell",
    "SLSTMCell",
    "SRU2017Cell",
    "SRUCell",
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

    def __post_init__(self) -> None:
        """Raise for what cannot be made."""
        if not (isinstance(self.cell, type) and issubclass(self.cell, Cell)):
            raise TypeError(f"cell: expected a subclass of Cell, got {self.cell!r}")
        if not isinstance(self.options, Mapping):
            raise TypeError(f"options: expected a mapping, got {type(self.options).__name__}")


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
    "indrnn": Architecture(IndRNNCell),
    "qrnn": Architecture(QRNNCell),
    "qrnn_f": Architecture(QRNNCell, {"pooling": "f"}),
    "qrnn_ifo": Architecture(QRNNCell, {"pooling": "ifo"}),
    "sru": Architecture(SRUCell),
    "sru_2017": Architecture(SRU2017Cell),
    "clockwork": Architecture(ClockworkRNNCell),
    "mingru": Architecture(MinGRUCell),
    "mingru_positive": Architecture(MinGRUCell, {"positive": True}),
    "minlstm": Architecture(MinLSTMCell),
    "lru": Architecture(LRUCell),
    "s4d": Architecture(S4DCell),
    "s4": Architecture(S4Cell),
    "rglru": Architecture(RGLRUCell),
    "griffin": Architecture(GriffinCell),
    "linear_attention": Architecture(LinearAttentionCell),
    "linear_attention_sum": Architecture(LinearAttentionCell, {"normalize": False}),
    "retnet": Architecture(RetNetCell),
    "retnet_scored": Architecture(RetNetCell, {"normalize_score": True}),
    "mamba": Architecture(MambaCell),
    "mamba_zoh": Architecture(MambaCell, {"discretization": "zoh"}),
    "mamba2": Architecture(Mamba2Cell),
    "deltanet": Architecture(DeltaNetCell),
    "deltanet_gated": Architecture(DeltaNetCell, {"gated": True}),
    "mlstm": Architecture(MLSTMCell),
    "slstm": Architecture(SLSTMCell),
    "rwkv4": Architecture(RWKVCell),
    "rwkv7": Architecture(RWKV7Cell),
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
