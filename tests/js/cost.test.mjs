import assert from "node:assert/strict";
import test from "node:test";
import { close, load, reference } from "./common.mjs";

const live = load("weights/scaling", "math/cost");

test("bytes of the package's own states", () => {
  assert.ok(reference.cost.length > 20);
  for (const { name, given, held } of reference.cost)
    assert.equal(live.stateBytes(name, given), held, `${name} ${JSON.stringify(given)}`);
});

test("where the cache is as large as a fixed state", () => {
  const given = { width: 64, heads: 4, shared: 2, depth: 3, bytes: 4, T: 0 };
  for (const name of ["rnn", "gru", "lstm", "mamba"]) {
    const first = Math.floor(live.evenAt(name, given)) + 1;
    const fixed = live.stateBytes(name, given);
    assert.ok(live.stateBytes("attention", { ...given, T: first }) > fixed, name);
    assert.ok(live.stateBytes("attention", { ...given, T: first - 1 }) <= fixed || first === 1, name);
  }
});

test("heads that do not divide", () => {
  assert.throws(() => live.stateBytes("attention", { width: 64, heads: 5, shared: 5, depth: 1, bytes: 4, T: 1 }), /heads/);
});

test("between two recorded lengths", () => {
  close(live.between([256, 1024], [1, 4], 512), 2, 1e-12);
  close(live.between([256, 1024, 4096], [3, 5, 7], 1024), 5, 1e-12);
  close(live.between([256, 1024], [3, 5], 256), 3, 1e-12);
  assert.equal(live.between([256, 1024], [1, 4], 100), null);
  assert.equal(live.between([256, 1024], [1, 4], 2000), null);
});

test("words", () => {
  const words = [[8, "8 bytes"], [1536, "1.5 KiB"], [270540800, "258 MiB"], [2 ** 41, "2 TiB"]];
  for (const [n, text] of words) assert.equal(live.bytesWords(n), text);
});
