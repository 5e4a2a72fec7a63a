"""Writing without a target, against every text there is and against the slow way."""

import itertools
import math

import pytest
import torch

from companion.attention import GeneralAttention, LocalAttention
from companion.models import AttentionDecoder, Encoder, Seq2Seq, beam_search, generate
from tests.models.test_seq2seq import (
    BOS,
    EOS,
    E,
    H,
    V,
    batch,
    every_kind,
    made,
    row_of,
    wild,
)


def exhaustive(model, source, max_length, length_penalty, coverage_penalty):
    """Every finished text of at most ``max_length`` tokens with its score."""
    found = []
    vocab = [y for y in range(model.decoder.vocab_size) if y != EOS]
    for n in range(max_length):
        for text in itertools.product(vocab, repeat=n):
            target = row_of(text)
            logits, weights = model(source, target)
            log_p = logits[0].log_softmax(-1)
            total = sum(float(p[y]) for p, y in zip(log_p, [*text, EOS], strict=True))
            score = total / ((5 + n + 1) / 6) ** length_penalty
            if coverage_penalty:
                covered = weights[0].sum(0)
                score += coverage_penalty * sum(math.log(min(float(c), 1.0)) for c in covered)
            found.append((score, list(text), total))
    return sorted(found, reverse=True)


@every_kind
@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (0.6, 0.0), (2.0, 0.0), (0.6, 0.4)])
@torch.no_grad()
def test_a_beam_that_holds_everything_is_brute_force(kind, a, b):
    if kind == "plain":
        b = 0.0
    for seed in range(3):
        model = wild(made(kind, vocab=3, seed=seed), seed)
        source = torch.randint(V, (1, 5))
        expected = exhaustive(model, source, 5, a, b)[:4]
        found = beam_search(
            model, source, None, 5, beam=16, length_penalty=a, coverage_penalty=b, n_best=4
        )[0]
        assert [t.tokens for t in found] == [text for _, text, _ in expected]
        assert [t.score for t in found] == pytest.approx([score for score, _, _ in expected])
        assert [t.log_prob for t in found] == pytest.approx([total for _, _, total in expected])
        assert all(t.finished for t in found)


@every_kind
@torch.no_grad()
def test_what_a_narrow_beam_returns(kind):
    """Its hypotheses are exact, and more beams never find a less likely best one here."""
    model = wild(made(kind, vocab=5))
    source, S, *_ = batch()
    greedy = generate(model, source, S, 6)
    one = beam_search(model, source, S, 6, beam=1, n_best=2)
    for b, row in enumerate(one):
        alone = source[b : b + 1, : S[b]]
        for t in row:
            tail = [EOS] if t.finished else []
            logits, weights = model(alone, row_of(t.tokens))
            log_p = logits[0].log_softmax(-1)
            steps = [*t.tokens, *tail]
            total = sum(float(p[y]) for p, y in zip(log_p, steps, strict=False))
            assert t.log_prob == pytest.approx(total)
            if kind != "plain":
                torch.testing.assert_close(t.weights[:, : S[b]], weights[0, : len(steps)])
        finished = [t for t in row if t.finished]
        # one beam follows the greedy path, and may rather end on the way
        if finished and not greedy[b].finished:
            assert finished[0].tokens == greedy[b].tokens[: len(finished[0].tokens)]


@torch.no_grad()
def test_early_stopping_waits_for_a_better_one():
    """EOS at once has 0.4; "2" and then EOS has 0.6 · 0.9: more likely, found later."""
    model = made("plain", vocab=3)
    logits = {(): [0.0, 0.4, 0.6], (2,): [0.05, 0.9, 0.05]}

    def step(token, written):
        p = logits[()] if int(token[0]) == BOS else logits[(2,)]
        return torch.tensor(p, dtype=torch.float64).log().expand(len(token), 3), None, written

    model.decoder.step = step
    source = torch.zeros(1, 2, dtype=torch.int64)
    assert beam_search(model, source, None, 5, beam=1)[0][0].tokens == [2]
    assert beam_search(model, source, None, 5, beam=1)[0][0].log_prob == pytest.approx(
        math.log(0.54)
    )


@every_kind
@torch.no_grad()
def test_greedy_and_sampled(kind):
    model = wild(made(kind))
    source, S, *_ = batch()
    model.train()
    for b, t in enumerate(generate(model, source, S, 8)):
        alone, text, steps = source[b : b + 1, : S[b]], [], 0
        while steps < 8:  # the slow way: everything anew for each token
            logits, _ = model(alone, row_of(text))
            y, steps = int(logits[0, -1].argmax()), steps + 1
            if y == EOS:
                break
            text.append(y)
        assert t.tokens == text and t.finished == (len(text) < steps)
        if kind != "plain":
            assert t.weights.shape == (steps, 7) and not t.weights[:, S[b] :].any()
    assert model.training and model.encoder.training
    draws = [
        generate(model, source, S, 8, temperature=2.0, generator=torch.Generator().manual_seed(5))
        for _ in range(2)
    ]
    assert [t.tokens for t in draws[0]] == [t.tokens for t in draws[1]]
    assert [t.tokens for t in draws[0]] != [t.tokens for t in generate(model, source, S, 8)]


@torch.no_grad()
def test_scores_that_mean_nothing():
    """A beam search used to return no hypothesis at all, without a word."""
    source = batch()[0]
    for value in (math.nan, math.inf, -math.inf):
        model = made()
        model.decoder.output.bias[:] = value
        for write in (generate, beam_search):
            with pytest.raises(ValueError, match="logits: expected a finite largest score"):
                write(model, source, None, 3)
    model = made()
    model.decoder.output.bias[:] = -math.inf
    model.decoder.output.bias[EOS] = 0.0  # every other token is forbidden
    (found,) = beam_search(model, source[:1], None, 3, n_best=3)
    assert [(t.tokens, t.log_prob) for t in found] == [([], 0.0)]


@torch.no_grad()
def test_coverage_where_an_attention_never_looks():
    """Weights of exactly 0 made the scores -inf, all of them equal."""
    encoder = Encoder(V, E, H)
    attention = LocalAttention(GeneralAttention(H, 12), 1)
    decoder = AttentionDecoder(V, 12, E, H, attention)
    model = Seq2Seq(encoder, decoder, BOS, EOS).double()
    found = beam_search(model, batch()[0], None, 3, coverage_penalty=0.5, n_best=4)
    for row in found:
        scores = [t.score for t in row]
        assert all(map(math.isfinite, scores)) and min(scores) < -300
        assert scores == sorted(scores, reverse=True)


def test_bytes_hold_sources():
    """uint8 tokens, and a target vocabulary that no byte holds."""
    model = Seq2Seq(Encoder(V, E, H), AttentionDecoder(300, 12, E, H), 298, 299)
    source = batch()[0]
    small = source.to(torch.uint8)
    assert [t.tokens for t in generate(model, small, None, 4)] == [
        t.tokens for t in generate(model, source, None, 4)
    ]
    logits = model(source, source)[0]
    torch.testing.assert_close(model(small, small)[0], logits, rtol=0, atol=0)
