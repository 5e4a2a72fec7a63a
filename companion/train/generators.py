"""The random generators that a run draws from: found, read and put back."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from companion.reproduce import seed_all
from companion.train.checkpoint import CheckpointError

__all__ = ["Generators"]

CLOSED = (Tensor, nn.Module, type, FunctionType, ModuleType)
Source = torch.Generator | random.Random | np.random.Generator | np.random.RandomState


class Generators:
    """Every generator that a run draws from: the global ones, and those that its data hold.

    Of the data, those are found that are attributes: of the ``DataLoader``, and of its sampler,
    data set and collate function, four objects deep.

    Args:
        holders: objects to look into, by name.
        others: more generators.
        device: whose global generator belongs to them too.

    Example:
        >>> generator = torch.Generator()
        >>> loader = torch.utils.data.DataLoader(range(9), shuffle=True, generator=generator)
        >>> generators = Generators({"train": loader})
        >>> list(generators.held)
        ['train.sampler.generator']
        >>> before = generators.states()
        >>> first = [*loader], torch.rand(2)
        >>> generators.restore(before)
        >>> again = [*loader], torch.rand(2)
        >>> first[0] == again[0], torch.equal(first[1], again[1])
        (True, True)
    """

    def __init__(
        self,
        holders: Mapping[str, Any],
        others: Sequence[Source] = (),
        device: torch.device | str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.held: dict[str, Source] = {}
        seen: dict[int, int] = {}
        for name, holder in holders.items():
            self._look_into(holder, name, seen, depth=4)
        for n, other in enumerate(others):
            if id(other) not in seen:
                self.held[f"generators[{n}]"] = other
        # The data's states of the global generators while the model draws from them; None: both
        # draw from one stream. Several processes must agree on the batches, not on the dropout.
        self.apart: dict[str, Any] | None = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Within the context, what is drawn is drawn for the data."""
        if self.apart is None:
            yield
            return
        models = self._globals()
        self._set_globals(self.apart)
        try:
            yield
        finally:
            self.apart = self._globals()
            self._set_globals(models)

    def draws(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches, whatever they are drawn from drawn for the data."""
        with self.reading():
            source = iter(batches)
        while True:
            with self.reading():
                batch = next(source, self)
            if batch is self:
                return
            yield batch

    def separate(self, rank: int) -> None:
        """Give the data the states as they are, and the model those of a seed for each rank."""
        self.apart = self._globals()
        seed_all((torch.initial_seed() + 1 + rank) % 2**32)

    def states(self) -> dict[str, Any]:
        """Return all states: tensors, arrays, numbers and containers of them."""
        held = {name: _state(source) for name, source in self.held.items()}
        return {"global": self._globals(), "apart": self.apart, "held": held}

    def restore(self, states: Mapping[str, Any]) -> None:
        """Put all generators where they were.

        Raises:
            CheckpointError: if other generators were found then than now.
        """
        if sorted(states["held"]) != sorted(self.held):
            raise CheckpointError(
                f"resume: train and valid hold the generators {sorted(self.held)}, in the "
                f"checkpoint there are {sorted(states['held'])}; are the batches made otherwise?"
            )
        self._set_globals(states["global"])
        self.apart = states["apart"]
        for name, state in states["held"].items():
            _set_state(self.held[name], state)

    def _globals(self) -> dict[str, Any]:
        states: dict[str, Any] = {
            "python": random.getstate(),
            "numpy": np.random.get_state(legacy=False),
            "torch": torch.get_rng_state(),
        }
        if self.device.type in ("cuda", "mps"):
            states[self.device.type] = _device_module(self.device).get_rng_state(*self._index())
        return states

    def _set_globals(self, states: Mapping[str, Any]) -> None:
        random.setstate(states["python"])
        np.random.set_state(states["numpy"])
        torch.set_rng_state(states["torch"])
        if self.device.type in states:  # a run may go on where there is no such device
            _device_module(self.device).set_rng_state(states[self.device.type], *self._index())

    def _index(self) -> tuple[torch.device, ...]:
        return (self.device,) if self.device.type == "cuda" else ()

    def _look_into(self, holder: Any, path: str, seen: dict[int, int], depth: int) -> None:
        """Add what an object holds; ``seen`` has how deep each object was looked into."""
        if isinstance(holder, Source) and not isinstance(holder, random.SystemRandom):
            if id(holder) not in seen:
                self.held[path] = holder
            seen[id(holder)] = depth
            return
        if isinstance(holder, CLOSED) or seen.get(id(holder), -1) >= depth:
            return
        seen[id(holder)] = depth
        for name, value in getattr(holder, "__dict__", {}).items():
            if name == "_iterator":  # of persistent workers: there only after the first epoch
                continue
            if hasattr(value, "__dict__") or isinstance(value, Source):
                self._look_into(value, f"{path}.{name}", seen, depth - 1)


def _device_module(device: torch.device) -> Any:
    return torch.cuda if device.type == "cuda" else torch.mps


def _state(source: Source) -> Any:
    if isinstance(source, torch.Generator):
        return source.get_state()
    if isinstance(source, random.Random):
        return source.getstate()
    if isinstance(source, np.random.RandomState):
        return source.get_state(legacy=False)
    return source.bit_generator.state


def _set_state(source: Source, state: Any) -> None:
    if isinstance(source, torch.Generator):
        source.set_state(state)
    elif isinstance(source, random.Random):
        source.setstate(state)
    elif isinstance(source, np.random.RandomState):
        source.set_state(state)
    else:
        source.bit_generator.state = state
