"""What a language model is trained on and measured by."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.checks import check_number
from companion.models.language_model import LanguageModel
from companion.models.parts import UNKNOWN, counted_targets

__all__ = ["activation_penalty", "bits", "language_model_objective"]


def language_model_objective(
    model: LanguageModel, batch: Any, state: Any = None, *, ar: float = 0.0, tar: float = 0.0
) -> tuple[Any, ...]:
    r"""The negative log-likelihood a token, for ``Trainer(..., stateful=True)``.

    .. math:: -\frac{1}{N} \sum_{b,t} \log P(y_{b,t} \mid x_{b,1..t})

    With ``ar`` or ``tar``, set by ``functools.partial``, the loss while training has
    :func:`activation_penalty` added, and the likelihood alone is the metric ``"nll"``.

    Args:
        model: the language model.
        batch: ``x, y, reset`` as :func:`companion.data.stream_batches` gives them: what is read,
            int (B, T); what comes next, int64 (B, T), −100 where it does not count; where a
            document begins, bool (B, T), or None.
        state: the state after the batch before, or None.
        ar, tar: factors of the penalty.

    Returns:
        The mean over the tokens that count, in nats; their number; with a penalty
        ``{"nll": mean}``; and the state.

    Example:
        >>> from companion.data import stream_batches
        >>> model = LanguageModel(20, embedding_dim=8, hidden_size=8)
        >>> batch = next(iter(stream_batches(torch.arange(20), batch_size=2, steps=5)))
        >>> loss, tokens, state = language_model_objective(model, batch)
        >>> round(loss.item(), 1), tokens  # untrained: ln 20
        (3.0, 10)
    """
    x, y, reset = batch
    raw, dropped, state = model.features(x, state, reset)
    logits = model.decode(dropped)  # (B, T, V)
    count = int(counted_targets("y", y, logits).sum())
    y = y.flatten().long()
    nll = F.cross_entropy(logits.flatten(0, 1), y, ignore_index=UNKNOWN, reduction="sum")
    nll = nll / max(count, 1)
    if not (ar or tar):
        return nll, count, state
    penalty = activation_penalty(raw, dropped, ar, tar, reset) if model.training else 0.0
    return nll + penalty, count, {"nll": nll.detach()}, state


def activation_penalty(
    raw: Tensor, dropped: Tensor, ar: float = 2.0, tar: float = 1.0, reset: Tensor | None = None
) -> Tensor:
    r"""Activation regularization, and temporal activation regularization.

    .. math::

        \alpha\, \overline{(m \odot h_t)^2} + \beta\, \overline{(h_{t+1} - h_t)^2}

    The bar is the mean over rows, steps and features: large outputs cost, and so do outputs that
    change from a step to the next. Two steps with a reset between them are not neighbors.

    Args:
        raw: outputs of the last layer, :math:`h` (B, T, H).
        dropped: the same after dropout, :math:`m \odot h`.
        ar, tar: :math:`\alpha` and :math:`\beta`.
        reset: bool (B, T), where a document begins; None: nowhere.

    Returns:
        The penalty, a scalar.

    Source:
        Merity et al. (2017), "Revisiting activation regularization for language RNNs"; means as
        in the authors' code.

    Example:
        >>> h = torch.tensor([[[1.0], [3.0], [3.0]]])
        >>> activation_penalty(h, h, ar=3.0, tar=1.0).item()  # 3 · 19 / 3 + 4 / 2
        21.0
    """
    for name, value in (("ar", ar), ("tar", tar)):
        check_number(name, value)
    change = raw[:, 1:] - raw[:, :-1]
    pairs = torch.ones_like(change[..., 0]) if reset is None else (~reset[:, 1:]).to(change)
    changed = (change.square() * pairs[..., None]).sum() / (pairs.sum() * raw.shape[2]).clamp(
        min=1
    )
    size = dropped.square().sum() / max(dropped.numel(), 1)
    return ar * size + tar * changed


def bits(nll: float | Tensor) -> float:
    """The same mean in bits: nats divided by ln 2; of a character model, bits per character.

    Example:
        >>> bits(math.log(8))
        3.0
    """
    return (nll.item() if isinstance(nll, Tensor) else nll) / math.log(2)
