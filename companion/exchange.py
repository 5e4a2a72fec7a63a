"""From torch.nn's recurrent modules to ours, and back."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from companion.cells import Cell, GRUCell, LSTMCell, RNNCell
from companion.layers import Recurrence
from companion.torch_names import GRU, LSTM, RNN

__all__ = ["from_torch", "to_torch"]

PAIRS: list[tuple[type[nn.Module], type[nn.Module]]] = [
    (nn.RNN, RNN),
    (nn.LSTM, LSTM),
    (nn.GRU, GRU),
    (nn.RNNCell, RNNCell),
    (nn.LSTMCell, LSTMCell),
    (nn.GRUCell, GRUCell),
]
SHARED = ("nonlinearity", "proj_size", "num_layers", "batch_first", "dropout", "bidirectional")
# what torch.nn cannot express, with the only value it can
OURS = {
    "peephole": False,
    "coupled": False,
    "layer_norm": False,
    "forget_gate": True,
    "reset_after": True,
    "recurrent_dropout": 0.0,
    "zoneout": (),
}


def from_torch(module: nn.Module) -> Recurrence | Cell:
    """Our layer or cell with the options and a copy of the weights of one of torch.nn.

    Args:
        module: a ``torch.nn.RNN``, ``LSTM``, ``GRU``, or one of their cells.

    Returns:
        A new :class:`companion.RNN`, :class:`companion.LSTM`, … on the same device, in the same
        mode, with the same parameters requiring gradients. Of a weight that a parametrization or a
        hook computes, the value in evaluation is taken; tied weights are copied apart.

    Raises:
        TypeError: if it is none of these.

    Example:
        >>> import torch
        >>> gru = from_torch(torch.nn.GRU(3, 4, num_layers=2))
        >>> gru
        GRU(3, 4, num_layers=2)
    """
    return _convert("module", module, dict(PAIRS))


def to_torch(layer: Recurrence | Cell) -> nn.Module:
    """The module of torch.nn with the options and a copy of the weights of one of ours.

    Args:
        layer: a :class:`companion.RNN`, :class:`companion.LSTM`, :class:`companion.GRU`, or one
            of their cells.

    Returns:
        A new ``torch.nn`` module on the same device, in the same mode, with the same parameters
        requiring gradients.

    Raises:
        TypeError: if it is none of these.
        ValueError: if it uses what torch.nn does not have, such as peepholes.

    Example:
        >>> import companion
        >>> to_torch(companion.LSTM(3, 4, proj_size=2))
        LSTM(3, 4, proj_size=2)
    """
    module = _convert("layer", layer, {ours: theirs for theirs, ours in PAIRS})
    if isinstance(module, nn.RNNBase):
        module.flatten_parameters()
    return module


def _convert(name: str, module: Any, table: dict[Any, Any]) -> Any:
    base, training = type(module), getattr(module, "training", True)
    if nn.utils.parametrize.is_parametrized(module):
        base = base.__mro__[1]  # of the class that torch makes for it
    if base not in table:
        known = ", ".join(f"{cls.__module__.split('.')[0]}'s {cls.__name__}" for cls in table)
        raise TypeError(f"{name}: expected one of {known}, got {type(module).__name__}")
    equations = module._cells[0] if isinstance(module, Recurrence) else module
    for option, only in OURS.items():
        for holder in (module, equations):
            if getattr(holder, option, only) != only:
                value = getattr(holder, option)
                raise ValueError(f"{name}: torch.nn.{base.__name__} has no {option}={value!r}")
    options = {n: getattr(module, n) for n in SHARED if hasattr(module, n)}
    if not options.get("proj_size"):
        options.pop("proj_size", None)
    elif base is LSTMCell:
        raise ValueError(f"{name}: torch.nn.LSTMCell has no proj_size={options['proj_size']}")
    dropout = options.pop("dropout", None)  # with one layer it would warn
    if nn.utils.parametrize.is_parametrized(module):
        module = copy.deepcopy(module).eval()  # nothing random is frozen in
    first = module.weight_ih_l0 if hasattr(module, "weight_ih_l0") else module.weight_ih
    made = table[base](
        module.input_size,
        module.hidden_size,
        bias=bool(module.bias),
        device="meta",  # where nothing is drawn
        dtype=first.dtype,
        **options,
    ).to_empty(device=first.device)
    if dropout is not None:
        made.dropout = dropout
    for n, empty in made.named_parameters():
        w = getattr(module, n)  # a value, whether a parametrization or a hook computes it
        empty.requires_grad_(w.requires_grad).data.copy_(w.detach())
    return made.train(training)
