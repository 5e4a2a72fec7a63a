"""Print the book, built as one page, to a PDF with Chromium: what `make pdf` runs.

::

    python tools/pdf.py _build/print _build/book.pdf

Chromium is found as tools/chromium.py finds it. It sees this machine alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import chromium

FOOTER = (
    '<div style="font-size: 8px; width: 100%; text-align: center; color: #555">'
    '<span class="pageNumber"></span></div>'
)
CSS = """
@page { size: A4; margin: 18mm 17mm 20mm; }
* { animation: none !important; transition: none !important; }
html { font-size: 11.5px; }
/* the theme's columns become one block that breaks over pages */
html, body, .bd-container, .bd-container__inner, .bd-main, .bd-content, .bd-article-container,
.bd-article, .bd-article section { display: block !important; overflow: visible !important; }
body, .bd-main, .bd-content, .bd-article-container, .bd-article { max-width: none !important;
  width: auto !important; margin: 0 !important; padding: 0 !important; }
.bd-header-article, .bd-header, .bd-sidebar-primary, .bd-sidebar-secondary, .bd-footer,
.bd-footer-content, .prev-next-footer, .prev-next-area, #jb-print-docs-body, .headerlink, .copybtn,
.stamp-run, details > summary, .toggle-button, .viewcode-link, .skip-link,
#pst-skip-link, #pst-back-to-top { display: none !important; }
span[id^="document-"] + section { break-before: page; }
h1, h2, h3, h4, h5, .admonition-title, dt { break-after: avoid; }
figure, .cell_output > .output, .admonition > .admonition-title, div.math, tr, img, .live,
  blockquote { break-inside: avoid; }
p, li { orphans: 3; widows: 3; }
/* code and output: no bars to scroll with on paper */
pre, code, code.literal, code.literal .pre, td code.literal, td code.literal .pre {
  white-space: pre-wrap !important; overflow-wrap: anywhere; overflow: visible !important; }
div.highlight, div.cell_output, div.cell_output .output, .pst-scrollable-table-container,
.table-wrapper, div.math { overflow: visible !important; max-height: none !important; }
td code.literal, td code.literal .pre { white-space: normal !important; }
/* tables: the width of the text, smaller letters, cut nowhere */
table.table, table.dataframe { width: auto !important; max-width: 100% !important;
  min-width: 0 !important; font-size: 0.82em; display: table !important; }
table.table td, table.table th { min-width: 0 !important; overflow-wrap: anywhere;
  padding: 2px 4px; white-space: normal; }
thead { display: table-header-group; }
img { max-width: 100% !important; max-height: 230mm; height: auto; }
figcaption, .caption-text { color: #333 !important; }
.live { border: 0 !important; background: none !important; padding: 0 !important; }
mjx-container { max-width: 100%; }
/* equations wider than the text get smaller (READY measures them) */
.narrower { font-size: var(--narrower) !important; }
"""
# what the page becomes before it is printed
READY = r"""() => {
  document.documentElement.dataset.theme = 'light';
  const owner = e => {
    for (; e; e = e.parentElement) {
      const mark = e.previousElementSibling;
      if (mark && /^document-(?!.*--)/.test(mark.id)) return mark.id;
    }
    return 'document-book/intro';
  };
  const elements = [...document.querySelectorAll('article [id]')]
    .filter(e => !/^document-/.test(e.id) && !e.closest('mjx-container'));
  for (const e of elements) e.id = `${owner(e)}--${e.id}`;
  for (const a of document.querySelectorAll('article a[href^="#"]')) {
    const name = decodeURIComponent(a.getAttribute('href').slice(1));
    const here = `${owner(a)}--${name}`;
    const known = id => document.getElementById(id);
    if (!known(name) && known(here)) a.setAttribute('href', '#' + here);
  }
  document.querySelector('article h1')?.insertAdjacentHTML(
    'beforebegin', '<span id="document-book/intro"></span>');
  // beside a still: the sentence that the live picture needs scripts
  for (const p of document.querySelectorAll('.live p:has(img)'))
    [...p.childNodes].filter(n => n.nodeType === Node.TEXT_NODE).forEach(n => n.remove());
  const dead = [...document.querySelectorAll('article a[href^="#"]')]
    .map(a => decodeURIComponent(a.getAttribute('href').slice(1)))
    .filter(name => name && !document.getElementById(name));
  document.querySelectorAll('details').forEach(d => { d.open = true; });
  for (const c of ['toggle-hidden', 'hide'])
    document.querySelectorAll('.' + c).forEach(e => e.classList.remove(c));
  document.querySelectorAll('article img[loading]').forEach(i => i.removeAttribute('loading'));
  const errors = document.querySelectorAll('mjx-merror, [data-mjx-error]').length;
  // every sign of every formula once more: a third of the file
  document.querySelectorAll('mjx-assistive-mml').forEach(e => e.remove());
  return {dead: [...new Set(dead)], errors,
    set: document.querySelectorAll('article mjx-container').length,
    wanted: document.querySelectorAll('article span.math, article div.math').length};
}"""
# at the width of the paper: 210 mm less the margins, at 96 to the inch
WIDTH = round((210 - 34) / 25.4 * 96)
FIT = r"""() => { let n = 0;
  for (const box of document.querySelectorAll('article div.math')) {
    const room = box.clientWidth, wide = box.scrollWidth;
    if (room && wide > room + 1) {
      box.classList.add('narrower'); n += 1;
      box.style.setProperty('--narrower', Math.floor(97 * room / wide) + '%');
    }
  }
  return n; }"""


def print_page(source: Path, target: Path) -> dict:
    """Print ``source/index.html``; what was found on the way."""
    path = chromium.need()
    try:
        import pikepdf
        from playwright.sync_api import sync_playwright
    except ImportError as why:
        sys.exit(f"make pdf: it needs the package {why.name} (pip install -e '.[test]')")
    loose = target.with_suffix(".loose.pdf")
    with chromium.serve(source) as address, sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=chromium.ARGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 1000})
        page.set_default_timeout(600_000)
        # paper has no live pictures: without their scripts their stills stay
        page.route("**/_static/live/*.js", lambda route: route.abort())
        page.emulate_media(media="print", color_scheme="light", reduced_motion="reduce")
        page.goto(f"{address}/index.html", wait_until="load")
        page.evaluate("() => window.MathJax?.startup?.promise")
        page.add_style_tag(content=CSS)
        facts = page.evaluate(READY)
        facts["narrower"] = page.evaluate(FIT)
        page.pdf(
            path=loose,
            prefer_css_page_size=True,
            outline=True,
            tagged=True,
            print_background=True,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
        )
        browser.close()
    # Chromium writes the tags, which a screen reader follows, uncompressed: half of the file
    with pikepdf.open(loose) as made:
        made.save(
            target.with_suffix(".part"),
            object_stream_mode=pikepdf.ObjectStreamMode.generate,
            compress_streams=True,
            recompress_flate=True,
        )
        facts["pages"] = len(made.pages)
    target.with_suffix(".part").replace(target)
    loose.unlink()
    return facts


def main(source: Path, target: Path) -> None:
    facts = print_page(source, target)
    if facts["errors"] or facts["set"] < facts["wanted"]:
        target.unlink()
        sys.exit(f"make pdf: mathematics: {facts}")
    size = target.stat().st_size / 1e6
    print(
        f"{target}: {facts['pages']} pages, {size:.1f} MB, {facts['set']} formulas, "
        f"{len(facts['dead'])} dead links"
    )
    if facts["dead"]:
        print("  dead:", ", ".join(facts["dead"][:20]))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
