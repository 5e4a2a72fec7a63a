// Gates at work: type, and see what a trained LSTM does with each letter; hold a gate by hand.
(() => {
  "use strict";
  const live = globalThis.live;
  const SHOWN = {
    f: "forget gate f", i: "input gate i", o: "output gate o",
    g: "candidate g", c: "cell state c", h: "output h",
  };
  const HELD = [["", "free"], ["0", "0"], ["0.25", "¼"], ["0.5", "½"], ["0.75", "¾"], ["1", "1"]];
  const START = "\n"; // the network reads a line's end first: what is typed begins a line
  const [CELL, ROW, TOP, STRIP] = [15, 3, 20, 44];

  live.mount("gates", (root) => {
    const net = new live.CharLSTM(live.letters);
    const input = live.text(root.dataset.text ?? "Good morrow, my lor", { maxlength: 160 });
    const shown = live.select(Object.entries(SHOWN), "f");
    const holds = { f: live.select(HELD, ""), i: live.select(HELD, ""), o: live.select(HELD, "") };
    const unit = live.html("input", { type: "number", min: 0, max: net.H - 1, step: 1, value: 0 });
    const where = live.select([["all", "all units"], ["one", "this unit alone"]], "all");
    const canvas = live.html("canvas", { role: "img" });
    const scroll = live.scroll("Units and letters", canvas);
    const legend = live.html("p");
    const lines = { f: ["vermillion"], i: ["blue", true], o: ["green"], "c, from −2 to 2": ["purple", true] };
    const keys = live.keys(Object.entries(lines).map(([name, style]) => [name, ...style]));
    const said = live.status();
    const bars = live.html("div", { class: "live-bars" });
    root.append(
      live.row(live.field("Type here", input)),
      live.row(live.field("Show", shown), live.field("Unit", unit)),
      live.row(live.field("Hold f at", holds.f), live.field("Hold i at", holds.i),
        live.field("Hold o at", holds.o), live.field("in", where)),
      scroll,
      legend, keys,
      said, bars,
    );

    // A trace goes on from where the text is still the same: typing costs one step a letter.
    const traces = { free: [], held: [] };
    let key = "";
    const run = (trace, text, hold) => {
      let same = 0;
      while (same < trace.length && trace[same].character === text[same]) same++;
      trace.length = same;
      for (const character of text.slice(same)) {
        const before = trace.at(-1);
        const place = net.place(character);
        const p = before ? net.next(before.h)[place] : null;
        trace.push({ character, bits: p && -Math.log2(p), ...net.step(place, before ?? net.start(), hold) });
      }
    };
    const chosen = () => Math.max(0, Math.min(net.H - 1, Math.round(Number(unit.value)) || 0));

    function compute() {
      const hold = where.value === "one" ? { unit: chosen() } : {};
      for (const gate of "fio") if (holds[gate].value !== "") hold[gate] = Number(holds[gate].value);
      if (JSON.stringify(hold) !== key) traces.held = [];
      key = JSON.stringify(hold);
      const text = [START, ...input.value];
      run(traces.free, text, {});
      run(traces.held, text, hold);
    }

    function draw() {
      const style = getComputedStyle(root);
      const color = (name) => style.getPropertyValue(`--live-${name}`).trim();
      const letters = traces.held.slice(1);
      const [k, ratio] = [chosen(), window.devicePixelRatio || 1];
      const [width, low] = [Math.max(1, letters.length) * CELL, TOP + net.H * ROW];
      const height = low + 8 + STRIP;
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.font = "14px monospace";
      pen.textAlign = "center";
      const gate = "ifo".includes(shown.value);
      letters.forEach((step, x) => {
        pen.globalAlpha = 1;
        pen.fillStyle = style.color;
        pen.fillText(step.character === " " ? "␣" : step.character, x * CELL + CELL / 2, 14);
        step[shown.value].forEach((v, j) => { // a gate from ½, the others from 0, in both directions
          const strength = gate ? 2 * v - 1 : Math.max(-1, Math.min(1, v));
          pen.globalAlpha = Math.abs(strength);
          pen.fillStyle = color(strength < 0 ? "blue" : "vermillion");
          pen.fillRect(x * CELL, TOP + j * ROW, CELL - 1, ROW);
        });
      });
      pen.globalAlpha = 1;
      pen.strokeStyle = style.color;
      pen.strokeRect(0.5, TOP + k * ROW - 0.5, width - 1, ROW + 1);
      pen.strokeStyle = style.getPropertyValue("--pst-color-border");
      pen.strokeRect(0.5, low + 8.5, width - 1, STRIP - 1);
      for (const [key, [hue, dashed]] of Object.entries(lines)) {
        const name = key[0];
        pen.strokeStyle = color(hue);
        pen.lineWidth = 1.8;
        pen.setLineDash(dashed ? [4, 3] : []);
        pen.beginPath();
        letters.forEach((step, x) => { // gates from 0 below to 1 above, c / 2 from −1 to 1
          const v = name === "c" ? (Math.max(-1, Math.min(1, step.c[k] / 2)) + 1) / 2 : step[name][k];
          pen[x ? "lineTo" : "moveTo"](x * CELL + CELL / 2, low + 8 + (1 - v) * (STRIP - 4) + 2);
        });
        pen.stroke();
      }
      pen.setLineDash([]);
    }

    const mean = (values) => (values.length ? values.reduce((a, b) => a + b) / values.length : 0);
    const surprise = (trace) => mean(trace.slice(1).map((step) => step.bits));

    function table(title, trace) {
      const p = net.next(trace.at(-1).h);
      const best = [...p.keys()].sort((a, b) => p[b] - p[a]).slice(0, 6);
      const name = (q) => ({ " ": "space", "\n": "line end" })[net.characters[q]] ?? net.characters[q];
      return live.html("table", {}, live.html("caption", {}, title), live.html("tbody", {}, best.map((q) =>
        live.html("tr", {}, live.html("th", { scope: "row", class: "live-output" }, name(q)),
          live.html("td", {}, live.percent(p[q])),
          live.html("td", { "aria-hidden": "true" }, live.html("span", { style: `width: ${100 * p[q]}%` }))))));
    }

    function say() {
      const letters = traces.held.slice(1);
      const value = mean(letters.flatMap((step) => [...step[shown.value]]));
      const held = key !== "{}" && key !== `{"unit":${chosen()}}`;
      const count = letters.length === 1 ? "1 letter" : `${letters.length} letters`;
      let text = `${count}; ${SHOWN[shown.value]}: mean ${value.toFixed(2)} over all units`;
      if (letters.length) {
        text += `, ${letters.at(-1)[shown.value][chosen()].toFixed(2)} in unit ${chosen()} at the last letter`;
        text += `. What was typed came as a surprise of ${surprise(traces.held).toFixed(2)} bits a letter`;
        if (held) text += `; with no gate held, of ${surprise(traces.free).toFixed(2)}`;
      }
      const unknown = live.unique(letters.map((step) => step.character).filter((c) => !net.index.has(c)));
      if (unknown) text += `. It has never read ${unknown}, and takes all such characters for the same`;
      said.textContent = letters.length
        ? `${text}.${live.full(input)}`
        : "Type something. Below are the letters that are likely to begin a line.";
      canvas.setAttribute("aria-label", `${SHOWN[shown.value]} of ${net.H} units over ${count}`);
      const colors = "ifo".includes(shown.value)
        ? "orange is open, above ½, blue is shut"
        : "orange is positive, blue negative";
      legend.textContent = `Above, one row a unit: ${colors}. Below, the chosen unit ` +
        "(click on a row, or set Unit, to choose another):";
      bars.replaceChildren(table("Likely next letters", traces.held));
      if (held) bars.append(table("With no gate held", traces.free));
    }

    const update = () => { compute(); draw(); say(); };
    for (const control of [input, shown, unit, where, ...Object.values(holds)])
      control.addEventListener("input", update);
    input.addEventListener("input", () => { scroll.scrollLeft = scroll.scrollWidth; }); // what is new is seen
    canvas.addEventListener("click", (event) => { // a row of the picture chooses its unit
      const j = Math.floor((event.offsetY - TOP) / ROW);
      if (j >= 0 && j < net.H) { unit.value = j; update(); }
    });
    // the colors of a canvas do not follow the theme by themselves
    new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    update();
    root.liveTrace = () => traces.held;
  });
})();
