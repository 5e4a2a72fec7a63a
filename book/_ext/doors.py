"""Sphinx extension: buttons that lead to the book's repository, to Binder and to Colab.

The address is not written down anywhere: where the environment has BOOK_REPOSITORY, as it has in
the workflow that publishes the site, pages get the buttons, and the notebooks that a reader
downloads from the site get a first cell, which the page does not show, that installs the package
where it is missing. Binder installs environment.yml. Colab opens the notebook of the repository,
without that cell: "Run this chapter" (stamp.py) has the line to run first.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

BRANCH = "main"
ADDRESS = re.compile(r"https://[\w.-]+(?:/[\w.-]+)+")


def address() -> str:
    """The public address of the repository, or nothing.

    Raises:
        ValueError: if BOOK_REPOSITORY is no https address.
    """
    found = os.environ.get("BOOK_REPOSITORY", "").rstrip("/").removesuffix(".git")
    if found and not ADDRESS.fullmatch(found):
        raise ValueError(f"BOOK_REPOSITORY: expected https://host/owner/name, got {found!r}")
    return found


def install(repository: str) -> str:
    """What a hosted notebook runs first: the package, and the folder that chapters read from."""
    first = f"!git clone -q {repository} recurrence && pip install -q './recurrence[book]'"
    return first + "\n%cd recurrence/book"


def _buttons(app: Any, config: Any) -> None:
    if repository := address():
        config.html_theme_options |= {
            "repository_url": repository,
            "repository_branch": BRANCH,
            "path_to_docs": "",
            "use_repository_button": True,
            "use_issues_button": True,
            "launch_buttons": {
                "notebook_interface": "jupyterlab",
                "binderhub_url": "https://mybinder.org",
                "colab_url": "https://colab.research.google.com",
            },
        }


def with_install(notebook: dict[str, Any], repository: str) -> dict[str, Any]:
    """The notebook with a cell before all others that installs the package if it is missing."""
    lines = ["import importlib.util", "", 'if importlib.util.find_spec("companion") is None:']
    lines += ["    " + line for line in install(repository).splitlines()]
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": "install",
        "metadata": {"tags": ["remove-cell"]},
        "outputs": [],
        "source": [f"{line}\n" for line in lines[:-1]] + lines[-1:],
    }
    return {**notebook, "cells": [cell, *notebook["cells"]]}


def _downloads(app: Any, exception: Exception | None) -> None:
    repository = address()
    if exception or not repository or app.builder.name != "html":
        return
    for path in sorted(Path(app.outdir).glob("_sources/**/*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        if notebook["cells"][0].get("id") != "install":
            made = json.dumps(with_install(notebook, repository), indent=1, ensure_ascii=False)
            path.write_text(made + "\n", encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    app.connect("config-inited", _buttons)
    app.connect("build-finished", _downloads)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
