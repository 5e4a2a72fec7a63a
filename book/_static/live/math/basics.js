// What the networks of the page are computed with, and their weights from the scripts in weights/.
// No page is needed: every file in math/ also runs under node, where tests/js compares it with Python.
(() => {
  "use strict";
  const live = (globalThis.live ??= {});

  // IEEE half precision. Every half is exact in the doubles that we go on with.
  function half(bits) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }

  function numbers(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return Float64Array.from({ length: bytes.length / 2 }, (_, k) =>
      half(bytes[2 * k] | (bytes[2 * k + 1] << 8)),
    );
  }

  live.tensors = (file) => {
    const found = {};
    for (const [name, { shape, f16 }] of Object.entries(file.tensors)) {
      const data = numbers(f16);
      if (data.length !== shape.reduce((a, b) => a * b, 1))
        throw new Error(`${name}: ${data.length} numbers do not fill ${shape}`);
      found[name] = { shape, data };
    }
    return found;
  };

  // y = W x, with W (rows, columns) as torch has it; into `y`, from which b may be added first
  live.product = ({ shape: [rows, columns], data }, x, y = new Float64Array(rows)) => {
    for (let r = 0, at = 0; r < rows; r++) {
      let sum = y[r];
      for (let c = 0; c < columns; c++, at++) sum += data[at] * x[c];
      y[r] = sum;
    }
    return y;
  };

  live.rowOf = ({ shape, data }, k) => data.subarray(k * shape[1], (k + 1) * shape[1]);

  live.sigmoid = (z) => 1 / (1 + Math.exp(-z));

  live.softmax = (scores) => {
    const top = Math.max(...scores);
    const powers = Float64Array.from(scores, (s) => Math.exp(s - top));
    const sum = powers.reduce((a, b) => a + b);
    return powers.map((p) => p / sum);
  };
})();
