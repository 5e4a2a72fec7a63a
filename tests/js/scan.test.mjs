import assert from "node:assert/strict";
import test from "node:test";
import { close, load, reference } from "./common.mjs";

const live = load("math/scan");
const FORMS = ["loop", "chunks", "tree", "doubling"];

test("every form gives the states of the package's scan, at every length and chunk size", () => {
  for (const { a, b, h } of reference.scan)
    for (const form of FORMS)
      for (const size of form === "chunks" ? [1, 2, 3, 4, 8, 100] : [undefined]) {
        const rounds = live.scanRounds(form, a.length, size);
        const found = live.scanRun(a.map((v, t) => [v, b[t]]), rounds).at(-1);
        close(found.map(([, y]) => y), h, 1e-5, `${form} ${size}, T = ${a.length}`);
        assert.ok(live.scanReach(a.length, rounds).at(-1).every((first) => first === 0));
      }
});

test("no round reads what the same round writes to it, but from before", () => {
  for (const form of FORMS)
    for (const joins of live.scanRounds(form, 29, 5)) {
      const late = joins.map(([, t]) => t);
      assert.equal(new Set(late).size, late.length, form);
      assert.ok(joins.every(([early, t]) => early < t));
    }
});

test("depth and work", () => {
  for (const m of [1, 2, 3, 4, 5, 10]) {
    const T = 2 ** m;
    const count = (form, size) => {
      const rounds = live.scanRounds(form, T, size);
      return [rounds.length, live.scanWork(rounds)];
    };
    assert.deepEqual(count("loop"), [T - 1, T - 1]);
    assert.deepEqual(count("tree"), [2 * m - 1, 2 * T - 2 - m]);
    assert.deepEqual(count("doubling"), [m, m * T - (T - 1)]);
  }
  // 4 chunks of 8: 7 steps in each at once, 3 links, and 3 × 7 entries are told what came before
  const rounds = live.scanRounds("chunks", 32, 8);
  assert.deepEqual([rounds.length, live.scanWork(rounds)], [7 + 3 + 1, 4 * 7 + 3 + 3 * 7]);
});
