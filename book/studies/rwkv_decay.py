"""Study: what decays are for: retention with other decays and with none, RWKV-4 with one decay
or slow ones.

The networks, the text and the steps are those of ``rwkv_text.py``.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from rwkv_text import BLOCKS, HEADS, MIXERS, STEPS, E, built, surprisal, tokens, train
from torch import Tensor
from torch.nn import functional as F

from companion.cells import Cell, LinearAttentionCell, RetNetCell, RWKVCell
from companion.cells.rwkv import mixed
from companion.look import run_study
from companion.models import Backbone, LanguageModel
from companion.reproduce import deterministic

SEEDS = range(5)
ONE = 8.0  # steps: the half-life with which all channels start
CAPS = (1, 4, 16, 64)  # steps
SHORTEST, LONGEST = 4.0, 100.0  # steps: the half-lives of "slow" and "neither"
RWKVS = ("rwkv", "unshifted", "one", "fixed", "slow", "neither")
FAST = 1  # 1 − 2^−(1 + h): half-lives of 1 to 11 steps


class Retention(RetNetCell):
    """Retention with the decays and the turns of a class attribute."""

    first: float | None = 5  # γ = 1 − 2^−(first + h); None: no decay
    turning = True

    def __init__(self, input_size: int, hidden_size: int, *args: Any, **given: Any) -> None:
        super().__init__(input_size, hidden_size, *args, **{"heads": HEADS, **given})

    def log_decays(self, like: Tensor) -> Tensor:
        if self.first is None:
            return torch.zeros_like(super().log_decays(like))
        h = torch.arange(self.heads, dtype=torch.float32, device=like.device)
        return torch.log1p(-torch.exp2(-self.first - h))

    def angles(self, like: Tensor) -> Tensor:
        return super().angles(like) * self.turning


class ShiftedAttention(LinearAttentionCell):
    """Linear attention whose queries, keys and values see the step before, as those of RWKV do."""

    def __init__(self, input_size: int, hidden_size: int, *args: Any, **given: Any) -> None:
        super().__init__(input_size, hidden_size, *args, **{"heads": HEADS, **given})
        self.state_size = (*self.state_size, 3 * hidden_size)
        self.mix = self.weight(3, input_size)
        with torch.no_grad():
            at = torch.arange(input_size) / input_size
            self.mix.copy_(torch.stack([at, at, at]))

    def prepare(self, x: Tensor) -> Tensor:
        return mixed(x, self.weight_ih, self.bias_ih, self.mix)

    def along(self, u: Tensor, state: Any, time: Any) -> tuple[Tensor, Any]:
        *state, last = state
        now, later = u.chunk(2, -1)
        before, last = time.shift(later, last)
        q, k, v = (now + before).chunk(3, -1)
        u = torch.cat([F.elu(q) + 1, F.elu(k) + 1, v], -1)
        y, state = super().along(u, state, time)
        return y, (*state, last)


KINDS: dict[str, type[Cell]] = {
    f"{name}_{'turned' if turning else 'plain'}": type(
        "Kind", (Retention,), {"first": first, "turning": turning}
    )
    for name, first in (("slow", 5), ("fast", FAST), ("none", None))
    for turning in (True, False)
}
RATES = {name: MIXERS["retnet"][2] for name in KINDS}
KINDS["shifted"], RATES["shifted"] = ShiftedAttention, MIXERS["linear_attention"][2]


def layers(model: LanguageModel) -> list[Any]:
    backbone = model.layers[0]
    assert isinstance(backbone, Backbone)
    return [block.mixer for block in backbone.blocks]


def half_lives(model: LanguageModel) -> Tensor:
    """(BLOCKS, E) steps."""
    return torch.stack([math.log(2) * torch.exp(-m.log_rate_l0.detach()) for m in layers(model)])


def ranks(x: Tensor) -> Tensor:
    return x.argsort(-1).argsort(-1).double()


def alike(a: Tensor, b: Tensor) -> float:
    """Spearman's correlation along the last dimension, the mean over the rows."""
    a, b = (ranks(v) - (v.shape[-1] - 1) / 2 for v in (a, b))
    return ((a * b).sum(-1) / (a.square().sum(-1) * b.square().sum(-1)).sqrt()).mean().item()


def capped(model: LanguageModel, most: float) -> float:
    """Bits a character where no half-life is longer, without further training."""
    kept = [m.log_rate_l0.detach().clone() for m in layers(model)]
    with torch.no_grad():
        for m in layers(model):
            m.log_rate_l0.clamp_(min=math.log(math.log(2) / most))
    cost = surprisal(model, tokens()[1])
    with torch.no_grad():
        for m, before in zip(layers(model), kept, strict=True):
            m.log_rate_l0.copy_(before)
    return cost


def one_seed(seed: int) -> dict[str, float]:
    values = {}
    for name, kind in KINDS.items():
        model = built(kind, seed)
        train(model, RATES[name], seed)
        values[name] = surprisal(model, tokens()[1])
    for name in RWKVS:
        model = built(RWKVCell, seed)
        with torch.no_grad():
            for m in layers(model):
                if name in ("unshifted", "neither"):
                    m.mix_l0.fill_(1.0).requires_grad_(False)
                if name == "one":
                    m.log_rate_l0.fill_(math.log(math.log(2) / ONE))
                if name in ("slow", "neither"):  # in log half-life at equal distances
                    low, high = (math.log(math.log(2) / n) for n in (LONGEST, SHORTEST))
                    m.log_rate_l0.copy_(torch.linspace(low, high, E))
                if name in ("fixed", "slow", "neither"):
                    m.log_rate_l0.requires_grad_(False)
        start = half_lives(model)
        train(model, MIXERS["rwkv4"][2], seed)
        values[name] = surprisal(model, tokens()[1])
        end = half_lives(model)
        if name == "rwkv":
            values["moved"] = (end / start).log2().abs().median().item()
            values["alike"] = alike(start, end)
            values |= {f"cap_{most}": capped(model, most) for most in CAPS}
        if name == "one":
            values["one_low"], values["one_high"] = (
                end.flatten().quantile(q).item() for q in (0.05, 0.95)
            )
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        "Bits a character of Macbeth after reading in seven other plays, as in rwkv_text: "
        f"{BLOCKS} blocks, E = {E}, {STEPS} steps, equal weights. Retention in {HEADS} heads with "
        "half-lives of 22 to 177 steps, of 1 to 11, or without a decay, each with its turns or "
        "without. Linear attention with a token shift. RWKV-4 as it is, without the token shift, "
        f"and with a half-life of {ONE:g} steps in every channel at the start; with half-lives "
        f"fixed where they start, and fixed from {SHORTEST:g} to {LONGEST:g} steps, with the "
        "token shift and without it.",
        one_seed,
        SEEDS,
        {
            f"{name}_{turned}": (f"retention, {what}, {how}", "bits")
            for name, what in (
                ("slow", "the paper's decays"),
                ("fast", "fast decays"),
                ("none", "no decay"),
            )
            for turned, how in (("turned", "with turns"), ("plain", "without turns"))
        }
        | {
            "shifted": ("linear attention with a token shift", "bits"),
            "rwkv": ("RWKV-4", "bits"),
            "unshifted": ("RWKV-4 without the token shift", "bits"),
            "one": ("RWKV-4, all half-lives equal at the start", "bits"),
            "fixed": ("RWKV-4, half-lives fixed where they start", "bits"),
            "slow": (f"RWKV-4, half-lives fixed from {SHORTEST:g} to {LONGEST:g}", "bits"),
            "neither": ("the same without the token shift", "bits"),
            "moved": "median size of the change of a half-life in training, as log2 of the factor",
            "alike": "Spearman's correlation of half-lives before and after training",
            "one_low": (
                "5 % of half-lives are shorter after training, equal at the start",
                "steps",
            ),
            "one_high": ("5 % are longer", "steps"),
        }
        | {
            f"cap_{most}": (f"RWKV-4, trained, then no half-life over {most} steps", "bits")
            for most in CAPS
        },
    )
    print(path.name)
