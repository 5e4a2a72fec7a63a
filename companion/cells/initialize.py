"""How a recurrent weight may start."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from companion.checks import check_number

Initializer: TypeAlias = Callable[[Tensor], object]


def spectral_radius(radius: float) -> Initializer:
    r"""An initializer: a Gaussian matrix scaled to a given spectral radius.

    .. math:: W = \rho \, G / \max_k |\lambda_k(G)|, \qquad G_{ij} \sim N(0, 1)

    The spectral radius :math:`\rho` is the largest absolute eigenvalue. It decides whether
    :math:`W^k` shrinks or grows as :math:`k \to \infty`; the largest singular value, which is at
    least as large, decides about single steps.

    ``recurrent_init`` of every recurrent layer takes what this function returns, any other
    function that fills a square matrix in place, or one of two names: ``"orthogonal"`` (all
    singular values 1; Saxe et al. 2014) and ``"identity"`` (Le et al. 2015, who also set the
    biases to zero, which this option leaves to you).

    Args:
        radius: the spectral radius :math:`\rho`, finite and not negative.

    Returns:
        A function that fills a square matrix in place.

    Raises:
        ValueError: if ``radius`` is negative or not finite.

    Example:
        >>> import companion, torch
        >>> rnn = companion.RNN(3, 8, recurrent_init=spectral_radius(0.5))
        >>> eigenvalues = torch.linalg.eigvals(rnn.weight_hh_l0.detach())
        >>> round(eigenvalues.abs().max().item(), 4)
        0.5
    """
    if isinstance(radius, bool) or not isinstance(radius, int | float):
        raise TypeError(f"radius: expected a number, got {type(radius).__name__}")
    if not (math.isfinite(radius) and radius >= 0):
        raise ValueError(f"radius: expected a finite number of at least 0, got {radius}")
    return _SpectralRadius(float(radius))


class _SpectralRadius:
    """A class rather than a closure, so that a layer made with it can be copied and pickled."""

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def __call__(self, w: Tensor) -> None:
        if w.dim() != 2 or w.shape[0] != w.shape[1]:
            raise ValueError(f"spectral_radius: expected a square matrix, got {tuple(w.shape)}")
        with torch.no_grad():
            nn.init.normal_(w)
            if not w.is_meta:
                largest = torch.linalg.eigvals(w.double()).abs().max()
                w.mul_((self.radius / largest).to(w.dtype))

    def __repr__(self) -> str:
        return f"spectral_radius({self.radius:g})"


def _orthogonal(w: Tensor) -> None:
    if w.is_meta:
        return
    full = w.dtype if w.dtype in (torch.float32, torch.float64) else torch.float32
    with torch.no_grad():  # the QR inside has no half-precision kernel
        w.copy_(nn.init.orthogonal_(torch.empty_like(w, dtype=full)))


NAMED: dict[str, Initializer] = {"orthogonal": _orthogonal, "identity": nn.init.eye_}


def recurrent_initializer(choice: str | Initializer | None) -> Initializer | None:
    """The function behind a ``recurrent_init`` argument.

    Raises:
        ValueError: if it is a name we do not know.
        TypeError: if it is neither a name, a function nor ``None``.
    """
    if choice is spectral_radius:
        raise TypeError("recurrent_init: expected spectral_radius(0.9), say, got it uncalled")
    if choice is None or callable(choice):
        return choice
    if isinstance(choice, str):
        if choice in NAMED:
            return NAMED[choice]
        raise ValueError(
            f"recurrent_init: expected one of {sorted(NAMED)} or a function, got {choice!r}"
        )
    raise TypeError(
        f"recurrent_init: expected a name, a function or None, got {type(choice).__name__} "
        f"({choice!r}); for a spectral radius write recurrent_init=spectral_radius({choice!r})"
    )


def check_chrono(longest: float) -> None:
    """Raise unless this is a finite number of steps above 2."""
    check_number("chrono", longest)
    if longest <= 2:
        raise ValueError(f"chrono: expected more than 2 steps, got {longest}")


def chrono_bias(like: Tensor, longest: float) -> Tensor:
    r"""Biases of gates that keep their state for 1 to ``longest`` steps, one for each unit.

    A gate :math:`\sigma(b)` with :math:`b = \log \tau` forgets :math:`1 / (1 + \tau)` of its
    state a step; :math:`\tau \sim U(1, T_{max} - 1)`.
    """
    return torch.empty_like(like).uniform_(1, longest - 1).log()
