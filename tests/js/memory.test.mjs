import assert from "node:assert/strict";
import test from "node:test";
import { close, load, reference } from "./common.mjs";

const live = load("math/basics", "math/memory");

test("powers of an eigenvalue: the gradient of a linear recurrence", () => {
  for (const { re, im, sizes } of reference.memory.eigenvalues)
    close(live.powers(re, im, sizes.length - 1).map(([a, b]) => Math.hypot(a, b)), sizes, 1e-5, `${re} ${im}`);
});

test("a forget bias: the gradient of the package's cell along its cell state", () => {
  for (const { bias, left } of reference.memory.gates)
    close(live.powers(live.sigmoid(bias), 0, left.length - 1).map(([a]) => a), left, 1e-5, `bias ${bias}`);
});

test("half-lives", () => {
  close(live.halfLife(0.5), 1, 1e-12);
  close(live.halfLife(2 ** (-1 / 30)), 30, 1e-9);
  close(live.halfLife(2), -1, 1e-12);
  assert.equal(live.halfLife(1), Infinity);
  const words = {
    0: "gone after one step",
    0.3: "more than half is lost at each step",
    0.5: "halves at each step",
    0.9: "halves every 6.6 steps",
    0.9995: "halves every 1,386 steps",
    1: "neither fades nor grows",
    1.1: "doubles every 7.3 steps",
  };
  for (const [factor, text] of Object.entries(words)) assert.equal(live.halfLifeWords(Number(factor)), text);
});

test("shares in words", () => {
  const words = [[1, "100%"], [0.2146, "21%"], [0.0012, "0.12%"], [4.2e-19, "4 · 10⁻¹⁹"], [0, "nothing"],
    [17.4, "17 times"], [1.05, "105%"], [8e7, "8 · 10⁷ times"]];
  for (const [x, text] of words) assert.equal(live.shareWords(x).replaceAll("\u00a0", " "), text);
});
