"""From the frames of a CTC network to labels: greedy, and by prefix beam search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from companion.checks import check_number, check_size
from companion.models.ctc import check_blank, collapse
from companion.models.parts import valid_steps

__all__ = ["Hypothesis", "ctc_beam_search", "ctc_greedy"]

# log P(label | the labels before it)
Scorer = Callable[[tuple[int, ...], int], float]


class Hypothesis(NamedTuple):
    """A result of :func:`ctc_beam_search`.

    Attributes:
        labels: what is said.
        score: what the search ranks by.
        log_prob: log-probability of the labels by the network alone.
    """

    labels: tuple[int, ...]
    score: float
    log_prob: float


def ctc_greedy(
    log_probs: Tensor, lengths: Tensor | Sequence[int] | None = None, blank: int = 0
) -> list[list[int]]:
    """The labels of the single likeliest path, which need not be the likeliest labels.

    Args:
        log_probs: (B, T, C), or any scores in their order.
        lengths: (B,) how many frames of each row are valid; default: all.
        blank: index of the blank.

    Returns:
        B lists of labels.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or shape.

    Source:
        Graves et al. (2006), section 3.2, "best path decoding".

    Example:
        >>> p = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]])
        >>> ctc_greedy(p.log())  # two blanks, 0.36; yet the label 1 has 0.64 on three paths
        [[]]
    """
    if not isinstance(log_probs, Tensor) or log_probs.dim() != 3:
        got = tuple(log_probs.shape) if isinstance(log_probs, Tensor) else type(log_probs).__name__
        raise ValueError(f"log_probs: expected a tensor of shape (B, T, C), got {got}")
    B, T, C = log_probs.shape
    check_blank(blank, C)
    valid = valid_steps(lengths, B, T, log_probs.device)
    if bool(log_probs[valid].isnan().any()):
        raise ValueError("log_probs: expected numbers in the valid frames, got NaN")
    frames, paths = valid.sum(1).tolist(), log_probs.argmax(-1).tolist()
    return [collapse(path[:n], blank) for path, n in zip(paths, frames, strict=True)]


def ctc_beam_search(
    log_probs: Tensor,
    beam: int = 16,
    blank: int = 0,
    *,
    scorer: Scorer | None = None,
    weight: float = 1.0,
    bonus: float = 0.0,
) -> list[Hypothesis]:
    r"""The best labels of one recording, all paths of the same labels counted together.

    .. math::

        \mathrm{score}(y) = \log P_{\mathrm{CTC}}(y \mid x)
        + \alpha \sum_k \log P_{\mathrm{LM}}(y_k \mid y_{<k}) + \beta\, |y|

    For each prefix two probabilities are kept, of its paths that end in a blank and of those that
    end in its last label: only after a blank does the same label count again. After each frame
    the ``beam`` best prefixes stay; if that is never fewer than there are, the result is exact.

    Args:
        log_probs: (T, C), log-probabilities in each frame; cut them at the recording's length.
        beam: how many prefixes to keep.
        blank: index of the blank.
        scorer: ``scorer(prefix, label)`` gives :math:`\log P_{\mathrm{LM}}` of a label after a
            tuple of labels, −∞ of one that it forbids; None: there is no language model.
        weight: :math:`\alpha`.
        bonus: :math:`\beta`, for each label: a language model alone prefers to say little.

    Returns:
        The prefixes left at the end, best first; of equal ones the shorter. None at all if no
        path is possible.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape or range.

    Source:
        Graves and Jaitly (2014), algorithm 1; Hannun et al. (2014), "First-pass large vocabulary
        continuous speech recognition using bi-directional recurrent DNNs", algorithm 1, here in
        logarithms.

    Example:
        >>> p = torch.tensor([[0.6, 0.4], [0.6, 0.4]])
        >>> best = ctc_beam_search(p.log())[0]
        >>> best.labels, round(math.exp(best.log_prob), 2)
        ((1,), 0.64)
    """
    if not isinstance(log_probs, Tensor) or log_probs.dim() != 2:
        got = tuple(log_probs.shape) if isinstance(log_probs, Tensor) else type(log_probs).__name__
        raise ValueError(f"log_probs: expected a tensor of shape (T, C), got {got}")
    check_size("beam", beam)
    check_number("weight", weight)
    check_number("bonus", bonus)
    check_blank(blank, log_probs.shape[1])
    if scorer is not None and not callable(scorer):
        raise TypeError(f"scorer: expected a function, got {type(scorer).__name__} ({scorer!r})")
    if not bool((log_probs < torch.inf).all()):
        raise ValueError("log_probs: expected logarithms of probabilities, got NaN or +∞")

    extra: dict[tuple[int, ...], float] = {(): 0.0}  # what language model and bonus add
    # of each prefix the log-probability, ending in a blank and in a label
    ends: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -math.inf)}
    for frame in log_probs.detach().to("cpu", torch.float64).tolist():
        new: dict[tuple[int, ...], tuple[float, float]] = {}
        for prefix, (in_blank, in_label) in ends.items():
            both = log_add(in_blank, in_label)
            _add(new, prefix, both + frame[blank], -math.inf)
            for label, log_p in enumerate(frame):
                if label == blank or log_p == -math.inf:
                    continue
                longer, before = (*prefix, label), both
                if prefix and prefix[-1] == label:
                    _add(new, prefix, -math.inf, in_label + log_p)  # the label goes on
                    before = in_blank  # only behind a blank does it come once more
                if before == -math.inf:
                    continue
                if longer not in extra:
                    say = scorer(prefix, label) if scorer and weight else 0.0  # not 0 · ∞
                    extra[longer] = extra[prefix] + weight * say + bonus
                _add(new, longer, -math.inf, before + log_p)
        best = sorted(new, key=lambda p: (-(log_add(*new[p]) + extra[p]), len(p), p))
        ends = {prefix: new[prefix] for prefix in best[:beam]}
    found = [Hypothesis(p, log_add(*two) + extra[p], log_add(*two)) for p, two in ends.items()]
    return sorted(found, key=lambda h: (-h.score, len(h.labels), h.labels))


def log_add(a: float, b: float) -> float:
    """log(exp a + exp b), also of −∞."""
    a, b = max(a, b), min(a, b)
    return a if b == -math.inf else a + math.log1p(math.exp(b - a))


def _add(
    table: dict[tuple[int, ...], tuple[float, float]],
    prefix: tuple[int, ...],
    in_blank: float,
    in_label: float,
) -> None:
    if in_blank == in_label == -math.inf:
        return
    blank, label = table.get(prefix, (-math.inf, -math.inf))
    table[prefix] = log_add(blank, in_blank), log_add(label, in_label)
