"use strict";
// On every page (html_js_files in _config.yml).

// Paper is white: a page in the dark is printed in the light.
(() => {
  const page = document.documentElement;
  let theme;
  addEventListener("beforeprint", () => { theme = page.dataset.theme; page.dataset.theme = "light"; });
  addEventListener("afterprint", () => { page.dataset.theme = theme; });
})();

// A figure that scrolls in its frame (on a phone) scrolls by keyboard, too.
(() => {
  const reach = () => document.querySelectorAll(".cell_output figure").forEach((figure) => {
    if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0;
    else figure.removeAttribute("tabindex");
  });
  addEventListener("load", reach);
  addEventListener("resize", reach);
})();

// Sphinx takes a hit's excerpt from all of the page: not from its contents, nor from formulas' source.
addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const plain = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    page.querySelectorAll("#jb-print-docs-body, .stamp-box").forEach((e) => e.remove());
    page.querySelectorAll(".math").forEach((e) => {
      const tex = e.textContent.replace(/^\\[([]|\\[)\]]$/g, "").trim();
      e.textContent = tex.length < 12 && !tex.includes("\\") ? tex : "…";
    });
    return plain.call(Search, page.documentElement.outerHTML, anchor);
  };
});
