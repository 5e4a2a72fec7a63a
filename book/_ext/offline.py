"""Sphinx extension: a site that asks nothing of the network, and small mends of the theme.

MathJax comes from the installed package ``sphinx-mathjax-offline``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

# The script with the HTML output, and the fonts it draws with: 3 of the package's 30 MB.
MATHJAX = ["tex-chtml.js", "output/chtml/fonts/woff-v2"]


def _root(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"package {name} is not installed: pip install -e '.[book]'")
    return Path(next(iter(spec.submodule_search_locations)))


def _copy_mathjax(app, exc):
    # not through html_static_path: that would copy all 30 MB
    if exc is not None or app.builder.format != "html":
        return
    source = _root("sphinx-mathjax-offline") / "static/mathjax"
    target = Path(app.outdir, "_static/mathjax")
    for name in MATHJAX:
        src, dst = source / name, target / name
        dst.parent.mkdir(parents=True, exist_ok=True)
        if src.is_dir():
            shutil.copytree(src, dst, dirs_exist_ok=True)
        else:
            shutil.copyfile(src, dst)


# what other extensions write, and what a screen reader or a link can use
MENDS = [
    # docutils calls the bibliography a list, but not its items list items
    (r'<div role="list" class="citation-list">', '<div class="citation-list">'),
    # sphinx-exercise gives every exercise of a page the same id
    (r'<section id="(?:exercise|solution)-content">', "<section>"),
]


def _mend(app, pagename, templatename, context, doctree):
    for wrong, right in MENDS:
        if "body" in context:
            context["body"] = re.sub(wrong, right, context["body"])


def _no_thebe(app):
    # Jupyter Book always loads sphinx-thebe, whose script, put in twice, fails on every page
    for event in ("env-before-read-docs", "doctree-resolved"):
        app.events.listeners[event] = [
            x for x in app.events.listeners[event] if x.handler.__module__ != "sphinx_thebe"
        ]


def setup(app):
    os.environ.setdefault("COMPANION_PROGRESS", "0")  # should the build have to run a chapter
    app.connect("builder-inited", _no_thebe)
    app.connect("html-page-context", _mend)
    app.connect("build-finished", _copy_mathjax)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
