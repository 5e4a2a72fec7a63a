"""Study: the same 25 words, and more and more padding behind them.

Every passage is cut to 25 tokens, so that only the padding differs. Three cells run through it
and read the last state. Two remedies that leave the padding in: a large forget bias, at three
lengths of padding, and padding in front.
"""

from __future__ import annotations

import pooling as common
import torch

from companion.look import run_study
from companion.reproduce import deterministic

SEEDS = range(5)
WORDS_KEPT = 25
PADS = (0, 10, 20, 40, 65)
OPEN_PADS = (10, 20, 65)
CELLS = ("rnn", "lstm", "gru")


def padded(columns: tuple, pads: int, front: bool = False) -> tuple:
    """Rows that hold a full 25 tokens, and padding that counts as tokens."""
    x, lengths, labels = columns
    whole = lengths == WORDS_KEPT
    x = torch.nn.functional.pad(x[whole], (pads, 0) if front else (0, pads))
    return x, torch.full((len(x),), x.shape[1]), labels[whole]


def one_seed(seed: int) -> dict[str, float]:
    train, _, test = common.found.split(seed=seed)
    vocab = common.vocabulary(train)
    columns, held = (common.encoded(part, vocab, WORDS_KEPT) for part in (train, test))
    runs = [(f"{cell}_{pads}", pads, False, {"cell": cell}) for cell in CELLS for pads in PADS]
    runs += [(f"lstm_{pads}_open", pads, False, {"forget_bias": 5.0}) for pads in OPEN_PADS]
    runs.append((f"lstm_{PADS[-1]}_front", PADS[-1], True, {}))
    values = {}
    for key, pads, front, options in runs:
        parts = [padded(part, pads, front) for part in (columns, held)]
        trainer = common.trained(parts[0], seed, "last", len(vocab), **options)
        values[f"{key}_seen"] = common.accuracy(trainer, parts[0])
        values[key] = common.accuracy(trainer, parts[1])
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    meanings = {f"{cell}_{p}": f"{cell}, {p} pads behind" for cell in CELLS for p in PADS}
    meanings |= {f"lstm_{p}_open": f"lstm, forget bias 5, {p} pads behind" for p in OPEN_PADS}
    meanings[f"lstm_{PADS[-1]}_front"] = f"lstm, {PADS[-1]} pads in front"
    keys = {}
    for key, what in meanings.items():
        keys[f"{key}_seen"] = f"training accuracy, {what}"
        keys[key] = f"test accuracy, {what}"
    path = run_study(
        __file__,
        f"The first {WORDS_KEPT} tokens of passages of four presidents, with padding that the "
        f"network reads as tokens; {common.HIDDEN} units, {common.EPOCHS} passes, Adam at "
        f"{common.RATE:g}, batches of {common.BATCH}, last state.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
