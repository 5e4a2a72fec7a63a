"""Batches on their way through the loop: to the device, and into averages."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Average", "Buffers", "give", "modes", "set_tensors", "tensors_of", "to_device"]


def to_device(batch: Any, device: torch.device | str) -> Any:
    """Move every tensor of a batch, however nested, to a device.

    Args:
        batch: a tensor, a PackedSequence, or tuples, namedtuples, lists and mappings of these.
            Anything else (strings, numbers, None, dataclasses) passes as it is.
        device: where to.

    Returns:
        the same structure; the given one is unchanged. Subclasses of ``dict`` and ``UserDict``
        (``OrderedDict``, ``defaultdict``) keep their type, other mappings become a ``dict``.

    Example:
        >>> x, extra = to_device((torch.zeros(2), {"names": ["Li", "Ng"]}), "cpu")
        >>> x.device.type, extra["names"]
        ('cpu', ['Li', 'Ng'])
    """
    if isinstance(batch, torch.Tensor | nn.utils.rnn.PackedSequence):
        return batch.to(torch.device(device))  # type: ignore[arg-type]  # PackedSequence's stub
    if isinstance(batch, Mapping):
        moved = {key: to_device(value, device) for key, value in batch.items()}
        if type(batch) is dict or not isinstance(batch, dict | UserDict):
            return moved
        same = copy.copy(batch)  # knows what the constructor wants, such as a default_factory
        same.update(moved)
        return same
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, tuple | list):
        return type(batch)([to_device(value, device) for value in batch])
    return batch


class Average:
    r"""Weighted means of a loss and of metrics: :math:`\sum_b w_b v_b / \sum_b w_b`.

    With :math:`w_b` the number of tokens of batch b this is the mean over tokens; the mean of
    the batches' means is not, when batches differ in size.

    Example:
        >>> mean = Average()
        >>> mean.add(1.0, 30, {}); mean.add(4.0, 10, {})
        >>> mean.loss
        1.75
    """

    def __init__(self) -> None:
        self.weight = 0.0
        self.batches = 0  # seen
        self.usable = 0  # of these, with a weight above 0
        self._sums: dict[str, float] = {}

    def add(self, loss: float, weight: float, metrics: Mapping[str, float]) -> None:
        """Enter one batch: its mean loss, its weight, its mean metrics."""
        values = {"": loss, **metrics}
        if self._sums and set(values) != set(self._sums):
            raise ValueError(
                f"objective returned metrics {sorted(metrics)}, "
                f"in earlier batches {sorted(set(self._sums) - {''})}"
            )
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + weight * value
        self.weight += weight

    def state(self) -> dict[str, Any]:
        """The sums, as plain numbers; :meth:`sum_of` takes them."""
        return dict(vars(self))

    @classmethod
    def sum_of(cls, states: Iterable[Mapping[str, Any]]) -> Average:
        """The average over all that some averages have seen, given by their :meth:`state`."""
        whole = cls()
        for state in states:
            whole.batches += state["batches"]
            whole.usable += state["usable"]
            whole.weight += state["weight"]
            if whole._sums and state["_sums"] and set(whole._sums) != set(state["_sums"]):
                raise ValueError(
                    "objective returned other metrics in one process than in another: "
                    f"{sorted(set(whole._sums) ^ set(state['_sums']))}"
                )
            for name, total in state["_sums"].items():
                whole._sums[name] = whole._sums.get(name, 0.0) + total
        return whole

    def checked(self, name: str) -> Average:
        """Return self, or raise ``ValueError`` if there was nothing to average over."""
        if self.batches == 0:
            raise ValueError(f"{name} holds no batch")
        if self.usable == 0:
            raise ValueError(f"objective gave weight 0 for all {self.batches} batches of {name}")
        return self

    @property
    def loss(self) -> float:
        """Weighted mean of the loss; nan if nothing was entered."""
        return self._sums[""] / self.weight if self.weight else float("nan")

    @property
    def metrics(self) -> dict[str, float]:
        """Weighted mean of each metric; empty if nothing was entered."""
        return {name: total / self.weight for name, total in self._sums.items() if name}


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, also those that a ``state_dict`` leaves out; tied ones once.

    Example:
        >>> list(tensors_of(nn.BatchNorm1d(1, affine=False)))
        ['running_mean', 'running_var', 'num_batches_tracked']
    """
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


@torch.no_grad()
def give(tensor: Tensor, values: Tensor) -> None:
    """Copy values into a tensor; one that repeats its memory (``expand``) gets memory of its own.

    Example:
        >>> tensor = torch.zeros(1).expand(2)
        >>> give(tensor, torch.ones(2))
        >>> tensor
        tensor([1., 1.])
    """
    if any(s == 0 and n > 1 for n, s in zip(tensor.shape, tensor.stride(), strict=True)):
        tensor.data = values.to(tensor.device, tensor.dtype).clone()
    else:
        tensor.copy_(values)


@torch.no_grad()
def set_tensors(
    model: nn.Module,
    values: Mapping[str, Tensor],
    others: Mapping[str, Tensor] = MappingProxyType({}),
) -> None:
    """Put back what was kept under the names of :func:`tensors_of`.

    Args:
        model: its parameters get their values. A buffer that had none is None again, and one that
            is None or has another shape now is replaced.
        values: all that was kept.
        others: tensors beside those of the model, by name.

    Example:
        >>> net = nn.Module()
        >>> net.register_buffer("mean", None)
        >>> set_tensors(net, {"mean": torch.ones(2)})
        >>> net.mean
        tensor([1., 1.])
    """
    for name, tensor in {**dict(model.named_parameters()), **others}.items():
        if name in values:
            give(tensor, values[name])
    names = {id(buffer): name for name, buffer in model.named_buffers()}  # tied ones have one
    new: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        for leaf, buffer in module._buffers.items():
            name = names.get(id(buffer), f"{path}.{leaf}".lstrip("."))
            value = values.get(name)
            if value is None:
                module._buffers[leaf] = None
            elif buffer is None or (buffer.shape, buffer.dtype) != (value.shape, value.dtype):
                module._buffers[leaf] = new.setdefault(name, value.clone())
            else:
                give(buffer, value)


class Buffers:
    """The buffers of a model as they were, to be put back after a batch that is not to count.

    Example:
        >>> net = nn.BatchNorm1d(1)
        >>> before = Buffers(net)
        >>> _ = net(torch.tensor([[float("nan")], [1.0]]))
        >>> before.restore()
        >>> net.running_mean.item(), net.num_batches_tracked.item()
        (0.0, 0)
    """

    def __init__(self, model: nn.Module) -> None:
        self._kept = [
            (module, {name: (buffer, _values(buffer)) for name, buffer in module._buffers.items()})
            for module in model.modules()
        ]

    def restore(self) -> None:
        """Give every buffer its values back, also one that was replaced by a new tensor.

        Raises:
            RuntimeError: if a lazy one got its shape meanwhile: it had no values to go back to.
        """
        for module, buffers in self._kept:
            for name in [*module._buffers]:
                if name not in buffers:  # came with the batch
                    del module._buffers[name]
            for name, (buffer, values) in buffers.items():
                if buffer is not None and values is not None:
                    give(buffer, values)
                elif buffer is not None and not nn.parameter.is_lazy(buffer):
                    raise RuntimeError(
                        f"model: the lazy buffer {name} of a {type(module).__name__} got its "
                        "shape from a batch that is not to count; run the model on one batch first"
                    )
                module._buffers[name] = buffer


def _values(buffer: Tensor | None) -> Tensor | None:
    unset = buffer is None or nn.parameter.is_lazy(buffer)
    return None if unset else buffer.detach().clone()  # type: ignore[union-attr]


class modes:
    """Within the context the model trains or evaluates; after it each module is as it was.

    Example:
        >>> net = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
        >>> with modes(net, training=False):
        ...     [module.training for module in net]
        [False, False]
        >>> [module.training for module in net]
        [True, False]
    """

    def __init__(self, model: nn.Module, *, training: bool) -> None:
        self.model, self.training = model, training

    def __enter__(self) -> None:
        self.before = [(module, module.training) for module in self.model.modules()]
        self.model.train(self.training)

    def __exit__(self, *error: object) -> None:
        for module, training in self.before:
            module.training = training
