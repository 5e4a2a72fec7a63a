import assert from "node:assert/strict";
import test from "node:test";
import { close, load, reference } from "./common.mjs";

const live = load("weights/spelling", "math/basics", "math/speller");
const net = new live.Speller(live.spelling);

test("phonemes, probabilities and weights equal the package's", () => {
  assert.ok(reference.speller.length >= 20);
  for (const { word, phonemes, p, weights } of reference.speller) {
    const rows = net.spell(word);
    assert.deepEqual(rows.map((row) => row.phoneme), phonemes, word);
    close(rows.map((row) => row.p), p, 1e-5, `${word}: p`);
    close(rows.map((row) => [...row.weights]), weights, 1e-5, `${word}: weights`);
  }
});

test("what is no word", () => {
  for (const word of ["", "é", "two words", "Word"])
    assert.throws(() => net.spell(word), /word: expected letters of abc/);
});
