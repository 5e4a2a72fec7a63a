"""Trained models as files for other people: weights, and what the model was made of."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from companion.train.batches import give, tensors_of
from companion.train.checkpoint import CheckpointError, _sealed
from companion.train.storage import pack, write_bytes

__all__ = ["load_weights", "read_config", "save_model"]

FORMAT, VERSION = "recurrence-companion model", 1
SEAL = "about_sha256"  # of the rest of the header; files of the first release lack it


def save_model(
    model: nn.Module, path: str | Path, config: Mapping[str, Any] | None = None
) -> None:
    """Write a model's weights and its configuration into one safetensors file.

    The file holds the parameters and buffers of ``state_dict()``, tied ones once, and in its
    header the configuration as JSON. It holds nothing that can run. It is written beside its
    place and then renamed: there is a whole file under this name, or the one before.

    Args:
        model: any module.
        path: of the file, by custom ``….safetensors``; its folder must be there.
        config: what is needed to make the model anew; only what JSON has.

    Raises:
        TypeError: if the configuration is not JSON, or the ``state_dict`` has something that is
            no parameter or buffer under its name, or a tensor cannot be held (a sparse one).
        FileNotFoundError, IsADirectoryError, OSError: if there can be no such file.

    Example:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> net = nn.Linear(2, 1)
        >>> save_model(net, path, {"inputs": 2})
        >>> again = nn.Linear(read_config(path)["inputs"], 1)
        >>> _ = load_weights(again, path)
        >>> torch.equal(net.weight, again.weight)
        True
    """
    from safetensors.torch import save

    where = _checked(model, path)
    if os.path.isdir(where):
        raise IsADirectoryError(errno.EISDIR, "path: expected a file, got a folder", where)
    if not os.path.isdir(os.path.dirname(where) or "."):
        raise FileNotFoundError(errno.ENOENT, "path: there is no folder for", where)
    if config is not None and not isinstance(config, Mapping):
        raise TypeError(f"config: expected a dict, got {type(config).__name__}: {config!r:.60}")
    try:
        text = json.dumps(dict(config or {}), allow_nan=False)
        same = json.loads(text) == dict(config or {})
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"config: expected what JSON has, got something else: {error}") from error
    if not same:  # a tuple would come back as a list, a key 1 as "1"
        raise TypeError(f"config: expected what JSON has, got {config!r:.200}")
    tensors: dict[str, Tensor] = {}
    for name, tensor in _kept(model).items():
        pack(tensor, tensors, name)
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    about = {"format": FORMAT, "version": VERSION, "model": kind, "config": json.loads(text)}
    about["complex"] = [name for name, tensor in _kept(model).items() if tensor.is_complex()]
    about["sha256"] = _digest(tensors)
    about[SEAL] = _sealed(about)
    # its own name may be as long as a name can be
    short = hashlib.sha256(os.fsencode(where)).hexdigest()[:16]
    partial = Path(os.path.dirname(where), f".{short}.{os.getpid()}.partial")
    try:
        write_bytes(partial, save(tensors, metadata={"about": json.dumps(about)}))
        os.replace(partial, where)
    finally:
        partial.unlink(missing_ok=True)


def read_config(path: str | Path) -> dict[str, Any]:
    """Read the configuration that a model was saved with.

    Args:
        path: of a file that :func:`save_model` wrote.

    Returns:
        what was given to it.

    Raises:
        FileNotFoundError: if there is no such file.
        CheckpointError: if it is not such a file, or of another version.

    Example:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> save_model(nn.Linear(2, 1), path, {"inputs": 2})
        >>> read_config(path)
        {'inputs': 2}
    """
    config: dict[str, Any] = _read(path, weights=False)[0]["config"]
    return config


@torch.no_grad()
def load_weights(model: nn.Module, path: str | Path) -> dict[str, Any]:
    """Give a model the weights from a file.

    Args:
        model: with the same parameters and buffers; dtype and device may differ and stay.
        path: of a file that :func:`save_model` wrote.

    Returns:
        the configuration in it.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the model has no memory for the weights: it is lazy, or on ``meta``.
        CheckpointError: if it is damaged, not such a file, or of another model. The model is
            then as it was.

    Example:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> save_model(nn.Linear(2, 1), path)
        >>> load_weights(nn.Linear(3, 1), path)
        Traceback (most recent call last):
        companion.train.checkpoint.CheckpointError: ... weight has shape (1, 2), the model's...
    """
    here, tensors, config = fitting(model, path)
    for name, tensor in here.items():
        if tensor.is_meta:
            raise ValueError(
                f"model: {name} is on the meta device, there is no memory for its values"
            )
    for name, tensor in here.items():
        give(tensor, tensors[name])
    return config


def fitting(
    model: nn.Module, path: str | Path
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    """A model's tensors, those of a file that fit them, and its configuration; raise if none fit.

    The model may be on ``meta``: a file that does not fit is found before it costs memory.
    """
    where = _checked(model, path)
    about, tensors = _read(where)
    if _digest(tensors) != about["sha256"]:
        raise CheckpointError(f"{where}: the weights were changed since they were saved")
    here = _kept(model)
    missing, unknown = sorted(set(here) - set(tensors)), sorted(set(tensors) - set(here))
    if missing or unknown:
        raise CheckpointError(
            f"{where} is of another model ({about.get('model')}): it lacks {missing}, "
            f"and has {unknown}, which the model has not"
        )
    try:
        for name in about.get("complex", ()):
            tensors[name] = torch.view_as_complex(tensors[name])
    except (KeyError, TypeError, RuntimeError) as error:
        raise CheckpointError(f"{where}: its header does not fit its weights: {error}") from error
    for name, tensor in here.items():
        new = tensors[name]
        if nn.parameter.is_lazy(tensor):
            raise ValueError(f"model: {name} has no shape yet, there is no memory for its values")
        if tensor.shape != new.shape:
            raise CheckpointError(
                f"{where} is of another model: {name} has shape {tuple(new.shape)}, "
                f"the model's {tuple(tensor.shape)}"
            )
        if not torch.can_cast(new.dtype, tensor.dtype):
            raise CheckpointError(
                f"{where} is of another model: {name} is of {new.dtype}, which the model's "
                f"{tensor.dtype} cannot hold"
            )
    config: dict[str, Any] = about["config"]
    return here, tensors, config


def _kept(model: nn.Module) -> dict[str, Tensor]:
    """What a ``state_dict`` has, tied tensors once."""
    names = model.state_dict(keep_vars=True)
    extra = [name for name in names if name.endswith("_extra_state")]
    if extra:
        raise TypeError(f"model: {extra[0]} is no tensor, and a model's file holds only tensors")
    kept = {name: tensor for name, tensor in tensors_of(model).items() if name in names}
    known = {id(tensor) for tensor in kept.values()}
    lost = [name for name, value in names.items() if name not in kept and id(value) not in known]
    lost += [name for name, _ in model.named_parameters() if name not in kept]
    if lost:
        raise TypeError(
            f"model: {lost[0]} is not in its state_dict as the parameter or buffer of this name, "
            "and a model's file holds only these"
        )
    return kept


def _checked(model: Any, path: Any) -> str:
    """The path as a str, if both can be what they are given as."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    return _path(path)


def _path(path: Any) -> str:
    if not isinstance(path, str | bytes | os.PathLike):
        raise TypeError(
            f"path must be the path of a file, got {type(path).__name__}: {path!r:.60}"
        )
    return os.fsdecode(path)


def _read(path: str | Path, *, weights: bool = True) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import safe_open

    where = _path(path)
    if not os.path.isfile(where):
        raise FileNotFoundError(f"path: there is no file {where}")
    try:
        with safe_open(where, framework="pt", device="cpu") as file:
            names = file.keys() if weights else ()
            tensors = {name: file.get_tensor(name) for name in names}
            about = dict(json.loads((file.metadata() or {}).get("about", "{}")))
    except Exception as error:  # whatever a damaged file leads to
        raise CheckpointError(f"{where} cannot be read as safetensors: {error}") from error
    version = about.get("format"), about.get("version")
    if version != (FORMAT, VERSION):
        raise CheckpointError(
            f"{where}: expected {FORMAT!r}, version {VERSION}, got {version[0]!r}, "
            f"version {version[1]!r}"
        )
    if not isinstance(about.get("config"), dict) or not isinstance(about.get("sha256"), str):
        raise CheckpointError(f"{where}: its header lacks the configuration or the digest")
    seal = about.pop(SEAL, None)
    if seal is not None and seal != _sealed(about):
        raise CheckpointError(f"{where}: the configuration was changed since it was saved")
    return about, tensors


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of names, dtypes, shapes and values."""
    whole = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        whole.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()
