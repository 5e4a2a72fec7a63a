// One recurrence, h_t = a_t h_{t-1} + b_t, in four orders. A form is a list of rounds; a round is a
// list of joins [early, late], all done at once from what stood there before it. After the last round
// the entry t of every form is the map of all steps up to t, and its b is h_t.
(() => {
  "use strict";
  const live = (globalThis.live ??= {});

  live.join = ([a1, b1], [a2, b2]) => [a2 * a1, a2 * b1 + b2];

  const range = (from, to, by = 1) => {
    const found = [];
    for (let k = from; k < to; k += by) found.push(k);
    return found;
  };

  const forms = {
    loop: (T) => range(1, T).map((t) => [[t - 1, t]]),

    // each chunk on its own; then their ends in a row; then what came before, into all of a chunk
    chunks: (T, size = Math.round(Math.sqrt(T))) => {
      const starts = range(0, T, size);
      const rounds = range(1, Math.min(size, T)).map((k) =>
        starts.filter((s) => s + k < T).map((s) => [s + k - 1, s + k]),
      );
      const ends = starts.map((s) => Math.min(s + size, T) - 1);
      range(1, ends.length).forEach((k) => rounds.push([[ends[k - 1], ends[k]]]));
      const rest = range(1, ends.length).flatMap((k) =>
        range(starts[k], ends[k]).map((t) => [starts[k] - 1, t]),
      );
      return rest.length ? [...rounds, rest] : rounds;
    },

    // pairs, pairs of pairs, …; then back down to those that were left out (Brent and Kung)
    tree: (T) => {
      const rounds = [];
      let reach = 1;
      for (; reach < T; reach *= 2) {
        const late = range(2 * reach - 1, T, 2 * reach);
        if (late.length) rounds.push(late.map((t) => [t - reach, t]));
      }
      for (reach /= 2; reach >= 1; reach /= 2) {
        const late = range(3 * reach - 1, T, 2 * reach);
        if (late.length) rounds.push(late.map((t) => [t - reach, t]));
      }
      return rounds;
    },

    // every entry with the one 1, 2, 4, … before it (Hillis and Steele)
    doubling: (T) => {
      const rounds = [];
      for (let reach = 1; reach < T; reach *= 2) {
        const by = reach;
        rounds.push(range(by, T).map((t) => [t - by, t]));
      }
      return rounds;
    },
  };

  live.scanRounds = (form, T, size) => forms[form](T, size);

  // The entries after each round; entry 0 of the list is what was given.
  live.scanRun = (pairs, rounds) => {
    const states = [pairs];
    for (const joins of rounds) {
      const before = states[states.length - 1];
      const after = before.slice();
      for (const [early, late] of joins) after[late] = live.join(before[early], before[late]);
      states.push(after);
    }
    return states;
  };

  // Which steps each entry has gathered: [first, last] after each round.
  live.scanReach = (T, rounds) => {
    const states = [range(0, T)];
    for (const joins of rounds) {
      const before = states[states.length - 1];
      const after = before.slice();
      for (const [early, late] of joins) after[late] = before[early];
      states.push(after);
    }
    return states;
  };

  live.scanWork = (rounds) => rounds.reduce((sum, joins) => sum + joins.length, 0);
})();
