"""Sequences whose next symbol is uncertain to a degree that is known exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from companion.data.generated import CPU, at_least
from companion.reproduce import cpu_generator

__all__ = ["MarkovChain"]


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
        P = P.cpu()  # where the draws are
        object.__setattr__(self, "transition", P)
        if int((torch.linalg.eigvals(P) - 1).abs().lt(1e-9).sum()) != 1:
            raise ValueError("transition: the chain has more than one stationary distribution")

    @property
    def stationary(self) -> Tensor:
        """The long-run frequency of each symbol, (V,), with π P = π."""
        P = self.transition
        eye = torch.eye(len(P), dtype=P.dtype, device=CPU)
        equations = torch.cat([P.t() - eye, P.new_ones(1, len(P))])
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
        """Draw sequences, started from the stationary distribution.

        Args:
            n: number of sequences.
            T: steps.
            seed: of the draw.

        Returns:
            int64 (n, T), symbols 0 … V − 1.

        Raises:
            TypeError, ValueError: a number is no int, or negative.

        Example:
            >>> swap = MarkovChain(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
            >>> swap.sample(1, 4, seed=1).diff().abs().tolist()
            [[1, 1, 1]]
        """
        at_least(n=(n, 0), T=(T, 0))
        g = cpu_generator(seed)
        x = torch.empty(n, T, dtype=torch.long, device=CPU)
        p = self.stationary.clamp(min=0).expand(n, -1)
        for t in range(T if n else 0):
            x[:, t] = torch.multinomial(p, 1, generator=g).squeeze(1)
            p = self.transition[x[:, t]]
        return x
