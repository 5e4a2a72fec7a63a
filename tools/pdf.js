/* What the page becomes before tools/pdf.py prints it. Each step is a function of its own, which
   `arrange` calls in their order. On which page what stands is not known yet: `[data-page]` names
   the id whose page `pages` writes there after a first print. */
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
  const note = (...children) => el("p", { className: "on-paper" }, ...children);
  const name = (a) => decodeURIComponent(a.hash.slice(1));
  const target = (a) => document.getElementById(name(a));
  const link = (section, ...children) => el("a", { href: "#" + section.id }, ...children);

  /** The number of the page at which `id` begins; `pages` writes it. */
  function numbered(id) {
    const made = el("span", { className: "page" }, "000");
    made.dataset.page = id;
    return made;
  }

  /** What a screen needs, and paper does not. */
  function strip() {
    document.documentElement.dataset.theme = "light";
    for (const e of all("article :is(a.headerlink, .stamp-run, .viewcode-link)")) e.remove();
    // every sign of every formula once more: a third of the file
    for (const e of all("mjx-assistive-mml")) e.remove();
    // the code of figures is folded on the site; paper does without
    for (const e of all(".tag_hide-input > :is(details.above-input, .cell_input)")) e.remove();
    for (const e of all("article details")) e.open = true;
    for (const e of all("article :is(.toggle-hidden, .hide)"))
      e.classList.remove("toggle-hidden", "hide");
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
        const id = decodeURIComponent(href.slice(1));
        const here = `document-${a.closest(".chapter").dataset.doc}--${id}`;
        if (starts.has(id)) a.href = "#" + starts.get(id);
        else if (!known(id) && known(here)) a.href = "#" + here;
      } else if (!/^(https?|mailto):/.test(href)) a.replaceWith(...a.childNodes);
    }
  }

  /** Rows of claims stand in their chapters; the appendix keeps what is said about all of them. */
  function claims() {
    const rows = document.getElementById("document-book/claims--all-rows");
    if (!rows) return;
    for (const a of all("table.claims td:first-child a")) {
      const row = target(a);
      if (rows.contains(a) || !rows.contains(row)) continue;
      // links to the row in the appendix lead to the first of its chapters from now on
      a.closest("p").id = row.id;
      a.replaceWith(...a.childNodes);
      row.closest("tr").remove();
    }
    for (const e of all("section", rows)) if (!e.querySelector("td")) e.remove();
    const rest = rows.querySelector("td") ? "; those of no chapter follow" : "";
    heading(rows).after(note(`On paper each row stands in its chapter alone${rest}.`));
  }

  /** Live pictures: the still, and a word that it is one. */
  function stills() {
    for (const live of all("article .live")) {
      for (const p of all("p:has(img)", live))
        for (const n of [...p.childNodes]) if (n.nodeType === Node.TEXT_NODE) n.remove();
      live.append(note("A still: on the site this picture can be moved."));
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
    const section = el("section", { className: "chapter", id: "solutions" });
    section.append(el("h2", {}, "Solutions"));
    section.dataset.doc = "solutions";
    for (const chapter of chapters) {
      const own = found.filter((e) => chapter.section.contains(e));
      if (!own.length) continue;
      const title = words(heading(chapter.section));
      const part = el("section", {}, el("h3", {}, link(chapter.section, title)));
      for (const solution of own) {
        solution.classList.remove("dropdown");
        const back = solution.querySelector(".admonition-title a");
        const exercise = back && target(back);
        if (exercise) {
          back.before(" ");
          back.after(", p. ", numbered(exercise.id));
          exercise.append(note(link(solution, "Solution: p. ", numbered(solution.id))));
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
    const lists = "table, .in-the-book, [data-doc='book/api'], [data-doc='book/exercises']";
    for (const a of all(".chapter p > a:has(> span.doc)"))
      if (!a.closest(lists) && target(a) !== a.closest(".chapter"))
        a.after(" (p. ", numbered(name(a)), ")");
  }

  /** Title, contents, parts; a style whose running heads name the chapters. */
  function front(chapters, book) {
    const line = (className) => (text) => el("p", { className }, text);
    const title = el("section", { className: "title-page" }, el("h1", {}, book.title));
    title.append(line("subtitle")(book.subtitle), line("author")(book.author));
    const covers = all('article img[src*="/cover"]');
    if (book.cover) title.append(el("img", { src: book.cover, alt: covers[0]?.alt ?? "" }));
    for (const e of covers) (e.closest("figure, p, .cell") ?? e).remove();
    title.append(...book.imprint.map(line("imprint")));
    const list = el("ul");
    const contents = el("section", { className: "contents" }, el("h2", {}, "Contents"), list);
    let style = "";
    chapters.forEach(({ doc, section }, i) => {
      const called = words(heading(section));
      if (book.parts[doc]) {
        list.append(el("li", { className: "part" }, book.parts[doc]));
        section.prepend(el("h1", { className: "part" }, book.parts[doc]));
      }
      const entry = link(section, el("span", {}, called), el("i"), numbered(section.id));
      list.append(el("li", {}, entry));
      section.style.page = `chapter${i}`;
      style += `@page chapter${i} { @top-right { content: ${JSON.stringify(called)} } }\n`;
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
      claims();
      stills();
      solutions(list);
      reference();
      pointers();
      front(list, book);
      // a box of few lines stays whole; a longer one may break
      for (const pre of all("article pre"))
        if (pre.textContent.trim().split("\n").length <= 14) pre.classList.add("whole");
      return {
        errors,
        set: all("article mjx-container").length,
        wanted: all("article span.math, article div.math").length,
        targets: [...new Set(all('article a[href^="#"]').map(name).filter(Boolean))],
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

    /** Writes the number of the page at which each id begins; gives them all. */
    pages(known) {
      const shown = {};
      for (const e of all("[data-page]")) {
        const number = shown[e.dataset.page] = known[e.dataset.page] ?? "?";
        e.textContent = number;
        // never narrower than before: lines that go back and forth would not come to rest
        e.dataset.digits = Math.max(String(number).length, e.dataset.digits ?? 0);
        e.style.minWidth = `${e.dataset.digits}ch`;
      }
      return shown;
    },
  };
}
