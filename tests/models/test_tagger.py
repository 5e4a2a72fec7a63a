"""Taggers."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from companion.models import Tagger, tagging_objective
from companion.train import Trainer


def test_one_step_by_transcription():
    """Embedding, recurrence, matrix: written out for a vanilla RNN of one direction."""
    torch.manual_seed(0)
    model = Tagger(7, 3, 4, 5, "rnn", bidirectional=False, dtype=torch.float64)
    w, tokens = model.recurrence.state_dict(), torch.randint(7, (2, 4))
    h, rows = torch.zeros(2, 5, dtype=torch.float64), []
    for t in range(4):
        x = model.embeddings[0].weight[tokens[:, t]]
        h = torch.tanh(
            x @ w["weight_ih_l0"].T + w["bias_ih_l0"] + h @ w["weight_hh_l0"].T + w["bias_hh_l0"]
        )
        rows.append(h @ model.output.weight.T + model.output.bias)
    torch.testing.assert_close(model(tokens), torch.stack(rows, 1))


def test_features_stand_one_behind_the_other():
    torch.manual_seed(0)
    model = Tagger((7, 3), 2, (4, 2), 5)
    assert model.recurrence.input_size == 6
    tokens = torch.stack([torch.randint(7, (2, 4)), torch.randint(3, (2, 4))], 2)
    x = torch.cat([model.embeddings[k].weight[tokens[..., k]] for k in (0, 1)], 2)
    torch.testing.assert_close(model(tokens), model.output(model.recurrence(x)[0]))
    one = Tagger((7,), 2, 4, 5)
    assert one(tokens[..., :1]).shape == (2, 4, 2)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_what_a_label_may_depend_on(bidirectional):
    torch.manual_seed(0)
    model = Tagger(7, 3, 4, 5, bidirectional=bidirectional, dtype=torch.float64)
    tokens = torch.randint(7, (1, 6))
    other = tokens.clone()
    other[0, 4] = (other[0, 4] + 1) % 7
    same = (model(tokens) == model(other)).all(2)[0].tolist()
    assert same == ([False] * 6 if bidirectional else [True] * 4 + [False] * 2)


def test_objective_counts_valid_and_known_tags_alone():
    torch.manual_seed(0)
    model, tokens = Tagger(7, 3, 4, 5), torch.randint(7, (3, 4))
    tags = torch.tensor([[0, 1, 2, 0], [1, 9, 9, 9], [2, -100, 9, 9]])
    loss, count, metrics = tagging_objective(model, (tokens, torch.tensor([4, 1, 2]), tags))
    logits = model(tokens, [4, 1, 2])
    wanted = [(0, t) for t in range(4)] + [(1, 0), (2, 0)]
    losses = [F.cross_entropy(logits[b, t], tags[b, t]) for b, t in wanted]
    right = [logits[b, t].argmax() == tags[b, t] for b, t in wanted]
    assert count == 6
    torch.testing.assert_close(loss, torch.stack(losses).mean())
    torch.testing.assert_close(metrics["accuracy"], torch.stack(right).float().mean())
    narrow, _, _ = tagging_objective(model, (tokens, torch.tensor([4, 1, 2]), tags.int()))
    assert torch.equal(narrow, loss)


def test_objective_of_nothing():
    model = Tagger(7, 3, 4, 5)
    loss, count, _ = tagging_objective(
        model, (torch.zeros(2, 3).long(), [0, 0], torch.zeros(2, 3).long())
    )
    assert (loss.item(), count) == (0.0, 0)


def test_the_next_token_as_label_needs_the_backward_direction():
    torch.manual_seed(0)
    tokens = torch.randint(4, (64, 10))
    batch = tokens, torch.full((64,), 9), tokens.roll(-1, 1)
    accuracy = {}
    for both in (False, True):
        model = Tagger(4, 4, 8, 16, "gru", bidirectional=both)
        adam = torch.optim.Adam(model.parameters(), lr=2e-2)
        trainer = Trainer(model, tagging_objective, adam, progress=False)
        accuracy[both] = trainer.fit([batch], epochs=40).train_metrics["accuracy"][-1]
    assert accuracy[True] > 0.95 and accuracy[False] < 0.6  # chance is 1 / 4


def test_errors_name_the_argument():
    model, tokens = Tagger((7, 3), 2), torch.zeros(2, 4, 2).long()
    cases = [
        (lambda: Tagger(7, 0), ValueError, "tags: expected at least 1, got 0"),
        (lambda: Tagger((), 3), ValueError, r"^vocab_size: .*each feature, got \(\)"),
        (lambda: Tagger((7, 3), 2, (4,)), ValueError, "embedding_dim: .*each of 2 features"),
        (lambda: Tagger((7, -1), 2), ValueError, "vocab_size: expected at least 1, got -1"),
        (lambda: model(tokens[..., 0]), ValueError, r"tokens: expected shape \(B, T, 2\)"),
        (lambda: model(tokens + 3), ValueError, r"tokens\[..., 1\]: .*from 0 to 2 .*got 3"),
        (lambda: Tagger(7, 2)(tokens), ValueError, r"tokens: expected shape \(B, T\)"),
        (
            lambda: tagging_objective(model, (tokens, [4, 4], torch.zeros(2, 3).long())),
            ValueError,
            r"tags: expected shape \(2, 4\)",
        ),
        (
            lambda: tagging_objective(model, (tokens, [4, 1], torch.tensor([[0, 1, 2, 0]] * 2))),
            ValueError,
            r"^tags: expected indices from 0 to 1 \(tags is 2\), got 2",
        ),
        (
            lambda: tagging_objective(model, (tokens, [4, 1], torch.zeros(2, 4))),
            TypeError,
            "^tags: expected integers, got torch.float32",
        ),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
