"""Recurrent networks from scratch: cells, ways to run them along time, data and training.

A recurrent model is a step, ``y_t, state = step(x_t, state)``; everything else is a way of running
that step along time. The book that comes with this package builds each part and imports it from
here.
"""

# first of all, because of what it does when it is imported: Ctrl-C during the imports that follow
from companion import interrupts as interrupts
from companion.cells import (
    ARCHITECTURES,
    Architecture,
    Cell,
    ClockworkRNNCell,
    DeltaNetCell,
    GriffinCell,
    GRUCell,
    IndRNNCell,
    LinearAttentionCell,
    LinearCell,
    LRUCell,
    LSTMCell,
    Mamba2Cell,
    MambaCell,
    MatrixCell,
    MinGRUCell,
    MinLSTMCell,
    MLSTMCell,
    QRNNCell,
    RetNetCell,
    RGLRUCell,
    RNNCell,
    RWKV7Cell,
    RWKVCell,
    S4Cell,
    S4DCell,
    SLSTMCell,
    SRU2017Cell,
    SRUCell,
    spectral_radius,
)
from companion.exchange import from_torch, to_torch
from companion.gates import GATE_ORDERS, convert_gates
from companion.layers import Recurrence
from companion.linear_layers import LRU, RGLRU, Griffin, MinGRU, MinLSTM
from companion.matrix_layers import RWKV, RWKV7, DeltaNet, LinearAttention, RetNet
from companion.other_layers import QRNN, SRU, ClockworkRNN, IndRNN
from companion.reproduce import default_device, deterministic, seed_all
from companion.run.scan import scan
from companion.selective_layers import MLSTM, SLSTM, Mamba, Mamba2
from companion.state_space_layers import S4, S4D
from companion.torch_names import GRU, LSTM, RNN
from companion.weight_drop import weight_drop

__all__ = [
    "ARCHITECTURES",
    "GATE_ORDERS",
    "GRU",
    "LRU",
    "LSTM",
    "MLSTM",
    "QRNN",
    "RGLRU",
    "RNN",
    "S4",
    "S4D",
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
    "Griffin",
    "GriffinCell",
    "IndRNN",
    "IndRNNCell",
    "LRUCell",
    "LSTMCell",
    "LinearAttention",
    "LinearAttentionCell",
    "LinearCell",
    "MinGRU",
    "MinGRUCell",
    "MinLSTM",
    "MinLSTMCell",
    "MLSTMCell",
    "Mamba",
    "Mamba2",
    "Mamba2Cell",
    "MambaCell",
    "MatrixCell",
    "QRNNCell",
    "RGLRUCell",
    "RNNCell",
    "RWKV7Cell",
    "RWKVCell",
    "Recurrence",
    "S4Cell",
    "S4DCell",
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
