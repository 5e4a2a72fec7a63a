// What is left after k steps of a linear recurrence, and of a cell whose forget gate does not move.
(() => {
  "use strict";
  const live = (globalThis.live ??= {});

  // z^k for k = 0 … steps, as [re, im], by repeated products: what a loop over time computes
  live.powers = (re, im, steps) => {
    const found = [[1, 0]];
    for (let k = 0; k < steps; k++) {
      const [a, b] = found[k];
      found.push([a * re - b * im, a * im + b * re]);
    }
    return found;
  };

  // Steps until half is left; Infinity if nothing is ever lost, negative if it grows (doubles).
  live.halfLife = (factor) => {
    if (factor <= 0) return 0;
    return factor === 1 ? Infinity : -Math.LN2 / Math.log(factor);
  };

  const few = (x) => (x >= 100 ? Math.round(x).toLocaleString("en") : Number(x.toPrecision(2)));

  live.halfLifeWords = (factor) => {
    const steps = live.halfLife(factor);
    if (factor <= 0) return "gone after one step";
    if (Math.abs(steps) > 1e6) return "neither fades nor grows";
    if (steps < 0) return `doubles every ${few(-steps)} steps`;
    if (few(steps) === 1) return "halves at each step";
    return steps < 1 ? "more than half is lost at each step" : `halves every ${few(steps)} steps`;
  };

  const RAISED = Object.fromEntries([..."-0123456789"].map((c, k) => [c, [..."⁻⁰¹²³⁴⁵⁶⁷⁸⁹"][k]]));
  const power = (x) => {
    const [digit, exponent] = x.toExponential(0).replace("+", "").split("e");
    return `${digit}\u00a0·\u00a010${[...exponent].map((c) => RAISED[c]).join("")}`;
  };

  // A share in words: 0.037 -> "3.7%", 4e-9 -> "4 · 10⁻⁹", 12 -> "12 times".
  live.shareWords = (x) => {
    if (x >= 1.995) return `${x < 1e4 ? few(x) : power(x)} times`;
    if (x >= 0.001) return `${Number((100 * x).toPrecision(x < 1 ? 2 : 3))}%`;
    return x === 0 ? "nothing" : power(x);
  };
})();
