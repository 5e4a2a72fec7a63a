"""The built site: nothing from another host, no dead end, nothing a screen reader cannot name.

`make test` builds the site and sets COMPANION_SITE; without it, and without a site, there is
nothing to look at.
"""

from __future__ import annotations

import os
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
SITE = ROOT / "_build/html"
if "COMPANION_SITE" not in os.environ and not (SITE / "index.html").exists():
    pytest.skip("no site here: make book", allow_module_level=True)
PAGES = sorted(p for p in SITE.rglob("*.html") if "_static" not in p.relative_to(SITE).parts)
LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
    "embed": "src",
}
RELS = {
    "stylesheet",
    "preload",
    "icon",
    "shortcut icon",
    "modulepreload",
    "preconnect",
    "manifest",
}


class Page(HTMLParser):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.links: list[str] = []
        self.images: list[dict] = []
        self.inline, self._script = "", False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        if a.get("id"):
            self.ids.append(a["id"])
        if tag in LOADS and a.get(LOADS[tag]):
            self.loads.append(a[LOADS[tag]])
        if tag == "link" and a.get("rel") in RELS:
            self.loads.append(a["href"])
        if tag == "a" and a.get("href"):
            self.links.append(a["href"])
        if tag == "img":
            self.images.append(a)
        self._script = tag == "script"

    def handle_endtag(self, tag):
        self._script = False

    def handle_data(self, data):
        if self._script:
            self.inline += data


@cache
def page(path: Path) -> Page:
    return Page(path)


def outside(address: str) -> bool:
    return bool(re.match(r"(?:[a-z]+:)?//", address))


each = pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(SITE)))


def test_there_is_a_site():
    assert len(PAGES) > 8 and (SITE / "book/intro.html") in PAGES


@each
def test_page_loads_nothing_from_another_host(path):
    found = page(path)
    assert not [x for x in found.loads if outside(x)]
    assert not re.findall(r"""(?:import\(|src *= *|importScripts\()["'`]https?://""", found.inline)
    for name in found.loads:
        local = urlsplit(name)
        if local.scheme != "data":
            assert (path.parent / unquote(local.path)).resolve().is_file(), name


def test_no_style_loads_from_another_host():
    for path in SITE.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"""(?:url\(|@import) *["']?(?:https?:)?//[^)"']*""", text), path


def test_chinese_has_a_font():
    """A machine without any shows boxes, on the page and on paper (tools/vendor_cjk.py)."""
    fonts = pytest.importorskip("fontTools.ttLib")
    import vendor_cjk

    font = fonts.TTFont(vendor_cjk.TARGET / "cjk.woff")
    assert len(vendor_cjk.characters()) > 200
    assert set(map(ord, vendor_cjk.characters())) <= set(font.getBestCmap())


def test_mathematics_and_its_fonts_are_local():
    mathjax = SITE / "_static/mathjax"
    assert (mathjax / "tex-chtml.js").stat().st_size > 500_000
    assert list(mathjax.glob("output/chtml/fonts/woff-v2/*.woff"))
    math = [p for p in PAGES if 'class="math' in p.read_text(encoding="utf-8")]
    assert math and all(any("mathjax/tex-chtml.js" in x for x in page(p).loads) for p in math)


@each
def test_links_lead_somewhere(path):
    for link in page(path).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            assert parts.scheme in {"https", "http", "mailto"}, link
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        assert target.is_file(), link
        if parts.fragment and target.suffix == ".html":
            assert unquote(parts.fragment) in page(target).ids, link


@each
def test_images_have_an_alternative_text(path):
    for image in page(path).images:
        assert image.get("alt") and not image["alt"].startswith(("../", "_images")), image


@each
def test_page_is_whole(path):
    text = path.read_text(encoding="utf-8")
    if path.parent.name == "book":
        # the theme has one more, for print alone, before the article
        assert text.partition("<article")[2].count("<h1") == 1, "one title a page"
    assert not [x for x in page(path).loads if "thebe" in x and ".js" in x], (
        "put in twice, it fails"
    )
    if path.name != "search.html":
        assert text.count('class="bd-search') <= 1, "one search bar"
    repeated = {i for i in page(path).ids if page(path).ids.count(i) > 1}
    assert not repeated, repeated


def test_chapters_show_what_was_executed():
    import nbformat

    for source in sorted(ROOT.glob("book/*.ipynb")):
        html = (SITE / "book" / f"{source.stem}.html").read_text(encoding="utf-8")
        nb = nbformat.read(source, as_version=4)
        figures = [c for c in nb.cells if c.metadata.get("mystnb", {}).get("figure")]
        assert html.count("cell_output") >= len(figures), source
        assert html.count('src="../_images/') >= len(figures), f"{source}: a figure is missing"
