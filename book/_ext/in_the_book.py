"""Sphinx extension: from each entry of the API page to the chapters, and back.

An entry says which chapters show its source and which use it. Below a cell that shows a source
stands a link to its entry. Both are found by reading the chapters' code.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

import companion
from companion.exercises import chapters

API = "book/api"
ENTRY = re.compile(r"^\.\. (?:auto\w+|py:\w+):: (companion[\w.]*)", re.M)
MANY = 5  # more chapters than these are counted, not named


@cache
def entries(page: Path) -> frozenset[str]:
    """The names the API page documents, in full."""
    return frozenset(ENTRY.findall(page.read_text(encoding="utf-8")))


def is_module(parts: list[str]) -> bool:
    """Whether the name means a file or folder of the package."""
    place = Path(companion.__file__).parents[1].joinpath(*parts)
    return place.is_dir() or place.with_suffix(".py").is_file()


def public(name: str, known: Iterable[str]) -> str | None:
    """The documented name that ``name``, an attribute of it, or a name of its own module means."""
    parts = name.split(".")
    for n in range(len(parts), 1, -1):
        if (whole := ".".join(parts[:n])) in known:
            return whole
    for n, part in enumerate(parts[1:], 1):  # imported from the file it stands in
        found = [k for k in known if k.endswith("." + part)]
        if len(found) == 1 and not is_module(parts[: n + 1]):
            return found[0]
    return None


def sources(path: Path) -> list[str]:
    """The chapter's code cells."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]


def imported(trees: Iterable[ast.AST]) -> dict[str, str]:
    """What the names that are imported from the package mean."""
    found: dict[str, str] = {}
    for node in (n for tree in trees for n in ast.walk(tree)):
        if isinstance(node, ast.Import):
            for a in node.names:
                if a.name.split(".")[0] == "companion":
                    found[a.asname or "companion"] = a.name if a.asname else "companion"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "companion":
            for a in node.names:
                found[a.asname or a.name] = f"{node.module}.{a.name}"
    return found


def dotted(node: ast.AST, means: dict[str, str]) -> str | None:
    """``look.figure`` as ``companion.look.figure``; None for what is not the package's."""
    if isinstance(node, ast.Name):
        return means.get(node.id)
    if isinstance(node, ast.Attribute) and (base := dotted(node.value, means)):
        return f"{base}.{node.attr}"
    return None


def shown(tree: ast.AST, means: dict[str, str]) -> Iterator[str]:
    """What the calls of ``show_source`` show."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            if (dotted(node.func, means) or "").endswith(".show_source"):
                if name := dotted(node.args[0], means):
                    yield name


@cache
def uses(path: Path, page: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The documented names whose source a chapter shows, and those that it uses."""
    trees = [ast.parse(code) for code in sources(path)]
    means, known = imported(trees), entries(page)
    show = {public(n, known) for tree in trees for n in shown(tree, means)}
    use = {
        public(name, known)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name) and (name := dotted(node, means))
    }
    return frozenset(filter(None, show)), frozenset(filter(None, use - show))


def _link(app, path: Path) -> addnodes.pending_xref:
    target = {"refdomain": "std", "reftype": "doc", "reftarget": f"/book/{path.stem}"}
    target |= {"refdoc": app.env.docname, "refexplicit": False, "refwarn": True}
    return addnodes.pending_xref("", nodes.inline("", path.stem), **target)


def _chapters(app, words: str, found: list[Path]) -> list[nodes.Node]:
    """``words`` and the chapters; of many the first alone."""
    if not found:
        return []
    result: list[nodes.Node] = [nodes.Text(f"{words} ")]
    if len(found) > MANY:
        return [*result, nodes.Text(f"{len(found)} chapters, first in "), _link(app, found[0])]
    for k, path in enumerate(found):
        result += [nodes.Text(", " if k else ""), _link(app, path)]
    return result


def _back(app, doctree) -> None:
    """A line in front of each entry of the API page."""
    page = Path(app.env.doc2path(API))
    inside = [p for p in chapters() if f"book/{p.stem}" in app.env.found_docs]
    for path in inside:
        app.env.note_dependency(str(path))
    for entry in list(doctree.findall(addnodes.desc)):
        if not isinstance(entry.parent, nodes.section):
            continue  # a method
        signature = entry[0]
        name = signature["ids"][0] if signature["ids"] else ""
        show = [p for p in inside if name in uses(p, page)[0]]
        use = [p for p in inside if name in uses(p, page)[1]]
        parts = [_chapters(app, "built or shown in", show), _chapters(app, "used in", use)]
        if not any(parts):
            continue
        line = nodes.paragraph("", "In the book: ", classes=["in-the-book"])
        line += [
            *parts[0],
            *([nodes.Text("; ")] if all(parts) else []),
            *parts[1],
            nodes.Text("."),
        ]
        entry.parent.insert(entry.parent.index(entry), line)


def _forth(app, doctree, path: Path) -> None:
    """A link below each cell that shows the package's source."""
    page = Path(app.env.doc2path(API))
    means = imported(ast.parse(code) for code in sources(path))
    for cell in list(doctree.findall(nodes.container)):
        if cell.get("nb_element") != "cell_code":
            continue
        blocks = cell[0].findall(nodes.literal_block) if len(cell) else ()
        code = "\n".join(block.astext() for block in blocks)
        if "show_source(" not in code:
            continue
        names = (public(n, entries(page)) for n in shown(ast.parse(code), means))
        if found := list(dict.fromkeys(filter(None, names))):
            line = nodes.paragraph("", "API reference: ", classes=["in-the-book"])
            for k, name in enumerate(found):
                target = {"refdomain": "py", "reftype": "obj", "reftarget": name}
                target |= {"refdoc": app.env.docname, "refexplicit": True, "refwarn": True}
                text = nodes.literal(text=name)
                line += [nodes.Text(", " if k else ""), addnodes.pending_xref("", text, **target)]
            cell.parent.insert(cell.parent.index(cell) + 1, line)


def _links(app, doctree) -> None:
    docname = app.env.docname
    path = Path(app.env.doc2path(docname))
    if docname == API:
        _back(app, doctree)
    elif path.suffix == ".ipynb" and API in app.env.found_docs:
        _forth(app, doctree, path)


def setup(app: Any) -> dict[str, Any]:
    app.connect("doctree-read", _links)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
