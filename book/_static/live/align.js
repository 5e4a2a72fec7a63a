// How is a word said? The alignment of a trained network with attention, as it writes phonemes.
(() => {
  "use strict";
  const live = globalThis.live;
  const [CELL, LEFT, TOP] = [26, 50, 28];

  live.mount("align", (root) => {
    const net = new live.Speller(live.spelling);
    const input = live.text(root.dataset.text ?? "freightliner", { maxlength: 24, autocapitalize: "none" });
    const said = live.status();
    const scroll = live.scroll("Letters and phonemes");
    let [word, rows, shown] = ["", [], 0];
    const next = live.button("Next phoneme", () => show(shown + 1));
    const all = live.button("All", () => show(rows.length));
    const again = live.button("From the start", () => show(0));
    root.append(live.row(live.field("A word", input)), live.row(again, next, all), scroll, said);

    const END = "end";
    const name = (step) => step.phoneme ?? END;
    const { percent } = live;

    function draw() {
      const letters = [...word];
      const room = (root.clientWidth - 24 - LEFT - 60) / letters.length; // a phone is narrow
      const wide = Math.max(18, Math.min(CELL, Math.floor(room)));
      const [right, height] = [LEFT + letters.length * wide, TOP + Math.max(1, rows.length) * CELL + 4];
      const written = rows.slice(0, shown).map(name).join(" ");
      const label = `Alignment of ${word || "no word"}: ${written || "nothing written yet"}`;
      const svg = live.picture(right + 60, height, label);
      letters.forEach((letter, s) =>
        svg.append(live.svg("text", { x: LEFT + (s + 0.5) * wide, y: 19, "text-anchor": "middle" }, letter)));
      if (shown) svg.append(live.svg("text", { class: "quiet", x: right + 8, y: 19 }, "sure"));
      rows.forEach((step, t) => {
        const y = TOP + t * CELL;
        letters.forEach((_, s) => {
          const x = LEFT + s * wide;
          svg.append(live.svg("rect", { class: "live-grid", x, y, width: wide, height: CELL }));
          if (t < shown)
            svg.append(live.svg("rect", {
              x: x + 1, y: y + 1, width: wide - 2, height: CELL - 2,
              style: `fill: var(--live-blue); fill-opacity: ${step.weights[s].toFixed(3)}`,
            }));
        });
        if (t < shown) {
          svg.append(live.svg("text", { x: LEFT - 8, y: y + 18, "text-anchor": "end" }, name(step)));
          svg.append(live.svg("text", { class: "quiet", x: right + 8, y: y + 18 }, percent(step.p)));
        }
      });
      scroll.replaceChildren(svg);
    }

    function show(count) {
      shown = Math.max(0, Math.min(rows.length, count));
      // a button that is disabled while it has the focus would lose it
      for (const [button, off] of [[next, shown === rows.length], [all, shown === rows.length], [again, !shown]])
        button.setAttribute("aria-disabled", off);
      draw();
      const written = rows.slice(0, shown).map(name);
      if (!word) said.textContent = "Type a word of the letters a to z.";
      else if (!shown) said.textContent = `${word} is read. Nothing is written yet.`;
      else {
        const last = rows[shown - 1];
        const top = last.weights.indexOf(Math.max(...last.weights));
        const where = `looks most at ${word[top]}, letter ${top + 1} (${percent(last.weights[top])})`;
        said.textContent = `${word}: ${written.join(" ")}. Step ${shown}: ${name(last)} ` +
          `(${percent(last.p)}) ${where}.`;
        if (shown === rows.length && last.phoneme !== null)
          said.textContent += ` It was stopped after ${shown} phonemes: it did not find the end.`;
      }
    }

    function update() {
      const typed = input.value.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase(); // ü is read as u
      word = [...typed].filter((c) => net.letters.includes(c)).join("");
      rows = word ? net.spell(word) : [];
      show(rows.length);
      const dropped = live.unique([...typed].filter((c) => !net.letters.includes(c)));
      if (word && dropped) said.textContent += ` Left out: ${dropped} (it knows a to z).`;
      said.textContent += live.full(input);
    }
    input.addEventListener("input", update);
    live.onWidth(root, draw);
    update();
    root.liveRows = () => rows;
  });
})();
