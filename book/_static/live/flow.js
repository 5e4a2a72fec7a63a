// What is left after k steps: of a direction with eigenvalue λ, and of a cell behind a forget gate.
(() => {
  "use strict";
  const live = globalThis.live;
  const STEPS = 100;
  const [SIZE, REACH] = [280, 1.3]; // of the plane, and how far it goes

  live.mount("flow", (root) => {
    const radius = live.slider(0, 1.2, 0.005, 0.95);
    const angle = live.slider(-180, 180, 1, 20);
    const bias = live.slider(-3, 8, 0.05, 1);
    const lag = live.slider(1, STEPS, 1, 30);
    const scale = live.select([["log", "logarithmic"], ["linear", "linear"]], "log");
    const outputs = [radius, angle, bias, lag].map(() => live.output());
    const said = live.status();
    const picture = live.html("div");
    const plane = live.picture(SIZE, SIZE, "The complex plane: the unit circle, the eigenvalue and its powers. " +
      "The eigenvalue can be dragged, or moved by its two sliders.");
    const at = (v) => SIZE / 2 + (v / REACH) * (SIZE / 2);
    root.append(
      live.row(
        live.field("Size of the eigenvalue |λ|", radius, outputs[0]), live.field("Angle", angle, outputs[1]),
        live.field("Bias b of the forget gate", bias, outputs[2]), live.field("Lag", lag, outputs[3]),
      ),
      live.row(live.field("Scale", scale)),
      live.html("div", { class: "live-bars" }, live.html("div", {}, plane), picture),
      live.keys([["|λ|ᵏ; as dots in the plane, λᵏ", "vermillion"], ["real part of λᵏ, on a linear scale", "blue", true], ["σ(b)ᵏ", "green"]]),
      said,
    );

    plane.append(
      live.svg("path", { class: "live-grid", d: `M0 ${at(0)}H${SIZE}M${at(0)} 0V${SIZE}` }),
      live.svg("circle", { class: "live-grid live-mark", cx: at(0), cy: at(0), r: at(1) - at(0) }),
      live.svg("text", { class: "quiet", x: at(1) + 4, y: at(0) - 5 }, "1"),
    );
    const spiral = live.svg("path", { class: "live-line", style: "stroke: var(--live-vermillion); stroke-width: 1.2" });
    const dots = live.svg("g", { style: "fill: var(--live-vermillion)" });
    const handle = live.svg("circle", { class: "live-handle", r: 12 });
    plane.append(spiral, dots, handle);

    const TICKS = {
      log: [[0, "1"], [-3, "10⁻³"], [-6, "10⁻⁶"], [3, "10³"]],
      linear: [[-1, "−1"], [0, "0"], [1, "1"]],
    };

    function update() {
      const [r, theta] = [Number(radius.value), (Number(angle.value) / 180) * Math.PI];
      const [f, k] = [live.sigmoid(Number(bias.value)), Number(lag.value)];
      const powers = live.powers(r * Math.cos(theta), r * Math.sin(theta), STEPS);
      const sizes = powers.map(([a, b]) => Math.hypot(a, b));
      const gates = live.powers(f, 0, STEPS).map(([a]) => a);
      outputs.forEach((output, n) => {
        output.textContent = [r.toFixed(3), `${angle.value}°`, Number(bias.value).toFixed(2), `${k}`][n];
      });
      angle.setAttribute("aria-valuetext", `${angle.value} degrees`);

      const shown = powers.filter(([a, b]) => Math.hypot(a, b) < 2 * REACH).map(([a, b]) => [at(a), at(-b)]);
      spiral.setAttribute("d", `M${shown.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L")}`);
      dots.replaceChildren(...shown.map(([cx, cy]) => live.svg("circle", { cx, cy, r: 2.2 })));
      handle.setAttribute("cx", shown[1]?.[0] ?? at(0));
      handle.setAttribute("cy", shown[1]?.[1] ?? at(0));

      const log = scale.value === "log";
      const limits = log ? [-8, 4] : [-1.3, 1.3];
      const plot = live.plot({
        width: 320, x: [0, STEPS, "steps back, k", [0, 25, 50, 75, 100].map((v) => [v, `${v}`])],
        y: [...limits, "share that is left", TICKS[scale.value]],
        label: `Memory and gradient over ${STEPS} steps, ${log ? "logarithmic" : "linear"} scale`,
      });
      const value = (v) => (log ? Math.log10(Math.max(v, 1e-30)) : v);
      const curve = (values) => values.map((v, n) => [n, value(v)]);
      if (!log) plot.line(curve(powers.map(([a]) => a)), "blue", "5 4");
      plot.line(curve(sizes), "vermillion");
      plot.line(curve(gates), "green");
      plot.curves.append(live.svg("path", {
        class: "live-grid live-mark", d: `M${plot.X(k)} ${plot.Y(limits[0])}V${plot.Y(limits[1])}`,
      }));
      picture.replaceChildren(plot.svg);
      const once = 360 / Math.abs(angle.value);
      const turns = r > 0 && Number.isFinite(once) ? `, turning once in ${once.toFixed(1)} steps` : "";
      const after = `after ${k} step${k === 1 ? "" : "s"}`;
      const left = (v) => {
        const words = live.shareWords(v);
        return `${after} ${words.endsWith("times") ? `there is ${words} as much` : `${words} is left`}`;
      };
      said.textContent =
        `|λ| = ${r.toFixed(3)}: ${live.halfLifeWords(r)}${turns}; ${left(sizes[k])}, of a memory as of a gradient. ` +
        `Forget gate at σ(b) = ${f.toFixed(3)}: ${live.halfLifeWords(f)}; ${left(gates[k])}.`;
      root.liveState = { sizes, gates, lag: k };
    }

    function drag(event) {
      const box = plane.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left - box.width / 2, box.height / 2 - (event.clientY - box.top)];
      radius.value = (Math.hypot(x, y) / (box.width / 2)) * REACH;
      angle.value = (Math.atan2(y, x) / Math.PI) * 180;
      update();
    }
    // else a finger that drags it scrolls the page: Chromium heeds no touch-action of a shape in an SVG
    handle.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
    handle.addEventListener("pointerdown", (event) => {
      handle.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    handle.addEventListener("pointermove", (event) => {
      if (handle.hasPointerCapture(event.pointerId)) drag(event);
    });
    for (const control of [radius, angle, bias, lag, scale]) control.addEventListener("input", update);
    update();
  });
})();
