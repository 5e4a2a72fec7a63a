"""Training: a short loop that can be read, and what it leaves behind."""

from .batches import to_device
from .history import History, Skipped
from .trainer import Trainer, TrainingDiverged
from .truncated import detached, truncated_gradient

__all__ = [
    "History",
    "Skipped",
    "Trainer",
    "TrainingDiverged",
    "detached",
    "to_device",
    "truncated_gradient",
]
