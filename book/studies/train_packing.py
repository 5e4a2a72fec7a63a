"""Study: what padding costs, and what packing and sorting save, on one machine.

One pass over the spoken digits, forward and backward, by torch's LSTM and by ours. The batches
are drawn at random, or of recordings of like lengths.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import companion
from companion.data import bucket_batches, load, pad
from companion.look import run_study
from companion.reproduce import seed_all

SEEDS = range(5)
BATCH, HIDDEN, RECORDINGS = 64, 64, 1280

frames = load("spoken-digits").frames[:RECORDINGS]
lengths = torch.tensor([len(x) for x in frames])


def batches(pool: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    sampler = bucket_batches(lengths, BATCH, seed=seed, pool=pool)
    return [pad([frames[i] for i in rows]) for rows in sampler]


def padding(rows: list[tuple[Tensor, Tensor]]) -> float:
    places = sum(x.shape[0] * x.shape[1] for x, _ in rows)
    return 1 - sum(int(n.sum()) for _, n in rows) / places


def timed(go: Callable[[], object]) -> float:
    """Milliseconds of the processor, which other programs do not lengthen; the better of two."""
    best = float("inf")
    for _ in range(2):
        start = time.process_time()
        go()
        best = min(best, time.process_time() - start)
    return 1000 * best


def one_seed(seed: int) -> dict[str, float]:
    seed_all(seed)
    rows = {"random": batches(1, seed), "sorted": batches(20, seed)}
    theirs = nn.LSTM(13, HIDDEN, batch_first=True)
    ours = companion.LSTM(13, HIDDEN, batch_first=True)
    ours.load_state_dict(theirs.state_dict())

    def padded(x: Tensor, n: Tensor) -> Tensor:
        return theirs(x)[0]

    def packed(x: Tensor, n: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]

    def whole(x: Tensor, n: Tensor) -> Tensor:
        return ours(x)[0]

    def by_lengths(x: Tensor, n: Tensor) -> Tensor:
        return ours(x, lengths=n)[0]

    def epoch(call: Callable[[Tensor, Tensor], Tensor], order: str) -> Callable[[], None]:
        def go() -> None:
            for x, n in rows[order]:
                call(x, n).sum().backward()

        return go

    calls = {
        "torch_padded": padded,
        "torch_packed": packed,
        "ours_padded": whole,
        "ours_lengths": by_lengths,
    }
    took = {f"{k}_{order}": timed(epoch(f, order)) for k, f in calls.items() for order in rows}
    return took | {f"padding_{order}": padding(r) for order, r in rows.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    names = {
        "torch_padded": "torch.nn.LSTM, padding and all",
        "torch_packed": "torch.nn.LSTM, packed",
        "ours_padded": "companion.LSTM, padding and all",
        "ours_lengths": "companion.LSTM, lengths given",
    }
    orders = {"random": "batches at random", "sorted": "batches of like lengths"}
    path = run_study(
        __file__,
        f"One pass over {RECORDINGS} spoken digits of {int(lengths.min())} to "
        f"{int(lengths.max())} frames, forward and backward, LSTM with H = {HIDDEN}, batches of "
        f"{BATCH}, one thread, processor time; the better of two. A seed is another composition "
        f"of the batches.",
        one_seed,
        SEEDS,
        {
            f"{k}_{o}": (f"{what}, {how}", "ms")
            for k, what in names.items()
            for o, how in orders.items()
        }
        | {f"padding_{o}": f"share of padding, {how}" for o, how in orders.items()},
    )
    print(path.name)
