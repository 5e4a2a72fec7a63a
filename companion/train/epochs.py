"""An epoch under way: its batches, read and counted, and where a resumed one goes on."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from companion.train.batches import Average
from companion.train.checkpoint import CheckpointError
from companion.train.generators import Generators
from companion.train.processes import Alone

__all__ = ["Epoch"]


class Epoch:
    """What was read of an epoch's batches, and what it measured up to now.

    Args:
        number: of the epoch, from 1.
        rate: learning rate at its start.
        first_step: steps in the history at its start.
        generators: what its batches are drawn from.
        group: the processes that share its batches.
    """

    def __init__(
        self, number: int, rate: float, first_step: int, generators: Generators, group: Alone
    ) -> None:
        self.number, self.rate, self.first_step = number, rate, first_step
        self.generators, self.group = generators, group
        self.mean = Average()
        self.read = 0  # batches, of all processes together
        self.seconds, self.started = 0.0, time.perf_counter()
        self.begun: Any = None  # the generators' states at its start, if it may be resumed
        self.saved: Any = None  # … at the checkpoint, if it was

    @property
    def elapsed(self) -> float:
        """Seconds it has taken, without those between a kill and the resume."""
        return self.seconds + time.perf_counter() - self.started

    def groups(
        self, batches: Iterable[Any], size: int, own: bool
    ) -> Iterator[list[tuple[int, Any]]]:
        """The batches of each step with their numbers: those of this process.

        Args:
            batches: of the epoch, from its start.
            size: so many make a step, in each process; at the end there may be fewer.
            own: whether they are this process's own; otherwise the processes take turns.
        """
        turns = 1 if own else self.group.world
        source = self.generators.draws(batches)
        for n in range(self.read):  # reading again finds the order again
            if next(source, self) is self:
                raise CheckpointError(
                    f"resume: train holds {n} batches, but {self.read} were read before the "
                    "checkpoint was made; is it other data?"
                )
        if self.saved is not None:
            self.generators.restore(self.saved)
        while True:
            drawn = list(itertools.islice(source, size * turns))
            if not (self.group.sums(len(drawn))[0] if own else drawn):  # own ones may differ
                return
            numbered = list(enumerate(drawn, self.read + 1))
            self.read += len(drawn)
            yield numbered if own else numbered[self.group.rank :: turns]

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {
            "rate": self.rate,
            "first_step": self.first_step,
            "mean": self.mean.state(),
            "read": self.read,
            "seconds": self.elapsed,
            "begun": self.begun,
        }

    def resume(self, state: Mapping[str, Any], now: Any) -> None:
        """Go on where :meth:`state` was called, when the generators' states were ``now``."""
        self.rate, self.first_step = state["rate"], state["first_step"]
        self.mean = Average.sum_of([state["mean"]])
        self.read, self.seconds = state["read"], state["seconds"]
        self.begun, self.saved = state["begun"], now


def set_epoch(batches: Any, number: int) -> None:
    """Tell samplers that shuffle by the epoch's number which one it is, counted from 0.

    Args:
        batches: what ``fit`` is given; whatever has a ``set_epoch`` of it, its sampler, its batch
            sampler and the sampler of that.
        number: of the epoch.
    """
    sampler = getattr(batches, "batch_sampler", None)
    inner = getattr(batches, "sampler", None), getattr(sampler, "sampler", None)
    parts: dict[int, Any] = {id(part): part for part in (batches, sampler, *inner)}
    for part in parts.values():
        if callable(getattr(part, "set_epoch", None)):
            part.set_epoch(number)
