// What the pictures share: elements, labelled controls, a curve, and how a picture takes its place.
(() => {
  "use strict";
  const live = (globalThis.live ??= {});
  const SVG = "http://www.w3.org/2000/svg";
  let serial = 0;

  function fill(element, attributes, children) {
    for (const [key, value] of Object.entries(attributes ?? {}))
      if (value !== null && value !== undefined) element.setAttribute(key, value);
    element.append(...children.flat().filter((c) => c !== null && c !== undefined));
    return element;
  }
  live.html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  live.svg = (tag, attributes, ...children) =>
    fill(document.createElementNS(SVG, tag), attributes, children);

  // A label, its control, and what shows the value of a slider.
  live.field = (label, control, output = null) => {
    control.id = `live-${++serial}`;
    return live.html("div", { class: "live-field" }, live.html("label", { for: control.id }, label), output, control);
  };
  // Pairs of a value and its text, since an object would put keys such as 0 and 1 first.
  live.select = (choices, value) => {
    const options = choices.map(([key, text]) => live.html("option", { value: key }, text));
    const control = live.html("select", {}, options);
    control.value = value;
    return control;
  };
  live.slider = (min, max, step, value) => live.html("input", { type: "range", min, max, step, value });
  live.button = (text, press) => {
    const control = live.html("button", { type: "button" }, text);
    control.addEventListener("click", press);
    return control;
  };
  // The number beside a slider. A screen reader has it from the slider already.
  live.output = () => live.html("span", { class: "live-output", "aria-hidden": "true" });
  live.row = (...fields) => live.html("div", { class: "live-row" }, fields);
  // What is wider than a phone scrolls in here, by keys too.
  live.scroll = (label, ...children) =>
    live.html("div", { class: "live-scroll", tabindex: 0, role: "region", "aria-label": label }, children);
  live.text = (value, more = {}) =>
    live.html("input", { type: "text", autocomplete: "off", spellcheck: "false", value, ...more });
  // Rows of cells, the first of each a heading.
  live.table = (head, rows) =>
    live.html("table", { class: "live-table" },
      live.html("thead", {}, live.html("tr", {}, head.map((text) => live.html("th", { scope: "col" }, text)))),
      live.html("tbody", {}, rows.map(([first, ...rest]) =>
        live.html("tr", {}, live.html("th", { scope: "row" }, first), rest.map((text) => live.html("td", {}, text))))));
  live.unique = (characters) => [...new Set(characters)].map((c) => ({ " ": "space", "\t": "tab" })[c] ?? c).join(" ");
  live.percent = (p) => (p > 0 && p < 0.005 ? "<1%" : `${Math.round(100 * p)}%`);
  // What is pasted may have been longer: the browser cuts it without a word.
  live.full = (input) =>
    (input.value.length < input.maxLength ? "" : ` There is room for ${input.maxLength} characters.`);
  // Draws again at another width: a phone was turned, a sidebar folded. Not within the observer, which
  // would see the height that the drawing changes.
  live.onWidth = (root, draw) => {
    let width = root.clientWidth;
    new ResizeObserver(() => {
      if (root.clientWidth === width) return;
      width = root.clientWidth;
      requestAnimationFrame(draw);
    }).observe(root);
  };
  live.status = () => live.html("p", { role: "status", class: "live-said" });

  live.picture = (width, height, label) =>
    live.svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });

  // A frame with axes: x and y give [lowest, highest, label, ticks]; returns its maps and its group.
  live.plot = ({ width = 640, height = 300, x, y, label }) => {
    const [left, right, top, bottom] = [84, 28, 10, 42];
    const scale = ([low, high], from, to) => (v) => from + ((v - low) / (high - low)) * (to - from);
    const X = scale(x, left, width - right);
    const Y = scale(y, height - bottom, top);
    const curves = live.svg("g");
    const svg = live.picture(width, height, label);
    const write = (text, at) => svg.append(live.svg("text", { "text-anchor": "middle", ...at }, text));
    for (const [v, text] of y[3]) {
      svg.append(live.svg("path", { class: "live-grid", d: `M${left} ${Y(v)}H${width - right}` }));
      write(text, { class: "quiet", x: left - 6, y: Y(v) + 4, "text-anchor": "end" });
    }
    for (const [v, text] of x[3]) {
      svg.append(live.svg("path", { class: "live-grid", d: `M${X(v)} ${height - bottom}v5` }));
      write(text, { class: "quiet", x: X(v), y: height - bottom + 18 });
    }
    const middle = (top + height - bottom) / 2;
    write(x[2], { x: (left + width - right) / 2, y: height - 4 });
    write(y[2], { x: 13, y: middle, transform: `rotate(-90 13 ${middle})` });
    // what leaves the frame is cut there: without its points a line would lead across instead
    const id = `live-${++serial}`;
    const frame = { x: left - 2, y: top - 4, width: width - left - right + 4, height: height - top - bottom + 6 };
    svg.append(live.svg("clipPath", { id }, live.svg("rect", frame)));
    curves.setAttribute("clip-path", `url(#${id})`);
    svg.append(curves);
    const near = (v) => Math.max(-99 * height, Math.min(99 * height, v));
    const line = (points, color, dash = null) =>
      curves.append(live.svg("path", {
        class: "live-line", "stroke-dasharray": dash, style: `stroke: var(--live-${color})`,
        d: points.map(([a, b], k) => `${k ? "L" : "M"}${X(a).toFixed(1)} ${near(Y(b)).toFixed(1)}`).join(""),
      }));
    return { svg, X, Y, curves, line };
  };
  live.keys = (entries) =>
    live.html("ul", { class: "live-keys" }, entries.map(([text, color, dash]) => {
      const kind = !dash ? "solid" : dash === "2 3" ? "dotted" : "dashed";
      const style = `border-color: var(--live-${color}); border-top-style: ${kind}`;
      return live.html("li", {}, live.html("i", { "aria-hidden": "true", style }), text);
    }));

  // What stands in the page until then is for readers without scripts.
  live.mount = (name, build) => {
    if (typeof document === "undefined") return; // under node
    const start = () => {
      for (const root of document.querySelectorAll(`[data-live="${name}"]`)) {
        root.replaceChildren();
        build(root);
        root.dataset.ready = "yes";
      }
    };
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
    else start();
  };
})();
