"""Save the introduction's figure as book/_static/cover.svg, the picture of the README.

::

    python tools/cover.py [FILE]     the file's suffix chooses the format

The cells of book/intro.ipynb run up to the first that has a figure; nothing is drawn here.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import nbformat

ROOT = Path(__file__).parents[1]


def draw(path: Path) -> None:
    cells = nbformat.read(ROOT / "book/intro.ipynb", as_version=4).cells
    names: dict = {"__name__": "__main__"}
    for cell in cells:
        if cell.cell_type != "code":
            continue
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(cell.source, cell.id, "exec"), names)
        if cell.metadata.get("mystnb", {}).get("figure"):
            break
    else:
        raise SystemExit("book/intro.ipynb has no cell with a figure (metadata mystnb.figure)")
    # the same bytes on every run, so that git sees a change only where there is one
    plt.rcParams["svg.hashsalt"] = "recurrence"
    metadata = {"Date": None} if path.suffix == ".svg" else None
    plt.gcf().savefig(path, bbox_inches="tight", facecolor="white", metadata=metadata)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "book/_static/cover.svg")
