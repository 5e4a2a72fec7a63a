"""A sequence in, another sequence out: encoder, bridge and decoder, and how they learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.noise import check_probability
from companion.checks import check_generator, check_size
from companion.models.decoder import Decoder, Written
from companion.models.encoder import Bridge, Encoder
from companion.models.parts import check_names, check_tokens, valid_steps
from companion.run.tracing import is_exported

__all__ = ["Seq2Seq", "scheduled_objective", "seq2seq_objective"]


class Seq2Seq(nn.Module):
    r"""Encoder, bridge and decoder.

    .. math::

        p(y_1, \dots, y_n, \mathrm{EOS} \mid x) = \prod_{t=1}^{n+1} p(y_t \mid y_{<t}, x)

    Targets are given without special tokens. The model puts BOS in front of what the decoder
    reads and EOS behind what it is to write, so that the two cannot be shifted against each
    other, and a text ends where the model says so.

    Args:
        encoder: reads the source.
        decoder: writes the target; an :class:`AttentionDecoder` looks back at the source.
        bos, eos: target tokens.
        learned_bridge: as ``learned`` of :class:`Bridge`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Source:
        Sutskever, Vinyals and Le (2014); Cho et al. (2014).

    Example:
        >>> from companion.models import AttentionDecoder
        >>> model = Seq2Seq(Encoder(100, 16, 12), AttentionDecoder(50, 24, 16, 12), bos=0, eos=1)
        >>> source, target = torch.randint(100, (2, 7)), torch.randint(2, 50, (2, 5))
        >>> logits, weights = model(source, target, [7, 4], [5, 3])
        >>> logits.shape, weights.shape  # one step more than the target: EOS
        (torch.Size([2, 6, 50]), torch.Size([2, 6, 7]))
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        bos: int,
        eos: int,
        *,
        learned_bridge: bool = False,
    ) -> None:
        super().__init__()
        for name, part, kind in (("encoder", encoder, Encoder), ("decoder", decoder, Decoder)):
            if not isinstance(part, kind):
                raise TypeError(f"{name}: expected {kind.__name__}, got {type(part).__name__}")
        memory = getattr(getattr(decoder, "attention", None), "memory_size", encoder.output_size)
        if memory != encoder.output_size:
            raise ValueError(
                f"decoder: expected memory_size={encoder.output_size}, the output of the encoder, "
                f"got {memory}"
            )
        for name, token in (("bos", bos), ("eos", eos)):
            check_size(name, token, 0)
            check_tokens(name, torch.tensor(token), decoder.vocab_size)
        self.encoder, self.decoder, self.bos, self.eos = encoder, decoder, bos, eos
        like = encoder.embedding.weight
        self.bridge = Bridge(
            encoder.recurrence, decoder.recurrence, learned_bridge, like.device, like.dtype
        )

    def begin(self, source: Tensor, lengths: Tensor | Sequence[int] | None = None) -> Written:
        """Read sources (B, S); return where the decoder stands before its first step."""
        encoded = self.encoder(source, lengths)
        return self.decoder.start(encoded, self.bridge(encoded.state))

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_lengths: Tensor | Sequence[int] | None = None,
        target_lengths: Tensor | Sequence[int] | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Scores of the target when each step is told the right token before it.

        Args:
            source: integers (B, S).
            target: integers (B, n), without BOS and EOS; padding may hold any integer.
            source_lengths, target_lengths: (B,); default: all.

        Returns:
            the logits (B, n + 1, V), of which those at step t of a row are for its token t + 1,
            and after the last one for EOS; those at padding mean nothing. And the weights of
            attention (B, n + 1, S), or None.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, values or device.
        """
        inputs, _, _ = self.shifted(target, target_lengths)
        written = self.begin(source, source_lengths)
        if len(target) != len(source):
            raise ValueError(
                f"target: expected {len(source)} rows, as the source has, got {len(target)}"
            )
        logits, weights, _ = self.decoder(inputs, written)
        return logits, weights

    def shifted(
        self, target: Tensor, lengths: Tensor | Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What the decoder reads, what it is to write, and which of these steps count.

        Args:
            target: integers (B, n), without BOS and EOS.
            lengths: (B,) how many are valid; default: all.

        Returns:
            three tensors (B, n + 1): BOS and the target; the target and EOS; bool.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, values or device; if
                a target holds EOS, which would end it: no text that is written goes on after it.
        """
        if not isinstance(target, Tensor) or target.dim() != 2:
            got = tuple(target.shape) if isinstance(target, Tensor) else type(target).__name__
            raise ValueError(f"target: expected a tensor of shape (B, n), got {got}")
        B, n = target.shape
        valid = valid_steps(lengths, B, n, target.device)
        target = check_tokens("target", target, self.decoder.vocab_size, valid)
        if not is_exported() and bool(((target == self.eos) & valid).any()):
            raise ValueError(
                f"target: expected no EOS ({self.eos}): the model puts it behind the last of the "
                "valid tokens itself; pass lengths where a row is padded with it"
            )
        target = target.masked_fill(~valid, self.eos)
        inputs = F.pad(target, (1, 0), value=self.bos)
        outputs = F.pad(target, (0, 1), value=self.eos)
        return inputs, outputs, F.pad(valid, (1, 0), value=True)


def seq2seq_objective(
    model: Seq2Seq, batch: tuple[Tensor, Tensor, Tensor, Tensor]
) -> tuple[Tensor, int, dict[str, Tensor]]:
    """What :class:`companion.train.Trainer` minimizes with teacher forcing: nats a token.

    Args:
        model: the whole of it.
        batch: source (B, S), its lengths (B,), target (B, n) without special tokens, its lengths.

    Returns:
        The mean negative log-likelihood over the tokens of the batch, each row's EOS included;
        their number; and the share of tokens that get the highest score, ``"accuracy"``.

    Example:
        >>> model = Seq2Seq(Encoder(9, 4, 4, bidirectional=False), Decoder(9, 4, 4), bos=0, eos=1)
        >>> batch = torch.full((2, 3), 5), torch.tensor([3, 2]), torch.full((2, 4), 7), [4, 1]
        >>> loss, count, _ = seq2seq_objective(model, batch)
        >>> count  # 4 and 1, and EOS twice
        7
    """
    source, source_lengths, target, target_lengths = batch
    logits, _ = model(source, target, source_lengths, target_lengths)
    _, outputs, counted = model.shifted(target, target_lengths)
    return _likelihood(logits, outputs, counted)


def scheduled_objective(
    teacher_forcing: float, per: str = "token", generator: torch.Generator | None = None
) -> Callable[[Seq2Seq, Any], tuple[Tensor, int, dict[str, Tensor]]]:
    """Make an objective in which the decoder is sometimes told what it wrote itself.

    In training each token (or each row) has a coin of its own: with probability
    ``teacher_forcing`` the next step is told the right token, otherwise the one with the highest
    score. In evaluation the right one is told always: the loss is then a likelihood, and its
    exponential a perplexity, whatever was done in training.

    Args:
        teacher_forcing: probability of telling the right token.
        per: ``"token"`` or ``"sentence"``, what a coin decides about.
        generator: throws the coins, on the CPU; default: torch's own.

    Returns:
        an objective like :func:`seq2seq_objective`.

    Source:
        Bengio et al. (2015), "Scheduled sampling", who sample the token; we take the likeliest.

    Example:
        >>> model = Seq2Seq(Encoder(9, 4, 4, bidirectional=False), Decoder(9, 4, 4), bos=0, eos=1)
        >>> batch = torch.full((2, 3), 5), torch.tensor([3, 2]), torch.full((2, 4), 7), [4, 1]
        >>> told, _, _ = scheduled_objective(1.0)(model, batch)
        >>> bool(told == seq2seq_objective(model, batch)[0])
        True
    """
    check_probability("teacher_forcing", teacher_forcing)
    check_names("per", per, ("token", "sentence"))
    check_generator(generator)

    def objective(model: Seq2Seq, batch: Any) -> tuple[Tensor, int, dict[str, Tensor]]:
        if not model.training or teacher_forcing == 1:
            return seq2seq_objective(model, batch)
        source, source_lengths, target, target_lengths = batch
        inputs, outputs, counted = model.shifted(target, target_lengths)
        B, T = inputs.shape
        shape = (B, T) if per == "token" else (B, 1)
        told = (torch.rand(shape, generator=generator) < teacher_forcing).expand(B, T)
        told = told.to(inputs.device)
        written, token, steps = model.begin(source, source_lengths), inputs[:, 0], []
        for t in range(T):
            logits, _, written = model.decoder.step(token, written)
            steps.append(logits)
            if t + 1 < T:
                token = torch.where(told[:, t + 1], inputs[:, t + 1], logits.argmax(-1))
        return _likelihood(torch.stack(steps, 1), outputs, counted)

    return objective


def _likelihood(
    logits: Tensor, outputs: Tensor, counted: Tensor
) -> tuple[Tensor, int, dict[str, Tensor]]:
    """Mean over the counted steps, their number, and the share that is right."""
    count = int(counted.sum())
    logits, outputs = logits[counted], outputs[counted]
    loss = F.cross_entropy(logits, outputs, reduction="sum") / max(count, 1)
    right = (logits.detach().argmax(-1) == outputs).sum() / max(count, 1)
    return loss, count, {"accuracy": right}
