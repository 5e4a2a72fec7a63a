"""Teacher forcing: a decoder over a whole known target in one call, against loops of steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from companion.bench.gated import compare
from companion.cells import flat_state
from companion.models import AttentionDecoder, Decoder, Encoder, Seq2Seq
from companion.models.decoder import Written

# B, T, H; the source has T steps, too
GRID = [
    (32, 30, 128),
    (8, 30, 256),
    (4, 12, 256),
    (1, 30, 128),
]
DECODERS = ["GRU", "LSTM", "GRU attention", "LSTM attention"]
VOCAB = 5000  # target tokens, as many as in the loop of the source notes
LEAST = 3  # turns

# what is divided by what, and what it tells
RATIOS = {
    f"{name} over one call{tail}": (name + tail, "one call" + tail)
    for tail in ("", ", forward alone")
    for name in ("tutorial", "calls", "steps")
}


class TutorialDecoder(nn.Module):
    """The loop most tutorials show: a call of ``torch.nn`` a token, results by index.

    Args:
        decoder: whose weights it shares; one layer.
        name: of the class of ``torch.nn``.
    """

    def __init__(self, decoder: Decoder, name: str) -> None:
        super().__init__()
        inner = decoder.recurrence
        self.rnn = getattr(nn, name)(inner.input_size, inner.hidden_size, batch_first=True)
        self.rnn.load_state_dict(inner.state_dict())
        self.decoder = decoder

    def forward(self, tokens: Tensor, written: Written) -> Tensor:
        """(B, T) -> (B, T, V)."""
        own, (memory, valid, _) = self.decoder, written.encoded
        state, logits = written.state, memory.new_zeros(*tokens.shape, own.vocab_size)
        for t in range(tokens.shape[1]):
            y, state = self.rnn(own.embedding(tokens[:, t])[:, None], state)
            if isinstance(own, AttentionDecoder):
                context, _ = own.attention(y, memory, valid, written.keys)
                y = torch.tanh(own.combine(torch.cat([context, y], 2)))
            logits[:, t] = own.output(y[:, 0])
        return logits


def runs(name: str, H: int) -> tuple[Seq2Seq, dict[str, Callable[..., Tensor]]]:
    """A model, and the ways to run its decoder: tokens (B, T) and a start give (B, T, V)."""
    cell, attends = name.split()[0], "attention" in name
    encoder = Encoder(VOCAB, H, H, cell.lower(), bidirectional=False)
    decoder = (
        AttentionDecoder(VOCAB, H, H, H, cell=cell.lower())
        if attends
        else Decoder(VOCAB, H, H, cell.lower())
    )

    def calls(tokens: Tensor, written: Written) -> Tensor:
        logits = []
        for token in tokens.split(1, 1):
            one, _, written = decoder(token, written)
            logits.append(one)
        return torch.cat(logits, 1)

    def steps(tokens: Tensor, written: Written) -> Tensor:
        logits = []
        for token in tokens.unbind(1):
            one, _, written = decoder.step(token, written)
            logits.append(one)
        return torch.stack(logits, 1)

    return Seq2Seq(encoder, decoder, bos=0, eos=1), {
        "one call": lambda tokens, written: decoder(tokens, written)[0],
        "tutorial": TutorialDecoder(decoder, cell),
        "calls": calls,
        "steps": steps,
    }


def candidates(name: str, B: int, T: int, H: int) -> dict[str, Callable[[], object]]:
    """Forward and backward of each way, and forward alone; the encoder is not measured.

    Raises:
        AssertionError: if two ways do not give the same logits.
    """
    model, ways = runs(name, H)
    source, tokens = torch.randint(2, VOCAB, (2, B, T))
    with torch.no_grad():
        written = model.begin(source)
        expected = ways["one call"](tokens, written)
        for run in ways.values():
            torch.testing.assert_close(run(tokens, written), expected, rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(expected)
    given = [*flat_state(written.state), written.encoded.memory]
    given += [] if written.keys is None else [written.keys]
    for x in given:
        x.requires_grad_()  # as in training, where they go back to the encoder

    def train(run: Callable[..., Tensor]) -> None:
        part = run if isinstance(run, TutorialDecoder) else model.decoder
        torch.autograd.grad(
            run(tokens, written), [*part.parameters(), *given], weight, allow_unused=True
        )

    @torch.no_grad()
    def forward(run: Callable[..., Tensor]) -> None:
        run(tokens, written)

    found: dict[str, Callable[[], object]] = {}
    for way, run in ways.items():
        found[way] = partial(train, run)
        found[f"{way}, forward alone"] = partial(forward, run)
    return found


def measure(seconds: float, rounds: int, grid: list[tuple[int, ...]]) -> dict[str, dict[str, Any]]:
    """As :func:`companion.bench.gated.measure`, for decoders and shapes (B, T, H)."""
    return compare(DECODERS, candidates, RATIOS, seconds, rounds, grid, "B,T,H", LEAST)
