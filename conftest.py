"""nbval runs each chapter once; what it saw is what the book shows.

Outputs of a chapter whose cells all ran go into the jupyter-cache from which the book is built, so
that building the site executes nothing again. A chapter with a cell that raised is not stored: the
build runs it once more and shows the failure.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

CACHE = os.environ.get("BOOK_CACHE")  # a folder, set by the Makefile


def _is_cell(item) -> bool:
    return type(item).__name__ == "IPyNbCell"


def pytest_collectstart(collector):
    if type(collector).__name__ == "IPyNbFile":
        collector.skip_compare += ("text/html", "image/svg+xml")
        os.environ.setdefault("COMPANION_PROGRESS", "0")  # a bar on stderr would fail its cell


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item):
    if _is_cell(item):
        item.parent.__dict__.setdefault("book_start", time.perf_counter())
        item.parent.__dict__.setdefault("book_cells", []).append(item)


def pytest_runtest_teardown(item, nextitem):
    if not _is_cell(item) or getattr(nextitem, "parent", None) is item.parent:
        return
    seconds = time.perf_counter() - item.parent.book_start
    item.user_properties.append(("chapter", (Path(item.parent.path).stem, seconds)))
    if CACHE is not None:
        _store(item.parent, seconds)


def _ran(cell) -> bool:
    expected = "raises-exception" in cell.cell.metadata.get("tags", [])
    return cell.test_outputs is not None and (
        expected or not any(o.output_type == "error" for o in cell.test_outputs)
    )


def _store(file, seconds: float) -> None:
    import nbformat
    from filelock import FileLock
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn

    nb = nbformat.read(file.path, as_version=4)
    code = [c for c in nb.cells if c.cell_type == "code"]
    if len(code) != len(file.book_cells) or not all(map(_ran, file.book_cells)):
        return  # a failed or a partial run is no source of a book
    for n, (cell, item) in enumerate(zip(code, file.book_cells, strict=True), 1):
        cell.execution_count = n
        cell.outputs = [nbformat.from_dict(o) for o in item.test_outputs]
    nb.metadata.language_info = {"name": "python", "pygments_lexer": "ipython3"}
    with FileLock(f"{CACHE}.lock"):  # two xdist workers would both create the data base
        get_cache(CACHE).cache_notebook_bundle(
            CacheBundleIn(nb, str(file.path), data={"execution_seconds": seconds}),
            check_validity=False,
            overwrite=True,
        )


def pytest_terminal_summary(terminalreporter):
    """Print how long each chapter took: the budget is 15 s in the mean, never more than 40 s."""
    reports = [r for kind in terminalreporter.stats.values() for r in kind]
    kept = [v for r in reports for v in getattr(r, "user_properties", [])]
    took = dict(value for key, value in kept if key == "chapter")
    if took:
        terminalreporter.section("seconds a chapter", sep="-")
        for name, seconds in sorted(took.items()):
            terminalreporter.write_line(f"{seconds:7.1f}  {name}")
