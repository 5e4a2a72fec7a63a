"""Text classifiers, and how a sequence becomes one vector."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from companion import models
from companion.models import AttentionPooling, TextClassifier, pool_last, pool_max, pool_mean
from companion.train import Trainer

POOLINGS = ("last", "max", "mean", "attention")
every_pooling = pytest.mark.parametrize("pooling", POOLINGS)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_last_is_the_final_state_of_torch(bidirectional):
    """Case 47: the backward half is that of the FIRST step, as torch's h_n has it."""
    torch.manual_seed(0)
    model = TextClassifier(9, 3, 4, 5, "gru", bidirectional=bidirectional, dtype=torch.float64)
    reference = torch.nn.GRU(4, 5, batch_first=True, bidirectional=bidirectional).double()
    reference.load_state_dict(model.recurrence.state_dict())
    tokens, lengths = torch.randint(9, (3, 6)), torch.tensor([6, 2, 4])
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        model.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
    )
    _, h_n = reference(packed)
    want = F.linear(torch.cat(list(h_n), 1), model.output.weight, model.output.bias)
    torch.testing.assert_close(model(tokens, lengths), want)


def test_poolings_by_hand():
    y = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [0.0, 0.0]], [[0.0] * 2] * 3])
    valid = torch.tensor([[True, True, False], [False] * 3])
    assert pool_last(y, valid).tolist() == [[3, -2], [0, 0]]
    assert pool_last(y, valid, 2).tolist() == [[3, -4], [0, 0]]
    assert pool_max(y, valid).tolist() == [[3, -2], [0, 0]]  # not the 0 of the padding
    assert pool_mean(y, valid).tolist() == [[2, -3], [0, 0]]


def test_attention_by_hand():
    pool = AttentionPooling(1)
    for p, value in zip(pool.parameters(), (1.0, 0.0, 2.0), strict=True):
        p.data.fill_(value)
    y = torch.tensor([[[1.0], [-1.0], [0.0]]])
    e = 2 * torch.tensor([1.0, -1.0]).tanh()
    a = e.exp() / e.exp().sum()
    valid = torch.tensor([[True, True, False]])
    torch.testing.assert_close(pool.weights(y, valid)[0], torch.tensor([*a, 0.0]))
    torch.testing.assert_close(pool(y, valid), (a[0] - a[1]).view(1, 1))


@every_pooling
def test_length_0_gives_the_bias_and_finite_gradients(pooling):
    model = TextClassifier(9, 3, 4, 5, pooling=pooling, bidirectional=True)
    logits = model(torch.randint(9, (3, 4)), [4, 0, 2])
    assert torch.equal(logits[1], model.output.bias)
    logits.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    assert torch.equal(model(torch.zeros(2, 0).long()), model.output.bias.expand(2, 3))


@every_pooling
def test_padding_and_batch_mates_change_nothing(pooling):
    torch.manual_seed(0)
    model = TextClassifier(
        9, 3, 4, 5, num_layers=2, bidirectional=True, pooling=pooling, dtype=torch.float64
    )
    tokens, lengths = torch.randint(9, (3, 6)), [6, 2, 4]
    y = model(tokens, lengths)
    for b, n in enumerate(lengths):
        torch.testing.assert_close(model(tokens[b : b + 1, :n]), y[b : b + 1])
    tokens[1, 2:], tokens[2, 4:] = -1, 10**6
    assert torch.equal(model(tokens, lengths), y)


def test_padding_idx_stays_zero():
    model = TextClassifier(9, 3, 4, 5, padding_idx=2)
    model(torch.randint(9, (3, 6))).sum().backward()
    assert model.embedding.weight[2].eq(0).all() and model.embedding.weight.grad[2].eq(0).all()


def test_dropout_acts_while_training_alone():
    torch.manual_seed(0)
    model, tokens = TextClassifier(9, 3, 4, 5, dropout=0.5, num_layers=2), torch.randint(9, (2, 5))
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))


@every_pooling
def test_learns_which_token_is_there(pooling):
    """Whether token 1 occurs anywhere: all poolings can tell, after a few steps."""
    torch.manual_seed(0)
    tokens = torch.randint(2, 9, (64, 8))
    labels = torch.arange(64) % 2
    tokens[torch.arange(64), torch.randint(8, (64,))] = torch.where(labels == 1, 1, 2)
    batch = tokens, torch.full((64,), 8), labels
    model = TextClassifier(9, 2, 8, 16, "gru", pooling=pooling)
    adam = torch.optim.Adam(model.parameters(), lr=2e-2)
    trainer = Trainer(model, models.classification_objective, adam, progress=False)
    history = trainer.fit([batch], epochs=60)
    assert history.train_metrics["accuracy"][-1] > 0.95


def test_objective_by_hand():
    model = TextClassifier(9, 2, 4, 5)
    torch.nn.init.zeros_(model.output.weight)
    model.output.bias.data = torch.tensor([0.0, 1.0])
    labels = torch.tensor([1, 1, 0])
    loss, rows, metrics = models.classification_objective(
        model, (torch.randint(9, (3, 4)), [4, 1, 2], labels)
    )
    log_p = torch.tensor([0.0, 1.0]).log_softmax(0)
    torch.testing.assert_close(loss, -(2 * log_p[1] + log_p[0]) / 3)
    assert rows == 3 and metrics["accuracy"].item() == pytest.approx(2 / 3)
    unknown = torch.tensor([1, -100, 0], dtype=torch.int32)
    loss, rows, metrics = models.classification_objective(
        model, (torch.randint(9, (3, 4)), [4, 1, 2], unknown)
    )
    torch.testing.assert_close(loss, -(log_p[1] + log_p[0]) / 2)
    assert rows == 2 and metrics["accuracy"].item() == 0.5


@pytest.mark.parametrize("rows", [0, 2])
def test_objective_of_nothing(rows):
    model = TextClassifier(9, 2, 4, 5)
    labels = torch.full((rows,), -100)
    loss, count, metrics = models.classification_objective(
        model, (torch.zeros(rows, 4).long(), [1] * rows, labels)
    )
    assert (loss.item(), count, metrics["accuracy"].item()) == (0, 0, 0)
    loss.backward()


def test_errors_name_the_argument():
    model = TextClassifier(9, 3, 4, 5)
    tokens = torch.randint(9, (2, 5))
    cases = [
        (lambda: TextClassifier(0, 3), ValueError, "vocab_size: expected at least 1, got 0"),
        (lambda: TextClassifier(9, 0), ValueError, "classes: expected at least 1, got 0"),
        (lambda: TextClassifier(9, 3, pooling="first"), ValueError, "pooling: .*'first'"),
        (lambda: TextClassifier(9, 3, padding_idx=9), ValueError, "padding_idx: .*less than 9"),
        (lambda: TextClassifier(9, 3, dropout=2), ValueError, "dropout: .* 0 and 1, got 2"),
        (lambda: model(tokens[0]), ValueError, r"tokens: expected shape \(B, T\), got \(5,\)"),
        (lambda: model(tokens.float()), TypeError, "tokens: expected integers.*float32"),
        (lambda: model(tokens + 9), ValueError, "tokens: expected indices from 0 to 8"),
        (lambda: model(tokens - 9), ValueError, "tokens: expected indices from 0 to 8.*got -"),
        (lambda: model(tokens, [6, 1]), ValueError, "lengths: expected values from 0 to 5"),
        (lambda: model(tokens.tolist()), TypeError, "tokens: expected a tensor, got list"),
        (
            lambda: models.classification_objective(model, (tokens, None, torch.tensor([0, 3]))),
            ValueError,
            r"^labels: expected indices from 0 to 2 \(classes is 3\), got 3",
        ),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
