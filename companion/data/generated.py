"""Tasks that are generated, with answers known exactly.

Each function draws on the CPU from its own generator, so that a seed gives the same sequences on
every machine and leaves torch's global random state alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor

from companion.checks import check_sizes
from companion.reproduce import cpu_generator

__all__ = [
    "Task",
    "adding",
    "anbn",
    "copying",
    "first_token_recall",
    "parity",
    "selective_copying",
    "spike_delays",
]

CPU = torch.device("cpu")  # whatever torch's default device is


class Task(NamedTuple):
    """Sequences with their answers.

    Attributes:
        x: inputs: symbols (n, T) as integers, or numbers (n, T, D).
        y: answers, (n, T) for each step or (n,) for each sequence.
        scored: bool, shaped as y: which answers count.
        chance: the accuracy of the best guess that ignores the input (for :func:`adding`: the
            mean squared error of always answering 1).
    """

    x: Tensor
    y: Tensor
    scored: Tensor
    chance: float


def copying(n: int, symbols: int = 8, length: int = 10, delay: int = 20, seed: int = 0) -> Task:
    """Read some symbols, wait, then write them down again.

    Symbols are 1 … ``symbols``; 0 is blank, ``symbols + 1`` says "now". The input is the symbols,
    ``delay`` blanks of which the last is "now", and as many blanks as there were symbols.

    Args:
        n: number of sequences.
        symbols: number of different symbols.
        length: symbols to be remembered.
        delay: steps between the last symbol read and the first written.
        seed: of the draw.

    Returns:
        x and y (n, 2·length + delay); the written symbols are scored.

    Raises:
        TypeError, ValueError: a number or the seed is no int, or out of range.

    Source:
        Hochreiter and Schmidhuber (1997); in this form Arjovsky, Shah and Bengio (2016).

    Example:
        >>> task = copying(1, symbols=3, length=2, delay=3)
        >>> task.x.tolist(), task.y.tolist()
        ([[3, 1, 0, 0, 4, 0, 0]], [[0, 0, 0, 0, 0, 3, 1]])
    """
    check_sizes(n=(n, 0), symbols=(symbols, 1), length=(length, 1), delay=(delay, 1))
    word = torch.randint(1, symbols + 1, (n, length), generator=cpu_generator(seed), device=CPU)
    x = torch.zeros(n, 2 * length + delay, dtype=torch.long, device=CPU)
    y, scored = torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    x[:, :length] = word
    x[:, length + delay - 1] = symbols + 1
    y[:, -length:] = word
    scored[:, -length:] = True
    return Task(x, y, scored, 1 / symbols)


def adding(n: int, T: int, seed: int = 0) -> Task:
    """Add the two marked numbers of a sequence.

    Args:
        n: number of sequences.
        T: steps, at least 2.
        seed: of the draw.

    Returns:
        x (n, T, 2): a number in [0, 1) and a mark, 1 at one place of each half of the sequence;
        y (n,) the sum. Always answering 1 has mean squared error 1/6, which is ``chance``.

    Raises:
        TypeError, ValueError: a number or the seed is no int, or out of range.

    Source:
        Hochreiter and Schmidhuber (1997); in this form Le, Jaitly and Hinton (2015).

    Example:
        >>> task = adding(2, T=5)
        >>> bool(torch.allclose((task.x[..., 0] * task.x[..., 1]).sum(1), task.y))
        True
    """
    check_sizes(n=(n, 0), T=(T, 2))
    g, rows = cpu_generator(seed), torch.arange(n, device=CPU)
    x = torch.zeros(n, T, 2, device=CPU)
    x[..., 0] = torch.rand(n, T, generator=g, device=CPU)
    x[rows, torch.randint(0, T // 2, (n,), generator=g, device=CPU), 1] = 1
    x[rows, torch.randint(T // 2, T, (n,), generator=g, device=CPU), 1] = 1
    y = (x[..., 0] * x[..., 1]).sum(1)
    return Task(x, y, torch.ones(n, dtype=torch.bool, device=CPU), 1 / 6)


def first_token_recall(n: int, lag: int, symbols: int = 4, seed: int = 0) -> Task:
    """Say at the end which symbol came first.

    Args:
        n: number of sequences.
        lag: steps between the first symbol and the answer; the others are drawn at random.
        symbols: number of different symbols.
        seed: of the draw.

    Returns:
        x (n, lag + 1) symbols 0 … symbols − 1; y (n,) the first of each.

    Raises:
        TypeError, ValueError: a number or the seed is no int, or out of range.

    Source:
        A standard test, akin to the latching problem of Bengio, Simard and Frasconi (1994).

    Example:
        >>> task = first_token_recall(3, lag=4)
        >>> task.x.shape, bool((task.x[:, 0] == task.y).all())
        (torch.Size([3, 5]), True)
    """
    check_sizes(n=(n, 0), lag=(lag, 0), symbols=(symbols, 2))
    x = torch.randint(symbols, (n, lag + 1), generator=cpu_generator(seed), device=CPU)
    scored = torch.ones(n, dtype=torch.bool, device=CPU)
    return Task(x, x[:, 0].clone(), scored, 1 / symbols)


def parity(n: int, T: int, seed: int = 0) -> Task:
    """Say after each bit whether an odd number of ones has been read.

    Args:
        n: number of sequences.
        T: steps.
        seed: of the draw.

    Returns:
        x (n, T) bits; y (n, T) the running parity.

    Raises:
        TypeError, ValueError: a number or the seed is no int, or out of range.

    Source:
        A standard test; used for instance by Bengio, Simard and Frasconi (1994).

    Example:
        >>> parity(1, T=6, seed=1).x.tolist(), parity(1, T=6, seed=1).y.tolist()
        ([[1, 1, 0, 0, 1, 1]], [[1, 0, 0, 0, 1, 0]])
    """
    check_sizes(n=(n, 0), T=(T, 0))
    x = torch.randint(2, (n, T), generator=cpu_generator(seed), device=CPU)
    return Task(x, x.cumsum(1) % 2, torch.ones_like(x, dtype=torch.bool), 0.5)


def anbn(counts: Tensor | Sequence[int]) -> Task:
    """The strings aⁿbⁿ, between a start and an end symbol, as next-symbol prediction.

    Symbols: 0 a, 1 b, 2 the boundary. What follows is certain from the first b on (the rest of
    the b's, then the boundary): those steps are scored. Longer strings need a higher count.

    Args:
        counts: the n of each string, integers of at least 1.

    Returns:
        x and y (len(counts), 2·max + 1), padded with the boundary; y is x one step later. Of the
        Σ n scored answers len(counts) are the boundary, the others b; ``chance`` is that of
        always giving the more frequent one.

    Raises:
        TypeError: counts is no sequence of integers.
        ValueError: counts is empty, or a count is below 1.

    Source:
        Gers and Schmidhuber (2001).

    Example:
        >>> task = anbn([1, 2])
        >>> task.x.tolist()
        [[2, 0, 1, 2, 2], [2, 0, 0, 1, 1]]
        >>> task.y.tolist()
        [[0, 1, 2, 2, 2], [0, 0, 1, 1, 2]]
        >>> task.scored.int().tolist()
        [[0, 0, 1, 0, 0], [0, 0, 0, 1, 1]]
        >>> round(task.chance, 3)  # boundary, b, boundary
        0.667
    """
    n = torch.tensor(_counts(counts), dtype=torch.long, device=CPU)
    ends = len(n) / int(n.sum())  # share of the scored answers
    step, n = torch.arange(2 * int(n.max()) + 2, device=CPU), n[:, None]
    text = torch.full((len(n), len(step)), 2, device=CPU)
    text[(step >= 1) & (step <= n)] = 0
    text[(step > n) & (step <= 2 * n)] = 1
    x, y = text[:, :-1].clone(), text[:, 1:].clone()
    return Task(x, y, x == 1, max(ends, 1 - ends))


def _counts(counts: Any) -> list[int]:
    """The counts as ints; a tensor or array of floats is none."""
    given = counts.tolist() if hasattr(counts, "tolist") else counts
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise TypeError(
            f"counts: expected a list of ints, got {type(counts).__name__} ({counts!r:.60})"
        )
    for value in given:
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"counts: expected ints, got {type(value).__name__} ({value!r:.60})")
    if not given or min(given) < 1:
        raise ValueError(f"counts: expected some numbers of at least 1, got {list(given)!r:.60}")
    return [int(value) for value in given]


def selective_copying(n: int, T: int, symbols: int = 8, length: int = 4, seed: int = 0) -> Task:
    """Copy the symbols and ignore the noise that stands between them.

    As :func:`copying`, but the symbols lie at random places among blanks, so that a network must
    decide by content what to remember.

    Args:
        n: number of sequences.
        T: steps in which the symbols are spread.
        symbols: number of different symbols, 1 … symbols; 0 is noise, symbols + 1 says "now".
        length: symbols to be remembered, at most T.
        seed: of the draw.

    Returns:
        x and y (n, T + length): the last ``length`` inputs are "now", and scored.

    Raises:
        TypeError, ValueError: a number or the seed is no int, or out of range; length is above T.

    Source:
        Gu and Dao (2023), section 3.1.

    Example:
        >>> task = selective_copying(1, T=6, symbols=3, length=2)
        >>> [v for v in task.x[0, :6].tolist() if v] == task.y[0, 6:].tolist()
        True
    """
    check_sizes(n=(n, 0), T=(T, 1), symbols=(symbols, 1), length=(length, 1))
    if length > T:
        raise ValueError(f"length: expected at most T = {T}, got {length}")
    g = cpu_generator(seed)
    word = torch.randint(1, symbols + 1, (n, length), generator=g, device=CPU)
    places = torch.rand(n, T, generator=g, device=CPU).argsort(1)[:, :length].sort(1).values
    x = torch.zeros(n, T + length, dtype=torch.long, device=CPU).scatter(1, places, word)
    x[:, T:] = symbols + 1
    y, scored = torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    y[:, T:] = word
    scored[:, T:] = True
    return Task(x, y, scored, 1 / symbols)


def spike_delays(n: int, T: int, shortest: int, longest: int, seed: int = 0) -> Task:
    """Say at the end how many steps lay between two spikes.

    Args:
        n: number of sequences.
        T: steps.
        shortest, longest: bounds of the delay, both included.
        seed: of the draw.

    Returns:
        x (n, T, 1): 0, and 1 at two steps; y (n,) the delay counted from ``shortest``, a class
        from 0 to longest − shortest.

    Raises:
        TypeError, ValueError: a number or the seed is no int, or out of range.

    Source:
        After the task "measuring spike delays" of Gers, Schraudolph and Schmidhuber (2002).

    Example:
        >>> task = spike_delays(1, T=8, shortest=2, longest=4)
        >>> first, second = task.x[0, :, 0].nonzero().flatten().tolist()
        >>> second - first == task.y.item() + 2
        True
    """
    check_sizes(n=(n, 0), shortest=(shortest, 1), longest=(longest, shortest), T=(T, longest + 1))
    g = cpu_generator(seed)
    y = torch.randint(longest - shortest + 1, (n,), generator=g, device=CPU)
    delay, rows = y + shortest, torch.arange(n, device=CPU)
    first = (torch.rand(n, generator=g, device=CPU) * (T - delay)).long()
    x = torch.zeros(n, T, 1, device=CPU)
    x[rows, first, 0] = 1
    x[rows, first + delay, 0] = 1
    scored = torch.ones(n, dtype=torch.bool, device=CPU)
    return Task(x, y, scored, 1 / (longest - shortest + 1))
