"""Sphinx extension: a line under each chapter's title, and how to run the chapter.

The line says how long the text takes to read, how much code there is to see, how long it ran when
this site was built, and what data it loads. Folded below stands how to run it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from doors import address, install
from sphinx import addnodes

from companion.exercises import read_exercises

WORDS_A_MINUTE = 200
LOADS = re.compile(r"\bload\(\s*[\"']([\w-]+)[\"']")
RECORDED = re.compile(r"\brecorded\(\s*f?[\"'](\w+)/")
# what is not read as prose: fenced code, mathematics, the options of a directive
NO_PROSE = re.compile(r"^(`{3,}|\$\$).*?^\1`*$|^:[\w-]+:.*$", re.M | re.S)


def facts(path: Path) -> dict[str, Any]:
    """Minutes of text, in fives; lines of code that are not folded, in tens; names of data sets
    and of studies, in the chapter's order."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = {
        kind: "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == kind)
        for kind in ("markdown", "code")
    }
    words = len(re.findall(r"\b[^\W\d_]{2,}", NO_PROSE.sub("", text["markdown"])))
    shown = [
        line
        for c in cells
        if c["cell_type"] == "code" and "hide-input" not in c["metadata"].get("tags", [])
        for line in "".join(c["source"]).splitlines()
        if line.strip()
    ]
    return {
        "lines": 10 * round(len(shown) / 10),
        "minutes": max(5, 5 * round(words / WORDS_A_MINUTE / 5)),
        # load takes "ag_news" for "ag-news"
        "data": list(dict.fromkeys(n.replace("_", "-") for n in LOADS.findall(text["code"]))),
        "studies": list(dict.fromkeys(RECORDED.findall(text["code"]))),
    }


def _ref(name: str, docname: str) -> addnodes.pending_xref:
    target = {"refdomain": "std", "reftype": "ref", "reftarget": f"data-{name}"}
    target |= {"refdoc": docname, "refexplicit": True, "refwarn": True}
    return addnodes.pending_xref("", nodes.inline("", name), **target)


def _line(known: dict[str, Any], seconds: float | None, docname: str) -> nodes.paragraph:
    what = f"{known['minutes']} min of text · {known['lines']} lines of code"
    line = nodes.paragraph("", what, classes=["stamp"])
    if seconds is not None:
        line += nodes.Text(f" · ran in {max(1, round(seconds))} s")
    if known["data"]:
        line += nodes.Text(" · data: ")
        for k, name in enumerate(known["data"]):
            line += [nodes.Text(", " if k else ""), _ref(name, docname)]
    return line


def _item(*parts: str | nodes.Node) -> nodes.list_item:
    """A list item; every second text is code."""
    paragraph = nodes.paragraph()
    for k, part in enumerate(parts):
        if isinstance(part, str):
            part = nodes.literal(text=part) if k % 2 else nodes.Text(part)
        paragraph += part
    return nodes.list_item("", paragraph)


def _ways(path: Path, known: dict[str, Any], repository: str) -> nodes.bullet_list:
    """How to run the chapter: here, elsewhere, and what belongs to it."""
    file = f"book/{path.name}"
    download = nodes.reference("", path.name, refuri=f"../_sources/{file}")
    ways = nodes.bullet_list()
    ways += _item(
        "In a clone of the book, in JupyterLab: ", "make lab", f", then open {path.name}"
    )
    ways += _item(
        "Without a browser, outputs compared: ",
        f".venv/bin/python -m pytest --nbval --nbval-current-env {file}",
        "",
    )
    ways += _item("As a file: ", download, "; it needs the package, ", "pip install -e '.[book]'")
    if repository:
        first, folder = install(repository).split("\n")
        ways += _item(
            "In a hosted notebook, such as Colab, run first: ", first, " and ", folder, ""
        )
    for name in [e.name for e in read_exercises(path)][:1]:
        command = f"python -m companion exercise {name}"
        ways += _item("An exercise in a file of your own: ", command, ", and so for the others")
    if known["studies"]:
        item = _item("Takes longer, and is only read here: ")
        for k, name in enumerate(known["studies"]):
            study = nodes.literal(text=f"book/studies/{name}.py")
            item[0] += [nodes.Text(", " if k else ""), study]
        ways += item
    return ways


def _stamp(app, doctree) -> None:
    docname = app.env.docname
    path = Path(app.env.doc2path(docname))
    title = next(doctree.findall(nodes.title), None)
    if path.suffix != ".ipynb" or title is None:
        return
    known = facts(path)
    ran = app.env.nb_metadata.get(docname, {}).get("exec_data") or {}
    box = nodes.container(classes=["stamp-box"])
    box += _line(known, ran.get("runtime"), docname)
    fold = '<details class="stamp-run"><summary>Run this chapter</summary>'
    box += nodes.raw("", fold, format="html")
    box += _ways(path, known, address())
    box += nodes.raw("", "</details>", format="html")
    title.parent.insert(title.parent.index(title) + 1, box)


def setup(app: Any) -> dict[str, Any]:
    app.connect("doctree-read", _stamp)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
