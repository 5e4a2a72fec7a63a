"""Sphinx extension: the whole book as one page, from which a browser prints the PDF.

Only the builder ``singlehtml`` is concerned. Every chapter has a section "Summary", so that on
one page an id would name several places; tools/pdf.js puts the document's name in front of each,
and references between documents are written that way here.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes


def one_page(address: str) -> str:
    """``#document-book/gru#summary``, as the builder writes it, with one anchor.

    >>> one_page("#document-book/gru#summary"), one_page("#summary"), one_page("https://a.b/#c")
    ('#document-book/gru--summary', '#summary', 'https://a.b/#c')
    """
    document, mark, place = address.removeprefix("#").partition("#")
    return f"#{document}--{place}" if address.startswith("#document-") and mark else address


def _references(tree: nodes.Node) -> None:
    for node in tree.findall(nodes.reference):
        if "refuri" in node:
            node["refuri"] = one_page(node["refuri"])


def _printed(app) -> None:
    if app.builder.name != "singlehtml":
        return
    app.builder.fix_refuris = _references
    # sphinx-exercise registers its nodes for "singlehtml" by name, which hides every other
    # extension's handlers for the format "html"
    known = app.registry.translation_handlers
    known["singlehtml"] = {**known.get("html", {}), **known.get("singlehtml", {})}


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", _printed)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
