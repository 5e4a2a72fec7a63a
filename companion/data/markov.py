"""Sequences whose next symbol is uncertain to a degree that is known exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from companion.checks import check_sizes
from companion.data.generated import CPU
from companion.reproduce import cpu_generator

__all__ = ["MarkovChain"]


@dataclass(frozen=True, eq=False)  # tensors have no == that is true or false
class MarkovChain:
    r"""A chain whose next-symbol uncertainty is known exactly.

    .. math:: H = -\sum_i \pi_i \sum_j P_{ij} \log P_{ij}

    nats a symbol, with :math:`\pi` the stationary distribution; no model of any kind can have a
    lower expected negative log-likelihood, and :math:`e^H` is the lowest perplexity.

    Args:
        transition: (V, V) the probability of each next symbol, one row for each symbol. Some
            symbol must be reachable from every symbol: then the stationary distribution is
            unique. Chains that leave symbols for good are accepted, those that end in one symbol
            (absorbing) too; their stationary distribution is that of what they end in.

    Raises:
        TypeError: if transition is no tensor of floating-point numbers.
        ValueError: if it is not square, its rows are no distributions, or the stationary
            distribution is not unique.

    Source:
        Shannon (1948), part I.

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
        if not isinstance(P, Tensor):
            raise TypeError(f"transition: expected a tensor, got {type(P).__name__}")
        if not P.is_floating_point():
            raise TypeError(f"transition: expected floating-point numbers, got {P.dtype}")
        if P.dim() != 2 or P.shape[0] != P.shape[1] or len(P) == 0:
            raise ValueError(f"transition: expected a square matrix, got {tuple(P.shape)}")
        if bool((P < 0).any()) or not torch.allclose(P.sum(1), P.new_ones(len(P))):
            raise ValueError("transition: expected rows of probabilities that sum to 1")
        P = P.detach().cpu().double()  # where the draws are
        P = P / P.sum(1, keepdim=True)  # exactly 1, also where P was float32
        object.__setattr__(self, "transition", P)
        if not bool(self._lasting.any()):
            raise ValueError("transition: the chain has more than one stationary distribution")

    @property
    def _lasting(self) -> Tensor:
        """Which symbols can be reached from every symbol, (V,): none if the chain splits.

        These are the symbols that return for ever. A graph answers it, not the eigenvalues of P:
        those of a chain that switches rarely cannot be told from those of one that never does.
        """
        eye = torch.eye(len(self.transition), dtype=torch.bool, device=CPU)
        paths = ((self.transition > 0) | eye).double()  # of at most 1 step
        for _ in range(len(paths).bit_length()):  # of at most 2, 4, 8 ... steps
            paths = (paths @ paths).clamp(max=1)
        return paths.bool().all(0)

    @property
    def stationary(self) -> Tensor:
        """The long-run frequency of each symbol, (V,), with π P = π.

        Symbols are taken out of the chain one after the other, without any subtraction: accurate
        also where symbols change rarely (Grassmann, Taksar and Heyman, 1985).
        """
        lasting = self._lasting
        P = self.transition[lasting][:, lasting]
        for k in range(len(P) - 1, 0, -1):  # the chain watched only while it is in 0 ... k - 1
            P[:k, k] /= P[k, :k].sum()
            P[:k, :k] += torch.outer(P[:k, k], P[k, :k])
        p = torch.ones(len(P), dtype=P.dtype, device=CPU)
        for k in range(1, len(P)):
            p[k] = p[:k] @ P[:k, k]
        frequency = torch.zeros(len(lasting), dtype=P.dtype, device=CPU)
        frequency[lasting] = p / p.sum()
        return frequency

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
            TypeError, ValueError: a number or the seed is no int, or out of range.

        Example:
            >>> swap = MarkovChain(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
            >>> swap.sample(1, 4, seed=1).diff().abs().tolist()
            [[1, 1, 1]]
        """
        check_sizes(n=(n, 0), T=(T, 0))
        g = cpu_generator(seed)
        x = torch.empty(n, T, dtype=torch.long, device=CPU)
        p = self.stationary.expand(n, -1)
        for t in range(T if n else 0):
            x[:, t] = torch.multinomial(p, 1, generator=g).squeeze(1)
            p = self.transition[x[:, t]]
        return x
