import assert from "node:assert/strict";
import test from "node:test";
import { close, load, reference } from "./common.mjs";

const live = load("weights/letters", "math/basics", "math/lstm");
const net = new live.CharLSTM(live.letters);

test("each gate, state and score equals the package's", () => {
  assert.ok(reference.lstm.steps.length > 50);
  let state = net.start();
  reference.lstm.steps.forEach((wanted, t) => {
    assert.equal(net.place(wanted.character), wanted.place);
    state = net.step(wanted.place, state);
    for (const name of ["i", "f", "g", "o", "c", "h"]) close(state[name], wanted[name], 1e-5, `${name} at ${t}`);
    close(net.scores(state.h), wanted.scores, 1e-5, `scores at ${t}`);
  });
});

test("a gate that is held", () => {
  let state = net.start();
  for (const character of "To be") state = net.step(net.place(character), state);
  const forget = net.step(net.place(","), state, { f: 0 });
  close(forget.c, [...forget.i].map((i, j) => i * forget.g[j]), 0, "nothing is left");
  const keep = net.step(net.place(","), state, { f: 1, i: 0 });
  close(keep.c, [...state.c], 0, "nothing changes");
  const one = net.step(net.place(","), state, { o: 0, unit: 3 });
  const free = net.step(net.place(","), state);
  assert.equal(Math.abs(one.h[3]), 0);
  close(one.h.filter((_, j) => j !== 3), [...free.h].filter((_, j) => j !== 3), 0, "the others");
});

test("probabilities, and a character that it does not know", () => {
  const p = net.next(net.start().h);
  close(p.reduce((a, b) => a + b), 1, 1e-12, "sum");
  assert.equal(net.place("ß"), 0);
  assert.equal(net.characters[0], "<unk>");
});

test("what the chapter says of its picture", () => {
  const places = [..."\nGood morrow, my lor"].map((c) => net.place(c));
  const read = (hold = {}) => { // surprise, in bits a letter, and what is likely next
    let [state, bits] = [net.step(places[0], net.start(), hold), 0];
    for (const place of places.slice(1)) {
      bits -= Math.log2(net.next(state.h)[place]) / (places.length - 1);
      state = net.step(place, state, hold);
    }
    return { bits, p: [...net.next(state.h)] };
  };
  const d = net.place("d");
  const [free, empty, full, blind] = [read(), read({ f: 0 }), read({ f: 1 }), read({ i: 0 })];
  close([free.bits, empty.bits, full.bits, blind.bits], [1.9, 4.2, 6.2, 6.1], 0.05, "bits");
  assert.ok(Math.abs(free.p[d] - 0.9) < 0.05);
  assert.ok(empty.p[d] < Math.max(...empty.p));
  assert.ok(Math.max(...blind.p) < 0.03);
  const costs = Array.from({ length: net.H }, (_, unit) => read({ f: 0, unit }).bits - free.bits);
  close(costs[31], 0.5, 0.1, "unit 31");
  assert.equal(Math.max(...costs), costs[31]);
  assert.ok(costs.filter((c) => Math.abs(c) < 0.05).length >= net.H / 2);
});

test("half precision", () => {
  const bytes = Buffer.from([0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0xff, 0x7b, 0x00, 0x80]).toString("base64");
  const { data } = live.tensors({ tensors: { x: { shape: [5], f16: bytes } } }).x;
  assert.deepEqual([...data], [1, -2, 2 ** -24, 65504, -0]);
  const short = { tensors: { x: { shape: [2, 3], f16: bytes } } };
  assert.throws(() => live.tensors(short), /x: 5 numbers do not fill 2,3/);
});
