// One recurrence, four orders: a loop, chunks, a tree, doubling; round by round.
(() => {
  "use strict";
  const live = globalThis.live;
  const FORMS = { loop: "loop", chunks: "chunks", tree: "tree", doubling: "doubling" };
  const [CELL, LINE, TOP, LEFT] = [30, 40, 16, 34];
  const PACE = 900; // milliseconds a round

  live.mount("scan", (root) => {
    const form = live.select(Object.entries(FORMS), "tree");
    const lengths = [["8", "8"], ["16", "16"], ["32", "32"]];
    const length = live.select(lengths, window.innerWidth < 600 ? "8" : "16");
    const size = live.select([["2", "2"], ["4", "4"], ["8", "8"]], "4");
    const still = window.matchMedia("(prefers-reduced-motion: reduce)");
    const scroll = live.scroll("Steps and rounds");
    const table = live.html("div");
    const said = live.status();
    let [rounds, reach, shown, timer] = [[], [], 0, null];

    const step = live.button("Next round", () => { stop(); show(shown + 1); });
    const back = live.button("Back", () => { stop(); show(shown - 1); });
    const again = live.button("From the start", () => { stop(); show(0); });
    const play = live.button("Play", () => {
      if (timer !== null) return stop();
      if (still.matches) return show(rounds.length); // no motion: straight to the end
      if (shown === rounds.length) show(0);
      timer = setInterval(() => (shown < rounds.length ? show(shown + 1) : stop()), PACE);
      play.textContent = "Pause";
    });
    function stop() {
      clearInterval(timer);
      timer = null;
      play.textContent = still.matches ? "All rounds" : "Play";
    }
    still.addEventListener("change", stop);

    const sizeField = live.field("Steps a chunk", size);
    root.append(
      live.row(live.field("Order", form), live.field("Steps T", length), sizeField),
      live.row(again, back, step, play),
      scroll, said, table,
    );

    const done = (t, k) => reach[k][t] === 0;

    function draw() {
      const T = Number(length.value);
      const [width, height] = [LEFT + T * CELL + 8, TOP + rounds.length * LINE + 16];
      const [x, y] = [(t) => LEFT + t * CELL + CELL / 2, (k) => TOP + k * LINE];
      const label = `${FORMS[form.value]} over ${T} steps, ${shown} of ${rounds.length} rounds drawn`;
      const svg = live.picture(width, height, label);
      for (let k = 0; k <= shown; k++) {
        svg.append(live.svg("text", { class: "quiet", x: LEFT - 8, y: y(k) + 5, "text-anchor": "end" }, `${k}`));
        for (let t = 0; k > 0 && t < T; t++)
          svg.append(live.svg("path", { class: "live-grid", d: `M${x(t)} ${y(k - 1) + 11}V${y(k) - 11}` }));
        for (const [early, late] of k > 0 ? rounds[k - 1] : [])
          svg.append(live.svg("path", {
            class: "live-line", d: `M${x(early)} ${y(k - 1) + 11}L${x(late)} ${y(k) - 11}`,
            style: `stroke: var(--live-vermillion); stroke-width: ${k === shown ? 2.6 : 1.4}`,
          }));
      }
      for (let k = shown + 1; k <= rounds.length; k++) // what is to come keeps its place
        for (let t = 0; t < T; t++)
          svg.append(live.svg("circle", { class: "live-grid", cx: x(t), cy: y(k), r: 4 }));
      for (let k = 0; k <= shown; k++)
        for (let t = 0; t < T; t++) {
          const [whole, gathered] = [done(t, k), t - reach[k][t] + 1];
          svg.append(live.svg("circle", {
            cx: x(t), cy: y(k), r: 11,
            style: `fill: var(${whole ? "--live-green" : "--pst-color-background"}); stroke: var(--live-green)`,
          }));
          svg.append(live.svg("text", {
            x: x(t), y: y(k) + 4, "text-anchor": "middle",
            style: `font-size: 11px; fill: var(${whole ? "--pst-color-background" : "--pst-color-text-base"})`,
          }, `${gathered}`));
        }
      scroll.replaceChildren(svg);
    }

    function show(k) {
      shown = Math.max(0, Math.min(rounds.length, k));
      for (const [button, off] of [[step, shown === rounds.length], [back, !shown], [again, !shown]])
        button.setAttribute("aria-disabled", off);
      draw();
      const T = Number(length.value);
      const joins = live.scanWork(rounds.slice(0, shown));
      const finished = reach[shown].filter((first) => first === 0).length;
      const now = shown ? `, ${rounds[shown - 1].length} at once in this round` : "";
      said.textContent = `${FORMS[form.value]}, round ${shown} of ${rounds.length}: ${joins} of ` +
        `${live.scanWork(rounds)} joins done${now}; ${finished} of ${T} steps know their state.`;
    }

    function update() {
      stop();
      const [T, n] = [Number(length.value), Number(size.value)];
      sizeField.style.display = form.value === "chunks" ? "" : "none";
      rounds = live.scanRounds(form.value, T, n);
      reach = live.scanReach(T, rounds);
      table.replaceChildren(live.table(["order", "rounds (depth)", "joins (work)"], Object.keys(FORMS).map((name) => {
        const each = live.scanRounds(name, T, n);
        return [name === "chunks" ? `chunks of ${n}` : FORMS[name], `${each.length}`, `${live.scanWork(each)}`];
      })));
      show(0);
    }
    for (const control of [form, length, size]) control.addEventListener("input", update);
    update();
    root.liveRounds = () => rounds;
  });
})();
