// The scripts as a page loads them, and what Python computed: tests/test_live.py writes it and starts node.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { runInThisContext } from "node:vm";

const folder = new URL("../../book/_static/live/", import.meta.url);

export function load(...names) {
  for (const name of names)
    runInThisContext(readFileSync(new URL(`${name}.js`, folder), "utf8"), { filename: name });
  return globalThis.live;
}

export const reference = JSON.parse(readFileSync(process.env.LIVE_REFERENCE, "utf8"));

// Two nested lists of numbers of the same shape, to within `most` of each other.
export function close(got, wanted, most = 1e-5, where = "") {
  if (typeof wanted === "number") {
    assert.ok(Math.abs(got - wanted) <= most, `${where}: ${got}, expected ${wanted}`);
    return;
  }
  assert.equal(got.length, wanted.length, where);
  wanted.forEach((w, k) => close(got[k], w, most, `${where}[${k}]`));
}
