"""What a run says while it trains, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from companion.tasks.task import Task
from companion.train import EarlyStopping, History

__all__ = ["Reporting", "Say", "report"]

Say = Callable[[str], None]


class Reporting(EarlyStopping):
    """Early stopping that says after each epoch how it went."""

    history: History
    say: Say

    def update(
        self,
        epoch: int,
        values: Mapping[str, float],
        model: torch.nn.Module,
        others: Mapping[str, torch.Tensor] = MappingProxyType({}),
    ) -> None:
        """Take in what an epoch measured, and say it."""
        super().update(epoch, values, model, others)
        named = {"valid": values["loss"], **values} if self.history.valid_loss else {}
        named = {name: value for name, value in named.items() if name != "loss"}
        numbers = "".join(f"  {name} {value:.4f}" for name, value in named.items())
        best = "  (best)" if self.best_epoch == epoch else ""
        self.say(f"epoch {epoch:3d}  train {self.history.train_loss[-1]:.4f}{numbers}{best}")


def shown_number(value: float) -> str:
    """A number of a report: four decimals, or four digits of one that they do not show.

    Example:
        >>> [shown_number(value) for value in (0.5, 0.0, 1.93e-9, 1.93e40, float("inf"))]
        ['0.5000', '0.0000', '1.930e-09', '1.930e+40', 'inf']
    """
    plain = value == 0 or 5e-5 <= abs(value) < 1e7
    return f"{value:.4f}" if plain else f"{value:.3e}"


def report(task: Task, metrics: Mapping[str, Any]) -> list[str]:
    """The lines of a report: a table for each part, and whether the network is of use."""
    lines = []
    for part in ("train", "valid", "test", "file"):
        if part not in metrics:
            continue
        network, baselines = metrics[part]["network"], metrics[part]["baselines"]
        names = list(network)
        width = max(map(len, ["network", *baselines]))
        lines.append(f"{part:<{width}}  " + "  ".join(f"{name:>12}" for name in names))
        for who, numbers in {"network": network, **baselines}.items():
            cells = (f"{shown_number(numbers[n]) if n in numbers else '':>12}" for n in names)
            lines.append(f"{who:<{width}}  " + "  ".join(cells).rstrip())
    shown = [part for part in ("test", "file", "valid", "train") if part in metrics]
    if shown:
        network, baselines = metrics[shown[0]]["network"], metrics[shown[0]]["baselines"]
        pick = max if task.largest else min
        rival = pick(baselines, key=lambda name: baselines[name][task.metric])
        mine, its = network[task.metric], baselines[rival][task.metric]
        better = mine > its if task.largest else mine < its
        lines.append(
            f"{task.metric}: {shown_number(mine)} against {shown_number(its)} of {rival}: "
            "the network "
            + ("is better" if better else "is NO better")
            + (" on the data that it was trained on" if shown[0] == "train" else "")
        )
    return lines
