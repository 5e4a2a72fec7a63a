"""Print the book, built as one page, to a PDF with Chromium: what `make pdf` runs.

::

    python tools/pdf.py _build/print _build/book.pdf

tools/pdf.js rearranges the page, tools/pdf.css sets it. It is printed once to learn on which page
everything stands, and again with the numbers written in. Chromium is found as tools/chromium.py
finds it. It sees this machine alone.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import chromium
import yaml

HERE = Path(__file__).parent
# at the width of the paper: 210 mm less the margins, at 96 to the inch
WIDTH = round((210 - 34) / 25.4 * 96)
TURNS = 4


def about(root: Path) -> dict[str, Any]:
    """What the title page says, and before which chapter each part begins."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    parts = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    title, _, subtitle = config["title"].partition(": ")
    return {
        "title": title,
        "subtitle": subtitle[:1].upper() + subtitle[1:],
        "author": config["author"],
        "imprint": [
            f"Version {project['version']}, {config['copyright']}",
            f"Code: {project['license']}. Text and figures: CC BY 4.0.",
        ],
        "parts": {part["chapters"][0]["file"]: part["caption"] for part in parts},
    }


def prepare(page: Any, book: dict[str, Any]) -> dict[str, Any]:
    """Make a loaded page what is printed; what was found on the way."""
    page.emulate_media(media="print", color_scheme="light", reduced_motion="reduce")
    page.evaluate("() => window.MathJax?.startup?.promise")
    page.add_style_tag(path=HERE / "pdf.css")
    page.add_script_tag(path=HERE / "pdf.js")
    facts = page.evaluate("book => paper.arrange(book)", book)
    if facts["errors"] or facts["set"] < facts["wanted"]:
        counts = {key: facts[key] for key in ("errors", "set", "wanted")}
        sys.exit(f"make pdf: mathematics: {counts}")
    return facts | {"narrower": page.evaluate("() => paper.narrow()")}


def places(made: Any) -> dict[str, int]:
    """The page, counted from one, of everything to which a link leads."""
    number = {page.objgen: n for n, page in enumerate(made.pages, 1)}
    named = made.Root.get("/Dests", {})
    return {name[1:]: number[place[0].objgen] for name, place in named.items()}


def dead(made: Any, wanted: list[str]) -> list[str]:
    """Links that lead nowhere: to no place of the file, or to the server it was printed from.

    Chromium leaves out a link to what is not there, so the page says what it ``wanted``.
    """
    links = [link for page in made.pages for link in page.get("/Annots", [])]
    inside = {str(link.Dest)[1:] for link in links if "/Dest" in link}
    outside = {str(link.A.URI) for link in links if "/URI" in link.get("/A", {})}
    lost = {a for a in outside if not re.match(r"(https?|mailto):(?!//127\.0\.0\.1)", a)}
    return sorted(lost | ((inside | set(wanted)) - places(made).keys()))


def outline(made: Any, headings: list[str]) -> None:
    """Give each entry its heading's text, which Chromium joins without spaces; fold chapters."""

    def walk(items: Any, level: int = 0) -> Iterator[tuple[Any, int]]:
        for item in items:
            yield item, level
            yield from walk(item.children, level + 1)

    with made.open_outline() as tree:
        entries = list(walk(tree.root))
        if len(entries) != len(headings):
            sys.exit(f"make pdf: {len(entries)} entries in the outline, {len(headings)} headings")
        for (entry, level), text in zip(entries, headings, strict=True):
            entry.title, entry.is_closed = text, level > 0


def print_page(source: Path, target: Path, book: dict[str, Any]) -> dict[str, Any]:
    """Print ``source/index.html``; what was found on the way. What is wrong ends the run."""
    path = chromium.need()
    try:
        import pikepdf
        from playwright.sync_api import sync_playwright
    except ImportError as why:
        sys.exit(f"make pdf: it needs the package {why.name} (pip install -e '.[test]')")
    if (source / "_static/cover.svg").exists():
        book = {**book, "cover": "_static/cover.svg"}
    loose, part = target.with_suffix(".loose.pdf"), target.with_suffix(".part")
    with ExitStack() as stack:
        stack.callback(loose.unlink, missing_ok=True)
        address = stack.enter_context(chromium.serve(source))
        p = stack.enter_context(sync_playwright())
        browser = p.chromium.launch(executable_path=path, args=chromium.ARGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000})
        page.set_default_timeout(600_000)
        # paper has no live pictures: without their scripts their stills stay
        page.route("**/_static/live/*.js", lambda route: route.abort())
        page.goto(f"{address}/index.html", wait_until="load")
        facts = prepare(page, book)
        seen: list[dict[str, int]] = []
        for turn in range(1, TURNS + 1):
            page.pdf(
                path=loose,
                prefer_css_page_size=True,
                outline=turn > 1,
                tagged=turn > 1,
                print_background=True,
            )
            with pikepdf.open(loose) as made:
                pages = places(made)
            # a number may be shorter than what stood for it, and a line less move what follows
            shown = page.evaluate("known => paper.pages(known)", pages)
            # what stands at the very foot of a page may swing between it and the next for ever
            if turn > 1 and shown in seen[-2:]:
                break
            seen.append(shown)
        else:
            sys.exit(f"make pdf: the pages still move after {TURNS} turns")
        browser.close()
        made = stack.enter_context(pikepdf.open(loose))
        if lost := dead(made, facts["targets"]):
            sys.exit(f"make pdf: links that lead nowhere: {', '.join(lost)}")
        outline(made, facts["headings"])
        made.Root.PageMode = pikepdf.Name.UseOutlines
        made.docinfo["/Author"] = book["author"]
        # Chromium writes the tags, which a screen reader follows, uncompressed: half of the file
        made.save(
            part,
            object_stream_mode=pikepdf.ObjectStreamMode.generate,
            compress_streams=True,
            recompress_flate=True,
        )
        facts |= {"pages": len(made.pages), "shown": shown}
    part.replace(target)
    return facts


def main(source: Path, target: Path) -> None:
    facts = print_page(source, target, about(HERE.parent))
    size = target.stat().st_size / 1e6
    print(f"{target}: {facts['pages']} pages, {size:.1f} MB, {facts['set']} formulas")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
