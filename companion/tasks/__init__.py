"""Networks on people's own files: what ``python -m companion train`` does, as functions.

A task is one file here and one line in ``TASKS``; reading files, the run's folder and training
are the same for all.
"""

from companion.tasks.classify import Classify
from companion.tasks.files import FileError
from companion.tasks.folder import FolderError
from companion.tasks.forecast import Forecast
from companion.tasks.lm import LanguageModelling
from companion.tasks.running import evaluate, load, resume, train
from companion.tasks.seq2seq import SequenceToSequence
from companion.tasks.settings import Settings, SettingsError
from companion.tasks.tag import Tag
from companion.tasks.task import Request, Task

__all__ = [
    "TASKS",
    "FileError",
    "FolderError",
    "Request",
    "Settings",
    "SettingsError",
    "Task",
    "evaluate",
    "load",
    "resume",
    "train",
]

TASKS: dict[str, type[Task]] = {
    "classify": Classify,
    "lm": LanguageModelling,
    "tag": Tag,
    "forecast": Forecast,
    "seq2seq": SequenceToSequence,
}
