"""Values in files that can only hold data: tensors as safetensors, the rest as JSON, no pickle."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter, OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["digest", "pack", "read", "unpack", "write", "write_bytes"]

DICTS: dict[str, type[dict[Any, Any]]] = {
    "dict": dict,
    "ordered": OrderedDict,
    "counter": Counter,  # the milestones of torch's MultiStepLR
}


def pack(value: Any, tensors: dict[str, Tensor], where: str) -> Any:
    """Turn a nested value into JSON's types, with the tensors put aside.

    Args:
        value: tensors, NumPy arrays, numbers, strings, None, and tuples, lists and dicts of such.
        tensors: the tensors are added here, each a contiguous copy of its own on the CPU.
        where: name of the value, for the tensors' names and for errors.

    Returns:
        What ``json`` can write, and :func:`unpack` turns into an equal value.

    Raises:
        TypeError: if there is something else in it, or a tensor that safetensors cannot hold.

    Example:
        >>> tensors = {}
        >>> pack(("a", [1.5, torch.ones(2)]), tensors, "state")
        {'tuple': ['a', [1.5, {'tensor': 'state.1.1'}]]}
        >>> list(tensors)
        ['state.1.1']
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, Tensor):
        return _pack_tensor(value, tensors, where)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        data = np.frombuffer(value.tobytes(), np.uint8).copy()
        name = _add(torch.from_numpy(data), tensors, where)
        return {"array": name, "dtype": value.dtype.str, "shape": list(value.shape)}
    if type(value) is list:
        return [pack(item, tensors, f"{where}.{n}") for n, item in enumerate(value)]
    if type(value) in (tuple, torch.Size):
        return {"tuple": pack(list(value), tensors, where)}
    for kind, dictionary in DICTS.items():
        if type(value) is dictionary:
            pairs = [
                [pack(key, tensors, where), pack(item, tensors, f"{where}.{key}".lstrip("."))]
                for key, item in value.items()
            ]
            return {kind: pairs}
    raise TypeError(
        f"{where}: a checkpoint holds tensors, arrays, numbers, strings, None, and tuples, lists "
        f"and dicts of such; got {type(value).__module__}.{type(value).__qualname__}"
    )


def unpack(value: Any, tensors: Mapping[str, Tensor], device: torch.device | str = "cpu") -> Any:
    """The value that :func:`pack` was given.

    Args:
        value: what ``pack`` returned.
        tensors: what it put aside.
        device: for the tensors that were not on the CPU.

    Returns:
        An equal value, of the same types.

    Example:
        >>> tensors = {}
        >>> unpack(pack({3: (float("inf"), None)}, tensors, "x"), tensors)
        {3: (inf, None)}
    """
    if isinstance(value, list):
        return [unpack(item, tensors, device) for item in value]
    if not isinstance(value, dict):
        return value
    kind = next(iter(value))
    if kind == "float":
        return float(value["float"])
    if kind == "tuple":
        return tuple(unpack(item, tensors, device) for item in value["tuple"])
    if kind == "array":
        data = tensors[value["array"]].numpy().tobytes()
        return np.frombuffer(data, value["dtype"]).reshape(value["shape"]).copy()
    if kind == "tensor":
        return _unpack_tensor(value, tensors, device)
    pairs = [(unpack(k, tensors), unpack(v, tensors, device)) for k, v in value[kind]]
    return DICTS[kind](dict(pairs))


def _pack_tensor(value: Tensor, tensors: dict[str, Tensor], where: str) -> dict[str, Any]:
    """Put a tensor aside; its layout in memory and whether it was on the CPU are part of it."""
    if torch.nn.parameter.is_lazy(value):
        raise TypeError(f"{where} has no shape yet: run the model on one batch first")
    if value.layout is not torch.strided or value.is_quantized or value.is_meta:
        kind = "quantized" if value.is_quantized else str(value.layout).removeprefix("torch.")
        kind = "meta" if value.is_meta else kind
        raise TypeError(
            f"{where} is a {kind} tensor, which safetensors cannot hold; keep it outside of what "
            "is saved, or make it dense"
        )
    note: dict[str, Any] = {}
    plain = value.detach()
    if not plain.is_contiguous() and plain.numel() == _extent(plain):
        # the same values in another order may be added in another order
        note["stride"] = list(plain.stride())
    if plain.is_complex():
        plain, note["complex"] = torch.view_as_real(plain.resolve_conj()), True
    if value.device.type != "cpu":
        note["moved"] = True
    copy = plain.to("cpu").clone(memory_format=torch.contiguous_format)
    return {"tensor": _add(copy, tensors, where), **note}


def _unpack_tensor(
    note: dict[str, Any], tensors: Mapping[str, Tensor], device: torch.device | str
) -> Tensor:
    value = tensors[note["tensor"]]
    if note.get("complex"):
        value = torch.view_as_complex(value)
    if "stride" in note:
        value = torch.empty_strided(value.shape, note["stride"], dtype=value.dtype).copy_(value)
    return value.to(device) if note.get("moved") else value


def _extent(value: Tensor) -> int:
    """How many places in memory a tensor reaches over, from its first to its last."""
    return 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))


def _add(value: Tensor, tensors: dict[str, Tensor], where: str) -> str:
    name = where if where not in tensors else f"{where}#{len(tensors)}"
    tensors[name] = value
    return name


def write(path: Path, value: Any) -> str:
    """Write a nested value into one safetensors file, safely on the disk; return its digest."""
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    plain = json.dumps(pack(value, tensors, ""), allow_nan=False)
    return write_bytes(path, save(tensors, metadata={"plain": plain}))


def read(path: Path, device: torch.device | str = "cpu") -> Any:
    """Read back what :func:`write` wrote."""
    from safetensors import safe_open

    with safe_open(path, framework="pt", device="cpu") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        plain = json.loads(file.metadata()["plain"])
    return unpack(plain, tensors, device)


def write_bytes(path: Path, data: bytes) -> str:
    """Write a file and wait until the disk has it; return its digest."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
