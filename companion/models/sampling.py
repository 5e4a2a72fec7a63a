"""From a model's scores to the next token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.checks import check_generator, check_number, check_size
from companion.models.parts import check_tokens

__all__ = ["next_token_probabilities"]


def next_token_probabilities(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    r"""The distribution a next token is drawn from.

    .. math:: p_i \propto \exp(z_i / \tau)

    and of this, in this order, the k largest entries (``top_k``), and the largest ones until
    their sum reaches p (``top_p``, the "nucleus"); each time what is left is scaled to sum to 1.
    Among equal entries the lower index comes first.

    Args:
        logits: scores :math:`z` (..., V), finite, or −∞ for a token that is never drawn.
        temperature: :math:`\tau`; 0 puts all probability on the largest score.
        top_k: how many tokens may be drawn at most; ``None``: all.
        top_p: in (0, 1]; ``None``: 1.

    Returns:
        Probabilities (..., V), in float32 or the wider dtype of the logits.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range; if a score
            is NaN or +∞, or all scores of a row are −∞.

    Source:
        Fan et al. (2018) for top-k; Holtzman et al. (2020), "The curious case of neural text
        degeneration", for the nucleus.

    Example:
        >>> z = torch.tensor([0.5, 0.25, 0.125, 0.125]).log()
        >>> next_token_probabilities(z, top_k=2)
        tensor([0.6667, 0.3333, 0.0000, 0.0000])
        >>> next_token_probabilities(z, top_p=0.8)
        tensor([0.5714, 0.2857, 0.1429, 0.0000])
        >>> next_token_probabilities(z, temperature=0)
        tensor([1., 0., 0., 0.])
    """
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        got = logits.dtype if isinstance(logits, Tensor) else type(logits).__name__
        raise TypeError(f"logits: expected a floating-point tensor, got {got}")
    if logits.dim() == 0 or logits.shape[-1] == 0:
        raise ValueError(f"logits: expected shape (..., V), got {tuple(logits.shape)}")
    check_sampling(temperature, top_k, top_p)
    z = logits.to(torch.promote_types(logits.dtype, torch.float32))
    z = z - check_logits(z)  # so that a small temperature does not overflow
    if temperature == 0:
        return F.one_hot(z.argmax(-1), z.shape[-1]).to(z.dtype)
    info = torch.finfo(z.dtype)  # in which a temperature out of range would be 0 or infinite
    temperature = min(max(temperature, info.tiny), info.max)
    p, order = (z / temperature).softmax(-1).sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        p = _scaled(p, torch.arange(p.shape[-1], device=p.device) < top_k)
    if top_p is not None and top_p < 1:  # rounded sums may reach 1 before the end
        q = wide(p)
        p = _scaled(p, q.cumsum(-1) - q < top_p)  # kept: begun before the sum reaches p
    return torch.zeros_like(p).scatter(-1, order, p)


def check_logits(logits: Tensor) -> Tensor:
    """The largest score of each row (..., 1), which must be finite."""
    largest = logits.amax(-1, keepdim=True)
    if not bool(largest.isfinite().all()):
        wrong = largest[~largest.isfinite()][0].item()
        raise ValueError(f"logits: expected a finite largest score in each row, got {wrong}")
    return largest


def wide(x: Tensor) -> Tensor:
    """In float64, where the device has it."""
    return x.to(torch.float32 if x.device.type == "mps" else torch.float64)


def _scaled(p: Tensor, kept: Tensor) -> Tensor:
    p = p * kept
    return p / p.sum(-1, keepdim=True)


def check_sampling(temperature: Any, top_k: Any, top_p: Any) -> None:
    """Raise for a temperature, a number of tokens or a probability that has no meaning."""
    check_number("temperature", temperature)
    if temperature < 0:
        raise ValueError(f"temperature: expected at least 0, got {temperature}")
    if top_k is not None:
        check_size("top_k", top_k)
    if top_p is not None:
        check_number("top_p", top_p)
        if not 0 < top_p <= 1:
            raise ValueError(f"top_p: expected more than 0 and at most 1, got {top_p}")


def continued(
    model: Any,
    prompt: Any,
    steps: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    generator: torch.Generator | None,
) -> Tensor:
    """What :meth:`LanguageModel.sample` returns; the arguments are described there."""
    check_size("steps", steps, 0)
    check_sampling(temperature, top_k, top_p)
    check_generator(generator)
    if not isinstance(prompt, Tensor):
        raise TypeError(f"prompt: expected a tensor, got {type(prompt).__name__}")
    if prompt.dim() not in (1, 2) or prompt.shape[-1] == 0:
        raise ValueError(
            f"prompt: expected shape (T,) or (B, T), T of at least 1, got {tuple(prompt.shape)}"
        )
    rows = prompt if prompt.dim() == 2 else prompt[None]
    rows = check_tokens("prompt", rows, model.vocab_size)
    with evaluating(model):
        _, y, state = model.features(rows)
        logits, drawn = model.decode(y[:, -1]), rows.new_empty(len(rows), steps)
        for n in range(steps):
            if n:
                logits, state = model.step(drawn[:, n - 1], state)
            p = next_token_probabilities(logits, temperature, top_k, top_p)
            drawn[:, n] = torch.multinomial(p, 1, generator=generator)[:, 0]
    return drawn if prompt.dim() == 2 else drawn[0]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Within the context the model evaluates; after it each module is in its own mode again."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
