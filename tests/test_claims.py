"""The 196 claims of the source notes: a sound file, a source or a cell for every row."""

import ast
import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BOOK = ROOT / "book"
CLAIMS = yaml.safe_load((BOOK / "claims.yml").read_text(encoding="utf-8"))
ROWS = {row["id"]: row for row in CLAIMS["rows"]}
PENDING = set(CLAIMS["pending_chapters"])
# the plan of the book, in reading order
CHAPTERS = """intro sequences vanilla_rnn bptt gradients lstm lstm_variants gru
bidirectional_stacked other_cells training text_classification debugging language_modelling
forecasting speech seq2seq attention transformer state_spaces mamba rwkv_retnet revival
streaming choosing""".split()
REQUIRED = {"id", "notes", "claim", "verdict", "statement", "chapter", "how"}
SOURCES = {"cite", "source_opened"}


def listed(value):
    return value if isinstance(value, list) else [value]


def toc_files(node):
    if isinstance(node, dict):
        for key, value in node.items():
            yield from [value] if key in {"file", "root"} else toc_files(value)
    elif isinstance(node, list):
        for value in node:
            yield from toc_files(value)


TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
IN_TOC = {Path(name).name for name in toc_files(TOC)}


def entries():
    """Key and fields of every bibliography entry, read without a BibTeX library."""
    text = (BOOK / "references.bib").read_text(encoding="utf-8")
    found = re.findall(r"^@(\w+)\{([^,\s]+),\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert len(found) == len(re.findall(r"^@", text, re.MULTILINE)), "an entry is malformed"
    return [
        (key, dict(re.findall(r"^  (\w+)\s*= \{(.*)\},$", body, re.MULTILINE)) | {"type": kind})
        for kind, key, body in found
    ]


ENTRIES = dict(entries())


def rows_exercised(notebook):
    """Numbers n of the calls ``claim(n, ...)`` in a notebook's code cells."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        # lines of IPython, not of Python: %magic and !shell
        code = re.sub(r"^(\s*)[%!].*", r"\1pass", "".join(cell["source"]), flags=re.MULTILINE)
        for node in ast.walk(ast.parse(code)):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            number = getattr(node.args[0], "value", None)
            if name == "claim" and type(number) is int:
                yield number


EXERCISED = {path.stem: set(rows_exercised(path)) for path in BOOK.glob("*.ipynb")}


def cited_in_text():
    """Keys in ``{cite}`` roles of the book's Markdown, in pages and notebooks."""
    keys = set()
    for path in [*BOOK.glob("*.md"), *BOOK.glob("*.ipynb")]:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        for group in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text):
            keys |= {key.strip() for key in group.split(",")}
    return keys


def test_every_row_is_there_once():
    assert [row["id"] for row in CLAIMS["rows"]] == list(range(1, 197))


def test_chapters_are_those_of_the_plan():
    assert list(CLAIMS["chapters"]) == CHAPTERS
    assert PENDING <= set(CHAPTERS)


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: str(row["id"]))
def test_row_is_well_formed(row):
    assert REQUIRED <= set(row) <= REQUIRED | SOURCES
    assert row["notes"] and set(row["notes"]) <= {0, 2, 3}
    assert listed(row["verdict"]) and set(listed(row["verdict"])) <= set("TCIFXU")
    assert row["how"] in {"runnable", "cited"}
    assert set(listed(row["chapter"])) <= set(CHAPTERS)
    for text in (row["claim"], row["statement"]):
        assert text.endswith((".", ".)"))
        assert text.count("$") % 2 == 0 and text.count("`") % 2 == 0
    if row["how"] == "cited":
        assert row["cite"], "a cited row needs a source"
    assert ("cite" in row) == ("source_opened" in row)


def test_every_cited_key_has_an_entry():
    used = {key for row in ROWS.values() for key in row.get("cite", [])} | cited_in_text()
    used |= set(CLAIMS["reserved_keys"])
    assert not used - set(ENTRIES), "cited, but not in references.bib"
    assert not set(ENTRIES) - used, "in references.bib, but neither cited nor reserved"


def test_reserved_keys_are_not_used_by_rows():
    used = {key for row in ROWS.values() for key in row.get("cite", [])}
    assert not set(CLAIMS["reserved_keys"]) & used


def test_keys_are_unique():
    assert len(ENTRIES) == len(entries())


@pytest.mark.parametrize("key", ENTRIES)
def test_entry_is_complete(key):
    entry = ENTRIES[key]
    assert {"author", "title", "year", "verified"} <= set(entry)
    assert re.fullmatch(r"(19|20)\d\d", entry["year"]) and entry["year"] in key
    assert entry["verified"].startswith(("opened: ", "bibliographic record: "))
    where = {
        "article": {"journal"},
        "book": {"publisher"},
        "inproceedings": {"booktitle"},
        "mastersthesis": {"school"},
        "misc": {"eprint", "howpublished"},
    }
    assert where[entry["type"]] & set(entry)
    if "eprint" in entry:
        assert re.fullmatch(r"\d{4}\.\d{4,5}", entry["eprint"])
        assert entry["archiveprefix"] == "arXiv"


@pytest.mark.parametrize(
    "row", [r for r in ROWS.values() if "cite" in r], ids=lambda row: str(row["id"])
)
def test_row_says_whether_its_sources_were_opened(row):
    opened = all(ENTRIES[key]["verified"].startswith("opened: ") for key in row["cite"])
    assert row["source_opened"] is opened


def test_a_chapter_of_the_book_is_not_pending():
    assert not PENDING & IN_TOC


def test_a_chapter_is_in_the_book_or_pending():
    assert set(CHAPTERS) - PENDING <= IN_TOC


@pytest.mark.parametrize(
    "row", [r for r in ROWS.values() if r["how"] == "runnable"], ids=lambda row: str(row["id"])
)
def test_runnable_row_is_run_by_its_chapter(row):
    chapters = listed(row["chapter"])
    if not PENDING & set(chapters):
        assert any(row["id"] in EXERCISED.get(name, ()) for name in chapters), (
            f"no cell of {' or '.join(chapters)} calls claim({row['id']}, ...)"
        )


@pytest.mark.parametrize("chapter", EXERCISED)
def test_chapter_claims_only_its_own_rows(chapter):
    own = {n for n, row in ROWS.items() if chapter in listed(row["chapter"])}
    assert not EXERCISED[chapter] - own, "claim(n, ...) with a row of another chapter"


def test_the_scan_finds_calls_and_nothing_else(tmp_path):
    source = "%matplotlib inline\nclaim(21, True)\nlook.claim(11, 3, 3, 0)\nclaim('own', 5)"
    cells = [
        {"cell_type": "code", "source": source.splitlines(keepends=True)},
        {"cell_type": "markdown", "source": ["claim(13, True)"]},
    ]
    path = tmp_path / "chapter.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert sorted(rows_exercised(path)) == [11, 21]
