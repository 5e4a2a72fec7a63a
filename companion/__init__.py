"""Recurrent networks from scratch: cells, ways to run them along time, data and training.

A recurrent model is a step, ``y_t, state = step(x_t, state)``; everything else is a way of running
that step along time. The book that comes with this package builds each part and imports it from
here.
"""

from companion.cells import (
    ARCHITECTURES,
    Architecture,
    Cell,
    ClockworkRNNCell,
    DeltaNetCell,
    GRUCell,
    IndRNNCell,
    LinearAttentionCell,
    LinearCell,
    LSTMCell,
    Mamba2Cell,
    MambaCell,
    MatrixCell,
    MLSTMCell,
    QRNNCell,
    RetNetCell,
    RNNCell,
    RWKV7Cell,
    RWKVCell,
    SLSTMCell,
    SRU2017Cell,
    SRUCell,
    spectral_radius,
)
from companion.exchange import from_torch, to_torch
from companion.gates import GATE_ORDERS, convert_gates
from companion.layers import Recurrence
from companion.matrix_layers import RWKV, RWKV7, DeltaNet, LinearAttention, RetNet
from companion.other_layers import QRNN, SRU, ClockworkRNN, IndRNN
from companion.reproduce import default_device, deterministic, seed_all
from companion.run.scan import scan
from companion.selective_layers import MLSTM, SLSTM, Mamba, Mamba2
from companion.torch_names import GRU, LSTM, RNN
from companion.weight_drop import weight_drop

__all__ = [
    "ARCHITECTURES",
    "GATE_ORDERS",
    "GRU",
    "LSTM",
    "MLSTM",
    "QRNN",
    "RNN",
    "RWKV",
    "RWKV7",
    "SLSTM",
    "SRU",
    "Architecture",
    "Cell",
    "ClockworkRNN",
    "ClockworkRNNCell",
    "DeltaNet",
    "DeltaNetCell",
    "GRUCell",
    "IndRNN",
    "IndRNNCell",
    "LSTMCell",
    "LinearAttention",
    "LinearAttentionCell",
    "LinearCell",
    "MLSTMCell",
    "Mamba",
    "Mamba2",
    "Mamba2Cell",
    "MambaCell",
    "MatrixCell",
    "QRNNCell",
    "RNNCell",
    "RWKV7Cell",
    "RWKVCell",
    "Recurrence",
    "RetNet",
    "RetNetCell",
    "SLSTMCell",
    "SRU2017Cell",
    "SRUCell",
    "convert_gates",
    "default_device",
    "deterministic",
    "from_torch",
    "scan",
    "seed_all",
    "spectral_radius",
    "to_torch",
    "weight_drop",
]
__version__ = "0.1.0"
