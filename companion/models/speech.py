"""Frames of a recording in, labels out, without an alignment between the two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.base import check_tensor
from companion.cells.noise import check_probability
from companion.checks import check_size, check_sizes
from companion.models.ctc import ctc_loss
from companion.models.parts import Layers, layers, valid_steps

__all__ = ["SpeechRecognizer", "speech_objective"]


class SpeechRecognizer(nn.Module):
    r"""Perhaps convolutions, a recurrence, and in each frame a distribution over labels and blank.

    .. math::

        h_{1..T'} = \mathrm{recurrence}(\mathrm{convolutions}(x_1, \dots, x_T)), \qquad
        \log p_t = \log\mathrm{softmax}(W h_t + b)

    A convolution of kernel size k and stride s reads (k − 1) / 2 frames on either side and gives
    :math:`T' = \lceil T / s \rceil` frames. What lies beyond a recording is 0 to it, in a padded
    row as in one alone. Frames must stay at least as many as labels, and one more for each two
    equal neighbors: see :func:`ctc_loss`.

    Args:
        input_size: features of a frame, :math:`D`.
        labels: how many there are, without the blank; they are 1 … ``labels``, and 0 is the
            blank.
        hidden_size: number of hidden units of each direction, :math:`H`.
        cell: name of an architecture, a subclass of :class:`companion.Cell`, or a list of such
            words: a :class:`Backbone`.
        num_layers: number of stacked layers.
        bidirectional: whether a frame may depend on later ones; without it the network can be
            used while somebody is still speaking.
        dropout: while training, probability of dropping an output of a layer.
        convolutions: (channels, kernel size, stride) of each convolution, with odd kernel sizes;
            each is followed by ReLU.
        device, dtype: of the weights.
        options: further keyword arguments of :class:`companion.Recurrence`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Source:
        Graves et al. (2006) for the network; Amodei et al. (2016) for convolutions in front.

    Example:
        >>> model = SpeechRecognizer(13, 10, hidden_size=8, convolutions=[(16, 5, 2)])
        >>> log_probs, lengths = model(torch.randn(2, 21, 13), lengths=[21, 14])
        >>> log_probs.shape, lengths.tolist()
        (torch.Size([2, 11, 11]), [11, 7])
    """

    blank = 0

    def __init__(
        self,
        input_size: int,
        labels: int,
        hidden_size: int = 128,
        cell: Layers = "lstm",
        num_layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,
        convolutions: Sequence[tuple[int, int, int]] = (),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        check_sizes(input_size=(input_size, 1), labels=(labels, 1))
        self.dropout = check_probability("dropout", dropout)
        self.input_size, self.labels = input_size, labels
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        self.convolutions = nn.ModuleList()
        width = input_size
        if not isinstance(convolutions, Sequence):
            raise TypeError(
                "convolutions: expected a sequence of (channels, kernel size, stride), "
                f"got {type(convolutions).__name__} ({convolutions!r})"
            )
        for n, parts in enumerate(convolutions):
            channels, kernel, stride = _checked_convolution(n, parts)
            self.convolutions.append(
                nn.Conv1d(width, channels, kernel, stride, padding=kernel // 2, **new)
            )
            width = channels
        self.recurrence = layers(
            cell,
            width,
            hidden_size,
            num_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            **new,
            **options,
        )
        self.output = nn.Linear(self.recurrence.output_size, labels + 1, **new)

    def out_lengths(self, lengths: Tensor) -> Tensor:
        """How many frames the network gives for recordings of these lengths, int (B,).

        Raises:
            TypeError: if the lengths are no tensor of integers.
        """
        if not isinstance(lengths, Tensor) or lengths.is_floating_point():
            got = lengths.dtype if isinstance(lengths, Tensor) else type(lengths).__name__
            raise TypeError(f"lengths: expected a tensor of integers, got {got}")
        for convolution in self.convolutions:
            lengths = -(-lengths // convolution.stride[0])  # type: ignore[index]
        return lengths

    def forward(
        self, frames: Tensor, lengths: Tensor | Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the labels in each frame.

        Args:
            frames: (B, T, D); padding may hold NaN.
            lengths: (B,) how many frames of each row are valid; default: all.

        Returns:
            (B, T', labels + 1), index 0 being the blank, those at padding without a meaning; and
            int64 (B,), on the CPU, how many of the T' frames are valid.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        """
        check_tensor("frames", frames, self.output.weight)
        if frames.dim() != 3 or frames.shape[2] != self.input_size:
            raise ValueError(
                f"frames: expected shape (B, T, {self.input_size}), got {tuple(frames.shape)}"
            )
        B, T, _ = frames.shape
        valid = valid_steps(lengths, B, T, frames.device)
        count = valid.sum(1).cpu()
        x = frames.masked_fill(~valid[..., None], 0)
        for convolution in self.convolutions if T else ():
            x = F.relu(convolution(x.transpose(1, 2)).transpose(1, 2))
            count = -(-count // convolution.stride[0])  # type: ignore[index]
            # the bias has filled the padding, which the next one would read
            valid = valid_steps(count, B, x.shape[1], x.device)
            x = x.masked_fill(~valid[..., None], 0)
        if T == 0:
            x = x.new_zeros(B, 0, self.recurrence.input_size)
        y, _ = self.recurrence(x, lengths=count)
        return self.output(F.dropout(y, self.dropout, self.training)).log_softmax(-1), count


def _checked_convolution(n: int, parts: Any) -> tuple[int, int, int]:
    if not isinstance(parts, tuple | list) or len(parts) != 3:
        raise ValueError(
            f"convolutions[{n}]: expected (channels, kernel size, stride), got {parts!r}"
        )
    for name, value in zip(("channels", "kernel size", "stride"), parts, strict=True):
        check_size(f"convolutions[{n}]: {name}", value)
    if parts[1] % 2 == 0:
        raise ValueError(f"convolutions[{n}]: kernel size: expected an odd number, got {parts[1]}")
    return tuple(parts)


def speech_objective(
    model: SpeechRecognizer, batch: tuple[Tensor, Any, Any]
) -> tuple[Tensor, int]:
    """What :class:`companion.train.Trainer` minimizes for a recognizer: the CTC loss.

    Args:
        model: the recognizer.
        batch: frames (B, T, D), lengths (B,), and B sequences of labels, each from 1 up.

    Returns:
        The mean over the recordings of the negative log-probability of what is said, in nats, 0
        of no recording; and their number.

    Example:
        >>> model = SpeechRecognizer(13, 10, hidden_size=8)
        >>> loss, rows = speech_objective(model, (torch.randn(2, 9, 13), [9, 7], [[3, 3, 10], []]))
        >>> loss.shape, rows
        (torch.Size([]), 2)
    """
    frames, lengths, targets = batch
    log_probs, count = model(frames, lengths)
    loss = ctc_loss(log_probs, targets, count, blank=model.blank, reduction="sum")
    return loss / max(len(frames), 1), len(frames)
