"""Seeds, determinism and the device: what has to be fixed before a number can be stated."""

from __future__ import annotations

import os
import random
import warnings
from numbers import Integral

import torch

__all__ = ["default_device", "deterministic", "seed_all"]


def seed_all(seed: int) -> None:
    """Seed every random generator the book uses: Python's, NumPy's and torch's on all devices.

    Args:
        seed: a whole number, 0 ≤ seed < 2**32 (NumPy's range).

    Raises:
        TypeError: if ``seed`` is not a whole number.
        ValueError: if it is out of range.

    Example:
        >>> import torch
        >>> seed_all(0); a = torch.rand(3)
        >>> seed_all(0); b = torch.rand(3)
        >>> torch.equal(a, b)
        True
    """
    import numpy as np

    number = check_seed(seed)
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)  # seeds CPU, CUDA (all devices, lazily) and MPS


def check_seed(seed: int) -> int:
    """Return a seed that every generator takes, as an int.

    Args:
        seed: a whole number, 0 ≤ seed < 2**32 (NumPy's range).

    Raises:
        TypeError: if ``seed`` is not a whole number.
        ValueError: if it is out of range.

    Example:
        >>> check_seed(-1)
        Traceback (most recent call last):
        ValueError: seed must be in 0 ... 2**32 - 1, got -1
    """
    if isinstance(seed, bool) or not isinstance(seed, Integral):  # NumPy's integers are Integral
        raise TypeError(f"seed must be an int, got {type(seed).__name__}: {seed!r}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be in 0 ... 2**32 - 1, got {seed}")
    return int(seed)


def cpu_generator(seed: int) -> torch.Generator:
    """Return a generator of one's own on the CPU, whatever torch's default device is.

    Args:
        seed: a whole number.

    Raises:
        TypeError: if ``seed`` is not a whole number.

    Example:
        >>> cpu_generator(3).initial_seed()
        3
    """
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(f"seed must be an int, got {type(seed).__name__}: {seed!r}")
    return torch.Generator("cpu").manual_seed(int(seed))


def default_device() -> torch.device:
    """Return the device that the environment variable ``COMPANION_DEVICE`` names, else the CPU.

    Returns:
        the device: ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.

    Raises:
        ValueError: if the variable names no such device.
        RuntimeError: if the device is not there. There is no silent fall-back to the CPU.

    Example:
        >>> isinstance(default_device(), torch.device)
        True
    """
    name = os.environ.get("COMPANION_DEVICE", "").strip().lower() or "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"COMPANION_DEVICE must be cpu, cuda, cuda:N or mps, got {name!r}")
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            raise RuntimeError(
                f"COMPANION_DEVICE={name} asks for a CUDA device, but torch {torch.__version__} "
                f"sees {count} of them; install a CUDA build of torch, or unset COMPANION_DEVICE"
            )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise RuntimeError("COMPANION_DEVICE=mps, but torch sees no MPS device here; unset it")
    return device


def deterministic() -> None:
    """Ask torch for the same result on every run: deterministic algorithms, float32 without TF32.

    Call it before the first CUDA operation: cuBLAS reads ``CUBLAS_WORKSPACE_CONFIG`` when its
    handle is made. An operation without a deterministic form raises from then on.

    Example:
        >>> deterministic()
        >>> torch.are_deterministic_algorithms_enabled()
        True
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    with warnings.catch_warnings():
        # Some releases announce fp32_precision here; but once that is set, reading allow_tf32
        # (torch.backends.cudnn.flags does) raises. The old names work in all releases.
        warnings.filterwarnings("ignore", message="Please use the new API settings")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
