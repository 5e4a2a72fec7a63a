"""Connectionist temporal classification: the loss, and its recursion to be read."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from companion.checks import check_flag, check_size
from companion.models.parts import check_names, mean
from companion.run.plan import check_lengths

__all__ = ["collapse", "ctc_forward", "ctc_loss"]

NEVER = -1e30  # log of "impossible"; of −∞ the gradient would be NaN


def collapse(path: Sequence[int], blank: int = 0) -> list[int]:
    """What a path through the frames says: repetitions become one, then blanks go.

    Args:
        path: one label, or the blank, a frame.
        blank: which one says nothing.

    Returns:
        The labels.

    Example:
        >>> collapse([0, 3, 3, 0, 3, 1])
        [3, 3, 1]
    """
    following = zip([None, *path], path, strict=False)
    return [label for before, label in following if label not in (blank, before)]


def ctc_forward(log_probs: Tensor, target: Sequence[int] | Tensor, blank: int = 0) -> Tensor:
    r"""The log-probability of a target, by the forward recursion.

    With blanks before, between and behind its S labels the target is :math:`l'`, of length
    :math:`2S + 1`. :math:`\alpha_t(s)` is the probability of all paths through the first t
    frames that stand at :math:`l'_s`:

    .. math::

        \alpha_1(1) = p_1(l'_1), \quad \alpha_1(2) = p_1(l'_2), \qquad
        \alpha_t(s) = p_t(l'_s) \big(\alpha_{t-1}(s) + \alpha_{t-1}(s - 1)
        + [l'_s \ne l'_{s-2}]\, \alpha_{t-1}(s - 2)\big)

    (a blank equals the one two before it), and
    :math:`P = \alpha_T(2S + 1) + \alpha_T(2S)`. Everything in logarithms; the gradient is
    autograd's. :func:`ctc_loss` is the one to train with.

    Args:
        log_probs: (T, C), log-probabilities of the labels and the blank in each frame.
        target: the S labels, without blanks; 0 of them are allowed.
        blank: index of the blank.

    Returns:
        :math:`\log P`, a scalar; −∞, with a gradient of 0, if no path is possible.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or shape, the target holds a
            blank, or there are too few frames for it.

    Source:
        Graves et al. (2006), section 4.1.

    Example:
        >>> third = torch.full((3, 3), 1 / 3).log()
        >>> round(27 * ctc_forward(third, [1, 2]).exp().item(), 4)  # of 27 paths
        5.0
    """
    if not isinstance(log_probs, Tensor) or log_probs.dim() != 2:
        got = tuple(log_probs.shape) if isinstance(log_probs, Tensor) else type(log_probs).__name__
        raise ValueError(f"log_probs: expected a tensor of shape (T, C), got {got}")
    T, C = log_probs.shape
    check_blank(blank, C)
    labels = _labels("target", target, C, blank)
    _check_fit("target", T, labels)
    extended = [blank]
    for label in labels:
        extended += [label, blank]
    ext = torch.tensor(extended, device=log_probs.device)  # l', (2S + 1,)
    skip = torch.zeros_like(ext, dtype=torch.bool)
    skip[2:] = ext[2:] != ext[:-2]

    log_probs = _wide(log_probs).clamp(min=NEVER)
    alpha = log_probs.new_full((len(ext),), NEVER)  # before the first frame
    alpha[0] = 0
    for t in range(T):
        one = F.pad(alpha[:-1], (1, 0), value=NEVER)
        two = F.pad(alpha[:-2], (2, 0), value=NEVER)[: len(ext)].where(
            skip, alpha.new_tensor(NEVER)
        )
        alpha = torch.stack([alpha, one, two]).logsumexp(0) + log_probs[t, ext]
    total = alpha[-2:].logsumexp(0)
    return total.masked_fill(total < NEVER / 2, -torch.inf)


def ctc_loss(
    log_probs: Tensor,
    targets: Sequence[Sequence[int] | Tensor] | Tensor,
    lengths: Tensor | Sequence[int] | None = None,
    target_lengths: Tensor | Sequence[int] | None = None,
    *,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    r"""The negative log-probability of each target, summed over all its alignments; checked.

    ``torch.nn.functional.ctc_loss`` does the work. It would take a blank among the labels without
    a word, and give an infinite loss for a row with too few frames.

    Args:
        log_probs: (B, T, C), as ``log_softmax`` gives them; the batch comes first. Of half
            precision they are taken as float32.
        targets: B sequences of labels, or int (B, S) padded with anything.
        lengths: (B,) how many frames of each row are valid; default: all.
        target_lengths: (B,) how many labels of each row; needed with padded ``targets``, and
            only there.
        blank: index of the blank.
        reduction: ``"none"``: (B,); ``"sum"``; or ``"mean"``, where each row's loss is first
            divided by its number of labels (of an empty target by 1), as torch does.
        zero_infinity: let a row with too few frames pass, with a loss and a gradient of 0.

    Returns:
        The loss, a scalar or (B,). An empty target costs the log-probability of blanks alone.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or shape; if a target holds a
            blank or no label; if a row has fewer frames than labels and a blank between each two
            that are equal. The message names the row.

    Source:
        Graves et al. (2006), equation 8 of section 4.

    Example:
        >>> log_probs = torch.zeros(2, 3, 4).log_softmax(-1)
        >>> loss = ctc_loss(log_probs, [[1, 2], []], reduction="none")
        >>> (64 * (-loss).exp()).round().tolist()  # of 64 paths: 5 say "1 2", one says nothing
        [5.0, 1.0]
        >>> ctc_loss(log_probs, [[1, 2], [3, 3]], lengths=[3, 2])
        Traceback (most recent call last):
        ValueError: targets[1]: expected at least 3 frames (2 labels, 1 blank between equal ones),
            got 2
    """
    if not isinstance(log_probs, Tensor):
        raise TypeError(f"log_probs: expected a tensor, got {type(log_probs).__name__}")
    if log_probs.dim() != 3:
        raise ValueError(f"log_probs: expected shape (B, T, C), got {tuple(log_probs.shape)}")
    check_names("reduction", reduction, ("none", "sum", "mean"))
    check_flag("zero_infinity", zero_infinity)
    B, T, C = log_probs.shape
    known = check_lengths(lengths, B, T, True)
    frames = [T] * B if known is None else known.tolist()
    check_blank(blank, C)
    labels = _targets(targets, target_lengths, C, blank)
    if len(labels) != B:
        raise ValueError(f"targets: expected {B}, one for each row, got {len(labels)}")
    for b, (n, row) in enumerate(zip(frames, labels, strict=True)):
        if not zero_infinity:
            _check_fit(f"targets[{b}]", n, row)
    log_probs = _wide(log_probs)
    if B == 0 or T == 0:  # where torch has nothing to look at: all targets are empty
        loss = log_probs.sum((1, 2)) if T == 0 else log_probs.new_zeros(0) + log_probs.sum()
    else:
        # torch has no deterministic backward on CUDA, and raises where one is asked for
        aside = log_probs.is_cuda and torch.are_deterministic_algorithms_enabled()
        loss = F.ctc_loss(
            (log_probs.cpu() if aside else log_probs).transpose(0, 1),
            torch.tensor([k for row in labels for k in row], dtype=torch.long, device="cpu"),
            torch.tensor(frames, device="cpu"),
            torch.tensor([len(row) for row in labels], device="cpu"),
            blank,
            "none",
            zero_infinity,
        ).to(log_probs.device)
        if 0 in frames:  # torch 2.3 reads memory there that nobody wrote
            loss = loss.where(torch.tensor(frames, device=loss.device) > 0, loss.new_zeros(()))
    if reduction == "mean":
        return mean(loss / loss.new_tensor([max(len(row), 1) for row in labels]))
    return loss.sum() if reduction == "sum" else loss


def _wide(log_probs: Tensor) -> Tensor:
    return log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))


def check_blank(blank: Any, C: int) -> None:
    check_size("blank", blank, 0)
    if blank >= C:
        raise ValueError(f"blank: expected less than {C}, the size of log_probs, got {blank}")


def _targets(targets: Any, lengths: Any, C: int, blank: int) -> list[list[int]]:
    """The labels of each row; raise if one is a blank or no label at all."""
    if hasattr(targets, "shape"):  # a tensor or an array
        shape = tuple(targets.shape)
        if len(shape) != 2 or lengths is None:
            raise ValueError(
                "targets: expected sequences of labels, or a tensor (B, S) and target_lengths, "
                f"got shape {shape}{'' if lengths is not None else ' alone'}"
            )
        known = _target_lengths(lengths, *shape)
        targets = [row[:n] for row, n in zip(targets.tolist(), known, strict=True)]
    elif not isinstance(targets, Sequence) or isinstance(targets, str | bytes):
        raise TypeError(
            "targets: expected sequences of labels, or a tensor (B, S) and target_lengths, "
            f"got {type(targets).__name__} ({targets!r:.60})"
        )
    elif lengths is not None:
        raise ValueError(
            f"target_lengths: expected None with a sequence of targets, got {lengths!r:.60}"
        )
    return [_labels(f"targets[{b}]", row, C, blank) for b, row in enumerate(targets)]


def _labels(name: str, target: Any, C: int, blank: int) -> list[int]:
    """One target as ints; raise if one is a blank or no label at all."""
    row = target.tolist() if hasattr(target, "tolist") else target
    if not isinstance(row, Sequence) or isinstance(row, str | bytes):
        raise TypeError(
            f"{name}: expected a sequence of labels, got {type(target).__name__} ({target!r:.60})"
        )
    for label in row:
        if isinstance(label, bool) or not isinstance(label, Integral):  # NumPy's are Integral
            raise TypeError(f"{name}: expected integers, got {label!r}")
        if label == blank:
            raise ValueError(f"{name}: expected labels alone, got {blank}, the blank: {row}")
        if not 0 <= int(label) < C:
            raise ValueError(f"{name}: expected labels from 0 to {C - 1}, got {label}")
    return [int(label) for label in row]


def _target_lengths(lengths: Any, B: int, S: int) -> list[int]:
    """The lengths as a list; the message names the right argument."""
    try:
        known = check_lengths(lengths, B, S, True)
    except (TypeError, ValueError) as error:
        said = str(error).replace("the number of steps", "the columns of targets")
        raise type(error)(f"target_{said}") from None
    assert known is not None
    return known.tolist()


def _check_fit(name: str, frames: int, labels: Sequence[int]) -> None:
    equal = sum(a == b for a, b in zip(labels, labels[1:], strict=False))
    if frames < len(labels) + equal:
        between = f", {equal} blank{'s' * (equal > 1)} between equal ones" if equal else ""
        raise ValueError(
            f"{name}: expected at least {len(labels) + equal} frames ({len(labels)} "
            f"label{'s' * (len(labels) > 1)}{between}), got {frames}"
        )
