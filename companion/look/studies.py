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
        seeds: at least one seed.
        keys: ``{key: "what it is"}`` or ``{key: ("what it is", "unit")}``, every key that
            ``one_seed`` returns.
        device: where it ran, for the stamp.

    Returns:
        the path of the JSON.

    Raises:
        ValueError: if keys do not match, or a value is not finite; nothing is written then.

    Example:
        >>> import tempfile
        >>> script = Path(tempfile.mkdtemp()) / "squares.py"
        >>> run_study(script, "Squares.", lambda s: {"x": s * s}, [1, 2], {"x": "square"}).name
        seed 1: x=1 (0 s)
        seed 2: x=4 (0 s)
        'squares.json'
    """
    columns: dict[str, list[float]] = {key: [] for key in keys}
    for seed in seeds:
        start = time.perf_counter()
        row = one_seed(seed)
        if set(row) != set(keys):
            raise ValueError(f"one_seed({seed}) gave keys {sorted(row)}, keys says {sorted(keys)}")
        for key, value in row.items():
            columns[key].append(float(value))
        shown = " ".join(f"{key}={value:.4g}" for key, value in row.items())
        print(f"seed {seed}: {shown} ({time.perf_counter() - start:.0f} s)", flush=True)
    pairs = {k: (v, "") if isinstance(v, str) else v for k, v in keys.items()}
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
        ValueError: if a list of values has not one finite number a seed; nothing is written.
    """
    script = Path(script).resolve()
    if not description.strip():
        raise ValueError("description must say what was run, got an empty one")
    record = {
        "study": script.stem,
        "description": " ".join(description.split()),
        "script": f"book/studies/{script.name}",
        "recorded": datetime.date.today().isoformat(),
        "machine": machine(device),
        "seeds": [int(seed) for seed in seeds],
        "results": {
            key: check_result(f"{script.stem}/{key}", result, len(seeds))
            for key, result in results.items()
        },
    }
    if not record["seeds"] or not record["results"]:
        raise ValueError(f"study {script.stem}: seeds and results must not be empty")
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


def check_result(name: str, result: Any, seeds: int) -> dict[str, Any]:
    """Return ``result`` in its stored form, or raise ``ValueError`` that says what is wrong."""
    if not isinstance(result, Mapping) or not isinstance(result.get("values"), list | tuple):
        raise ValueError(f"{name}: expected a mapping with a list 'values', got {result!r}")
    values = list(result["values"])
    if len(values) != seeds:
        raise ValueError(f"{name}: expected one value a seed ({seeds}), got {len(values)}")
    for value in values:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise ValueError(f"{name}: every value must be a finite number, got {value!r}")
    return {
        "values": values,
        "unit": str(result.get("unit", "")),
        "what": str(result.get("what", "")),
    }


def machine(device: str = "cpu") -> dict[str, Any]:
    """Return what a number depends on: processor, cores, threads, versions, device.

    Args:
        device: the device of the run; for CUDA its name is looked up.

    Returns:
        a JSON-ready mapping.

    Example:
        >>> sorted(machine())
        ['cores', 'cpu', 'device', 'platform', 'python', 'threads', 'torch']
    """
    import torch

    name = str(device)
    if torch.device(device).type == "cuda":
        name = torch.cuda.get_device_name(torch.device(device))
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
