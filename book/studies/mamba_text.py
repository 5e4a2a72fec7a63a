"""Study: Macbeth by characters, by blocks around Mamba.

As in transformer_text.py, where a GRU, attention and n-grams have read the same text: the same
pieces, steps and rate, and about as many weights. The rate was not searched for any of them.
"""

from __future__ import annotations

from typing import Any

import torch
import transformer_text
from mamba_selection import SLOTS, choosing, count

from companion.look import run_study
from companion.models import LanguageModel
from companion.reproduce import deterministic

SEEDS = range(5)
WORD, EXPAND = choosing("dBC", 4), 2.5  # of 12 E^2 weights a block what the mixer leaves
WORDS = {"mamba": WORD, "gru": "gru", "attention": "attention"}


def size(word: Any) -> int:
    """Weights of the whole model."""
    E, blocks = transformer_text.E, transformer_text.BLOCKS
    expand = transformer_text.EXPAND[word]
    vocabulary = transformer_text.tokens()[3]
    return count(LanguageModel(vocabulary, E, E, [word] * blocks, tied=False, expand=expand))


def one_seed(seed: int) -> dict[str, float]:
    last, best = transformer_text.trained(WORD, 1.0, seed)
    scored = transformer_text.tokens()[1]
    return {
        "mamba": transformer_text.surprisal(best, scored),
        "mamba_last": transformer_text.surprisal(last, scored),
    } | {f"weights_{name}": size(word) for name, word in WORDS.items()}


MEASURED: dict[str, str | tuple[str, str]] = {
    "mamba": ("Mamba, best step", "bits"),
    "mamba_last": ("Mamba, last step", "bits"),
    **{f"weights_{name}": f"weights, {name}" for name in WORDS},
}


def description() -> str:
    return (
        f"Bits a character of Macbeth ({transformer_text.SCORED} characters) after seven other "
        f"plays: {transformer_text.BLOCKS} blocks, E = {transformer_text.E}, {SLOTS} slots, "
        f"{size(WORD)} weights in all (GRU {size('gru')}, attention {size('attention')}); "
        f"{transformer_text.STEPS} Adam steps as in transformer_text."
    )


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    transformer_text.EXPAND[WORD] = EXPAND
    path = run_study(__file__, description(), one_seed, SEEDS, MEASURED)
    print(path.name)
