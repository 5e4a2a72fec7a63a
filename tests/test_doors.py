"""Ways into the book: a chapter's stamp, links between chapters and the API page, the pdf."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import chromium
import pdf
import pytest

pytest.importorskip("sphinx")
ROOT = Path(__file__).parents[1]
API = ROOT / "book/api.md"


def module(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"doors_{Path(path).stem}", ROOT / path)
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


STAMP = module("book/_ext/stamp.py")
LINKS = module("book/_ext/in_the_book.py")
PRINTED = module("book/_ext/printed.py")


def notebook(folder: Path, *cells: tuple[str, str]) -> Path:
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
<section id="top"><h1>Book</h1>
<p><a href="#document-book/b--same">b</a> <a href="#same">own</a></p>
<p id="same">intro</p><details><summary>more</summary><p>folded away</p></details>
<p><a href="#document-book/intro">start</a></p>
<div class="live"><p>
<img alt="still" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">Scripts!</p></div>
<span id="document-book/a"></span><section id="a"><h2>A</h2>
<p id="same"><a href="#same">A's</a></p>
</section><span id="document-book/b"></span><section id="b"><h2>B</h2><p id="same">B's</p>
<a href="#nowhere">dead</a></section></section></article></body></html>"""


def test_pdf_of_a_small_page(tmp_path):
    pytest.importorskip("playwright")
    pikepdf = pytest.importorskip("pikepdf")
    if not chromium.find():
        pytest.skip("Chromium is not installed")
    (tmp_path / "index.html").write_text(PAGE, encoding="utf-8")
    facts = pdf.print_page(tmp_path, tmp_path / "book.pdf")
    assert facts["dead"] == ["nowhere"], "every other link has one place to lead to"
    assert (facts["set"], facts["wanted"], facts["errors"]) == (0, 0, 0)
    with pikepdf.open(tmp_path / "book.pdf") as made:
        assert len(made.pages) == facts["pages"] == 3, "a chapter a page"
        assert {"/Outlines", "/StructTreeRoot", "/Lang"} <= made.Root.keys()
    assert [p.name for p in tmp_path.iterdir() if "pdf" in p.name] == ["book.pdf"]


def test_pdf_is_no_part_of_the_two_commands():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("book", "test"):
        needs = re.search(rf"^{target}:([^#\n]*)", makefile, re.M)
        assert needs and "pdf" not in needs[1]
