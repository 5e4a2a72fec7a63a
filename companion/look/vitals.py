"""Instruments of the doctor: rows and targets of a batch, bytes and seconds of a call."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from companion.train.batches import Buffers, modes, to_device
from companion.train.truncated import tensors_in

__all__ = [
    "cut_rows",
    "mapped",
    "on_device",
    "rows_of",
    "saved_bytes",
    "seconds_of",
    "target_of",
    "undisturbed",
]


@contextlib.contextmanager
def undisturbed(model: nn.Module, *, training: bool) -> Iterator[None]:
    """Within it a model may run; modes, buffers and the random numbers to come stay as they were.

    The random numbers are those of torch, of Python, and of generators that a module keeps.

    Example:
        >>> net = nn.BatchNorm1d(1)
        >>> with undisturbed(net, training=True):
        ...     _ = net(torch.rand(4, 1))
        >>> net.num_batches_tracked.item()
        0
    """
    before, pythons = Buffers(model), random.getstate()
    kept = [g for m in model.modules() for g in vars(m).values() if isinstance(g, torch.Generator)]
    states = [generator.get_state() for generator in kept]
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    try:
        with torch.random.fork_rng(sorted(devices, key=str)), modes(model, training=training):
            yield
    finally:
        before.restore()
        random.setstate(pythons)
        for generator, state in zip(kept, states, strict=True):
            generator.set_state(state)


def on_device(model: nn.Module, batch: Any) -> Any:
    """The batch where the model is."""
    first = next(model.parameters(), None)
    return batch if first is None else to_device(batch, first.device)


def target_of(scores: Tensor | None, batch: Any) -> Tensor | None:
    """Of a batch the last tensor that scores can be compared with: classes, or values.

    Example:
        >>> target_of(torch.zeros(2, 5), (torch.zeros(2, 7).long(), torch.tensor([3, 1]))).tolist()
        [3, 1]
    """
    fitting = None
    if scores is None:
        return None
    for tensor in tensors_in(batch):
        values = tensor.is_floating_point()
        if tensor.shape == (scores.shape if values else scores.shape[:-1]):
            fitting = tensor
    return fitting


def rows_of(batch: Any) -> int | None:
    """B, if all tensors of the batch have it as their first size."""
    sizes = {t.shape[0] if t.dim() else None for t in tensors_in(batch)}
    return sizes.pop() if len(sizes) == 1 else None


def cut_rows(batch: Any, rows: int | Tensor) -> Any:
    """The first rows of a batch, or those of the indices; the batch where they cannot be told.

    Example:
        >>> cut_rows((torch.zeros(3, 2), [2, 1, 2]), torch.tensor([1]))
        (tensor([[0., 0.]]), [1])
    """
    B = rows_of(batch)
    if B is None:
        return batch
    index = slice(rows) if isinstance(rows, int) else rows
    numbers = torch.arange(B)[index].tolist()

    def pick(values: list[Any]) -> list[Any]:
        return [values[n] for n in numbers] if len(values) == B else values

    return mapped(batch, lambda t: t[index], pick)


def mapped(
    batch: Any,
    change: Callable[[Tensor], Tensor],
    change_list: Callable[[list[Any]], list[Any]] = list,
) -> Any:
    """The batch with each of its tensors changed, and each of its lists of numbers or texts."""
    if isinstance(batch, Tensor):
        return change(batch)
    if isinstance(batch, dict):
        return {key: mapped(value, change, change_list) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(mapped(value, change, change_list) for value in batch))
    if isinstance(batch, list) and all(isinstance(v, int | float | str) for v in batch):
        return change_list(batch)  # lengths are often such a list
    if isinstance(batch, tuple | list):
        return type(batch)(mapped(value, change, change_list) for value in batch)
    return batch


def saved_bytes(model: nn.Module, call: Callable[[], Any]) -> int:
    """Bytes that a call keeps for the backward pass, the model's weights aside."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with undisturbed(model, training=True), torch.enable_grad():
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            alive = call()  # noqa: F841  an address must stay taken while others are counted
    return sum(kept.values())


def seconds_of(call: Callable[[], object], times: int = 3) -> float:
    """The shortest of several durations of a call, after one that is not counted."""
    call()
    return min(_timed(call) for _ in range(times))


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start
