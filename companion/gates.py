"""Gate orders of the libraries, and the way from one to another."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["GATE_ORDERS", "convert_gates"]

# Blocks along the gate dimension: i input, f forget, g candidate, o output; r reset, z update,
# n new. From torch's documentation, Keras' source, ONNX' operators.
GATE_ORDERS: dict[str, dict[str, str]] = {
    "lstm": {"torch": "ifgo", "keras": "ifgo", "onnx": "iofg"},
    "gru": {"torch": "rzn", "keras": "zrn", "onnx": "zrn"},
}


def convert_gates(w: Tensor, cell: str, source: str, target: str, dim: int = 0) -> Tensor:
    """Reorder the gate blocks of a weight or bias from one library's order to another's.

    Only the order changes. Keras also transposes its kernels (use ``dim=1`` on its side) and ONNX
    concatenates both biases. All three agree on the update gate: a GRU's new state is
    (1 − z) n + z h.

    Args:
        w: a tensor whose dimension ``dim`` holds the gates, one block after the other.
        cell: ``"lstm"`` or ``"gru"``.
        source, target: ``"torch"``, ``"keras"`` or ``"onnx"``.
        dim: the gate dimension.

    Returns:
        A new tensor of the same shape.

    Raises:
        TypeError: if w is no tensor, or dim no int.
        ValueError: if a name is unknown, or the dimension does not divide into the gates.

    Example:
        >>> w = torch.arange(6)  # two units: r r z z n n
        >>> convert_gates(w, "gru", "torch", "keras").tolist()
        [2, 3, 0, 1, 4, 5]
    """
    if not isinstance(w, Tensor):
        got = type(w).__name__
        raise TypeError(f"w: expected a tensor, got {got} (of an array make torch.as_tensor(w))")
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"dim: expected an int, got {dim!r}")
    if not isinstance(cell, str) or cell not in GATE_ORDERS:
        raise ValueError(f"cell: expected one of {sorted(GATE_ORDERS)}, got {cell!r}")
    orders = GATE_ORDERS[cell]
    for name, value in (("source", source), ("target", target)):
        if not isinstance(value, str) or value not in orders:
            raise ValueError(f"{name}: expected one of {sorted(orders)}, got {value!r}")
    if not -w.dim() <= dim < w.dim():
        raise ValueError(f"dim: expected a dimension of w, {w.dim()} in all, got {dim}")
    size, gates = w.shape[dim], orders[source]
    if size == 0 or size % len(gates):
        raise ValueError(f"w: expected {len(gates)} equal blocks in dimension {dim}, got {size}")
    blocks = dict(zip(gates, w.split(size // len(gates), dim), strict=True))
    return torch.cat([blocks[gate] for gate in orders[target]], dim)
