"""Ways into the book: a chapter's stamp, links between chapters and the API page, the pdf."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import chromium
import pdf
import pytest

from .extensions import extension

pytest.importorskip("sphinx")
ROOT = Path(__file__).parents[1]
API = ROOT / "book/api.md"


DOORS = extension("doors")
STAMP = extension("stamp")
LINKS = extension("in_the_book")
PRINTED = extension("printed")


def notebook(folder: Path, *cells: tuple[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "toy.ipynb"
    made = [{"cell_type": kind, "metadata": {}, "source": text} for kind, text in cells]
    path.write_text(json.dumps({"cells": made}), encoding="utf-8")
    return path


# ---- the stamp ----------------------------------------------------------------------------------


def test_stamp_counts_prose_alone(tmp_path):
    fence = "```{math}\n:label: eq-toy\n" + "word " * 5000 + "\n```\n"
    path = notebook(tmp_path, ("markdown", fence + "word " * 2100), ("code", "word\n" * 5000))
    assert STAMP.facts(path)["minutes"] == 10  # 2100 / 200 = 10.5, in fives
    path = notebook(tmp_path, ("markdown", "$$\n" + "word " * 9999 + "\n$$\nword"))
    assert STAMP.facts(path)["minutes"] == 5


def test_stamp_counts_code_to_be_seen(tmp_path):
    path = notebook(tmp_path, ("code", "x = 1\n\n" * 31), ("code", "plot\n" * 50))
    made = json.loads(path.read_text(encoding="utf-8"))
    made["cells"][1]["metadata"]["tags"] = ["hide-input"]
    path.write_text(json.dumps(made), encoding="utf-8")
    assert STAMP.facts(path)["lines"] == 30


def test_stamp_names_data_and_studies_once_in_order(tmp_path):
    code = 'data.load("weather"); load("ag_news"); torch.load("x.pt"); load("weather")\n'
    code += 'recorded("b/one"); recorded(f"a/{n}"); recorded("b/two")'
    found = STAMP.facts(notebook(tmp_path, ("code", code), ("markdown", 'load("digits")')))
    assert found["data"] == ["weather", "ag-news"]
    assert found["studies"] == ["b", "a"]


@pytest.mark.parametrize("path", sorted(ROOT.glob("book/*.ipynb")), ids=lambda p: p.stem)
def test_stamp_names_what_there_is(path):
    from companion.data import CATALOGUE

    found = STAMP.facts(path)
    assert set(found["data"]) <= set(CATALOGUE)
    for name in found["studies"]:
        assert (ROOT / f"book/studies/{name}.json").is_file(), name
    assert 5 <= found["minutes"] <= 60


# ---- buttons ------------------------------------------------------------------------------------


@pytest.fixture
def published(monkeypatch):
    monkeypatch.setenv("BOOK_REPOSITORY", "https://github.com/someone/recurrence/")
    return "https://github.com/someone/recurrence"


def test_no_button_without_an_address(monkeypatch):
    monkeypatch.delenv("BOOK_REPOSITORY", raising=False)
    config = SimpleNamespace(html_theme_options={})
    DOORS._buttons(None, config)
    assert DOORS.address() == "" and config.html_theme_options == {}


def test_buttons_lead_to_the_repository(published):
    config = SimpleNamespace(html_theme_options={"kept": 1})
    DOORS._buttons(None, config)
    options = config.html_theme_options
    assert options["kept"] == 1 and options["repository_url"] == published
    assert set(options["launch_buttons"]) == {"notebook_interface", "binderhub_url", "colab_url"}


@pytest.mark.parametrize(
    "bad", ["github.com/a/b", "http://a.b/c", "https://a.b", "https://a/b; rm"]
)
def test_an_address_that_is_none_is_refused(monkeypatch, bad):
    monkeypatch.setenv("BOOK_REPOSITORY", bad)
    with pytest.raises(ValueError, match="expected https://host/owner/name"):
        DOORS.address()


def test_a_download_installs_what_is_missing_and_the_page_does_not_show_it(published, tmp_path):
    path = notebook(tmp_path / "_sources", ("code", "import companion"))
    app = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(name="html"))
    for _ in range(2):  # a second build adds no second cell
        DOORS._downloads(app, None)
    first, second = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert second["source"] == "import companion" and first["metadata"]["tags"] == ["remove-cell"]
    shell = pytest.importorskip("IPython.core.inputtransformer2").TransformerManager()
    code = shell.transform_cell("".join(first["source"]))
    ran = []
    calls = SimpleNamespace(system=ran.append, run_line_magic=lambda *words: ran.append(words))
    exec(code, {"get_ipython": lambda: calls})
    assert not ran, "the package is here"
    missing = code.replace("companion", "a_package_of_no_name")
    exec(missing, {"get_ipython": lambda: calls})
    assert f"git clone -q {published} recurrence" in ran[0] and ran[1] == ("cd", "recurrence/book")


# ---- between chapters and the API page ----------------------------------------------------------


def test_names_are_found_however_they_are_imported(tmp_path):
    code = """
import companion
import torch
from companion import look as l
from companion.cells import GRUCell
from companion.look import show_source
show_source(GRUCell.update)
show_source(companion.run.scan.scan)
l.figure(); companion.LSTM(3, 4); torch.nn.GRU(3, 4); data.GRU
"""
    show, use = LINKS.uses(notebook(tmp_path, ("code", code)), API)
    assert show == {"companion.GRUCell", "companion.scan"}
    assert use == {"companion.look.figure", "companion.look.show_source", "companion.LSTM"}


def test_a_chapter_that_builds_is_found():
    shown = {p.stem: LINKS.uses(p, API)[0] for p in ROOT.glob("book/*.ipynb")}
    assert "companion.RNNCell" in shown["vanilla_rnn"] & shown["intro"]
    assert "companion.GRUCell" in shown["gru"]
    assert set().union(*shown.values()) <= LINKS.entries(API)


# ---- on paper -----------------------------------------------------------------------------------


def test_every_fence_of_the_api_page_is_closed():
    fences = re.findall(r"^```.*$", API.read_text(encoding="utf-8"), re.M)
    assert fences[::2] == ["```{eval-rst}"] * (len(fences) // 2)
    assert fences[1::2] == ["```"] * (len(fences) // 2)


def test_one_anchor_for_two():
    assert PRINTED.one_page("#document-book/gru#summary") == "#document-book/gru--summary"
    for same in ("#document-book/gru", "#summary", "https://a.b/c#d#e", "_static/x.svg"):
        assert PRINTED.one_page(same) == same


def test_a_missing_browser_is_told(monkeypatch):
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(chromium, "NAMES", ("nothing-of-this-name",))
    with pytest.raises(SystemExit, match="apt install chromium"):
        chromium.need()
    monkeypatch.setenv("CHROMIUM", "nothing-of-this-name")
    with pytest.raises(SystemExit, match="nothing-of-this-name is no program"):
        chromium.need()


PAGE = """<!doctype html><html><body><article>
<section id="top"><h1>Book</h1><p><img src="_images/cover.svg"></p>
<p><a href="#document-book/b--same">b</a> <a href="#same">own</a></p>
<p id="same">intro</p><details><summary>more</summary><p>folded away</p></details>
<p><a href="#document-book/intro">start</a> <a href="../_sources/intro.ipynb">file</a></p>
<section id="one"><h2 style="width: 1em">First
section<a class="headerlink" href="#one">#</a></h2></section>
<div class="live"><p>
<img alt="still" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">Scripts!</p></div>
<p>Things to try. Drag.</p><p>Read on.</p>
<div class="toctree-wrapper"><span id="document-book/a"></span>
<section id="a"><h2><span>1. </span>A</h2>
<p>After <a href="#document-book/b"><span class="doc">B</span></a>.</p>
<p id="same"><a href="#same">A's</a></p><p style="height: 400mm">long</p>
<div class="exercise admonition" id="ex-a"><p class="admonition-title">Exercise 1</p></div>
<div class="solution dropdown admonition" id="sol-a"><p class="admonition-title">Solution to
<a href="#document-book/a--ex-a"> Exercise 1</a></p><p>42, as <a href="#same">above</a></p></div>
<p>After the exercise: <a href="#document-book/claims--claim-2">row</a></p>
<table class="claims"><tr><td><p><a href="#document-book/claims--claim-2">2</a></p></td></tr>
</table></section></div><div class="toctree-wrapper"><span id="document-book/b"></span>
<section id="b"><h2>B</h2><p id="same">B's</p>
<div class="cell tag_hide-input"><details class="above-input"><pre>plot()</pre></details>
<div class="cell_output">drawn</div></div></section>
<span id="document-book/claims"></span><section id="claims"><h2>Claims</h2>
<section id="all-rows"><h3>All rows</h3><section id="claims-of-a"><h4>A</h4><table class="claims">
<tr><td><p id="claim-2">2</p></td></tr></table></section><section id="claims-of-b"><h4>B</h4>
<table class="claims"><tr><td><p id="claim-3">3</p></td></tr></table></section></section></section>
<span id="document-book/api"></span><section id="api"><h2>Names</h2>
<dl class="field-list"><dt>Return type:</dt><dd><p>None</p></dd></dl>
<dl class="py attribute"><dt>id</dt><dd><p>Alias for field number 0</p></dd></dl></section>
<span id="document-book/bibliography"></span><section id="bibliography"><h2>Sources</h2>
<p>a book</p></section></div></section></article></body></html>"""
BOOK = {
    "title": "Title",
    "subtitle": "Of it",
    "author": "Somebody",
    "imprint": ["Version 1"],
    "parts": {"book/a": "Part one", "book/claims": "Appendices"},
}


@pytest.fixture
def alone():
    """Calls a function in a thread of its own: Playwright has one a thread, perhaps another's."""
    pytest.importorskip("pikepdf")
    pytest.importorskip("playwright")
    if not chromium.find():
        pytest.skip("Chromium is not installed")
    with ThreadPoolExecutor(1) as threads:
        yield lambda what, *args: threads.submit(what, *args).result()


def test_what_is_printed(alone):
    alone(_what_is_printed)


def _what_is_printed():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium.find(), args=chromium.ARGS)
        printed = browser.new_page()
        printed.set_content(PAGE)
        pdf.prepare(printed, BOOK)
        _check(printed)
        browser.close()


def _check(printed):
    def texts(what: str) -> list[str]:
        return [" ".join(t.split()) for t in printed.locator(what).all_inner_texts()]

    assert texts(".contents li")[:4] == ["Book 000", "Part one", "1. A 000", "B 000"]
    names = [t.removesuffix(" 000") for t in texts(".contents li")]
    assert names[4:] == ["Appendices", "Claims", "Names", "Solutions", "Sources"]
    assert texts(".title-page") == ["Title Of it Somebody Version 1"]
    assert printed.locator("article img").count() == 1, "the cover has left the text"
    assert texts(".live") == ["A still: on the site this picture can be moved."]
    assert texts(".live + p") == ["Read on."]
    # a solution stands apart, each leads to the other, and what it refers to is where it was
    assert texts("#solutions .solution") == ["Solution to Exercise 1, p. 000 42, as above"]
    assert len(texts(".solution")) == 1
    assert texts(".exercise") == ["Exercise 1 Solution: p. 000"]
    leads = "es => es.map(e => decodeURIComponent(e.hash))"
    assert printed.locator(".exercise a").evaluate_all(leads) == ["#document-book/a--sol-a"]
    assert printed.locator(".solution a").evaluate_all(leads) == [
        "#document-book/a--ex-a",
        "#document-book/a--same",
    ]
    assert texts("[data-doc='book/a'] p:has(> .doc), p:has(.doc)") == ["After B (p. 000)."]
    assert printed.locator("[data-doc='book/b'] .cell").inner_text() == "drawn"
    # a claim stands in its chapter, one without a chapter in the appendix
    assert texts("[data-doc='book/a'] td p[id='document-book/claims--claim-2']") == ["2"]
    assert texts("[data-doc='book/claims'] td") == ["3"]
    assert texts("[data-doc='book/claims'] :is(h3, h4)") == ["All rows", "B"]
    assert texts("[data-doc='book/api']") == ["Names"]


def test_pdf_of_a_small_page(tmp_path, alone):
    import pikepdf

    (tmp_path / "index.html").write_text(PAGE, encoding="utf-8")
    facts = alone(pdf.print_page, tmp_path, tmp_path / "book.pdf", BOOK)
    assert (facts["set"], facts["wanted"], facts["errors"]) == (0, 0, 0)
    with pikepdf.open(tmp_path / "book.pdf") as made:
        # title, contents, introduction; A on two pages; B, Claims, Names, Solutions, Sources
        assert len(made.pages) == facts["pages"] == 10
        assert {"/Outlines", "/StructTreeRoot", "/Lang"} <= made.Root.keys()
        assert (made.docinfo.Title, made.docinfo.Author) == ("Title: Of it", "Somebody")
        with made.open_outline() as outline:
            tree = [
                (part.title, [(c.title, [s.title for s in c.children]) for c in part.children])
                for part in outline.root
            ]
        addresses = [
            str(link.A.URI) for p in made.pages for link in p.get("/Annots", []) if "/A" in link
        ]
    assert tree[:2] == [
        ("Title", [("Contents", []), ("Book", ["First section"])]),
        ("Part one", [("1. A", []), ("B", [])]),
    ]
    assert [c for c, _ in tree[2][1]] == ["Claims", "Names", "Solutions", "Sources"]
    assert addresses == [], "none leads to where the page was served"
    starts = {"intro--top": 3, "a--a": 4, "b--b": 6, "claims--claims": 7, "api--api": 8}
    starts |= {"bibliography--bibliography": 10, "a--ex-a": 5, "a--sol-a": 9}
    wanted = {f"document-book/{name}": page for name, page in starts.items()}
    assert facts["shown"] == {**wanted, "solutions": 9}
    assert [p.name for p in tmp_path.iterdir() if "pdf" in p.name] == ["book.pdf"]


@pytest.mark.parametrize("href", ["#nowhere", "http://127.0.0.1:8123/x.html"])
def test_a_dead_link_is_an_error(tmp_path, alone, href):
    page = PAGE.replace("Read on.", f'<a href="{href}">on</a>')
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    (tmp_path / "book.pdf").write_text("the last one", encoding="utf-8")
    with pytest.raises(SystemExit, match=href.strip("#")):
        alone(pdf.print_page, tmp_path, tmp_path / "book.pdf", BOOK)
    assert [p.name for p in tmp_path.iterdir() if "pdf" in p.name] == ["book.pdf"]
    assert (tmp_path / "book.pdf").read_text(encoding="utf-8") == "the last one"


def test_what_the_title_page_says():
    book = pdf.about(ROOT)
    assert (book["title"], book["subtitle"][:4]) == ("Recurrence", "From")
    assert re.fullmatch(r"Version [\d.]+, 20\d\d", book["imprint"][0])
    assert "MIT" in book["imprint"][1] and "CC BY 4.0" in book["imprint"][1]
    assert book["parts"]["book/sequences"] == "Foundations"
    assert "Appendices" in book["parts"].values()


def test_pdf_is_no_part_of_the_two_commands():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("book", "test"):
        needs = re.search(rf"^{target}:([^#\n]*)", makefile, re.M)
        assert needs and "pdf" not in needs[1]
