"""Sphinx extension: a page with ``data-live="NAME"`` loads the scripts of that live picture.

All are classic scripts in ``book/_static/live``, since a browser refuses modules from ``file://``.
Pages without a live picture load nothing.
"""

from __future__ import annotations

import re

SCRIPTS = {
    "gates": ["weights/letters", "math/basics", "math/lstm"],
    "flow": ["math/basics", "math/memory"],
    "align": ["weights/spelling", "math/basics", "math/speller"],
    "cost": ["weights/scaling", "math/cost"],
    "scan": ["math/scan"],
}


def scripts(body: str) -> list[str]:
    """The scripts that a page needs, in order, each once."""
    wanted: list[str] = []
    for name in re.findall(r'data-live="([^"]*)"', body):
        if name not in SCRIPTS:
            raise ValueError(f"data-live: expected one of {sorted(SCRIPTS)}, got {name!r}")
        wanted += ["parts", *SCRIPTS[name], name]
    return [f"live/{script}.js" for script in dict.fromkeys(wanted)]


def _add(app, pagename, templatename, context, doctree) -> None:
    needed = scripts(context.get("body", ""))
    for script in needed:
        app.add_js_file(script, loading_method="defer")
    if needed:
        app.add_css_file("live/live.css")


def setup(app):
    app.connect("html-page-context", _add)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
