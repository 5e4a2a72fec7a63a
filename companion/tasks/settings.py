"""What people set: a frozen dataclass a task, and how one is read back from JSON."""

from __future__ import annotations

import dataclasses
import math
import types
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from companion.cells import ARCHITECTURES

__all__ = [
    "Settings",
    "SettingsError",
    "as_option",
    "check_separator",
    "from_json",
    "option",
    "to_json",
]

T = TypeVar("T")

LARGEST = 2**32 - 1  # seed of every random generator, and more than any size


class SettingsError(ValueError):
    """A setting has no meaning, or two do not go together."""


@dataclass(frozen=True)
class Settings:
    """What every task can be told."""

    valid_file: str | None = None
    """Validation data in a file of its own; otherwise a share of FILE is set aside."""

    test_file: str | None = None
    """Test data in a file of its own; otherwise a share of FILE is set aside."""

    valid_share: float = 0.1
    """Share of FILE for validation, which decides when to stop and which epoch is kept."""

    test_share: float = 0.1
    """Share of FILE for the test, which is looked at once, in the report."""

    cell: str = "lstm"
    """Name of the recurrence in companion.ARCHITECTURES, such as rnn, lstm, gru, sru, qrnn."""

    hidden_size: int = 128
    """Hidden units of each layer and direction."""

    num_layers: int = 1
    """Layers, one on the other."""

    dropout: float = 0.2
    """Probability of dropping an entry while training; more for small files."""

    epochs: int = 30
    """Passes over the training data, at most."""

    patience: int = 5
    """Stop after so many epochs in a row without a better validation loss."""

    batch_size: int = 32
    """Examples of a step, of all processes together."""

    learning_rate: float = 0.003
    """Of AdamW; halved after two epochs without a better validation loss."""

    clip_norm: float = 1.0
    """Longest gradient; longer ones are scaled down."""

    precision: Literal["full", "bf16"] = "full"
    """bf16 is faster on recent GPUs."""

    checkpoint_every: int | None = None
    """Write a checkpoint after so many steps too, beside the one after each epoch."""

    seed: int = 0
    """Of the division of the file, the first weights and the order of the batches."""

    def __post_init__(self) -> None:
        """Raise ``SettingsError`` for what has no meaning."""
        least: dict[str, int] = {"seed": 0, **dict.fromkeys(self.sizes(), 1)}
        for name, bound in least.items():
            value = getattr(self, name)
            if value is not None and not bound <= value <= LARGEST:
                most = value > LARGEST
                limit = f"at most {LARGEST}" if most else f"at least {bound}"
                raise SettingsError(f"{option(name)}: expected {limit}, got {value!s:.40}")
        for name in ("valid_share", "test_share", "dropout"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise SettingsError(f"{option(name)}: expected at least 0, below 1, got {value}")
        if self.valid_share + self.test_share >= 1:
            raise SettingsError(
                "--valid-share, --test-share: expected a sum below 1, so that something is left "
                f"to train on, got {self.valid_share + self.test_share:g}"
            )
        for name in ("learning_rate", "clip_norm"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise SettingsError(f"{option(name)}: expected a number above 0, got {value}")
        if self.num_layers > 100:
            raise SettingsError(f"--num-layers: expected at most 100, got {self.num_layers}")
        if self.cell not in ARCHITECTURES:
            known = ", ".join(sorted(ARCHITECTURES))
            raise SettingsError(f"--cell: expected one of {known}, got {self.cell!r}")

    def sizes(self) -> tuple[str, ...]:
        """The settings that are numbers of at least 1."""
        sizes = ("hidden_size", "num_layers", "epochs", "patience", "batch_size")
        return (*sizes, "checkpoint_every")


def option(name: str) -> str:
    """What a setting is called on the command line."""
    return "--" + name.replace("_", "-")


def as_option(error: Exception, given: Any) -> str:
    """A message that names an argument, with the option of this name where there is one.

    Example:
        >>> as_option(ValueError("hidden_size: expected at least 1"), Settings())
        '--hidden-size: expected at least 1'
    """
    text = str(error)
    name = text.partition(":")[0]
    return option(name) + text[len(name) :] if name in vars(given) else text


def check_separator(separator: str | None) -> None:
    """Raise ``SettingsError`` unless it can stand between columns."""
    if separator is None or separator == r"\t":
        return
    if len(separator) != 1 or separator in '"\r\n':
        raise SettingsError(
            "--separator: expected one character, no quotation mark and no end of line, got "
            f"{separator!r:.20}"
        )


def to_json(value: Any) -> Any:
    """A dataclass as a dict that JSON can hold: tuples become lists.

    Example:
        >>> to_json(Settings())["cell"]
        'lstm'
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


def from_json(kind: type[T], given: Any, where: str) -> T:
    """A dataclass from what JSON held, of which nothing is believed.

    Args:
        kind: the dataclass.
        given: a dict with each of its fields and nothing else.
        where: it comes from, for the message.

    Raises:
        SettingsError: what is missing, unknown or of another type, by name.

    Example:
        >>> from_json(Settings, {"cell": "lstm", "exec": "rm"}, "config.json")
        Traceback (most recent call last):
        companion.tasks.settings.SettingsError: config.json: expected exactly the settings ...
    """
    hints = get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    if not isinstance(given, dict):
        raise SettingsError(f"{where}: expected an object, got {type(given).__name__}")
    unknown, missing = sorted(map(str, set(given) - set(names))), sorted(set(names) - set(given))
    if unknown or missing:
        raise SettingsError(
            f"{where}: expected exactly the settings of this release; unknown: "
            f"{', '.join(unknown) or 'none'}; missing: {', '.join(missing) or 'none'}"
        )
    values = {name: _fitted(given[name], hints[name], f"{where}: {name}") for name in names}
    try:
        return kind(**values)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def _fitted(value: Any, hint: Any, where: str) -> Any:
    """The value, if it is of this type; a list becomes the tuple that is wanted."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        (hint,) = (part for part in inner if part is not type(None))
        return _fitted(value, hint, where)
    if origin is Literal:
        if value not in inner:
            raise SettingsError(f"{where}: expected one of {inner}, got {value!r:.60}")
        return value
    if origin is tuple and isinstance(value, list):
        return tuple(_fitted(item, inner[0], where) for item in value)
    if origin is dict and isinstance(value, dict):
        return {_fitted(k, inner[0], where): _fitted(v, inner[1], where) for k, v in value.items()}
    if hint is float and type(value) is int and abs(value) < 2**1023:
        return float(value)
    if origin is None and type(value) is hint and not (hint is float and not math.isfinite(value)):
        return value
    name = getattr(hint, "__name__", str(hint))
    raise SettingsError(f"{where}: expected {name}, got {type(value).__name__} {value!r:.60}")
