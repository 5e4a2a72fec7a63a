"""Tasks that are generated, with answers known exactly.

Each function draws on the CPU from its own generator, so that a seed gives the same sequences on
every machine and leaves torch's global random state alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "MarkovChain",
    "Task",
    "adding",
    "anbn",
    "copying",
    "first_token_recall",
    "parity",
    "selective_copying",
]


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

    Source:
        Hochreiter and Schmidhuber (1997); in this form Arjovsky, Shah and Bengio (2016).

    Example:
        >>> task = copying(1, symbols=3, length=2, delay=3)
        >>> task.x.tolist(), task.y.tolist()
        ([[3, 1, 0, 0, 4, 0, 0]], [[0, 0, 0, 0, 0, 3, 1]])
    """
    _at_least(n=(n, 0), symbols=(symbols, 1), length=(length, 1), delay=(delay, 1))
    word = torch.randint(1, symbols + 1, (n, length), generator=_draw(seed))
    x = torch.zeros(n, 2 * length + delay, dtype=torch.long)
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

    Source:
        Hochreiter and Schmidhuber (1997); in this form Le, Jaitly and Hinton (2015).

    Example:
        >>> task = adding(2, T=5)
        >>> bool(torch.allclose((task.x[..., 0] * task.x[..., 1]).sum(1), task.y))
        True
    """
    _at_least(n=(n, 0), T=(T, 2))
    g, rows = _draw(seed), torch.arange(n)
    x = torch.zeros(n, T, 2)
    x[..., 0] = torch.rand(n, T, generator=g)
    x[rows, torch.randint(0, T // 2, (n,), generator=g), 1] = 1
    x[rows, torch.randint(T // 2, T, (n,), generator=g), 1] = 1
    y = (x[..., 0] * x[..., 1]).sum(1)
    return Task(x, y, torch.ones(n, dtype=torch.bool), 1 / 6)


def first_token_recall(n: int, lag: int, symbols: int = 4, seed: int = 0) -> Task:
    """Say at the end which symbol came first.

    Args:
        n: number of sequences.
        lag: steps between the first symbol and the answer; the others are drawn at random.
        symbols: number of different symbols.
        seed: of the draw.

    Returns:
        x (n, lag + 1) symbols 0 … symbols − 1; y (n,) the first of each.

    Example:
        >>> task = first_token_recall(3, lag=4)
        >>> task.x.shape, bool((task.x[:, 0] == task.y).all())
        (torch.Size([3, 5]), True)
    """
    _at_least(n=(n, 0), lag=(lag, 0), symbols=(symbols, 2))
    x = torch.randint(symbols, (n, lag + 1), generator=_draw(seed))
    return Task(x, x[:, 0].clone(), torch.ones(n, dtype=torch.bool), 1 / symbols)


def parity(n: int, T: int, seed: int = 0) -> Task:
    """Say after each bit whether an odd number of ones has been read.

    Args:
        n: number of sequences.
        T: steps.
        seed: of the draw.

    Returns:
        x (n, T) bits; y (n, T) the running parity.

    Example:
        >>> parity(1, T=6, seed=1).x.tolist(), parity(1, T=6, seed=1).y.tolist()
        ([[1, 1, 0, 0, 1, 1]], [[1, 0, 0, 0, 1, 0]])
    """
    _at_least(n=(n, 0), T=(T, 0))
    x = torch.randint(2, (n, T), generator=_draw(seed))
    return Task(x, x.cumsum(1) % 2, torch.ones(n, T, dtype=torch.bool), 0.5)


def anbn(counts: Tensor | list[int]) -> Task:
    """The strings aⁿbⁿ, between a start and an end symbol, as next-symbol prediction.

    Symbols: 0 a, 1 b, 2 the boundary. What follows is certain from the first b on (the rest of
    the b's, then the boundary): those steps are scored. Longer strings need a higher count.

    Args:
        counts: the n of each string, at least 1.

    Returns:
        x and y (len(counts), 2·max + 1), padded with the boundary; y is x one step later.

    Example:
        >>> task = anbn([1, 2])
        >>> task.x.tolist()
        [[2, 0, 1, 2, 2], [2, 0, 0, 1, 1]]
        >>> task.y.tolist()
        [[0, 1, 2, 2, 2], [0, 0, 1, 1, 2]]
        >>> task.scored.int().tolist()
        [[0, 0, 1, 0, 0], [0, 0, 0, 1, 1]]
    """
    n = torch.as_tensor(counts, dtype=torch.long)
    if n.dim() != 1 or len(n) == 0 or int(n.min()) < 1:
        raise ValueError(f"counts: expected some numbers of at least 1, got {n.tolist()}")
    step, n = torch.arange(2 * int(n.max()) + 2), n[:, None]
    text = torch.full((len(n), len(step)), 2)
    text[(step >= 1) & (step <= n)] = 0
    text[(step > n) & (step <= 2 * n)] = 1
    x, y = text[:, :-1].clone(), text[:, 1:].clone()
    return Task(x, y, x == 1, 0.5)


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

    Source:
        Gu and Dao (2023), section 3.1.

    Example:
        >>> task = selective_copying(1, T=6, symbols=3, length=2)
        >>> [v for v in task.x[0, :6].tolist() if v] == task.y[0, 6:].tolist()
        True
    """
    _at_least(n=(n, 0), T=(T, 1), symbols=(symbols, 1), length=(length, 1))
    if length > T:
        raise ValueError(f"length: expected at most T = {T}, got {length}")
    g = _draw(seed)
    word = torch.randint(1, symbols + 1, (n, length), generator=g)
    places = torch.rand(n, T, generator=g).argsort(1)[:, :length].sort(1).values
    x = torch.zeros(n, T + length, dtype=torch.long).scatter(1, places, word)
    x[:, T:] = symbols + 1
    y, scored = torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    y[:, T:] = word
    scored[:, T:] = True
    return Task(x, y, scored, 1 / symbols)


@dataclass(frozen=True)
class MarkovChain:
    r"""A chain whose next-symbol uncertainty is known exactly.

    .. math:: H = -\sum_i \pi_i \sum_j P_{ij} \log P_{ij}

    nats a symbol, with :math:`\pi` the stationary distribution; no model of any kind can have a
    lower expected negative log-likelihood, and :math:`e^H` is the lowest perplexity.

    Args:
        transition: (V, V) the probability of each next symbol, one row for each symbol; from every
            symbol every other must be reachable.

    Raises:
        ValueError: if the rows are no distributions, or the stationary distribution is not unique.

    Example:
        >>> chain = MarkovChain(torch.tensor([[0.9, 0.1], [0.5, 0.5]]))
        >>> [round(p, 4) for p in chain.stationary.tolist()]  # 5/6, 1/6
        [0.8333, 0.1667]
        >>> chain.sample(2, 5).shape
        torch.Size([2, 5])
    """

    transition: Tensor

    def __post_init__(self) -> None:
        P = self.transition
        if P.dim() != 2 or P.shape[0] != P.shape[1] or not P.is_floating_point():
            raise ValueError(
                f"transition: expected a square matrix of numbers, got {tuple(P.shape)}"
            )
        if bool((P < 0).any()) or not torch.allclose(P.sum(1), P.new_ones(len(P))):
            raise ValueError("transition: expected rows of probabilities that sum to 1")
        P = P.double() / P.double().sum(1, keepdim=True)  # exactly 1, also where P was float32
        object.__setattr__(self, "transition", P)
        if int((torch.linalg.eigvals(P) - 1).abs().lt(1e-9).sum()) != 1:
            raise ValueError("transition: the chain has more than one stationary distribution")

    @property
    def stationary(self) -> Tensor:
        """The long-run frequency of each symbol, (V,), with π P = π."""
        P = self.transition
        equations = torch.cat([P.t() - torch.eye(len(P), dtype=P.dtype), P.new_ones(1, len(P))])
        right = P.new_zeros(len(P) + 1, 1)
        right[-1] = 1
        return torch.linalg.lstsq(equations, right).solution.squeeze(1)

    @property
    def entropy_rate(self) -> float:
        """Nats a symbol."""
        P = self.transition
        return float(torch.special.entr(P).sum(1) @ self.stationary)

    @property
    def perplexity(self) -> float:
        """The lowest perplexity any model can reach."""
        return math.exp(self.entropy_rate)

    def sample(self, n: int, T: int, seed: int = 0) -> Tensor:
        """(n, T) symbols, started from the stationary distribution."""
        _at_least(n=(n, 0), T=(T, 0))
        g = _draw(seed)
        x = torch.empty(n, T, dtype=torch.long)
        p = self.stationary.clamp(min=0).expand(n, -1)
        for t in range(T if n else 0):
            x[:, t] = torch.multinomial(p, 1, generator=g).squeeze(1)
            p = self.transition[x[:, t]]
        return x


def _draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _at_least(**sizes: tuple[int, int]) -> None:
    for name, (value, least) in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}: expected an int, got {type(value).__name__} ({value!r})")
        if value < least:
            raise ValueError(f"{name}: expected at least {least}, got {value}")
