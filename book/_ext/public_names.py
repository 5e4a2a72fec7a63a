"""Sphinx extension: references to the package lead to the public name.

autodoc writes a type as ``companion.cells.base.Cell``, after the file it stands in; the API page
documents it as ``companion.Cell``, which is what a reader imports. A name of the package that is
not public (a base class, the alias of a type) stays plain text. Another unknown name is a warning.
"""

from __future__ import annotations

import sys

from sphinx.util.nodes import make_refnode


def _ours(target: str) -> bool:
    """Tell whether ``target``, with or without its module, names something the package defines."""
    module, _, name = target.rpartition(".")
    if module:
        return module.split(".")[0] == "companion"
    loaded = [m for key, m in sys.modules.items() if key.split(".")[0] == "companion"]
    return any(hasattr(m, name) for m in loaded)


def _resolve(app, env, node, contnode):
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not _ours(target):
        return None
    python, last = env.get_domain("py"), "." + target.rpartition(".")[2]
    documented = [n for n in python.objects if n.startswith("companion.") and n.endswith(last)]
    if len(documented) != 1:
        return contnode if node.get("reftype") in {"class", "obj"} else None
    entry = python.objects[documented[0]]
    place = node.get("refdoc") or env.docname
    return make_refnode(app.builder, place, entry.docname, entry.node_id, contnode, documented[0])


def setup(app):
    app.connect("missing-reference", _resolve)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
