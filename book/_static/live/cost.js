// State against cache: what one more token costs, by a formula for the reader's sizes and as recorded.
(() => {
  "use strict";
  const live = globalThis.live;
  const NAMES = {
    rnn: "vanilla RNN", lstm: "LSTM", gru: "GRU", sru: "SRU", qrnn: "QRNN", mamba: "Mamba",
    s4d: "S4D", retnet: "RetNet", rwkv7: "RWKV-7", attention: "attention with cache",
  };
  // The book's colors (look.COLORS). Who has none there takes a relative's, with other dashes; and the
  // GRU, which holds as much as the vanilla RNN, lets it be seen through its gaps.
  const STYLE = {
    rnn: ["black"], gru: ["blue", "6 4"], lstm: ["sky"], attention: ["vermillion"],
    mamba: ["green"], retnet: ["purple"],
    sru: ["blue", "2 3"], qrnn: ["sky", "2 3"], s4d: ["green", "6 4"], rwkv7: ["purple", "6 4"],
    "attention, scores kept": ["orange", "6 4"],
  };
  const KINDS = {
    formula: "memory: the state, by formula",
    step: "time: one more token, recorded",
    train: "time: training, a token, recorded",
    peak: "memory: training, a token, recorded",
  };
  const AXIS = { 4: "16", 8: "256", 12: "4k", 16: "64k", 20: "1,024k" };
  const [LOW, HIGH] = [4, 20]; // powers of two, of the length

  live.mount("cost", (root) => {
    const { layers, machine, recorded } = live.scaling;
    const kind = live.select(Object.entries(KINDS), "formula");
    const length = live.slider(LOW, HIGH, 0.25, 12);
    const shown = live.output();
    const number = (value, max) => live.html("input", { type: "number", min: 1, max, step: 1, value });
    const width = number(1024, 65536);
    const heads = number(16, 1024);
    const shared = number(16, 1024);
    const depth = number(24, 1024);
    const bytes = live.select([["4", "4 (float32)"], ["2", "2 (float16)"], ["1", "1"]], "2");
    const own = live.row(live.field("Width", width), live.field("Layers", depth), live.field("Heads", heads),
      live.field("Key-value heads", shared), live.field("Bytes a number", bytes));
    const [picture, keys, table] = [live.html("div"), live.html("div"), live.scroll("The layers in numbers")];
    const said = live.status();
    root.append(
      live.row(live.field("Show", kind)), live.row(live.field("Tokens so far", length, shown)),
      own, picture, keys, table, said,
    );

    const tokens = (n) => `${n.toLocaleString("en")} token${n === 1 ? "" : "s"}`;
    const style = (name) => STYLE[name] ?? ["black", "2 3"]; // a layer recorded since
    const trained = () => kind.value === "train" || kind.value === "peak"; // without a cache
    const title = (name) => (name === "attention" && trained() ? name : NAMES[name] ?? name);
    const three = (v) => Number(v.toPrecision(3));
    const microseconds = (v) => (v >= 1000 ? `${three(v / 1000)} ms` : `${three(v)} µs`);

    // Rows of {name, points, value}: what is drawn, and what it is at T tokens.
    function byFormula(T) {
      const whole = (control) =>
        Math.max(1, Math.min(Number(control.max), Math.round(Number(control.value)) || 1));
      const given = { bytes: Number(bytes.value) };
      for (const [key, control] of Object.entries({ width, heads, shared, depth })) given[key] = whole(control);
      const powers = Array.from({ length: HIGH - LOW + 1 }, (_, k) => LOW + k);
      const held = (name, T) => live.stateBytes(name, { ...given, T });
      return live.stateLayers.map((name) => ({
        name,
        points: powers.map((p) => [p, held(name, 2 ** p)]),
        value: held(name, T),
        even: name === "attention" ? null : live.evenAt(name, given),
      }));
    }
    function asRecorded(what, T) {
      const scale = what === "peak" ? 1024 : 1; // KiB
      return Object.entries(layers).filter(([, layer]) => layer[what]).map(([name, layer]) => {
        const { lengths, values } = layer[what];
        const value = live.between(lengths, values, T);
        const points = lengths.map((n, k) => [Math.log2(n), values[k] * scale]);
        return { name, points, value: value && value * scale };
      });
    }

    function update() {
      const formula = kind.value === "formula";
      const time = kind.value === "step" || kind.value === "train";
      const T = Math.round(2 ** Number(length.value));
      shown.textContent = T.toLocaleString("en");
      length.setAttribute("aria-valuetext", `${T} tokens`);
      own.hidden = !formula;
      own.style.display = formula ? "" : "none";
      let rows;
      try {
        rows = formula ? byFormula(T) : asRecorded(kind.value, T);
      } catch {
        said.textContent = `The key-value heads (${shared.value}) must divide the heads (${heads.value}), and ` +
          `the heads the width (${width.value}). The picture waits until they do.`;
        return;
      }
      const words = time ? microseconds : live.bytesWords;
      // bytes are counted in powers of 1024, times in those of 10
      const [log, base, by] = time ? [Math.log10, 10, 1] : [Math.log2, 2, 5];
      const all = rows.flatMap((row) => row.points.map(([, v]) => log(v)));
      const [low, high] = [Math.floor(Math.min(...all) / by) * by, Math.ceil(Math.max(...all) / by) * by];
      const ticks = Array.from({ length: (high - low) / by + 1 }, (_, k) => low + k * by);
      const plot = live.plot({
        width: Math.min(640, Math.max(320, root.clientWidth - 24)),
        x: [LOW, HIGH, "tokens so far (k = 1,024)", Object.entries(AXIS).map(([p, text]) => [Number(p), text])],
        y: [low, high + 0.02 * (high - low), KINDS[kind.value].split(":")[0], ticks.map((p) => [p, words(base ** p)])],
        label: `${KINDS[kind.value]}, against the tokens so far`,
      });
      for (const { name, points } of rows) plot.line(points.map(([x, v]) => [x, log(v)]), ...style(name));
      const x = plot.X(Number(length.value));
      plot.curves.append(live.svg("path", {
        class: "live-grid live-mark", d: `M${x} ${plot.Y(low)}V${plot.Y(high)}`,
      }));
      picture.replaceChildren(plot.svg);
      keys.replaceChildren(live.keys(rows.map(({ name }) => [title(name), ...style(name)])));

      const head = ["layer", `at ${tokens(T)}`, ...(formula ? ["the cache is larger from"] : [])];
      table.replaceChildren(live.table(head, rows.map(({ name, value, even }) => [
        title(name),
        value === null ? "not recorded" : words(value),
        ...(formula ? [even === null ? "–" : tokens(Math.floor(even) + 1)] : []),
      ])));
      const values = rows.map((row) => row.value).filter((v) => v !== null);
      const [most, least] = [Math.max(...values), Math.min(...values)];
      const which = (v) => rows.filter((row) => row.value === v).map((row) => title(row.name)).join(" and ");
      let text = `${tokens(T)}: no layer was recorded at this length.`;
      if (Number.isFinite(most))
        text = `${tokens(T)}: least ${words(least)} (${which(least)}), most ${words(most)} (${which(most)}).`;
      if (formula && ![width, depth, heads, shared].every((control) => control.validity.valid))
        text += " A size out of its range counts as the nearest whole number within.";
      if (!formula)
        text += " One layer of 128 features, a batch of one, " +
          `${machine.threads} thread of one CPU, recorded ${recorded}; ` +
          "between the recorded lengths the picture draws straight lines.";
      if (kind.value === "step")
        text += " The recurrences rise too, since they took turns with attention, which copies its cache at " +
          "each step; alone they stay level.";
      said.textContent = text;
      root.liveRows = rows;
    }
    for (const control of [kind, length, width, heads, shared, depth, bytes])
      control.addEventListener("input", update);
    live.onWidth(root, update);
    update();
  });
})();
