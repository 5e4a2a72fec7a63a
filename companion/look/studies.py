"""Studies: what takes longer than a chapter may, run by a script and kept as JSON with a stamp.

A script in ``book/studies/NAME.py`` computes numbers for several seeds and writes
``book/studies/NAME.json`` beside itself; a chapter reads them with
:func:`companion.look.recorded`.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

__all__ = ["machine", "run_study", "write_study"]


def run_study(
    script: str | Path,
    description: str,
    one_seed: Callable[[int], Mapping[str, float]],
    seeds: Sequence[int],
    keys: Mapping[str, str | tuple[str, str]],
    *,
    device: str = "cpu",
) -> Path:
    """Run a study once a seed and write its JSON beside its script.

    Args:
        script: the calling script, ``__file__``; its stem names the study.
        description: one sentence: what was run, on what, for how long.
        one_seed: maps a seed to ``{key: value}``.
        seeds: a list, tuple or range of different whole numbers, at least one.
        keys: ``{key: "what it is"}`` or ``{key: ("what it is", "unit")}``, every key that
            ``one_seed`` returns.
        device: where it ran, for the stamp.

    Returns:
        the path of the JSON.

    Raises:
        TypeError, ValueError: if an argument has no use; this is found before the first seed.
        ValueError: if keys do not match, or a value is not finite; nothing is written then.

    Example:
        >>> import tempfile
        >>> script = Path(tempfile.mkdtemp()) / "squares.py"
        >>> run_study(script, "Squares.", lambda s: {"x": s * s}, [1, 2], {"x": "square"}).name
        seed 1: x=1 (0 s)
        seed 2: x=4 (0 s)
        'squares.json'
    """
    _check_study(script, description, seeds, device)
    if not callable(one_seed):
        raise TypeError(f"one_seed must be callable, got {type(one_seed).__name__}: {one_seed!r}")
    pairs = _check_keys(keys)
    columns: dict[str, list[float]] = {key: [] for key in keys}
    for seed in seeds:
        start = time.perf_counter()
        row = one_seed(seed)
        if not isinstance(row, Mapping):
            raise TypeError(f"one_seed({seed}) must give {{key: value}}, got {row!r:.60}")
        if set(row) != set(keys):
            raise ValueError(f"one_seed({seed}) gave keys {sorted(row)}, keys says {sorted(keys)}")
        for key, value in row.items():
            columns[key].append(_value(f"one_seed({seed}), {key}", value))
        shown = " ".join(f"{key}={value:.4g}" for key, value in row.items())
        print(f"seed {seed}: {shown} ({time.perf_counter() - start:.0f} s)", flush=True)
    results = {
        key: {"values": columns[key], "unit": unit, "what": what}
        for key, (what, unit) in pairs.items()
    }
    return write_study(script, description, seeds, results, device=device)


def write_study(
    script: str | Path,
    description: str,
    seeds: Sequence[int],
    results: Mapping[str, Mapping[str, Any]],
    *,
    device: str = "cpu",
) -> Path:
    """Write the results of a study beside its script, with date and machine, atomically.

    Args:
        script: the calling script, ``__file__``; its stem names the study.
        description: one sentence.
        seeds: the seeds, in the order of the values.
        results: ``{key: {"values": [one a seed], "unit": "…", "what": "…"}}``.
        device: where it ran, for the stamp.

    Returns:
        the path of the JSON.

    Raises:
        TypeError, ValueError: if an argument has no use, or a list of values has not one finite
            number a seed; nothing is written.

    Example:
        >>> import tempfile
        >>> script = Path(tempfile.mkdtemp()) / "toy.py"
        >>> path = write_study(script, "A toy.", [0, 1], {"x": {"values": [1.5, 2.5]}})
        >>> json.loads(path.read_text())["results"]["x"]["values"]
        [1.5, 2.5]
    """
    stamp = _check_study(script, description, seeds, device)
    if not results:
        raise ValueError("results must not be empty")
    script = Path(script).resolve()
    record = {
        "study": script.stem,
        "description": " ".join(description.split()),
        "script": f"book/studies/{script.name}",
        "recorded": datetime.date.today().isoformat(),
        "machine": stamp,
        "seeds": [int(seed) for seed in seeds],
        "results": {
            key: check_result(f"{script.stem}/{key}", result, len(seeds))
            for key, result in results.items()
        },
    }
    path = script.with_suffix(".json")
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)  # mkstemp's 0600 would be committed as it is
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def _check_study(script: Any, description: Any, seeds: Any, device: Any) -> dict[str, Any]:
    """Return the machine's stamp, or raise for what cannot be written at the end."""
    if not isinstance(script, str | Path):
        raise TypeError(f"script must be a path, __file__, got {type(script).__name__}")
    folder = Path(script).resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"script must stand in a folder that can be written to, got {script}")
    if not isinstance(description, str):
        raise TypeError(f"description must be a str, got {type(description).__name__}")
    if not description.strip():
        raise ValueError("description must say what was run, got an empty one")
    check_seeds(seeds)
    return machine(device)


def check_seeds(seeds: Any) -> None:
    """Raise unless the seeds are a sequence of different whole numbers, at least one."""
    if not isinstance(seeds, Sequence) or isinstance(seeds, str | bytes):
        raise TypeError(f"seeds must be a list, tuple or range, got {type(seeds).__name__}")
    if not seeds:
        raise ValueError("seeds must not be empty")
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, Integral):
            raise TypeError(f"seeds must be whole numbers, got {seed!r:.60}")
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must differ from each other, got {list(seeds)}")


def _check_keys(keys: Any) -> dict[str, tuple[str, str]]:
    """Return ``{key: (what, unit)}``."""
    if not isinstance(keys, Mapping) or not keys:
        raise ValueError(f"keys must be a mapping with at least one key, got {keys!r:.60}")
    pairs = {key: (text, "") if isinstance(text, str) else text for key, text in keys.items()}
    for key, pair in pairs.items():
        texts = isinstance(pair, tuple) and len(pair) == 2
        if not isinstance(key, str) or not texts or not all(isinstance(t, str) for t in pair):
            raise TypeError(
                f'keys[{key!r}] must be "what it is" or ("what it is", "unit"), got {pair!r:.60}'
            )
    return pairs


def _value(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{name}: expected a number, got {value!r:.60}") from error
    if not math.isfinite(number):
        raise ValueError(f"{name}: every value must be a finite number, got {number!r}")
    return number


def check_result(name: str, result: Any, seeds: int) -> dict[str, Any]:
    """Return ``result`` in its stored form, or raise ``ValueError`` that says what is wrong."""
    if not isinstance(result, Mapping) or not isinstance(result.get("values"), list | tuple):
        raise ValueError(f"{name}: expected a mapping with a list 'values', got {result!r}")
    values = list(result["values"])
    if len(values) != seeds:
        raise ValueError(f"{name}: expected one value a seed ({seeds}), got {len(values)}")
    for value in values:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"{name}: every value must be a finite number, got {value!r:.60}")
        _value(name, value)
    texts = {field: result.get(field, "") for field in ("unit", "what")}
    for field, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"{name}: {field} must be a str, got {text!r:.60}")
    return {"values": values, **texts}


def machine(device: str = "cpu") -> dict[str, Any]:
    """Return what a number depends on: processor, cores, threads, versions, device.

    Args:
        device: the device of the run; for CUDA its name is looked up.

    Returns:
        a JSON-ready mapping.

    Raises:
        ValueError: if there is no such device.

    Example:
        >>> sorted(machine())
        ['cores', 'cpu', 'device', 'platform', 'python', 'threads', 'torch']
    """
    import torch

    name = str(device)
    try:
        if torch.device(device).type == "cuda":
            name = torch.cuda.get_device_name(torch.device(device))
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device: cannot use {device!r} here ({reason})") from error
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": name,
    }


def _cpu() -> str:
    if sys.platform.startswith("linux"):
        try:
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
                if line.startswith("model name"):
                    return " ".join(line.partition(":")[2].split())
        except OSError:
            pass
    return platform.processor() or platform.machine() or "unknown processor"
