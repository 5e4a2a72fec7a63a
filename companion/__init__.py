"""Recurrent networks from scratch: cells, ways to run them along time, data and training.

A recurrent model is a step, ``y_t, state = step(x_t, state)``; everything else is a way of running
that step along time. The book that comes with this package builds each part and imports it from
here.
"""

from companion.cells import (
    ARCHITECTURES,
    Architecture,
    Cell,
    GRUCell,
    LSTMCell,
    RNNCell,
    spectral_radius,
)
from companion.gates import GATE_ORDERS, convert_gates
from companion.layers import Recurrence
from companion.reproduce import default_device, deterministic, seed_all
from companion.torch_names import GRU, LSTM, RNN

__all__ = [
    "ARCHITECTURES",
    "GATE_ORDERS",
    "GRU",
    "LSTM",
    "RNN",
    "Architecture",
    "Cell",
    "GRUCell",
    "LSTMCell",
    "RNNCell",
    "Recurrence",
    "convert_gates",
    "default_device",
    "deterministic",
    "seed_all",
    "spectral_radius",
]
__version__ = "0.1.0"
