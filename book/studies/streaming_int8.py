"""Study: the watcher's weights in eight bits, with one scale a matrix, one a unit, and torch's."""

from __future__ import annotations

import copy

import torch
from streaming_motions import Watcher, fitted, frames, share
from torch import Tensor

from companion.data import Recordings, load
from companion.export import quantized
from companion.look import run_study

SEEDS = range(5)


@torch.no_grad()
def rounded(model: Watcher, units: bool) -> Watcher:
    """A copy whose matrices hold what 8 bits can: 255 values on one scale, or on one a unit."""
    model = copy.deepcopy(model)
    for w in model.parameters():
        if w.dim() == 2:
            largest = w.abs().amax(1, keepdim=True) if units else w.abs().max()
            w.copy_(torch.round(w / largest * 127) * largest / 127)
    return model


@torch.no_grad()
def one_part(seed: int, learn: Recordings, judge: Recordings) -> dict[str, float]:
    x, new, right = frames(learn, learn), frames(judge, learn), judge.labels[:, None]
    with torch.enable_grad():
        model = fitted("gru", x, learn.labels, seed)
    small = copy.deepcopy(model)
    small.layer, small.out = quantized(model.layer), quantized(model.out)
    ways = {"matrix": rounded(model, False), "unit": rounded(model, True), "torch": small}
    said: dict[str, Tensor] = {"float": model(new).argmax(-1)}
    said |= {name: way(new).argmax(-1) for name, way in ways.items()}
    found = {f"{name}_right": share(answers, right) for name, answers in said.items()}
    return found | {f"{name}_same": share(said[name], said["float"]) for name in ways}


def one_seed(seed: int) -> dict[str, float]:
    """Mean of the two ways round: fitted to one part, judged on the other."""
    parts = load("basic-motions")
    first = one_part(seed, parts["train"], parts["test"])
    other = one_part(seed, parts["test"], parts["train"])
    return {key: (first[key] + other[key]) / 2 for key in first}


WORDS = {
    "float": "32 bits",
    "matrix": "weights in 8 bits, one scale a matrix",
    "unit": "weights in 8 bits, one scale a unit",
    "torch": "torch's 8 bits: one scale a matrix, inputs of products rounded as well",
}
KEYS: dict[str, str | tuple[str, str]] = {
    f"{name}_right": f"{words}: accuracy over all frames" for name, words in WORDS.items()
}
KEYS |= {
    f"{name}_same": f"{words}: share of frames with the answer of 32 bits"
    for name, words in WORDS.items()
    if name != "float"
}

if __name__ == "__main__":
    run_study(
        __file__,
        "The GRU of the study streaming_motions, trained at every frame, and its weights in eight "
        "bits. BasicMotions, 40 recordings to learn from and 40 to judge on, both ways round "
        "(mean of the two), all 100 frames of each. Five starts.",
        one_seed,
        SEEDS,
        KEYS,
    )
