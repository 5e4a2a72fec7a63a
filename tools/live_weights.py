"""Write what the live pictures read: weights of checkpoints, and the recorded study of lengths.

::

    python tools/live_weights.py            write book/_static/live/weights/*.js
    python tools/live_weights.py --check    write nothing; fail if one of them would change

The checkpoints and the study are the source; these files are the same numbers as scripts, since a
page that is opened from a folder (``file://``) may load no other kind of file. A weight keeps its
name, its shape and its 16 bits.
"""

from __future__ import annotations

import argparse
import base64
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from companion.train import read_config

BOOK = Path(__file__).parents[1] / "book"
WEIGHTS = BOOK / "_static/live/weights"
CHECKPOINTS = {
    "letters": ("characters", "bits"),
    "spelling": ("letters", "phonemes", "bos", "eos", "right"),
}
QUANTITIES = ("train", "peak", "state", "step")


def weights(name: str) -> dict[str, Any]:
    """The tensors of a checkpoint, and what of its configuration the page needs."""
    path = BOOK / f"checkpoints/{name}.safetensors"
    config = read_config(path)
    tensors = {}
    for key, tensor in sorted(load_file(path).items()):
        if tensor.dtype != "float16":
            raise TypeError(f"{path.name}: {key}: expected float16, got {tensor.dtype}")
        raw = tensor.astype("<f2").tobytes()
        tensors[key] = {"shape": list(tensor.shape), "f16": base64.b64encode(raw).decode()}
    return {key: config[key] for key in CHECKPOINTS[name]} | {"tensors": tensors}


def scaling() -> dict[str, Any]:
    """Of each layer the lengths and the medians over the rounds, of whatever layers there are."""
    study = json.loads((BOOK / "studies/bench_scaling.json").read_text(encoding="utf-8"))
    layers: dict[str, dict[str, Any]] = {}
    for key, result in study["results"].items():
        name, what, length = key.rsplit(" ", 2)  # "attention, scores kept train 256"
        if what in QUANTITIES:
            by_length = layers.setdefault(name, {}).setdefault(what, {})
            by_length[int(length)] = float(f"{statistics.median(result['values']):.4g}")
    for layer in layers.values():
        for what, by_length in layer.items():
            at = sorted(by_length)
            layer[what] = {"lengths": at, "values": [by_length[T] for T in at]}
    machine = {key: study["machine"][key] for key in ("cpu", "threads", "torch")}
    return {"recorded": study["recorded"], "machine": machine, "layers": layers}


def scripts() -> dict[Path, str]:
    """Each file and its text."""
    files: dict[str, dict[str, Any]] = {name: weights(name) for name in CHECKPOINTS}
    files["scaling"] = scaling()
    return {
        WEIGHTS / f"{name}.js": f"(globalThis.live ??= {{}}).{name} = "
        + json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        + ";\n"
        for name, content in files.items()
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args(argv)
    bad = 0
    for path, text in scripts().items():
        if args.check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                print(f"{path}: not what the source says (python tools/live_weights.py)")
                bad = 1
        else:
            path.write_text(text, encoding="utf-8")
            print(f"{path.name}: {path.stat().st_size:,} bytes")
    return bad


if __name__ == "__main__":
    sys.exit(main())
