"""Execute notebooks and store them in the normal form that strict nbval compares.

::

    python tools/refresh.py book/*.ipynb           execute, then write the normal form
    python tools/refresh.py --check book/*.ipynb   execute nothing; list what is not normal

Normal form: cells counted 1..n; of the metadata only ``tags`` and ``mystnb``; no images and no
HTML (nbval does not compare them, git should not carry them); cells tagged ``nbval-ignore-output``
empty.
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
import tempfile
from pathlib import Path

import nbformat

KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT = ("tags", "mystnb")
UNCOMPARED = ("image/", "text/html", "application/vnd")


def normalize(nb: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return ``nb`` in normal form; ``nb`` itself is left alone."""
    nb = copy.deepcopy(nb)
    nb.metadata = nbformat.from_dict(KERNEL)
    nb.nbformat, nb.nbformat_minor = 4, 5
    count = 0
    for k, cell in enumerate(nb.cells):
        cell.setdefault("id", f"cell-{k}")
        kept = {m: cell.metadata[m] for m in KEPT if cell.metadata.get(m)}
        cell.metadata = nbformat.from_dict(kept)
        cell.pop("attachments", None)
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        outputs = [] if "nbval-ignore-output" in cell.metadata.get("tags", []) else cell.outputs
        cell.outputs = [o for o in (_output(o, count) for o in merged(outputs)) if o]
    return nb


def merged(outputs: list) -> list:
    """Join neighboring pieces of one stream: where a kernel flushes is chance."""
    joined: list = []
    for out in outputs:
        last = joined[-1] if joined else None
        if out.output_type == "stream" and last and last.get("name") == out.name:
            last.text += out.text
        else:
            joined.append(out)
    return joined


def _output(out, count: int):
    if "data" in out:
        out.data = nbformat.from_dict(
            {k: v for k, v in out.data.items() if not k.startswith(UNCOMPARED)}
        )
        out.metadata = nbformat.from_dict({})
        if not out.data:
            return None
    if out.output_type == "execute_result":
        out.execution_count = count
    return out


def execute(nb: nbformat.NotebookNode, folder: Path) -> None:
    """Run every cell in place, in the folder where the notebook lies."""
    os.environ.setdefault("COMPANION_PROGRESS", "0")  # a bar on stderr would fail its cell
    from nbclient import NotebookClient

    NotebookClient(
        nb,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(folder)}},
    ).execute()


def talkative(nb: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """List the cells with output on stderr: a warning differs from one machine to the next."""
    return [c for c in nb.cells if any(o.get("name") == "stderr" for o in c.get("outputs", []))]


def text(nb: nbformat.NotebookNode) -> str:
    return nbformat.writes(nb).rstrip("\n") + "\n"


def write(path: Path, content: str) -> None:
    """Write whole or not at all."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as part:
        part.write(content)
    os.chmod(part.name, 0o644)
    os.replace(part.name, path)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="execute nothing, write nothing")
    parser.add_argument("notebooks", nargs="*", type=Path)
    args = parser.parse_args(argv)
    bad = 0
    for path in args.notebooks:
        before = path.read_text(encoding="utf-8")
        nb = nbformat.reads(before, as_version=4)
        if not args.check:
            print(path, flush=True)
            execute(nb, path.parent)
        nb = normalize(nb)
        after = text(nb)
        for cell in talkative(nb):
            print(f"{path}: cell {cell.id} writes to stderr, which fails it", file=sys.stderr)
            bad = 1
        if args.check and after != before:
            print(f"{path}: not in normal form (make refresh NB={path})", file=sys.stderr)
            bad = 1
        elif after != before:
            write(path, after)
    return bad


if __name__ == "__main__":
    sys.exit(main())
