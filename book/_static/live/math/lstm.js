// The LSTM of the chapter over characters, one step at a time; a gate may be held by hand.
(() => {
  "use strict";
  const live = globalThis.live;
  const { product, rowOf, sigmoid, softmax } = live;

  live.CharLSTM = class {
    constructor(file) {
      const w = live.tensors(file);
      this.characters = file.characters;
      this.index = new Map(file.characters.map((c, k) => [c, k]));
      this.W_h = w["layers.0.weight_hh_l0"];
      this.H = this.W_h.shape[1];
      this.output = w["output.weight"];
      this.b_y = w["output.bias"].data;
      const both = w["layers.0.bias_hh_l0"].data;
      const bias = w["layers.0.bias_ih_l0"].data.map((b, k) => b + both[k]);
      // what a character adds to the gates depends on nothing else: computed once
      this.read = file.characters.map((_, k) =>
        product(w["layers.0.weight_ih_l0"], rowOf(w["embedding.weight"], k), bias.slice()),
      );
    }

    start() {
      return { h: new Float64Array(this.H), c: new Float64Array(this.H) };
    }

    // The place of a character in the vocabulary; those it does not know share place 0, <unk>.
    place(character) {
      return this.index.get(character) ?? 0;
    }

    // hold: {f: 1} holds the forget gates of all units at 1, {f: 1, unit: 3} that of unit 3.
    step(place, { h, c }, hold = {}) {
      const { H } = this;
      const a = product(this.W_h, h, this.read[place].slice());
      const out = {};
      ["i", "f", "g", "o"].forEach((gate, block) => {
        const given = hold[gate];
        out[gate] = Float64Array.from({ length: H }, (_, j) => {
          if (given !== undefined && (hold.unit === undefined || hold.unit === j)) return given;
          const z = a[block * H + j];
          return gate === "g" ? Math.tanh(z) : sigmoid(z);
        });
      });
      out.c = out.f.map((f, j) => f * c[j] + out.i[j] * out.g[j]);
      out.h = out.o.map((o, j) => o * Math.tanh(out.c[j]));
      return out;
    }

    scores(h) {
      return product(this.output, h, this.b_y.slice());
    }

    next(h) {
      return softmax(this.scores(h));
    }
  };
})();
