// Letters in, phonemes out: a GRU that reads in both directions, one that writes, and attention.
(() => {
  "use strict";
  const live = globalThis.live;
  const { product, rowOf, sigmoid, softmax } = live;

  class GRU {
    constructor(w, prefix, suffix = "") {
      const named = (what) => w[`${prefix}.${what}_l0${suffix}`];
      this.W_x = named("weight_ih");
      this.W_h = named("weight_hh");
      this.b_x = named("bias_ih").data;
      this.b_h = named("bias_hh").data;
      this.H = this.W_h.shape[1];
    }

    // The reset gate comes after the product, as in torch.
    step(x, h) {
      const { H } = this;
      const u = product(this.W_x, x, this.b_x.slice());
      const a = product(this.W_h, h, this.b_h.slice());
      return Float64Array.from(h, (old, j) => {
        const r = sigmoid(u[j] + a[j]);
        const z = sigmoid(u[H + j] + a[H + j]);
        const n = Math.tanh(u[2 * H + j] + r * a[2 * H + j]);
        return (1 - z) * n + z * old;
      });
    }
  }

  const join = (p, q) => Float64Array.of(...p, ...q);
  const dot = (p, q) => p.reduce((sum, v, k) => sum + v * q[k], 0);

  live.Speller = class {
    constructor(file) {
      const w = live.tensors(file);
      Object.assign(this, { letters: file.letters, phonemes: file.phonemes });
      Object.assign(this, { bos: file.bos, eos: file.eos, w });
      this.forward = new GRU(w, "encoder.recurrence");
      this.backward = new GRU(w, "encoder.recurrence", "_reverse");
      this.decoder = new GRU(w, "decoder.recurrence");
    }

    // The memory, one vector a letter; the keys prepared from it; the state to begin with.
    read(word) {
      const places = [...word].map((c) => this.letters.indexOf(c));
      if (!places.length || places.includes(-1))
        throw new RangeError(`word: expected letters of ${this.letters}, got "${word}"`);
      const run = (gru, order) => {
        let h = new Float64Array(gru.H);
        return order.map((k) => (h = gru.step(rowOf(this.w["encoder.embedding.weight"], k), h)));
      };
      const there = run(this.forward, places);
      const back = run(this.backward, places.slice().reverse()).reverse();
      const memory = there.map((h, s) => join(h, back[s]));
      const bridge = this.w["bridge.maps.0.bias"].data.slice();
      const last = join(there[places.length - 1], back[0]);
      return {
        memory,
        keys: memory.map((m) => product(this.w["decoder.attention.key.weight"], m)),
        state: product(this.w["bridge.maps.0.weight"], last, bridge).map(Math.tanh),
      };
    }

    // One token is read, the scores of the next one come out, and where the step has looked.
    step(token, state, { memory, keys }) {
      const after = this.decoder.step(rowOf(this.w["decoder.embedding.weight"], token), state);
      const weights = softmax(keys.map((key) => dot(key, after)));
      const context = new Float64Array(memory[0].length);
      memory.forEach((m, s) => m.forEach((v, k) => (context[k] += weights[s] * v)));
      const joined = product(this.w["decoder.combine.weight"], join(context, after));
      const bias = this.w["decoder.output.bias"].data.slice();
      const scores = product(this.w["decoder.output.weight"], joined.map(Math.tanh), bias);
      return { state: after, weights, scores };
    }

    // Greedy: rows of {phoneme, p, weights}, the last of which is the end, `null`.
    spell(word, most = 30) {
      const read = this.read(word);
      const rows = [];
      let [token, state] = [this.bos, read.state];
      while (rows.length < most && token !== this.eos) {
        const step = this.step(token, state, read);
        const p = softmax(step.scores);
        token = p.indexOf(Math.max(...p));
        state = step.state;
        const phoneme = token === this.eos ? null : (this.phonemes[token - 2] ?? "?");
        rows.push({ phoneme, p: p[token], weights: step.weights });
      }
      return rows;
    }
  };
})();
