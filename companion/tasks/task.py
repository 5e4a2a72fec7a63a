"""What a task is: from people's files to a model, its batches, its numbers and its predictions."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn

from companion.data.bucketing import bucket_batches
from companion.data.vocabulary import Vocab
from companion.reproduce import cpu_generator
from companion.tasks.files import Rows, source_name
from companion.tasks.settings import Settings, SettingsError, as_option
from companion.train.processes import Alone

__all__ = ["Parts", "Request", "RowBatches", "Task", "divide", "vocabulary"]

UNKNOWN = "<unk>"  # has index 0, and an embedding of 0 unless it occurs while training


class Parts(NamedTuple):
    """The three parts of the data; None for one that nobody wants."""

    train: Any
    valid: Any
    test: Any


@dataclass(frozen=True)
class Request:
    """What a prediction can be asked for beside its input; a task's ``requests`` are its own."""

    tokens: int = 200
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    beam: int = 1
    n_best: int = 1
    length_penalty: float | None = None
    log_prob: bool = False


class Task(ABC):
    """A task with its model: ``Task(settings, known)``.

    A subclass is a file of its own and a line in ``companion.tasks.TASKS``; all that is the same
    for every task is in ``companion.tasks.running``.

    Args:
        settings: of the class's ``Settings``.
        known: what was learned from the training data beside the weights, of the class's
            ``Known``: the vocabulary, the labels.
        device: of the model.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # of one line
    example: ClassVar[str]  # what the file looks like, what is written, typical calls
    Settings: ClassVar[type[Settings]]
    Known: ClassVar[type[Any]]
    metric: ClassVar[str]  # that the network is compared with its baselines by
    largest: ClassVar[bool]  # whether a large one is good
    stateful: ClassVar[bool] = False
    requests: ClassVar[tuple[str, ...]] = ()  # the fields of Request that mean something to it

    def __init__(
        self, settings: Any, known: Any, device: torch.device | str | None = None
    ) -> None:
        self.settings, self.known = settings, known
        try:
            if str(device) != "meta":
                check_memory(self.make_model("meta"))
            self.model = self.make_model(device)
        except (MemoryError, OverflowError, RuntimeError, TypeError, ValueError) as error:
            fault = as_option(error, settings).splitlines() or [type(error).__name__]
            if fault[0].startswith("Storage size"):  # more than 2^63 bytes
                fault = ["no memory holds its weights; take a smaller --hidden-size"]
            raise SettingsError(f"the settings do not make a model: {fault[0]}") from error

    # --- files ------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def read(cls, path: str | Path, settings: Any, known: Any = None) -> Any:
        """Read a file of examples; what ``known`` lacks of labels is an error with its line."""

    @classmethod
    @abstractmethod
    def divide(cls, whole: Any, settings: Any) -> Parts:
        """Set shares for validation and test aside, none where they have files of their own."""

    @classmethod
    @abstractmethod
    def learn(cls, train: Any, settings: Any) -> Any:
        """What the training part alone says: a ``Known``."""

    # --- the model --------------------------------------------------------------------------

    @abstractmethod
    def make_model(self, device: torch.device | str | None) -> nn.Module:
        """The network, untrained."""

    @abstractmethod
    def batches(self, rows: Any, *, shuffle: bool, group: Alone) -> Any:
        """The batches of a part, as the trainer takes them in these processes."""

    @abstractmethod
    def objective(self, model: nn.Module, *batch: Any) -> tuple[Any, ...]:
        """What the trainer minimizes."""

    # --- what comes of it -------------------------------------------------------------------

    @abstractmethod
    def describe(self, parts: Parts) -> str:
        """A line on the data."""

    @abstractmethod
    def measure(self, rows: Any) -> dict[str, float]:
        """The network's numbers on a part."""

    @abstractmethod
    def baselines(self, rows: Any) -> dict[str, dict[str, float]]:
        """Numbers of what needs no network, by its name."""

    @abstractmethod
    def predict(
        self, path: str | Path, request: Request, warn: Callable[[str], None]
    ) -> Iterator[str]:
        """The lines of a prediction for the lines of a file, or of the standard input."""

    def details(self, path: str | Path) -> Iterator[str]:
        """Lines with the numbers of each row of a file, where a task has such."""
        raise SettingsError(f"--output: {self.name} has no numbers for single lines")

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device


class RowBatches:
    """Rows of like lengths in batches, each cut into a part for every process.

    The parts of a batch come one after another, and the trainer's processes take turns at them:
    a step is that of the whole batch, however many they are. One process has the batch in one.

    Args:
        rows: N of them.
        lengths: theirs.
        batch_size: rows of a whole batch.
        shuffle, seed: of :func:`companion.data.bucket_batches`.
        collate: makes a batch of rows, of no rows too.
        world: the number of processes.
    """

    def __init__(
        self,
        rows: Sequence[Any],
        lengths: Sequence[int],
        batch_size: int,
        shuffle: bool,
        seed: int,
        collate: Callable[[list[Any]], Any],
        world: int = 1,
    ) -> None:
        self.sampler = bucket_batches(lengths, batch_size, shuffle=shuffle, seed=seed)
        self._rows, self._collate, self.world = rows, collate, world

    def __len__(self) -> int:
        return len(self.sampler) * self.world

    def __iter__(self) -> Iterator[Any]:
        return (
            self._collate([self._rows[i] for i in indices[rank :: self.world]])
            for indices in self.sampler
            for rank in range(self.world)
        )


def divide(
    rows: Rows[Any], settings: Settings, labels: Callable[[Any], Sequence[str]], what: str = "rows"
) -> Parts:
    """Divide rows at random, so that the training part has every label.

    In the order of a seeded permutation, a row that has a label for the first time is for
    training; of the others the first are for validation, the next for the test.

    Args:
        rows: N of them.
        settings: the shares, the seed, and which parts have files of their own.
        labels: those of a row.
        what: the rows are, for messages.

    Raises:
        SettingsError: there are too few rows.
    """
    wanted = [
        _count(len(rows), share, file)
        for share, file in (
            (settings.valid_share, settings.valid_file),
            (settings.test_share, settings.test_file),
        )
    ]
    seen: set[str] = set()
    first: list[int] = []
    others: list[int] = []
    order = torch.randperm(len(rows), generator=cpu_generator(settings.seed), device="cpu")
    for i in order.tolist():
        (others if seen.issuperset(labels(rows[i])) else first).append(i)
        seen.update(labels(rows[i]))
    if sum(wanted) > len(others):
        raise SettingsError(
            f"{source_name(rows.path)}: too few {what}: got {len(rows)}, expected "
            f"{len(first) + sum(wanted)}: {len(first)} to show all {len(seen)} labels in "
            f"training, {wanted[0]} for validation, {wanted[1]} for the test; give more, or "
            "--valid-file and --test-file, or --valid-share 0 --test-share 0"
        )
    cut = wanted[0], sum(wanted)
    valid, test, rest = others[: cut[0]], others[cut[0] : cut[1]], others[cut[1] :]
    parts = [Rows((rows[i] for i in sorted(p)), rows.path) for p in ([*first, *rest], valid, test)]
    return Parts(parts[0], parts[1] or None, parts[2] or None)


def check_memory(model: nn.Module) -> None:
    """Raise ``MemoryError`` if weights would fill this machine: it would end without a word.

    Args:
        model: on ``meta``, without memory.
    """
    try:
        here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not every system says
        return
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if size > here:
        raise MemoryError(
            f"its weights need {size / 2**30:,.0f} GiB, and this machine has {here / 2**30:,.0f} "
            "GiB of memory; take a smaller --hidden-size or --embedding-dim"
        )


def vocabulary(tokens: Sequence[str], key: str = "tokens") -> Vocab:
    """The table of tokens, of which the first stands for all unknown ones.

    Args:
        tokens: all of them.
        key: what the file calls them.

    Raises:
        SettingsError: there is no token, or one twice: the table comes from a file.
    """
    if not tokens or len(set(tokens)) < len(tokens):
        raise SettingsError(f"{key}: expected tokens, each of them once")
    table = Vocab(tokens)
    table.set_default_index(0)
    return table


def _count(rows: int, share: float, file: str | None) -> int:
    """How many rows to set aside: at least one, unless nobody wants any."""
    return 0 if file is not None or share == 0 else max(1, round(rows * share))
