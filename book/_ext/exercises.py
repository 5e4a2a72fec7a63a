"""The directive ``{exercises}``: every exercise of the book, by chapter, with a link to each."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from companion.exercises import chapters, heading, read_exercises


def first_text(chapter: Path) -> list[str]:
    """The lines of a chapter's first cell of text, which hold its title."""
    cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
    return next(c["source"] for c in cells if c["cell_type"] == "markdown")


class Exercises(SphinxDirective):
    """A section a chapter; the names are those of ``python -m companion exercise``."""

    def run(self) -> list[nodes.Node]:
        sections = []
        for number, chapter in enumerate(chapters()):
            self.env.note_dependency(str(chapter))
            name = re.search(r"^# (.+)", "".join(first_text(chapter)), re.M)[1]
            # the page that opens the book has no number
            name = f"{number}. {name}" if number else name
            target = {"reftype": "doc", "refdomain": "std", "reftarget": chapter.stem}
            target |= {"refdoc": self.env.docname, "refexplicit": True, "refwarn": True}
            link = addnodes.pending_xref("", nodes.inline("", name), **target)
            section = nodes.section(ids=[f"exercises-{chapter.stem}"])
            section += nodes.title("", "", link)
            lines = [
                f"- {{ref}}`{heading(e)} <ex-{e.name}>`: `{e.name}`"
                for e in read_exercises(chapter)
            ]
            self.state.nested_parse(StringList(lines), self.content_offset, section)
            sections.append(section)
        return sections


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("exercises", Exercises)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
