"""What holds of each model, with each architecture inside."""

from __future__ import annotations

import copy
import io
import math

import pytest
import torch

import companion
from companion import models

from ..helpers import every_architecture

V, C, D, F = 11, 3, 2, 4
NEW = {"dtype": torch.float64}


def classifier(cell, **options):
    return models.TextClassifier(V, C, 5, 8, cell, **NEW, **options)


def tagger(cell, **options):
    return models.Tagger(V, C, 5, 8, cell, **NEW, **options)


def language_model(cell, **options):
    return models.LanguageModel(V, 5, 8, cell, **NEW, **options)


def forecaster(cell, **options):
    return models.Forecaster(D, F, 8, cell, **NEW, **options)


def recognizer(cell, **options):
    return models.SpeechRecognizer(D, C, 8, cell, **NEW, **options)


MAKERS = {
    "classifier": classifier,
    "tagger": tagger,
    "language model": language_model,
    "forecaster": forecaster,
    "recognizer": recognizer,
}
every_maker = pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
series_models = pytest.mark.parametrize(
    "model",
    [
        models.TCN(D, F, 6, 2, **NEW),
        models.NBEATS(D, 8, F, 2, 6, **NEW),
        models.TransformerForecaster(D, F, 8, 2, 1, **NEW),
        models.LinearForecaster(D, 8, F, **NEW),
        models.SeasonalNaive(F, 3, D),
    ],
    ids=lambda model: type(model).__name__,
)


def inputs(maker, B=4, T=8):
    if maker in (forecaster, recognizer):
        return torch.randn(B, T, D, **NEW)
    return torch.randint(V, (B, T))


def result(model, x, lengths=None):
    """The main output; of a recognizer, without the frames that mean nothing."""
    y = model(x, lengths=lengths)
    if isinstance(model, models.SpeechRecognizer):
        return torch.cat([row[:n] for row, n in zip(*y, strict=True)])
    if isinstance(model, models.LanguageModel):
        n = [x.shape[1]] * len(x) if lengths is None else lengths
        return torch.cat([row[:k] for row, k in zip(y[0], n, strict=True)])
    return y


@every_architecture
@every_maker
def test_learns_with_every_architecture(maker, name):
    """Every weight is used: the gradient of the result reaches it."""
    torch.manual_seed(0)
    # the slowest units of a clockwork network first read their own state at step 9
    model, x = maker(name, num_layers=2), inputs(maker, T=12)
    assert all(p.dtype == torch.float64 for p in model.parameters())
    result(model, x).square().sum().backward()
    for weight, p in model.named_parameters():
        assert p.grad is not None and p.grad.isfinite().all(), weight
        assert p.grad.abs().sum() > 0, weight


@every_architecture
@every_maker
def test_padding_and_batch_mates_change_nothing(maker, name):
    model, x = maker(name, num_layers=2), inputs(maker)
    lengths = [8, 1, 5, 3]
    junk = -7 if x.dtype == torch.int64 else math.nan
    for row, n in zip(x, lengths, strict=True):
        row[n:] = junk
    whole = result(model, x, lengths)
    if maker is tagger:
        parts = [result(model, x[b : b + 1, :n]) for b, n in enumerate(lengths)]
        for b, part in enumerate(parts):
            torch.testing.assert_close(whole[b : b + 1, : lengths[b]], part, rtol=0, atol=1e-12)
            assert whole[b, lengths[b] :].eq(0).all()
    else:
        alone = torch.cat([result(model, x[b : b + 1, :n]) for b, n in enumerate(lengths)])
        torch.testing.assert_close(whole, alone, rtol=0, atol=1e-12)


@every_maker
def test_gradients_do_not_see_padding(maker):
    model, x = maker("gru"), inputs(maker)
    lengths, grads = [8, 2, 5, 3], []
    for junk in (0, 1):
        for row, n in zip(x, lengths, strict=True):
            row[n:] = junk
        grads.append(
            torch.autograd.grad(result(model, x, lengths).sum(), list(model.parameters()))
        )
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@every_maker
def test_state_dict_round_trip_and_copies(maker):
    torch.manual_seed(0)
    model, fresh, x = maker("lstm", num_layers=2), maker("lstm", num_layers=2), inputs(maker)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    assert not torch.equal(result(fresh, x), result(model, x))
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(result(fresh, x), result(model, x))
    assert torch.equal(result(copy.deepcopy(model), x), result(model, x))
    tensors = list(model.state_dict().values())  # safetensors writes no tensor under two names
    assert len({t.untyped_storage().data_ptr() for t in tensors}) == len(tensors)


@every_maker
@pytest.mark.parametrize("B, T", [(0, 5), (3, 1)])
def test_no_rows_and_one_step(maker, B, T):
    y = maker("lstm")(inputs(maker, B, T))
    assert (y[0] if isinstance(y, tuple) else y).shape[0] == B


@pytest.mark.parametrize("maker", [classifier, tagger, language_model, recognizer])
def test_no_steps(maker):
    y = maker("lstm")(inputs(maker, 2, 0))
    y = y[0] if isinstance(y, tuple) else y
    assert y.shape[0] == 2 and y.isfinite().all()


@every_maker
def test_single_precision_and_bfloat16(maker):
    torch.manual_seed(0)
    model, x = maker("gru"), inputs(maker)
    wide = result(model, x).detach()
    for dtype, tol in ((torch.float32, 1e-5), (torch.bfloat16, 0.1)):
        z = x if x.dtype == torch.int64 else x.to(dtype)
        y = result(copy.deepcopy(model).to(dtype), z)
        assert y.dtype == dtype
        torch.testing.assert_close(y.double(), wide, rtol=tol, atol=tol)


@every_maker
def test_options_reach_the_recurrence(maker):
    model = maker("lstm", forget_bias=2.0, recurrent_dropout=0.5)
    layer = model.layers[0] if maker is language_model else model.recurrence
    assert layer.options["forget_bias"] == 2.0 and layer.recurrent_dropout == 0.5
    with pytest.raises(ValueError, match="cell: expected one of .*got 'lstmm'"):
        maker("lstmm")
    with pytest.raises(ValueError, match="batch_first: not an option"):
        maker("lstm", batch_first=False)


class Sum(companion.Cell):
    """An architecture of the reader's own."""

    def __init__(self, input_size, hidden_size, bias=True, **new):
        super().__init__(input_size, hidden_size)
        self.weight_ih = self.weight(hidden_size, input_size, **new)
        self.reset_parameters()

    def prepare(self, x):
        return torch.nn.functional.linear(x, self.weight_ih)

    def update(self, u_t, h):
        return h + u_t, h + u_t


@every_maker
def test_own_cell(maker):
    assert maker(Sum)(inputs(maker)) is not None


@series_models
def test_forecasters_are_called_alike(model):
    past = torch.randn(5, 8, D, **NEW)
    y = model(past)
    assert y.shape == (5, F) and y.dtype == torch.float64
    for b in range(5):
        torch.testing.assert_close(model(past[b : b + 1]), y[b : b + 1], rtol=0, atol=1e-12)
    assert model(past[:0]).shape == (0, F)
    fresh = copy.deepcopy(model)
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(past), y)


@series_models
def test_forecasters_name_a_bad_past(model):
    with pytest.raises(ValueError, match=r"past: expected shape \(B, (P|8), 2\).*got \(5, 8, 3\)"):
        model(torch.randn(5, 8, 3, **NEW))
    with pytest.raises(ValueError, match=r"past: expected shape \(B, (P|8), 2\).*got \(8, 2\)"):
        model(torch.randn(8, D, **NEW))
    with pytest.raises(TypeError, match="past: expected a tensor, got list"):
        model([[1.0]])
