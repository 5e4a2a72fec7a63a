"""Language models: equations, noise, carried state, sampling, likelihood."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from torch.nn import functional as F

import companion
from companion.cells import flat_state
from companion.data import stream_batches
from companion.models import (
    LanguageModel,
    LockedDropout,
    activation_penalty,
    bits,
    language_model_objective,
    next_token_probabilities,
)
from companion.train import Trainer

from ..helpers import every_architecture

V = 11


def make(cell="lstm", embedding=4, hidden=5, num_layers=2, **options):
    torch.manual_seed(0)
    return LanguageModel(V, embedding, hidden, cell, num_layers, dtype=torch.float64, **options)


# ---------------------------------------------------------------- the network


def test_equals_torch_layers_written_out():
    model, tokens = make(), torch.randint(V, (3, 6))
    x = model.embedding.weight[tokens]
    for layer in model.layers:
        reference = torch.nn.LSTM(layer.input_size, 5, batch_first=True).double()
        reference.load_state_dict(layer.state_dict())
        x, _ = reference(x)
    want = x @ model.projection.weight.T @ model.embedding.weight.T + model.bias
    torch.testing.assert_close(model(tokens)[0], want)


@pytest.mark.parametrize(
    "embedding, tied, count",
    [
        (4, True, V * 4 + 4 * 5 + V),  # table, projection, bias
        (5, True, V * 5 + V),
        (4, False, V * 4 + 5 * V + V),
    ],
)
def test_how_many_weights_tying_takes(embedding, tied, count):
    model = make(embedding=embedding, tied=tied)
    inside = sum(p.numel() for p in model.layers.parameters())
    assert sum(p.numel() for p in model.parameters()) - inside == count


def test_tied_table_learns_from_both_sides():
    model, tokens = make(embedding=5), torch.zeros(1, 3).long()
    model(tokens)[0][..., 7].sum().backward()
    grad = model.embedding.weight.grad
    assert grad[0].abs().sum() > 0  # read
    assert grad[7].abs().sum() > 0  # predicted
    assert grad[[1, 2, 3]].abs().sum() == 0


@every_architecture
def test_step_carried_state_and_reset(name):
    model, tokens = make(name, hidden=8), torch.randint(V, (2, 7))
    logits, final = model(tokens)
    first, state = model(tokens[:, :3])
    second, state = model(tokens[:, 3:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), logits)
    state, rows = model.initial_state(2), []
    for t in range(7):
        row, state = model.step(tokens[:, t], state)
        rows.append(row)
    torch.testing.assert_close(torch.stack(rows, 1), logits)
    for a, b in zip(final, state, strict=True):
        for p, q in zip(flat_state(a), flat_state(b), strict=True):
            torch.testing.assert_close(p, q)
    reset = torch.zeros(2, 7, dtype=torch.bool)
    reset[:, 3] = True
    torch.testing.assert_close(model(tokens, reset=reset)[0][:, 3:], model(tokens[:, 3:])[0])


def test_causal():
    model, tokens = make(), torch.randint(V, (2, 7))
    later = tokens.clone()
    later[:, 4:] = 0
    torch.testing.assert_close(model(later)[0][:, :4], model(tokens)[0][:, :4])


# ---------------------------------------------------------------- noise


def test_locked_dropout_keeps_its_mask_and_the_mean():
    torch.manual_seed(0)
    y = LockedDropout(0.25)(torch.ones(2000, 3, 4))
    assert (y == y[:, :1]).all() and y.unique().tolist() == pytest.approx([0, 4 / 3])
    assert y.mean().item() == pytest.approx(1, abs=0.03)
    assert (y[:, 0].std(0) > 0).all()  # rows differ
    x = torch.randn(2, 3, 4)
    assert LockedDropout(0.25).eval()(x) is x


def test_words_are_dropped_wherever_they_stand():
    model = make(word_dropout=0.5)
    tokens = torch.arange(V).repeat(2, 3)  # each word six times
    embedded = model.embed(tokens).view(6, V, -1)
    kept = embedded.abs().sum(-1) > 0
    assert (kept == kept[0]).all() and 0 < kept[0].sum() < V
    whole = model.embedding.weight.expand(6, V, -1)
    torch.testing.assert_close(embedded[kept], 2 * whole[kept])
    assert torch.equal(model.eval().embed(tokens).view(6, V, -1), whole)


@pytest.mark.parametrize(
    "noise",
    [{"dropout": 0.5}, {"dropout": (0, 0.5, 0)}, {"word_dropout": 0.5}, {"weight_drop": 0.5}],
)
def test_noise_acts_while_training_alone(noise):
    model, tokens = make(**noise), torch.randint(V, (2, 5))
    assert not torch.equal(model(tokens)[0], model(tokens)[0])
    with pytest.raises(ValueError, match=r"step: dropout keeps one mask.*eval\(\)"):
        model.step(tokens[:, 0])
    model.eval()
    plain = make()
    plain.load_state_dict(
        {
            name.replace("parametrizations.", "").removesuffix(".original"): w
            for name, w in model.state_dict().items()
        }
    )
    assert torch.equal(model(tokens)[0], plain(tokens)[0])
    model.step(tokens[:, 0])


def test_weight_drop_trains_the_raw_weight():
    """Cases 37 to 39: never in evaluation, never in place, and the raw weight has the gradient."""
    model, tokens = make(weight_drop=0.5), torch.randint(V, (2, 5))
    raw = {n: p for n, p in model.named_parameters() if n.endswith("original")}
    assert len(raw) == 2
    before = {n: p.clone() for n, p in raw.items()}
    model(tokens)[0].sum().backward()
    for n, p in raw.items():
        assert torch.equal(p, before[n]) and p.grad.abs().sum() > 0


def test_activation_penalty_by_hand():
    raw = torch.tensor([[[1.0, 0.0], [3.0, 1.0], [3.0, 5.0]]])
    dropped = torch.tensor([[[2.0, 0.0], [0.0, 2.0], [0.0, 10.0]]])
    assert activation_penalty(raw, dropped, 1, 0).item() == pytest.approx((4 + 4 + 100) / 6)
    assert activation_penalty(raw, dropped, 0, 1).item() == pytest.approx((4 + 1 + 0 + 16) / 4)
    reset = torch.tensor([[True, False, True]])
    assert activation_penalty(raw, dropped, 0, 1, reset).item() == pytest.approx((4 + 1) / 2)
    one = raw[:, :1]
    assert activation_penalty(one, one, 0, 1).item() == 0  # no pair, no NaN


# ---------------------------------------------------------------- sampling


def test_distributions_by_hand():
    z = torch.tensor([[0.125, 0.5, 0.25, 0.125]], dtype=torch.float64).log()
    cases = [
        ({}, [1 / 8, 1 / 2, 1 / 4, 1 / 8]),
        ({"temperature": 0}, [0, 1, 0, 0]),
        ({"temperature": 0.5}, [1 / 22, 16 / 22, 4 / 22, 1 / 22]),  # squares
        ({"temperature": 1e-300}, [0, 1, 0, 0]),
        ({"top_k": 1}, [0, 1, 0, 0]),
        ({"top_k": 2}, [0, 2 / 3, 1 / 3, 0]),
        ({"top_k": 3}, [1 / 7, 4 / 7, 2 / 7, 0]),  # of two equal ones the first
        ({"top_k": 99}, [1 / 8, 1 / 2, 1 / 4, 1 / 8]),
        ({"top_p": 0.01}, [0, 1, 0, 0]),
        ({"top_p": 0.6}, [0, 2 / 3, 1 / 3, 0]),
        ({"top_p": 0.8}, [1 / 7, 4 / 7, 2 / 7, 0]),
        ({"top_p": 1.0}, [1 / 8, 1 / 2, 1 / 4, 1 / 8]),
        # the nucleus is taken of what top-k left: 2/3 and 1/3, of which 2/3 are enough
        ({"top_k": 2, "top_p": 0.6}, [0, 1, 0, 0]),
        # after the temperature 16/22 are enough
        ({"temperature": 0.5, "top_p": 0.7}, [0, 1, 0, 0]),
    ]
    for options, want in cases:
        p = next_token_probabilities(z, **options)
        torch.testing.assert_close(p[0], torch.tensor(want, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-38, 1e-46, 1e-310, 5e-324])
def test_a_temperature_near_0_is_its_limit(dtype, temperature):
    z = torch.tensor([-1.0, 0.0, -math.inf, 0.0, -2.0], dtype=dtype)
    assert next_token_probabilities(z, temperature).tolist() == [0, 0.5, 0, 0.5, 0]
    assert next_token_probabilities(z[:3], temperature).tolist() == [0, 1, 0]


def test_an_endless_temperature_is_its_limit():
    z = torch.tensor([-1.0, 0.0, -math.inf, 5.0])
    assert next_token_probabilities(z, 1e300).tolist() == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])


def test_the_whole_nucleus_leaves_nothing_out():
    """Of many tokens a rounded sum reaches 1 before the last ones."""
    z = torch.randn(50_000, generator=torch.Generator().manual_seed(9))
    p = next_token_probabilities(z)
    ordered = p.sort(descending=True).values
    assert ((ordered.cumsum(0) - ordered >= 1) & (ordered > 0)).any()
    assert torch.equal(next_token_probabilities(z, top_p=1.0), p)


def test_samples_follow_the_distribution():
    """Chi-square of 4000 first tokens against the model's own probabilities."""
    model = make("gru", num_layers=1)
    model.bias.data.copy_(torch.randn(V))
    prompt = torch.tensor([[3, 1, 4]])
    p = next_token_probabilities(model(prompt)[0][0, -1], 0.7, top_k=6)
    drawn = model.sample(
        prompt.expand(4000, 3),
        1,
        temperature=0.7,
        top_k=6,
        generator=torch.Generator().manual_seed(0),
    )
    counts = drawn[:, 0].bincount(minlength=V).double()
    assert counts[p == 0].sum() == 0 and int((p > 0).sum()) == 6
    expected = 4000 * p[p > 0]
    assert ((counts[p > 0] - expected) ** 2 / expected).sum() < 20.5  # 99.9 % of chi2 with 5


def test_sampling_reads_every_token_once_and_equals_recomputation():
    model = make("lstm", dropout=0.5, weight_drop=0.5)
    model.layers[1].eval()
    modes = [m.training for m in model.modules()]
    steps = 0

    def count(*_):
        nonlocal steps
        steps += 1

    original = model.step
    model.step = lambda *a: (count(), original(*a))[1]
    prompt = torch.randint(V, (2, 4))
    drawn = model.sample(prompt, 5, temperature=0)
    assert steps == 4 and [m.training for m in model.modules()] == modes
    model.eval()
    text = prompt
    for _ in range(5):
        text = torch.cat([text, model(text)[0][:, -1:].argmax(-1)], 1)
    assert torch.equal(drawn, text[:, 4:])
    assert torch.equal(model.sample(prompt[0], 5, temperature=0), drawn[0])
    assert model.sample(prompt, 0).shape == (2, 0)
    assert model.sample(prompt[:0], 3).shape == (0, 3)


def test_sampling_is_repeatable():
    model, prompt = make(), torch.tensor([1])
    a, b, c = (
        model.sample(prompt, 20, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(a, b) and not torch.equal(a, c)
    assert not a.requires_grad


# ---------------------------------------------------------------- likelihood


def test_objective_is_the_mean_over_tokens():
    model, x, y = make(), torch.randint(V, (2, 5)), torch.randint(V, (2, 5))
    y[0, 3] = -100
    loss, tokens, state = language_model_objective(model, (x, y, None))
    log_p = model(x)[0].log_softmax(-1)
    each = [log_p[b, t, y[b, t]] for b in range(2) for t in range(5) if (b, t) != (0, 3)]
    assert tokens == 9 and len(state) == 2
    torch.testing.assert_close(loss, -torch.stack(each).mean())
    none = language_model_objective(model, (x, torch.full_like(y, -100), None))
    assert (none[0].item(), none[1]) == (0.0, 0)


def test_objective_with_penalty():
    model = make(dropout=0.5)
    x, y, reset = torch.randint(V, (2, 5)), torch.randint(V, (2, 5)), torch.rand(2, 5) < 0.3
    objective = functools.partial(language_model_objective, ar=2.0, tar=1.0)
    torch.manual_seed(1)
    loss, _, metrics, _ = objective(model, (x, y, reset))
    torch.manual_seed(1)
    raw, dropped, _ = model.features(x, None, reset)
    nll = F.cross_entropy(model.decode(dropped).flatten(0, 1), y.flatten())
    torch.testing.assert_close(metrics["nll"], nll.detach())
    torch.testing.assert_close(loss, nll + activation_penalty(raw, dropped, 2, 1, reset))
    loss, _, metrics, _ = objective(model.eval(), (x, y, reset))
    assert torch.equal(loss.detach(), metrics["nll"])


def test_evaluation_in_pieces_is_that_of_the_whole():
    """Case 46: whatever the length of a piece, and of the last, perplexity is one number."""
    model, text = make(), torch.randint(V, (101,))
    found = set()
    for steps in (1, 7, 25, 50):
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = Trainer(model, language_model_objective, sgd, stateful=True, progress=False)
        mean = trainer.evaluate(stream_batches(text, batch_size=2, steps=steps))
        assert mean.weight == 98
        found.add(round(math.exp(mean.loss), 8))
    assert len(found) == 1
    with pytest.raises(ValueError, match=r"state.*: expected shape \(1, 2, 5\), got \(1, 3, 5\)"):
        model(torch.zeros(2, 4).long(), model.initial_state(3))


def test_learns_a_cycle():
    torch.manual_seed(0)
    text = torch.arange(600) % 5
    model = LanguageModel(5, 8, 16, "gru")
    adam = torch.optim.Adam(model.parameters(), lr=2e-2)
    trainer = Trainer(model, language_model_objective, adam, stateful=True, progress=False)
    history = trainer.fit(stream_batches(text, batch_size=4, steps=10), epochs=6)
    assert history.train_loss[-1] < 0.18
    assert model.sample(torch.tensor([0, 1, 2]), 6, temperature=0).tolist() == [3, 4, 0, 1, 2, 3]


def test_bits():
    assert bits(torch.tensor(1.0)) == pytest.approx(1.4426950)


# ---------------------------------------------------------------- bad input


def test_errors_name_the_argument():
    model, tokens = make(), torch.randint(V, (2, 5))
    z = torch.zeros(3)
    cases = [
        (lambda: make(dropout=(0.1, 0.2)), ValueError, "dropout: expected a number or three"),
        (lambda: make(weight_drop=1.5), ValueError, "weight_drop: .*0 and 1, got 1.5"),
        (lambda: make(num_layers=0), ValueError, "num_layers: expected at least 1, got 0"),
        (lambda: make(bidirectional=True), ValueError, "bidirectional: expected False"),
        (lambda: make(tied="yes"), TypeError, "tied: expected True or False"),
        (lambda: model(tokens + V), ValueError, "tokens: expected indices from 0 to 10"),
        (
            lambda: model(tokens, (1,)),
            TypeError,
            "state: expected a tuple of 2, one of each.*got 1",
        ),
        (lambda: model.step(tokens), ValueError, r"tokens: expected shape \(B,\), got \(2, 5\)"),
        (
            lambda: model.sample(tokens[:, :0], 3),
            ValueError,
            "prompt: .*T of at least 1, got .2, 0.",
        ),
        (lambda: model.sample(tokens + V, 3), ValueError, "prompt: expected indices"),
        (lambda: model.sample(tokens, -1), ValueError, "steps: expected at least 0, got -1"),
        (lambda: model.sample(tokens, 1, top_k=0), ValueError, "top_k: .*at least 1, got 0"),
        (lambda: next_token_probabilities(z, -1), ValueError, "temperature: .*at least 0"),
        (lambda: next_token_probabilities(z, math.inf), ValueError, "temperature: .*finite"),
        (lambda: next_token_probabilities(z, top_p=0), ValueError, "top_p: .*more than 0"),
        (lambda: next_token_probabilities(z, top_p=1.5), ValueError, "top_p: .*at most 1"),
        (lambda: next_token_probabilities(z.long()), TypeError, "logits: .*floating-point"),
        (lambda: next_token_probabilities(z[:0]), ValueError, r"logits: expected shape"),
        (lambda: next_token_probabilities(z * math.nan), ValueError, "^logits: .*got nan"),
        (lambda: next_token_probabilities(z * math.nan, 0), ValueError, "^logits: .*got nan"),
        (lambda: next_token_probabilities(z + math.inf), ValueError, "^logits: .*got inf"),
        (lambda: next_token_probabilities(z - math.inf), ValueError, "^logits: .*got -inf"),
        (lambda: model.sample(tokens, 1, generator=3), TypeError, "^generator: .*got int"),
        (lambda: LockedDropout(0.5)(z[None]), ValueError, r"^x: .*\(B, T, F\), got \(1, 3\)"),
        (
            lambda: language_model_objective(model, (tokens, tokens[:, :3], None)),
            ValueError,
            r"^y: expected shape \(2, 5\).*got \(2, 3\)",
        ),
        (
            lambda: language_model_objective(model, (tokens, tokens + V, None)),
            ValueError,
            "^y: expected indices from 0 to 10",
        ),
        (
            lambda: language_model_objective(model, (tokens, tokens.float(), None)),
            TypeError,
            "^y: expected integers, got torch.float32",
        ),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()


def test_weight_drop_needs_a_recurrent_matrix():
    class Sum(companion.Cell):
        recurrent_weights = ()

        def __init__(self, input_size, hidden_size, bias=True, **new):
            super().__init__(input_size, hidden_size)
            self.weight_ih = self.weight(hidden_size, input_size, **new)
            self.reset_parameters()

    with pytest.raises(ValueError, match="this cell has no weight_hh"):
        LanguageModel(V, 4, 5, Sum, weight_drop=0.5)
