"""The directive ``{datasets} KIND``: a table of the catalogue's data sets of one kind.

The appendix is made of these tables, so it cannot say anything but what the loaders do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, get_args

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from companion.data import CATALOGUE, DataSet, catalogue, downloads
from companion.data.entry import Kind

HEADINGS = ("Data set", "Task, size, and how to get it", "License", "Source")
WIDTHS = (16, 42, 18, 24)  # per cent
# a source that is an address, not the name of a package, becomes a link
ADDRESS = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,}(?:/[\w~./-]*[\w/])?")
# what is to be typed, in a phrase of DataSet.how_to_get
TYPED = re.compile(r"(python -m companion [\w -]+|pip install [\w-]+|load\(\"[\w-]+\"\))")


def lines(*texts: str) -> list[nodes.Node]:
    """One paragraph a text; empty ones are left out."""
    return [nodes.paragraph(text=text) for text in texts if text]


def code(text: str) -> list[nodes.Node]:
    """A phrase of ``how_to_get`` with what is to be typed set as code."""
    paragraph = nodes.paragraph()
    for part in TYPED.split(text):
        paragraph += nodes.literal(text=part) if TYPED.fullmatch(part) else nodes.Text(part)
    return [paragraph]


def source(text: str) -> nodes.paragraph:
    """The source, with a link where it is an address."""
    paragraph = nodes.paragraph()
    found = ADDRESS.match(text)
    if found:
        # a zero-width space lets a long address break after a slash
        shown = found[0].replace("/", "/\u200b")
        paragraph += nodes.reference("", shown, refuri="https://" + found[0])
        text = text[found.end() :]
    paragraph += nodes.Text(text)
    return paragraph


def row(cells: Sequence[Sequence[nodes.Node]]) -> nodes.row:
    result = nodes.row()
    for cell in cells:
        entry = nodes.entry()
        entry += list(cell)
        result += entry
    return result


def cells(entry: DataSet) -> list[list[nodes.Node]]:
    """The row of one data set."""
    # not as code: code may break anywhere on narrow screens, a name must not
    name = nodes.paragraph(classes=["data-set"])
    name += nodes.strong(text=entry.name)
    return [
        [name],
        [*lines(entry.task, entry.size, entry.notes), *code(entry.how_to_get)],
        lines(entry.license),
        [source(entry.source), *lines(entry.citation)],
    ]


def table(entries: Sequence[DataSet]) -> nodes.table:
    """A table with one row a data set."""
    result = nodes.table(classes=["datasets", "colwidths-given"])
    group = nodes.tgroup(cols=len(HEADINGS))
    result += group
    for width in WIDTHS:
        group += nodes.colspec(colwidth=width)
    head = nodes.thead()
    head += row([[nodes.paragraph(text=heading)] for heading in HEADINGS])
    body = nodes.tbody()
    body += [row(cells(entry)) for entry in entries]
    group += [head, body]
    return result


class Datasets(SphinxDirective):
    """``{datasets} vendored`` gives the vendored sets; without a kind it gives all."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        kind = self.arguments[0] if self.arguments else None
        if kind is not None:
            directives.choice(kind, get_args(Kind))
        for module in (catalogue, downloads):  # a page of the old catalogue is stale
            self.env.note_dependency(module.__file__)
        entries = [e for e in CATALOGUE.values() if kind in (None, e.kind)]
        if not entries:
            return lines("None yet.")
        result = table(entries)
        for mark in result.findall(nodes.paragraph):
            if "data-set" not in mark["classes"]:
                continue
            label = f"data-{mark.astext()}"  # where a chapter's stamp leads
            mark["ids"], mark["names"] = [label], [label]
            self.state.document.note_explicit_target(mark)
        return [result]


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("datasets", Datasets)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
