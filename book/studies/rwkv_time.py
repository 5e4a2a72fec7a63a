"""Study: time of retention in its three forms, and of one more step of RWKV and of attention."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.look import run_study
from companion.reproduce import deterministic, seed_all

ROUNDS, TURNS = range(5), 7
E, HEADS = 64, 4
LENGTHS, LONGEST_LOOP = (64, 256, 1024, 2048), 256
WIDE, ASKED, STEP_TURNS = 512, (64, 1024, 16384), 31


class Parallel(nn.Module):
    """Scores, decays and values of one sequence, as the paper's parallel form has them."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
        at = torch.arange(q.shape[1])
        gap = (at[:, None] - at).tril()
        left = torch.exp(gap * log_decay[:, None, None]).tril()
        return (q @ k.mT * left) @ v


def least(ways: dict[str, Callable[[], object]], turns: int, seed: int) -> dict[str, float]:
    """Least milliseconds of some turns, in a new order each turn: the machine is shared."""
    order, taken = random.Random(seed), {name: list[float]() for name in ways}
    for turn in range(turns + 1):
        for name in order.sample(sorted(ways), len(ways)):
            start = time.perf_counter()
            ways[name]()
            if turn:
                taken[name].append(1000 * (time.perf_counter() - start))
    return {name: min(values) for name, values in taken.items()}


def along(form: str, T: int) -> Callable[[], object]:
    """Retention alone, forward and backward: what the three forms have in common is left out."""
    q, k, v = (torch.randn(HEADS, T, E // HEADS, requires_grad=True) for _ in range(3))
    log_decay = torch.log1p(-torch.exp2(-5 - torch.arange(HEADS)))
    steps = [u.transpose(0, 1)[:, None] for u in (q, k, v)]  # (T, 1, heads, d)

    def one_by_one() -> None:
        S, ys, gamma = torch.zeros(HEADS, E // HEADS, E // HEADS), [], log_decay.exp()
        for q_t, k_t, v_t in zip(*(u.unbind(1) for u in (q, k, v)), strict=True):
            S = gamma[:, None, None] * S + k_t[:, :, None] * v_t[:, None]
            ys.append(q_t[:, None] @ S)
        torch.stack(ys).sum().backward()

    def in_chunks() -> None:
        q, k, v = steps
        S = torch.zeros(1, HEADS, E // HEADS, E // HEADS)
        y, _ = companion.run.chunk.attend(q, k, v, S, log_decay.expand(T, 1, HEADS))
        y.sum().backward(retain_graph=True)

    def at_once() -> None:
        Parallel()(q, k, v, log_decay).sum().backward()

    return {"loop": one_by_one, "chunk": in_chunks, "parallel": at_once}[form]


def step_ways(S: int) -> dict[str, Callable[[], object]]:
    """One more step after S, one sequence, no gradient."""
    cell = companion.RWKVCell(WIDE, WIDE, bias=False)
    x, state = torch.randn(1, WIDE), cell.initial_state(1)
    W = [torch.randn(WIDE, WIDE) / WIDE**0.5 for _ in range(4)]
    heads = WIDE // 64
    keys, values = torch.randn(2, 1, heads, S, 64)  # room that is there already

    def attention() -> Tensor:
        q, k, v = (F.linear(x, w).view(1, heads, 1, 64) for w in W[:3])
        keys[:, :, -1:], values[:, :, -1:] = k, v
        y = F.scaled_dot_product_attention(q, keys, values)
        return F.linear(y.flatten(1), W[3])

    return {"rwkv": lambda: cell.step(x, state), "attention": attention}


def one_round(seed: int) -> dict[str, float]:
    seed_all(seed)
    found = {}
    for T in LENGTHS:
        forms = ["chunk", "parallel"] + ["loop"] * (T <= LONGEST_LOOP)
        taken = least({form: along(form, T) for form in forms}, TURNS, seed)
        found |= {f"{form}_{T}": ms for form, ms in taken.items()}
    with torch.no_grad():
        for S in ASKED:
            taken = least(step_ways(S), STEP_TURNS, seed)
            found |= {f"step_{name}_{S}": ms for name, ms in taken.items()}
    return found


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Retention alone, {HEADS} heads of {E // HEADS}, one sequence, forward and backward, "
        f"the least of {TURNS} turns; one step without gradients of time mixing of RWKV-4 and of "
        f"attention with its cache in place, {WIDE} features, one sequence, the least "
        f"of {STEP_TURNS}; float32, one thread. What stands under seeds are rounds.",
        one_round,
        ROUNDS,
        {
            f"{form}_{T}": (f"retention as {form}, {T} steps, forward and backward", "ms")
            for form in ("loop", "chunk", "parallel")
            for T in LENGTHS
            if form != "loop" or T <= LONGEST_LOOP
        }
        | {
            f"step_{name}_{S}": (f"one more step after {S}, {name}", "ms")
            for name in ("rwkv", "attention")
            for S in ASKED
        },
    )
    print(path.name)
