/* What the page becomes before tools/pdf.py prints it. Each step is a function of its own; `arrange`
   calls them in their order. Pages of the paper are not known here: `[data-page]` holds the id whose
   page `pages` writes there after a first print. */
"use strict";
{
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const el = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const heading = (section) => section.querySelector("h1, h2, h3, h4, h5, h6");
  const words = (e) => e.textContent.replace(/\s+/g, " ").trim();
  const page = (id) => el("span", { className: "page" }, "000");
  const link = (section, ...children) => el("a", { href: "#" + section.id }, ...children);

  /** A link's number, to be filled in by `pages`. */
  function numbered(id) {
    const made = page(id);
    made.dataset.page = id;
    return made;
  }

  /** What a screen needs, and paper does not. */
  function strip() {
    document.documentElement.dataset.theme = "light";
    for (const e of all("article a.headerlink, article .stamp-run, article .viewcode-link")) e.remove();
    // every sign of every formula once more: a third of the file
    for (const e of all("mjx-assistive-mml")) e.remove();
    // the code of figures is folded on the site; paper does without
    for (const e of all("article .tag_hide-input :is(details.above-input, :scope > .cell_input)")) e.remove();
    for (const e of all("article details")) e.open = true;
    for (const e of all("article :is(.toggle-hidden, .hide)")) e.classList.remove("toggle-hidden", "hide");
    for (const e of all("article img[loading]")) e.removeAttribute("loading");
  }

  /** The page as a list of chapters, {doc, section}: first the one that holds the others. */
  function chapters() {
    const root = document.querySelector("article > section");
    const found = [{ doc: "book/intro", section: root }];
    for (const mark of all('span[id^="document-"]', root)) {
      const section = mark.nextElementSibling;
      found.push({ doc: mark.id.replace("document-", ""), section });
      mark.remove();
      root.parentElement.append(section);
    }
    for (const e of all(".toctree-wrapper", root)) e.remove();
    // the first chapter's headings stand a level above those of the others
    for (const h of all("h1, h2, h3, h4, h5", root)) {
      const lower = el("h" + (+h.tagName[1] + 1));
      for (const { name, value } of h.attributes) lower.setAttribute(name, value);
      lower.append(...h.childNodes);
      h.replaceWith(lower);
    }
    for (const { doc, section } of found) {
      section.dataset.doc = doc;
      section.classList.add("chapter");
    }
    return found;
  }

  /** Every id once: the document's name in front. Links follow; those that lead off are undone. */
  function anchors(chapters) {
    for (const { doc, section } of chapters)
      for (const e of [section, ...all("[id]", section)])
        if (!e.closest("mjx-container")) e.id = `document-${doc}--${e.id}`;
    const known = (id) => document.getElementById(id);
    const starts = new Map(chapters.map(({ doc, section }) => ["document-" + doc, section.id]));
    for (const a of all("article a[href]")) {
      const href = a.getAttribute("href");
      if (href.startsWith("#")) {
        const name = decodeURIComponent(href.slice(1));
        const here = `document-${a.closest(".chapter").dataset.doc}--${name}`;
        if (starts.has(name)) a.href = "#" + starts.get(name);
        else if (!known(name) && known(here)) a.href = "#" + here;
      } else if (!/^(https?|mailto):/.test(href)) a.replaceWith(...a.childNodes);
    }
  }

  /** Rows of claims stand in their chapters; the appendix keeps what is said about all of them. */
  function claims(chapters) {
    const rows = document.getElementById("document-book/claims--all-rows");
    if (!rows) return;
    const moved = all("p[id]", rows).map((e) => e.id);
    for (const a of all("table.claims td:first-child a")) {
      const id = decodeURIComponent(a.hash.slice(1));
      const at = moved.indexOf(id);
      if (rows.contains(a)) continue;
      if (at >= 0) {
        document.getElementById(id).removeAttribute("id");
        a.closest("p").id = moved.splice(at, 1);
        a.replaceWith(...a.childNodes);
      }
    }
    for (const row of all("tr:has(td)", rows)) if (!row.querySelector("p[id]")) row.remove();
    for (const e of all("section", rows)) {
      if (e.querySelector("td")) continue;
      e.remove();
    }
    heading(rows).after(el("p", { className: "on-paper" },
      "On paper each row stands in its chapter, under what the source notes claim" +
      (rows.querySelector("td") ? "; those of no chapter follow." : ".")));
  }

  /** Live pictures: the still, and a word that it is one. */
  function stills() {
    for (const live of all("article .live")) {
      for (const p of all("p:has(img)", live))
        for (const n of [...p.childNodes]) if (n.nodeType === Node.TEXT_NODE) n.remove();
      live.append(el("p", { className: "on-paper" }, "A still: on the site this picture can be moved."));
      const tries = live.nextElementSibling;
      if (!tries || !/^Things to try/.test(words(tries))) continue;
      if (tries.nextElementSibling?.matches("ul, ol") && /:$/.test(words(tries)))
        tries.nextElementSibling.remove();
      tries.remove();
    }
  }

  /** Solutions: out of sight of their exercises, before the bibliography. */
  function solutions(chapters) {
    const found = all("article .solution");
    if (!found.length) return;
    const section = el("section", { className: "chapter", id: "solutions" }, el("h2", {}, "Solutions"));
    section.dataset.doc = "solutions";
    for (const chapter of chapters) {
      const own = found.filter((e) => chapter.section.contains(e));
      if (!own.length) continue;
      const part = el("section", {}, el("h3", {}, link(chapter.section, words(heading(chapter.section)))));
      for (const solution of own) {
        solution.classList.remove("dropdown");
        const back = solution.querySelector(".admonition-title a");
        const exercise = back && document.getElementById(decodeURIComponent(back.hash.slice(1)));
        if (exercise) {
          back.before(" ");
          back.after(", p. ", numbered(exercise.id));
          exercise.append(el("p", { className: "on-paper" },
            link(solution, "Solution: p. ", numbered(solution.id))));
        }
        part.append(solution);
      }
      section.append(part);
    }
    const at = chapters.findIndex(({ doc }) => doc === "book/bibliography");
    const place = at < 0 ? chapters.length : at;
    chapters[place - 1].section.after(section);
    chapters.splice(place, 0, { doc: "solutions", section });
  }

  /** The reference: what says nothing is left out. */
  function reference() {
    for (const dt of all("dl.field-list > dt")) {
      const dd = dt.nextElementSibling;
      if (/^Return type/.test(words(dt)) && words(dd) === "None") {
        dt.remove();
        dd.remove();
      }
    }
    for (const p of all("dl.py.attribute > dd > p:only-child"))
      if (/^Alias for field number/.test(words(p))) p.closest("dl").remove();
    for (const e of all("dl.field-list")) if (!e.children.length) e.remove();
  }

  /** Names of chapters in running text get their page. */
  function pointers() {
    for (const a of all(".chapter p > a:has(> span.doc)"))
      if (!a.closest("table, .in-the-book, .solution, [data-doc='book/api'], [data-doc='book/exercises']")
          && a.closest(".chapter").id !== decodeURIComponent(a.hash.slice(1)))
        a.after(" (p. ", numbered(decodeURIComponent(a.hash.slice(1))), ")");
  }

  /** Title, contents, parts; a style whose running heads name the chapters. */
  function front(chapters, book) {
    const title = el("section", { className: "title-page" }, el("h1", {}, book.title),
      el("p", { className: "subtitle" }, book.subtitle), el("p", { className: "author" }, book.author));
    for (const e of all('article img[src*="/cover"]')) (e.closest("figure, p, .cell") ?? e).remove();
    if (book.cover) title.append(el("img", { src: book.cover, alt: "" }));
    title.append(...book.imprint.map((line) => el("p", { className: "imprint" }, line)));
    const list = el("ul");
    const contents = el("section", { className: "contents" }, el("h2", {}, "Contents"), list);
    let style = "";
    chapters.forEach(({ doc, section }, i) => {
      const name = words(heading(section));
      if (book.parts[doc]) {
        list.append(el("li", { className: "part" }, book.parts[doc]));
        section.prepend(el("h1", { className: "part" }, book.parts[doc]));
      }
      list.append(el("li", {}, link(section, el("span", {}, name), el("i"), numbered(section.id))));
      section.style.page = `chapter${i}`;
      style += `@page chapter${i} { @top-right { content: ${JSON.stringify(name)} } }\n`;
    });
    document.querySelector("article").prepend(title, contents);
    document.head.append(el("style", {}, style));
    document.title = book.subtitle ? `${book.title}: ${book.subtitle}` : book.title;
  }

  window.paper = {
    /** Everything above; what was found on the way. */
    arrange(book) {
      const errors = all("mjx-merror, [data-mjx-error]").length;
      strip();
      const list = chapters();
      anchors(list);
      claims(list);
      stills();
      solutions(list);
      reference();
      pointers();
      front(list, book);
      // a box of few lines stays whole; a longer one may break
      for (const pre of all("article pre"))
        if (pre.textContent.trim().split("\n").length <= 14)
          (pre.closest(".cell_input") ?? pre.closest("div.highlight") ?? pre).classList.add("whole");
      return {
        errors,
        set: all("article mjx-container").length,
        wanted: all("article span.math, article div.math").length,
        headings: all("article :is(h1, h2, h3, h4, h5, h6)").map(words),
      };
    },

    /** Equations wider than the text get smaller; how many. */
    narrow() {
      let count = 0;
      for (const box of all("article div.math")) {
        const [room, wide] = [box.clientWidth, box.scrollWidth];
        if (!room || wide <= room + 1) continue;
        box.classList.add("narrower");
        box.style.setProperty("--narrower", Math.floor((97 * room) / wide) + "%");
        count += 1;
      }
      return count;
    },

    /** Writes the number of the page at which each id begins. */
    pages(known) {
      for (const e of all("[data-page]")) e.textContent = known[e.dataset.page] ?? "?";
    },
  };
}
