"""Training: a short loop that can be read, and what it leaves behind."""

from companion.train.batches import to_device
from companion.train.history import History, Skipped
from companion.train.trainer import Trainer, TrainingDiverged
from companion.train.truncated import detached, truncated_gradient

__all__ = [
    "History",
    "Skipped",
    "Trainer",
    "TrainingDiverged",
    "detached",
    "to_device",
    "truncated_gradient",
]
