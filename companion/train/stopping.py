"""Early stopping: when a run no longer gets better, and what it then goes back to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from companion.checks import check_flag, check_number, check_size
from companion.train.batches import set_tensors, tensors_of

__all__ = ["EarlyStopping"]


class EarlyStopping:
    r"""Stop when a measurement has not become better for some epochs.

    With :math:`v_e` the measurement of epoch e and :math:`v^*` the best up to now, epoch e is
    better if :math:`v_e < v^* - \delta` (or, if large is good, :math:`v_e > v^* + \delta`).
    After ``patience`` epochs in a row that are not better, ``fit`` ends.

    Args:
        patience: so many epochs in a row may be no better.
        min_delta: δ ≥ 0, by how much an epoch has to be better.
        metric: ``"loss"`` or a metric of the objective, on validation data if there are any.
        largest: whether large is good (accuracy) or not (perplexity); must be said for every
            metric but ``"loss"``.
        restore_best: at the end of ``fit``, stopped early or not, parameters and buffers are
            those of the best epoch. The optimizer's state remains the last one.

    Raises:
        TypeError, ValueError: if an argument has no meaning.

    Source:
        Prechelt (1998), "Early stopping - but when?".

    Example:
        >>> stop, net = EarlyStopping(patience=2), nn.Linear(1, 1)
        >>> for epoch, loss in enumerate([3.0, 2.0, 2.5, 2.2], 1):
        ...     stop.update(epoch, {"loss": loss}, net)
        >>> stop.stopped, stop.best_epoch, stop.best
        (True, 2, 2.0)
    """

    def __init__(
        self,
        patience: int,
        *,
        min_delta: float = 0.0,
        metric: str = "loss",
        largest: bool | None = None,
        restore_best: bool = True,
    ) -> None:
        check_size("patience", patience)
        check_number("min_delta", min_delta)
        if min_delta < 0:
            raise ValueError(f"min_delta: expected at least 0, got {min_delta}")
        if not isinstance(metric, str):
            raise TypeError(
                f"metric: expected a str, got {type(metric).__name__} ({metric!r:.60})"
            )
        if largest is not None:
            check_flag("largest", largest)
        check_flag("restore_best", restore_best)
        if largest is None and metric != "loss":
            raise ValueError(
                f"largest: expected True (large is good) or False for metric {metric!r}, "
                "got nothing"
            )
        self.patience, self.min_delta, self.metric = patience, min_delta, metric
        self.largest, self.restore_best = bool(largest), restore_best
        self.begin()

    def begin(self) -> None:
        """Forget every epoch; each ``fit`` begins with it."""
        self.best: float | None = None
        self.best_epoch: int | None = None
        self.waited, self.stopped = 0, False
        self._weights: dict[str, Tensor] | None = None

    def update(
        self,
        epoch: int,
        values: Mapping[str, float],
        model: nn.Module,
        others: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> None:
        """Take in what an epoch measured; what is not finite is no better.

        Args:
            epoch: its number.
            values: its means, by name.
            model: as it is after the epoch.
            others: what is trained beside the model's parameters, by name.

        Raises:
            ValueError: if the metric is not among them.
        """
        if self.metric not in values:
            known = ", ".join(sorted(values))
            raise ValueError(f"early_stopping: no metric {self.metric!r}; there are: {known}")
        value = values[self.metric]
        gain = math.inf if self.best is None else self.best - value
        if self.largest and self.best is not None:
            gain = -gain
        if math.isfinite(value) and gain > self.min_delta:
            self.best, self.best_epoch, self.waited = value, epoch, 0
            if self.restore_best:
                trained = {**tensors_of(model), **others}
                self._weights = {name: t.detach().clone() for name, t in trained.items()}
        else:
            self.waited += 1
            self.stopped = self.waited >= self.patience

    def restore(
        self, model: nn.Module, others: Mapping[str, Tensor] = MappingProxyType({})
    ) -> None:
        """Put all that :meth:`update` was given of the best epoch back, if it was to be kept."""
        if self._weights is not None:
            set_tensors(model, self._weights, others)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        names = ("best", "best_epoch", "waited", "stopped", "_weights")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where :meth:`state_dict` was called."""
        for name, value in state.items():
            setattr(self, name, value)
        self.stopped = self.waited >= self.patience  # which may be another now
