"""Training: a short loop that can be read, and what it leaves behind."""

from companion.train.batches import to_device
from companion.train.checkpoint import CheckpointError
from companion.train.history import History, Skipped
from companion.train.model_files import load_weights, read_config, save_model
from companion.train.stopping import EarlyStopping
from companion.train.trainer import Trainer, TrainingDiverged
from companion.train.truncated import detached, state_rows, truncated_gradient

__all__ = [
    "CheckpointError",
    "EarlyStopping",
    "History",
    "Skipped",
    "Trainer",
    "TrainingDiverged",
    "detached",
    "load_weights",
    "read_config",
    "save_model",
    "state_rows",
    "to_device",
    "truncated_gradient",
]
