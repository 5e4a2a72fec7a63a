"""Encoder, bridge and decoder, and what they learn by."""

import math

import pytest
import torch

import companion
from companion.attention import MultiHeadAttention
from companion.models import (
    AttentionDecoder,
    Bridge,
    Decoder,
    Encoder,
    Seq2Seq,
    beam_search,
    generate,
    scheduled_objective,
    seq2seq_objective,
)
from companion.train import Trainer

V, E, H = 11, 5, 6
BOS, EOS = 0, 1
KINDS = {
    "plain": {},
    "luong": {"attention": "general"},
    "dot": {"attention": "dot"},
    "feeding": {"attention": "concat", "input_feeding": True},
    "bahdanau": {"attention": "additive", "query": "before"},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def made(kind="luong", vocab=V, cell="gru", layers=1, bidirectional=True, seed=0, **options):
    torch.manual_seed(seed)
    hidden = H // 2 if kind == "dot" and bidirectional else H
    encoder = Encoder(V, E, hidden, cell, layers, bidirectional)
    if kind == "plain":
        decoder = Decoder(vocab, E, H, cell, layers)
    else:
        memory = encoder.output_size
        decoder = AttentionDecoder(
            vocab, memory, E, H, cell=cell, num_layers=layers, **KINDS[kind]
        )
    return Seq2Seq(encoder, decoder, BOS, EOS, **options).double()


def batch(B=3, S=7, n=5, vocab=V):
    torch.manual_seed(1)
    source, target = torch.randint(V, (B, S)), torch.randint(2, vocab, (B, n))
    return source, torch.tensor([S, 2, 4][:B]), target, torch.tensor([n, 0, 3][:B])


def row_of(tokens):
    return torch.tensor(list(tokens), dtype=torch.int64)[None]


def wild(model, seed=2, scale=3.0):
    """Sharper distributions than those of a fresh model, which are nearly uniform."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=scale / math.sqrt(weight[0].numel() + 1))
    return model


@every_kind
@pytest.mark.parametrize("layers", [1, 2])
def test_one_call_equals_the_loop_of_steps(kind, layers):
    """Outputs and all gradients, also where an attention makes each step wait."""
    model = made(kind, layers=layers)
    source, S, target, n = batch()
    inputs, outputs, counted = model.shifted(target, n)
    whole, weights, _ = model.decoder(inputs, model.begin(source, S))
    written, steps, looks = model.begin(source, S), [], []
    for t in range(inputs.shape[1]):
        one, _, _ = model.decoder(inputs[:, t : t + 1], written)
        logits, look, written = model.decoder.step(inputs[:, t], written)
        torch.testing.assert_close(one[:, 0], logits, rtol=0, atol=1e-12)
        steps.append(logits)
        looks.append(look)
    torch.testing.assert_close(torch.stack(steps, 1), whole, rtol=0, atol=1e-12)
    if kind != "plain":
        torch.testing.assert_close(torch.stack(looks, 1), weights, rtol=0, atol=1e-12)
    seed = torch.randn_like(whole)
    own = list(model.parameters())
    got = torch.autograd.grad((torch.stack(steps, 1) * seed).sum(), own)
    torch.testing.assert_close(got, torch.autograd.grad((whole * seed).sum(), own))
    assert all(g.abs().sum() > 0 for g in got)  # attention reads what the encoder wrote (case 43)


@every_kind
def test_the_equations(kind):
    """One row, written out with the cells of the package and products alone."""
    model = made(kind)
    source, _, target, _ = batch(1, 4, 3)
    encoder, decoder = model.encoder, model.decoder
    with torch.no_grad():
        logits, weights = model(source, target)
        memory, h_n = encoder.recurrence(encoder.embedding(source))
        join = model.bridge.maps[0]
        h = torch.tanh(join.weight @ torch.cat([h_n[0, 0], h_n[1, 0]]) + join.bias)
        feed = torch.zeros(H, dtype=torch.float64)
        m = memory[0]
        for t, token in enumerate([BOS, *target[0].tolist()]):
            x = decoder.embedding.weight[token]
            if kind == "bahdanau":
                alpha = (decoder.attention(h[None, None], m[None]).weights)[0, 0]
                x = torch.cat([x, alpha @ m])
            if kind == "feeding":
                x = torch.cat([x, feed])
            h = decoder.recurrence.cell(0).step(x[None], h[None])[0][0]
            vector = h
            if kind != "plain":
                if kind != "bahdanau":
                    alpha = decoder.attention(h[None, None], m[None]).weights[0, 0]
                vector = feed = torch.tanh(decoder.combine.weight @ torch.cat([alpha @ m, h]))
                torch.testing.assert_close(weights[0, t], alpha)
            expected = decoder.output.weight @ vector + decoder.output.bias
            torch.testing.assert_close(logits[0, t], expected)


@every_kind
@pytest.mark.parametrize("bidirectional", [True, False])
def test_no_row_depends_on_padding_or_batch_mates(kind, bidirectional):
    """bentrevett#90, OpenNMT-py#272: the encoder read the padding, and so did the attention."""
    model = wild(made(kind, bidirectional=bidirectional))
    source, S, target, n = batch()
    spoiled, other = source.clone(), target.clone()
    for b in range(3):
        spoiled[b, S[b] :] = -7
        other[b, n[b] :] = 99
    longer = torch.nn.functional.pad(spoiled, (0, 3), value=500)
    logits, _ = model(longer, other, S, n)
    found = generate(model, longer, S, 6)
    best = beam_search(model, longer, S, 6, beam=3, n_best=3, length_penalty=0.7)
    for b in range(3):
        alone = source[b : b + 1, : S[b]]
        expected, _ = model(alone, target[b : b + 1, : n[b]])
        torch.testing.assert_close(logits[b : b + 1, : n[b] + 1], expected)
        assert generate(model, alone, None, 6)[0].tokens == found[b].tokens
        mine = beam_search(model, alone, None, 6, beam=3, n_best=3, length_penalty=0.7)[0]
        assert [t.tokens for t in mine] == [t.tokens for t in best[b]]


@pytest.mark.parametrize("name", companion.ARCHITECTURES)
@pytest.mark.parametrize("bidirectional", [True, False])
def test_every_architecture(name, bidirectional):
    """keon/seq2seq#32: both directions of the encoder reach the decoder, through every layer."""
    hidden = 8  # clockwork: a multiple of its periods
    encoder = Encoder(V, E, hidden, name, 2, bidirectional)
    decoder = AttentionDecoder(V, encoder.output_size, E, hidden, cell=name, num_layers=2)
    model = Seq2Seq(encoder, decoder, BOS, EOS, learned_bridge=True).double()
    loss, count, metrics = seq2seq_objective(model, batch())
    loss.backward()
    assert count == 5 + 0 + 3 + 3 and 0 <= metrics["accuracy"] <= 1
    assert all(m.weight.grad.abs().sum() > 0 for m in model.bridge.maps)
    assert len(generate(model, batch()[0], None, 4)) == 3


def test_a_bridge_that_passes_on():
    """Sutskever's: the same cell, one direction, no weights; the states are equal."""
    read = companion.LSTM(3, 4, 2, batch_first=True)
    write = companion.LSTM(5, 4, 2, batch_first=True)
    bridge = Bridge(read, write)
    state = read(torch.randn(2, 6, 3))[1]
    assert not list(bridge.parameters())
    assert all(torch.equal(a, b) for a, b in zip(bridge(state), state, strict=True))
    with pytest.raises(ValueError, match="num_layers: expected as many.*got 2 and 1"):
        Bridge(read, companion.LSTM(5, 4))


def test_a_bridge_joins_the_directions_of_each_layer():
    """Layer by layer, h from both h and c from both c; torch lays out (layer, direction)."""
    read = companion.LSTM(3, 4, 2, batch_first=True, bidirectional=True)
    bridge = Bridge(read, companion.LSTM(5, 6, 2))
    state = read(torch.randn(2, 7, 3))[1]
    first = bridge(state)
    for layer in range(2):
        for k in range(2):
            join = bridge.maps[2 * layer + k]
            forward, backward = state[k][2 * layer], state[k][2 * layer + 1]
            expected = torch.tanh(join(torch.cat([forward, backward], 1)))
            torch.testing.assert_close(first[k][layer], expected)
    with pytest.raises(TypeError, match="learned: expected True or False"):
        Bridge(read, read, learned=1)


@pytest.mark.parametrize(("name", "extra"), [("clockwork", 1), ("qrnn", 3 * 8)])
@pytest.mark.parametrize("learned", [True, False])
def test_a_bridge_leaves_what_is_no_feature_of_the_past(name, extra, learned):
    """The clockwork's time and the window of the QRNN start anew: the texts are two."""
    read, write = (companion.Recurrence(name, 3, 8, 2) for _ in range(2))
    bridge = Bridge(read, write, learned)
    y, state = read(torch.randn(2, 6, 3), lengths=[6, 3])
    assert state[1].any() and state[1].shape[2] == extra
    h, other = bridge(state)
    assert not other.any() and other.shape == state[1].shape
    assert learned or torch.equal(h, state[0])
    assert len(bridge.maps) == (2 if learned else 0)
    to_lstm = Bridge(read, companion.LSTM(3, 5, 2))
    assert [m.in_features for m in to_lstm.maps] == [8] * 4  # c, too, is made from h


def test_the_objective_is_the_likelihood():
    """The mean over all tokens and EOS, by hand: row 186, weighted by tokens."""
    model = wild(made())
    source, S, target, n = batch()
    loss, count, metrics = seq2seq_objective(model, (source, S, target, n))
    total, right = 0.0, 0
    for b in range(3):
        logits, _ = model(source[b : b + 1, : S[b]], target[b : b + 1, : n[b]])
        for z, y in zip(logits[0], [*target[b, : n[b]].tolist(), EOS], strict=True):
            total -= z.log_softmax(0)[y].item()
            right += int(z.argmax()) == y
    assert count == 11
    assert loss.item() == pytest.approx(total / 11)
    assert float(metrics["accuracy"]) == pytest.approx(right / 11)


@every_kind
@pytest.mark.parametrize("per", ["token", "sentence"])
def test_scheduled_sampling(kind, per):
    """At 1 it is teacher forcing; at 0 each step is told what the model wrote."""
    model = wild(made(kind))
    data = batch()
    told, _, _ = seq2seq_objective(model, data)
    torch.testing.assert_close(scheduled_objective(1.0, per)(model, data)[0], told)
    near = scheduled_objective(1 - 1e-12, per)(model, data)[0]  # the loop, every coin "told"
    torch.testing.assert_close(near, told)
    source, S, target, n = data
    written, token, total = model.begin(source, S), torch.full((3,), BOS), 0.0
    _, outputs, counted = model.shifted(target, n)
    for t in range(outputs.shape[1]):
        logits, _, written = model.decoder.step(token, written)
        log_p = logits.log_softmax(-1)
        token = log_p.argmax(-1)
        gained = log_p.gather(1, outputs[:, t : t + 1])[:, 0] * counted[:, t]
        total -= gained.sum().item()
    free = scheduled_objective(0.0, per)(model, data)[0]
    assert free.item() == pytest.approx(total / 11)
    assert not torch.isclose(free, told)
    model.eval()  # keon/seq2seq#8: an evaluation is a likelihood, whatever training did
    torch.testing.assert_close(scheduled_objective(0.0, per)(model, data)[0], told)


def test_coins_are_one_a_token_or_one_a_row():
    """What the decoder read differs from the target at most where its coin says so."""
    model = wild(made("plain"))
    source, _, target, _ = batch(n=9)
    inputs, seen = model.shifted(target)[0], []
    model.decoder.embedding.register_forward_hook(lambda module, x, y: seen.append(x[0]))
    for per in ("token", "sentence"):
        seen.clear()
        draws = torch.Generator().manual_seed(0)
        scheduled_objective(0.5, per, draws)(model, (source, None, target, None))
        own = torch.stack(seen, 1)[:, 1:] != inputs[:, 1:]
        draws = torch.Generator().manual_seed(0)
        coins = torch.rand((3, 10 if per == "token" else 1), generator=draws)
        free = (coins >= 0.5).expand(3, 10)[:, 1:]
        assert not own[~free].any()
        assert own[free].float().mean() > 0.5


def test_a_target_that_holds_eos():
    """No text that is written goes on after EOS: its likelihood would be one of nothing."""
    model, (source, S, target, n) = made(), batch()
    target[0, 4] = EOS
    for call in (lambda: model(source, target, S, n), lambda: model.shifted(target)):
        with pytest.raises(ValueError, match=r"target: expected no EOS \(1\)"):
            call()
    assert model(source, target, S, [4, 0, 3])[0].shape == (3, 6, V)  # as padding it may


@pytest.mark.parametrize("kind", ["feeding", "bahdanau"])
def test_one_mask_for_all_steps_or_none(kind):
    """Run step by step, recurrent dropout drew a mask for each step, and no one heard of it."""
    with pytest.raises(ValueError, match="recurrent_dropout: expected 0.*got 0.5"):
        AttentionDecoder(V, 12, E, H, **KINDS[kind], recurrent_dropout=0.5)
    decoder = AttentionDecoder(V, 12, E, H, recurrent_dropout=0.5)
    model = Seq2Seq(Encoder(V, E, H), decoder, BOS, EOS)
    seq2seq_objective(model, batch())[0].backward()
    with pytest.raises(ValueError, match="step: recurrent_dropout keeps one mask"):
        scheduled_objective(0.5)(model, batch())
    assert len(generate(model, batch()[0], None, 3)) == 3


def test_empty_sizes():
    for kind in KINDS:
        model = made(kind)
        none = torch.zeros(0, 4, dtype=torch.int64)
        assert model(none, none)[0].shape == (0, 5, V)
        assert generate(model, none) == [] and beam_search(model, none) == []
        nothing = torch.zeros(2, 0, dtype=torch.int64)
        logits, _ = model(nothing, nothing)
        assert logits.shape == (2, 1, V) and logits.isfinite().all()
        assert len(generate(model, nothing, None, 3)) == 2


def test_it_learns_to_turn_round():
    """Letters backwards, with attention, in a few seconds."""
    torch.manual_seed(0)
    encoder = Encoder(V, 16, 24)
    decoder = AttentionDecoder(V, encoder.output_size, 16, 32)
    model = Seq2Seq(encoder, decoder, BOS, EOS)
    source = torch.randint(2, V, (1500, 5))
    lengths = torch.full((1500,), 5)
    batches = [
        (source[i : i + 50], lengths[:50], source[i : i + 50].flip(1), lengths[:50])
        for i in range(0, 1500, 50)
    ]
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    Trainer(model, seq2seq_objective, adam, clip_norm=1.0, progress=False).fit(batches, epochs=6)
    unseen = torch.randint(2, V, (100, 5))
    right = [
        t.tokens == s.flip(0).tolist()
        for t, s in zip(generate(model, unseen), unseen, strict=True)
    ]
    assert sum(right) >= 90


def test_wrong_arguments_are_named():
    encoder, source = Encoder(V, E, H), batch()[0]
    decoder = AttentionDecoder(V, 12, E, H)
    model = Seq2Seq(encoder, decoder, BOS, EOS)
    for call, error, message in [
        (lambda: Seq2Seq(decoder, decoder, 0, 1), TypeError, "encoder: expected Encoder"),
        (lambda: Seq2Seq(encoder, encoder, 0, 1), TypeError, "decoder: expected Decoder"),
        (lambda: Seq2Seq(encoder, decoder, 0, V), ValueError, "eos: expected indices from 0"),
        (lambda: Seq2Seq(encoder, decoder, None, 1), TypeError, "bos: expected an int, got None"),
        (lambda: Seq2Seq(encoder, decoder, torch.tensor([0, 1]), 1), TypeError, "bos: expected"),
        (
            lambda: Seq2Seq(encoder, AttentionDecoder(V, 5, E, H), 0, 1),
            ValueError,
            "decoder: expected memory_size=12.*got 5",
        ),
        (lambda: AttentionDecoder(V, 12, attention="cosine"), ValueError, "attention: expected"),
        (
            lambda: AttentionDecoder(V, 12, attention=MultiHeadAttention(12, 2)),
            TypeError,
            "attention: expected a name or an Attention, got MultiHeadAttention",
        ),
        (lambda: AttentionDecoder(V, 12, query="during"), ValueError, "query: expected"),
        (
            lambda: AttentionDecoder(V, 12, query="before", input_feeding=True),
            ValueError,
            "input_feeding: expected False",
        ),
        (lambda: Decoder(V, bidirectional=True), ValueError, "bidirectional: expected False"),
        (lambda: model(source, source[0]), ValueError, "target: expected a tensor of shape"),
        (
            lambda: model(source, source[:2].clamp(min=2)),
            ValueError,
            "target: expected 3 rows, as the source has, got 2",
        ),
        (
            lambda: decoder(source[0], model.begin(source)),
            ValueError,
            r"tokens: expected shape \(3, T\), for the 3 rows.*got \(7,\)",
        ),
        (
            lambda: decoder.step(source, model.begin(source)),
            ValueError,
            r"token: expected shape \(3,\), for the 3 rows.*got \(3, 7\)",
        ),
        (lambda: model(source, source + 50), ValueError, "target: expected indices"),
        (lambda: model(source + 50, source.clamp(min=2)), ValueError, "tokens: expected indices"),
        (lambda: generate(model, source, None, 0), ValueError, "max_length: expected at least 1"),
        (lambda: beam_search(model, source, beam=0), ValueError, "beam: expected at least 1"),
        (
            lambda: beam_search(model, source, length_penalty=-1.0),
            ValueError,
            "length_penalty: expected at least 0",
        ),
        (
            lambda: beam_search(made("plain"), source, coverage_penalty=0.1),
            ValueError,
            "coverage_penalty: expected 0",
        ),
        (lambda: scheduled_objective(1.5), ValueError, "teacher_forcing: expected"),
        (lambda: scheduled_objective(0.5, "word"), ValueError, "per: expected one of"),
        (lambda: scheduled_objective(0.5, generator=3), TypeError, "generator: expected a torch"),
        (lambda: generate(model, source, generator=3), TypeError, "generator: expected a torch"),
    ]:
        with pytest.raises(error, match=message):
            call()
