// Bytes of what a network keeps between two tokens of one sequence, as the book's package keeps it.
(() => {
  "use strict";
  const live = (globalThis.live ??= {});

  // width: features of a layer; heads: of queries; shared: heads of keys and values; T: tokens read
  const layers = {
    rnn: ({ width }) => width,
    gru: ({ width }) => width,
    lstm: ({ width }) => 2 * width,
    // twice the width in channels, 16 numbers for each, and the last three inputs of a convolution
    mamba: ({ width }) => 2 * width * (16 + 3),
    attention: ({ width, heads, shared, T }) => 2 * T * shared * (width / heads),
  };

  live.stateLayers = Object.keys(layers);

  // The cache also holds where each token stands, 8 bytes each, and how many there were.
  live.stateBytes = (name, given) => {
    const { width, heads, shared, depth, bytes, T } = given;
    if (name === "attention" && (width % heads || heads % shared))
      throw new RangeError(`heads: expected ${shared} | heads | ${width}, got ${heads}`);
    const places = name === "attention" ? 8 * (T + 1) : 0;
    return depth * (bytes * layers[name](given) + places);
  };

  live.bytesWords = (n) => {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let k = 0;
    for (; n >= 1024 && k < units.length - 1; k++) n /= 1024;
    const whole = n >= 100 || k === 0;
    return `${whole ? Math.round(n).toLocaleString("en") : Number(n.toPrecision(3))} ${units[k]}`;
  };

  // The tokens at which the cache of attention holds as much as a fixed state does.
  live.evenAt = (name, given) => {
    const fixed = live.stateBytes(name, given);
    const empty = live.stateBytes("attention", { ...given, T: 0 });
    const one = live.stateBytes("attention", { ...given, T: 1 }) - empty;
    return Math.max(0, (fixed - empty) / one);
  };

  // Between two recorded lengths: a straight line in the logarithms of both.
  live.between = (lengths, values, T) => {
    if (T < lengths[0] || T > lengths[lengths.length - 1]) return null;
    const k = Math.max(1, lengths.findIndex((n) => n >= T));
    const share = Math.log(T / lengths[k - 1]) / Math.log(lengths[k] / lengths[k - 1]);
    return values[k - 1] * (values[k] / values[k - 1]) ** share;
  };
})();
