"""A training step of a recurrent layer against torch.nn's and against a plain loop."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import companion
from companion.bench import interleaved
from companion.checks import check_size
from companion.reproduce import seed_all

# B, T, D, H
GRID = [
    (32, 50, 64, 64),
    (32, 100, 128, 128),
    (64, 100, 256, 256),
    (256, 44, 100, 128),
    (1, 500, 128, 128),
    (20, 35, 650, 650),
]
LAYERS = ["RNN", "LSTM", "GRU"]


class NaiveRNN(nn.Module):
    """The loop most tutorials show: every product inside the loop, inputs by indexing."""

    def __init__(self, D: int, H: int) -> None:
        super().__init__()
        self.W_x, self.W_h, self.H = nn.Linear(D, H), nn.Linear(H, H), H

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(T, B, D) -> (T, B, H), (B, H)."""
        h, outputs = x.new_zeros(x.shape[1], self.H), []
        for t in range(len(x)):
            h = torch.tanh(self.W_x(x[t]) + self.W_h(h))
            outputs.append(h)
        return torch.stack(outputs), h


class NaiveLSTM(NaiveRNN):
    """The same for the LSTM."""

    def __init__(self, D: int, H: int) -> None:
        super().__init__(D, H)
        self.W_x, self.W_h = nn.Linear(D, 4 * H), nn.Linear(H, 4 * H)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(T, B, D) -> (T, B, H), (B, H)."""
        h = c = x.new_zeros(x.shape[1], self.H)
        outputs = []
        for t in range(len(x)):
            i, f, g, o = (self.W_x(x[t]) + self.W_h(h)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs), h


class NaiveGRU(NaiveRNN):
    """The same for the GRU."""

    def __init__(self, D: int, H: int) -> None:
        super().__init__(D, H)
        self.W_x, self.W_h = nn.Linear(D, 3 * H), nn.Linear(H, 3 * H)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(T, B, D) -> (T, B, H), (B, H)."""
        h, outputs = x.new_zeros(x.shape[1], self.H), []
        for t in range(len(x)):
            u_r, u_z, u_n = self.W_x(x[t]).chunk(3, 1)
            a_r, a_z, a_n = self.W_h(h).chunk(3, 1)
            r, z = torch.sigmoid(u_r + a_r), torch.sigmoid(u_z + a_z)
            h = (1 - z) * torch.tanh(u_n + r * a_n) + z * h
            outputs.append(h)
        return torch.stack(outputs), h


NAIVE: dict[str, type[nn.Module]] = {"RNN": NaiveRNN, "LSTM": NaiveLSTM, "GRU": NaiveGRU}


def train_step(layer: nn.Module, x: Tensor, run: Callable[[], Tensor]) -> None:
    """Forward and backward of every output, gradients of the input and all weights."""
    y = run()
    y.backward(torch.ones_like(y))
    x.grad = None
    layer.zero_grad(set_to_none=True)


def candidates(name: str, B: int, T: int, D: int, H: int) -> dict[str, Callable[[], None]]:
    """One training step of each way to run this layer."""
    theirs, naive = getattr(nn, name)(D, H), NAIVE[name](D, H)
    ours: Any = getattr(companion, name)(D, H)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(T, B, D, requires_grad=True)
    lengths = torch.randint(1, T + 1, (B,), generator=torch.Generator().manual_seed(0))
    lengths[0] = T

    def packed() -> Tensor:
        y = theirs(pack_padded_sequence(x, lengths, enforce_sorted=False))[0]
        return pad_packed_sequence(y, total_length=T)[0]

    return {
        "torch": lambda: train_step(theirs, x, lambda: theirs(x)[0]),
        "ours": lambda: train_step(ours, x, lambda: ours(x)[0]),
        "loop": lambda: train_step(ours, x, lambda: ours(x, form="loop")[0]),
        "naive": lambda: train_step(naive, x, lambda: naive(x)[0]),
        "torch packed": lambda: train_step(theirs, x, packed),
        "ours lengths": lambda: train_step(ours, x, lambda: ours(x, lengths=lengths)[0]),
    }


# what is divided by what, and what it tells
RATIOS = {
    "over torch.nn": ("ours", "torch"),
    "loop over torch.nn": ("loop", "torch"),
    "naive over ours": ("naive", "ours"),
    "packed torch over ours": ("torch packed", "ours lengths"),
}


def measure(seconds: float, rounds: int, grid: list[tuple[int, ...]]) -> dict[str, dict[str, Any]]:
    """Ratios of medians for every layer and shape, one value a round.

    Args:
        seconds: time for each round of each shape.
        rounds: independent rounds; the spread between them is the spread we state. The number of
            the round, from 0, seeds its weights and inputs.
        grid: shapes (B, T, D, H).

    Returns:
        ``{key: {"values", "unit", "what"}}`` as :func:`companion.look.write_study` takes it.

    Raises:
        TypeError, ValueError: if there is no round, no shape, or no time.
    """
    return compare(LAYERS, candidates, RATIOS, seconds, rounds, grid)


def compare(
    names: Sequence[str],
    candidates: Callable[..., Mapping[str, Callable[[], object]]],
    ratios: Mapping[str, tuple[str, str]],
    seconds: float,
    rounds: int,
    grid: list[tuple[int, ...]],
    letters: str = "B,T,D,H",
    least: int = 7,
) -> dict[str, dict[str, Any]]:
    """:func:`measure` for any layers, with any ways to run them, compared in any ratios."""
    check_size("rounds", rounds)
    if not grid:
        raise ValueError(f"grid: expected at least one shape ({letters.replace(',', ', ')})")
    results: dict[str, dict[str, Any]] = {}
    for name in names:
        columns: dict[str, list[list[float]]] = {label: [] for label in ratios}
        for shape in grid:
            shown: dict[str, list[float]] = {label: [] for label in ratios}
            for number in range(rounds):
                seed_all(number)
                times = interleaved(candidates(name, *shape), seconds, least)
                middle = {k: statistics.median(v) for k, v in times.items()}
                for label, (a, b) in ratios.items():
                    shown[label].append(middle[a] / middle[b])
            where = ",".join(map(str, shape))
            row = "  ".join(f"{k} {statistics.median(v):.2f}" for k, v in shown.items())
            print(f"{name} {where:>16}  {row}", flush=True)
            for label, values in shown.items():
                columns[label].append(values)
                results[f"{name} {label} {where}"] = _entry(
                    values, f"{label}, {letters} = {where}"
                )
        for label, rows in columns.items():
            rounds_ = list(zip(*rows, strict=True))  # all shapes of one round
            worst = max if label.endswith("torch.nn") else min
            middles = [statistics.median(one) for one in rounds_]
            worsts = [worst(one) for one in rounds_]
            results[f"{name} {label} median"] = _entry(middles, f"{label}, median over shapes")
            results[f"{name} {label} worst"] = _entry(worsts, f"{label}, worst shape")
            print(
                f"{name} {label}: median {statistics.median(middles):.2f}, "
                f"worst {statistics.median(worsts):.2f}"
            )
    return results


def _entry(values: list[float], what: str) -> dict[str, Any]:
    return {"values": values, "unit": "", "what": f"training step, {what}, by round"}
