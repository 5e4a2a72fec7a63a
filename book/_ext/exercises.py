"""The directive ``{exercises}``: every exercise of the book, by chapter, with a link to each."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from companion.exercises import chapters, heading, read_exercises


class Exercises(SphinxDirective):
    """A list a chapter; the names are those of ``python -m companion exercise``."""

    def run(self) -> list[nodes.Node]:
        lines = []
        for chapter in chapters():
            self.env.note_dependency(str(chapter))
            lines += [f"**{{doc}}`{chapter.stem}`**", ""]
            for e in read_exercises(chapter):
                lines.append(f"- {{ref}}`{heading(e)} <ex-{e.name}>`: `{e.name}`")
            lines.append("")
        here = nodes.container(classes=["exercises"])
        self.state.nested_parse(StringList(lines), self.content_offset, here)
        return here.children


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("exercises", Exercises)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
