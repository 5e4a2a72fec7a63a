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
    GRUCell,
    IndRNNCell,
    LinearCell,
    LRUCell,
    LSTMCell,
    MinGRUCell,
    MinLSTMCell,
    QRNNCell,
    RGLRUCell,
    RNNCell,
    S4Cell,
    S4DCell,
    SRU2017Cell,
    SRUCell,
    spectral_radius,
)
from companion.exchange import from_torch, to_torch
from companion.gates import GATE_ORDERS, convert_gates
from companion.layers import Recurrence
from companion.linear_layers import LRU, RGLRU, MinGRU, MinLSTM
from companion.other_layers import QRNN, SRU, ClockworkRNN, IndRNN
from companion.reproduce import default_device, deterministic, seed_all
from companion.run.scan import scan
from companion.state_space_layers import S4, S4D
from companion.torch_names import GRU, LSTM, RNN
from companion.weight_drop import weight_drop

__all__ = [
    "ARCHITECTURES",
    "GATE_ORDERS",
    "GRU",
    "LRU",
    "LSTM",
    "QRNN",
    "RGLRU",
    "RNN",
    "S4",
    "S4D",
    "SRU",
    "Architecture",
    "Cell",
    "ClockworkRNN",
    "ClockworkRNNCell",
    "GRUCell",
    "IndRNN",
    "IndRNNCell",
    "LRUCell",
    "LSTMCell",
    "LinearCell",
    "MinGRU",
    "MinGRUCell",
    "MinLSTM",
    "MinLSTMCell",
    "QRNNCell",
    "RGLRUCell",
    "RNNCell",
    "Recurrence",
    "S4Cell",
    "S4DCell",
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
