"""Every page as a reader has it: on a desktop, on a phone, in the dark, without a network."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from .conftest import MODES, SITE

# a page that only leads to another is smaller
PAGES = sorted(
    str(p.relative_to(SITE))
    for p in SITE.rglob("*.html")
    if not {"_static", "_sources"} & set(p.relative_to(SITE).parts)
    and p.stat().st_size > 2000
    # listings of source are all alike: their index, and those of the top
    and len(p.relative_to(SITE).parts) - ("_modules" in p.parts) < 3
)
# page, axe's rule -> why it may stay
ALLOWED = {("_modules/index.html", "list"): "Sphinx puts a list of lists into a list there"}
# what the theme or an extension writes on the console, and why it may stay
SPOKEN: dict[str, str] = {}
FACTS = r"""() => ({
  wanted: document.querySelectorAll('span.math, div.math').length,
  set: document.querySelectorAll('span.math mjx-container, div.math mjx-container').length,
  errors: document.querySelectorAll('mjx-merror, [data-mjx-error]').length,
  alts: [...document.querySelectorAll('article img')]
    .filter(i => !i.alt || /\.(png|svg|jpe?g)$/.test(i.alt)).map(i => i.src),
  dead: [...document.querySelectorAll('img')]
    .filter(i => i.complete && !i.naturalWidth).map(i => i.src),
  wide: document.scrollingElement.scrollWidth - document.documentElement.clientWidth,
})"""
# Axe looks at each element, and most of a page are signs of formulas, tokens of code, links
# to other pages, hundreds alike: one or some of each kind stay.
THIN = """() => {
  const seen = new Set();
  const again = (kind) => seen.has(kind) || !seen.add(kind);
  document.querySelectorAll('mjx-container').forEach((e) => { e.textContent = 'x'; });
  document.querySelectorAll('.highlight pre span, dt.sig span, dt.sig em').forEach((e) => {
    const around = e.closest('[class*=cell_], [class*=highlight-], dt.sig')?.className;
    if (!e.id && again(`${e.className} in ${around}`)) e.replaceWith(...e.childNodes);
  });
  // each line of a text is measured by itself: of code the first, and a sign of each kept token
  document.querySelectorAll('.highlight pre').forEach((e) => {
    const texts = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
    for (let first = true; texts.nextNode(); first = false) {
      const text = texts.currentNode;
      const room = first ? 20 : text.parentElement === e ? 0 : 1;
      text.data = text.data.trim().slice(0, room);
    }
  });
  for (const alike of ['dl.py', 'tbody tr', 'nav li', 'p a', 'button.copybtn', 'span.math'])
    [...document.querySelectorAll(alike)].slice(40).forEach((e) => e.remove());
}"""
# a phone has the colors of a desktop, but for its header, and the cards that tables become
COLORED = {"book/intro.html", "book/claims.html", "book/lstm.html"}
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
RUN = """(rules) => axe.run(document, {...rules, resultTypes: ['violations'], preload: false})"""


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core, from the installed package: no other host is asked for it."""
    spec = find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("pip install axe-playwright-python")
    return Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8") + ";0"


@pytest.fixture(scope="module", params=["desktop", "phone"])
def tab(request, browser, site):
    """One tab a mode: going on in it is twice as fast as a new one."""
    context = browser.new_context(**MODES[request.param], reduced_motion="reduce")
    page, bad = context.new_page(), []
    page.set_default_timeout(60_000)

    def said(message) -> None:
        if message.type in {"error", "warning"} and not any(s in message.text for s in SPOKEN):
            bad.append(f"console: {message.text}")

    page.on("console", said)
    page.on("pageerror", lambda e: bad.append(f"script: {e}"))
    page.on(
        "requestfailed",
        lambda r: "ERR_ABORTED" in (r.failure or "") or bad.append(f"failed: {r.url}"),
    )
    page.on("response", lambda r: r.status >= 400 and bad.append(f"{r.status}: {r.url}"))
    page.on(
        "request",
        lambda r: r.url.startswith((site, "data:", "blob:")) or bad.append(f"other host: {r.url}"),
    )
    yield page, bad
    context.close()


def serious(page, path: str, rules: dict) -> list[str]:
    """What axe-core finds serious."""
    bad = []
    for v in page.evaluate(RUN, rules)["violations"]:
        if (path, v["id"]) not in ALLOWED and v["impact"] in {"serious", "critical"}:
            nodes = [[n["target"], n["html"][:160]] for n in v["nodes"][:3]]
            shown = json.dumps(nodes, ensure_ascii=False)
            bad.append(f"axe on {path}: {v['id']} ({len(v['nodes'])} times): {shown}")
    return bad


@pytest.mark.parametrize("path", PAGES)
def test_page(tab, site, axe, path):
    page, bad = tab
    bad.clear()
    page.goto(f"{site}/{path}", wait_until="load")
    page.evaluate("() => window.MathJax?.startup?.promise")
    facts = page.evaluate(FACTS)
    if facts["wanted"] != facts["set"] or facts["errors"]:
        bad.append(
            f"mathematics: {facts['set']} of {facts['wanted']} set, {facts['errors']} errors"
        )
    bad += [f"no alternative text: {s}" for s in facts["alts"]]
    bad += [f"image not there: {s}" for s in facts["dead"]]
    if facts["wide"] > 0:
        bad.append(f"wider than the screen by {facts['wide']} px")
    page.evaluate(axe)
    page.evaluate(THIN)
    wide = page.viewport_size["width"] > 720
    colors = {"color-contrast": {"enabled": wide or path in COLORED}}
    bad += serious(page, path, {"runOnly": STANDARDS, "rules": colors})
    if wide:
        page.emulate_media(color_scheme="dark")
        page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
        bad += serious(page, f"{path} in the dark", {"runOnly": ["color-contrast"]})
        page.emulate_media(color_scheme="light")
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    "words, where",
    [
        ("peephole", "lstm_variants"),
        ("Hadamard", "term-Hadamard-product"),
        ("zero-order hold", "term-zero-order-hold"),
        ("masked_softmax", "api.html#companion.attention.masked_softmax"),
    ],
)
def test_search_finds_a_name(tab, site, words, where):
    page, bad = tab
    bad.clear()
    page.goto(f"{site}/search.html?q={words}", wait_until="load")
    page.wait_for_selector("ul.search li a")
    page.wait_for_selector(f'ul.search li a[href*="{where}"]')


def test_excerpts_are_of_the_text(tab, site):
    """Not of the list of contents that each page holds, nor of a formula's source."""
    page, _ = tab
    page.goto(f"{site}/search.html?q=forget+gate", wait_until="load")
    page.wait_for_selector("ul.search li p.context")
    said = " ".join(page.locator("ul.search li p.context").all_inner_texts())
    assert "forget gate" in said.lower()
    assert "\\(" not in said and "True or false? " not in said, said


def test_claims_fit_a_phone(tab, site):
    page, _ = tab
    page.goto(f"{site}/book/gru.html", wait_until="load")
    room = page.evaluate("document.documentElement.clientWidth")
    cells = page.locator("table.claims tbody tr").first.locator("td")
    boxes = [cells.nth(k).bounding_box() for k in range(cells.count())]
    assert len(boxes) == 3 and all(b["x"] >= 0 and b["x"] + b["width"] <= room for b in boxes)


def test_paper_is_white(browser, site):
    """In the dark too, whether by the menu or by a script."""
    context = browser.new_context(**MODES["dark"])
    page = context.new_page()
    page.goto(f"{site}/book/intro.html", wait_until="load")
    theme = "document.documentElement.dataset.theme"
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.onPaper = {theme}; }})")
    page.pdf()
    assert (page.evaluate("window.onPaper"), page.evaluate(theme)) == ("light", "dark")
    context.close()


def test_dark_is_dark(browser, site):
    context = browser.new_context(**MODES["dark"])
    page = context.new_page()
    page.goto(f"{site}/book/intro.html", wait_until="load")
    color = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    channels = [float(c) for c in color[color.index("(") + 1 : -1].split(",")[:3]]
    context.close()
    assert sum(channels) / 3 < 80, color
