"""Sphinx extension: what the source notes claim, as tables generated from ``claims.yml``.

``{claims-table}``            every row, one section a chapter (the appendix)
``{claims-table}``            with ``:chapter: NAME``, the rows of that chapter alone
``{claims-counts}``           how many rows have which verdict, and what the verdicts mean
``{claims-row}`21` ``         a link to one row of the appendix

The texts are MyST: mathematics, code and citations work in them.
"""

from collections import Counter
from pathlib import Path

import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective, SphinxRole

VERDICTS = {
    "T": ("true", "it holds as it stands"),
    "C": ("conditional", "it holds under conditions, which the row names"),
    "I": ("imprecise", "it points the right way, but what it says is not quite what is so"),
    "F": ("false", "it does not hold"),
    "X": ("contradictory", "the notes contradict each other, or themselves"),
    "U": ("unverifiable", "no source or computation could decide it"),
}
APPENDIX = "book/claims"
FILE = Path(__file__).parents[1] / "claims.yml"


def listed(value) -> list:
    """A scalar is short for a list of one."""
    return value if isinstance(value, list) else [value]


def words(row) -> str:
    return ", ".join(VERDICTS[letter][0] for letter in listed(row["verdict"]))


class Rows(SphinxDirective):
    """What the directives share: the rows, and MyST text turned into nodes."""

    def load(self):
        self.env.note_dependency(str(FILE))
        return yaml.safe_load(FILE.read_text(encoding="utf-8"))

    def parse(self, text: str) -> list[nodes.Node]:
        box = nodes.Element()
        self.state.nested_parse(StringList([text], source=str(FILE)), self.content_offset, box)
        return box.children

    def title(self, chapter: str, titles: dict) -> str:
        """The chapter's title in MyST, with a link once the book has that chapter."""
        if f"book/{chapter}" in self.env.found_docs:
            return f"{{doc}}`{titles[chapter]} </book/{chapter}>`"
        return f"{titles[chapter]} (to come)"

    def waits(self, row: dict) -> bool:
        """Whether the row is to be measured in chapters of which none is in the book yet."""
        there = any(f"book/{name}" in self.env.found_docs for name in listed(row["chapter"]))
        return row["how"] == "runnable" and not there

    def table(self, head: list[str], widths: list[int], body: list[list], css: str) -> nodes.Node:
        """``body`` holds rows of cells, a cell being MyST text or a list of nodes."""
        group = nodes.tgroup(cols=len(head))
        group += [nodes.colspec(colwidth=w) for w in widths]
        top = nodes.thead()
        group += top
        lines = nodes.tbody()
        group += lines
        for parent, cells in [(top, head), *((lines, cells) for cells in body)]:
            line = nodes.row()
            for cell in cells:
                line += nodes.entry("", *(self.parse(cell) if isinstance(cell, str) else cell))
            parent += line
        table = nodes.table("", group, classes=[css, "colwidths-given"])
        self.set_source_info(table)
        return table


class ClaimsTable(Rows):
    option_spec = {"chapter": directives.unchanged_required}

    def run(self):
        book = self.load()
        titles, chapter = book["chapters"], self.options.get("chapter")
        if chapter is None:
            return [self.section(name, book) for name in titles if self.rows(name, book, True)]
        if chapter not in titles:
            known = ", ".join(titles)
            raise self.error(f"claims-table: no chapter {chapter!r} in claims.yml; one of {known}")
        return [self.claims(self.rows(chapter, book), chapter, titles, home=False)]

    def rows(self, chapter: str, book: dict, first_only: bool = False) -> list[dict]:
        """Rows of a chapter; the appendix lists a row once, with the first of its chapters."""
        stop = 1 if first_only else None
        return [row for row in book["rows"] if chapter in listed(row["chapter"])[:stop]]

    def section(self, chapter: str, book: dict) -> nodes.Node:
        titles = book["chapters"]
        section = nodes.section(ids=[f"claims-of-{chapter.replace('_', '-')}"])
        section += nodes.title("", titles[chapter])
        there = f"book/{chapter}" in self.env.found_docs
        text = "Chapter {0}." if there else "{0}."
        section += self.parse(text.format(self.title(chapter, titles)))
        section += self.claims(self.rows(chapter, book, True), chapter, titles, home=True)
        return section

    def claims(self, rows, chapter, titles, home):
        body = [
            [self.number(row, home), row["claim"], self.answer(row, chapter, titles)]
            for row in rows
        ]
        return self.table(["Row", "The notes say", "What holds"], [10, 36, 54], body, "claims")

    def number(self, row, home) -> list[nodes.Node]:
        number, label = str(row["id"]), f"claim-{row['id']}"
        if home:
            mark = nodes.paragraph("", "", nodes.strong("", number), ids=[label], names=[label])
            self.state.document.note_explicit_target(mark)
            link = [mark]
        else:
            link = self.parse(f"{{claims-row}}`{number}`")
        notes = "note " + ", ".join(map(str, row["notes"]))
        return [*link, nodes.paragraph("", notes, classes=["claims-notes"])]

    def answer(self, row, chapter, titles) -> list[nodes.Node]:
        css = ["verdict", *(f"verdict-{letter.lower()}" for letter in listed(row["verdict"]))]
        verdict = nodes.strong("", words(row).capitalize() + ".", classes=css)
        text = row["statement"]
        if row.get("cite"):
            text += " " + "{cite:p}`" + ",".join(row["cite"]) + "`"
        first, *rest = self.parse(text)
        first.insert(0, [verdict, nodes.Text(" ")])
        elsewhere = [name for name in listed(row["chapter"]) if name != chapter]
        how = {"cited": "Cited", "runnable": "Measured"}[row["how"]]
        if self.waits(row):
            how = "To be measured"
        if elsewhere:
            how += ", also in " + ", ".join(self.title(name, titles) for name in elsewhere)
        if row.get("source_opened") is False:
            how += "; not every source was opened"
        note = self.parse(how + ".")
        for node in note:
            node["classes"].append("claims-how")
        return [first, *rest, *note]


class ClaimsCounts(Rows):
    def run(self):
        rows = self.load()["rows"]
        count = Counter(letter for row in rows for letter in listed(row["verdict"]))
        two = sum(len(listed(row["verdict"])) > 1 for row in rows)
        body = [
            [f"**{name}**", str(count[letter]), meaning]
            for letter, (name, meaning) in VERDICTS.items()
        ]
        cited = sum(row["how"] == "cited" for row in rows)
        waiting = sum(map(self.waits, rows))
        ran = len(rows) - cited - waiting
        unread = sum(row.get("source_opened") is False for row in rows)
        text = (
            f"{len(rows)} rows, {two} of them with two verdicts. {ran} are measured in a chapter, "
            + (f"{waiting} will be in chapters to come, " if waiting else "")
            + f"{cited} rest on a citation. In {unread} rows a source is cited by its "
            "bibliographic record, without having been opened."
        )
        table = self.table(["Verdict", "Rows", "Meaning"], [20, 10, 70], body, "claims-counts")
        return [table, *self.parse(text)]


class ClaimsRow(SphinxRole):
    """A link to a row of the appendix, or the bare number in a book without the appendix."""

    def run(self):
        number = self.text.strip()
        if APPENDIX not in self.env.found_docs:
            return [nodes.Text(number)], []
        target = {"refdomain": "std", "reftype": "ref", "reftarget": f"claim-{number}"}
        target |= {"refdoc": self.env.docname, "refexplicit": True, "refwarn": True}
        return [addnodes.pending_xref("", nodes.inline("", number), **target)], []


def setup(app):
    app.add_directive("claims-table", ClaimsTable)
    app.add_directive("claims-counts", ClaimsCounts)
    app.add_role("claims-row", ClaimsRow())
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
