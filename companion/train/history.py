"""What a training run leaves behind."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["History", "Skipped"]


class Skipped(NamedTuple):
    """A batch that changed no parameter and no buffer: epoch and batch count from 1.

    Where a step is that of several batches and is skipped as a whole, it is the batch whose loss
    is not finite, or, if it is the gradient of all that is not, the last one of the step.
    """

    epoch: int
    batch: int
    reason: str


@dataclass(repr=False)
class History:
    """The record of a run: one entry an epoch, and the gradient's norm at each step.

    Args:
        train_loss: weighted mean over the epoch, while the weights were changing.
        valid_loss: weighted mean at the end of the epoch, NaN for an epoch that was not validated
            (the last ones may be left out); empty without validation data.
        train_metrics: for each metric of the objective, its means.
        valid_metrics: the same on the validation data.
        grad_norm: 2-norm of the whole gradient before clipping, one entry a step. An epoch that
            an error broke off has steps here and no entry in the other columns.
        learning_rate: of the first parameter group, in the epoch.
        seconds: duration of the epoch, validation included.
        skipped: batches that changed no parameter and no buffer, with the reason.

    Example:
        >>> History(train_loss=[2.0, 1.0], valid_loss=[1.5, 1.6])
        History(2 epochs, 0 steps, 0 skipped)
        >>> History(train_loss=[2.0, 1.0], valid_loss=[1.5, 1.6]).best()
        (1, 1.5)
    """

    train_loss: list[float] = field(default_factory=list)
    valid_loss: list[float] = field(default_factory=list)
    train_metrics: dict[str, list[float]] = field(default_factory=dict)
    valid_metrics: dict[str, list[float]] = field(default_factory=dict)
    grad_norm: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def add_metrics(self, table: dict[str, list[float]], metrics: Mapping[str, float]) -> None:
        """Enter an epoch's metrics; nan stands where an epoch has none (all steps skipped)."""
        nan, epochs = float("nan"), len(self.train_loss)
        for name in {**table, **metrics}:
            column = table.setdefault(name, [])
            column += [nan] * (epochs - 1 - len(column)) + [metrics.get(name, nan)]

    def add_validation(self, loss: float, metrics: Mapping[str, float]) -> None:
        """Enter the validation of the last epoch; nan stands for earlier epochs without one."""
        missing = len(self.train_loss) - 1 - len(self.valid_loss)
        self.valid_loss += [float("nan")] * missing + [loss]
        self.add_metrics(self.valid_metrics, metrics)

    def best(self, metric: str = "loss", *, largest: bool | None = None) -> tuple[int, float]:
        """Return epoch (from 1) and value where a metric was best, on validation data if any.

        Args:
            metric: ``"loss"`` or a metric of the objective.
            largest: whether large is good (accuracy) or not (perplexity); must be said for every
                metric but ``"loss"``.

        Returns:
            epoch and value; of equals the earliest. What is not finite does not count.

        Raises:
            KeyError: if there is no such metric.
            ValueError: if it was never finite, or ``largest`` is not given.

        Example:
            >>> history = History(train_loss=[2.0, 1.0], train_metrics={"perplexity": [7.4, 2.7]})
            >>> history.best("perplexity", largest=False)
            (2, 2.7)
        """
        metrics = self.valid_metrics if self.valid_loss else self.train_metrics
        table = {**metrics, "loss": self.valid_loss or self.train_loss}
        if metric not in table:
            raise KeyError(f"no metric {metric!r}; there are: {', '.join(sorted(table))}")
        if largest is None:
            if metric != "loss":
                raise ValueError(
                    f"largest: expected True (large is good) or False for metric {metric!r}, "
                    "got nothing"
                )
            largest = False
        finite = [(v, e) for e, v in enumerate(table[metric], 1) if math.isfinite(v)]
        if not finite:
            raise ValueError(f"metric {metric!r} has no finite value in {len(self)} epochs")
        value, epoch = min(finite, key=lambda pair: (-pair[0] if largest else pair[0], pair[1]))
        return epoch, value

    def plot(self, ax: Any = None, *, unit: str = "nats") -> Any:
        """Draw the loss over the epochs, training and validation.

        The training loss is a mean over the epoch and stands at its middle; the validation loss
        is measured at its end and stands there.

        Args:
            ax: matplotlib axes; by default new ones.
            unit: of the loss, for the axis.

        Returns:
            the axes.

        Raises:
            ValueError: if no epoch was run.

        Example:
            >>> ax = History(train_loss=[2.0, 1.0], valid_loss=[1.5, 1.2]).plot(unit="bits")
            >>> ax.get_ylabel()
            'mean loss (bits)'
        """
        if not self.train_loss:
            raise ValueError("history holds no epoch; call Trainer.fit first")
        if ax is None:
            from companion.look.style import figure

            _, ax = figure()
        middle = [epoch - 0.5 for epoch in range(1, len(self) + 1)]
        ax.plot(middle, self.train_loss, marker="o", label="training")
        if self.valid_loss:
            ends = range(1, len(self.valid_loss) + 1)  # nan draws nothing
            ax.plot(ends, self.valid_loss, marker="s", label="validation")
        ax.set_xlabel("epochs trained")
        ax.set_ylabel(f"mean loss ({unit})")
        ax.legend()
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain lists, numbers and strings, ready for JSON.

        Returns:
            a dict with the fields' names; None stands for NaN and inf, which JSON does not have.

        Example:
            >>> History(train_loss=[2.0, float("nan")]).to_dict()["train_loss"]
            [2.0, None]
        """
        record = dataclasses.asdict(self)
        record["skipped"] = [entry._asdict() for entry in self.skipped]
        return {name: _plain(value) for name, value in record.items()}

    def __len__(self) -> int:
        return len(self.train_loss)

    def __repr__(self) -> str:  # no losses, no times: the same on every machine
        epochs = f"{len(self)} epoch{'' if len(self) == 1 else 's'}"
        return f"History({epochs}, {len(self.grad_norm)} steps, {len(self.skipped)} skipped)"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a number of NumPy or torch
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
