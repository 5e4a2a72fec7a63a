"""Public bug reports of books and tutorials, as tests of ours.

Cases 44, 45 and 49. Cases 43 and 51 wait for their chapters; 46 is in train/test_schedules.py, 47
and 48 are in test_cases.py, 50 is in test_book.py.
"""

from __future__ import annotations

import inspect

import pytest
import torch

import companion
from companion import models
from companion.cells import LinearCell, flat_state
from companion.cells.state_space import TimeInvariantCell

from .helpers import D, every_architecture, every_case, make, randn

V = 11


# linear in state and input: the nonlinearity stands between the layers
LINEAR = {n for n, a in companion.ARCHITECTURES.items() if issubclass(a.cell, TimeInvariantCell)}


@every_case
def test_44_the_output_has_read_its_own_step(name, form):
    """pytorch/tutorials#1052: the output comes from the state before, the last one is unused."""
    layer, x = make(name), randn(2, 6, D).requires_grad_()
    y, final = layer(x, form=form)
    # a Fourier transform adds what it then takes away: rounding remains
    rounding = 1e-15 if name in LINEAR else 0

    def read(g):
        # at the start RWKV takes the first feature of the step before alone
        return (g[..., 1:] if name.startswith("rwkv") else g) != 0

    for t in (0, 3, 5):
        (g,) = torch.autograd.grad(y[:, t].sum(), x, retain_graph=True)
        assert read(g[:, t]).all() and (g[:, t + 1 :].abs() <= rounding * g.abs().max()).all()
    (g,) = torch.autograd.grad(flat_state(final)[0].sum(), x)
    assert read(g[:, -1]).all()


@every_architecture
@pytest.mark.parametrize("pooling", ["last", "max", "mean", "attention"])
def test_44_a_class_depends_on_the_last_valid_token(name, pooling):
    """Also where a row is padded, and of a text of one token."""
    torch.manual_seed(0)
    model = models.TextClassifier(V, 3, 5, 32, name, pooling=pooling, dtype=torch.float64)
    tokens, lengths = torch.randint(V, (3, 7)), torch.tensor([7, 4, 1])
    other = tokens.clone()
    for row, n in zip(other, lengths, strict=True):
        row[n - 1] = (row[n - 1] + 1) % V
    assert ((model(tokens, lengths) - model(other, lengths)).abs().amax(1) > 1e-6).all()


@every_architecture
@pytest.mark.parametrize("maker", [models.LanguageModel, models.Tagger])
def test_44_logits_have_read_the_token_at_their_place(name, maker):
    torch.manual_seed(0)
    sizes = (V, 5, 8) if maker is models.LanguageModel else (V, 3, 5, 8)
    model, tokens = maker(*sizes, name, dtype=torch.float64), torch.randint(V, (2, 5))
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 1) % V
    a, b = (y[0] if isinstance(y, tuple) else y for y in (model(tokens), model(other)))
    assert ((a - b)[:, -1].abs().amax(-1) > 1e-6).all()


def bend(f, a, b):
    """How far f is from f(a + b) = f(a) + f(b) − f(0), which every affine map obeys."""
    return (f(a + b) - f(a) - f(b) + f(torch.zeros_like(a))).abs()


@every_case
def test_45_no_architecture_is_a_linear_map_of_its_input_but_where_it_says_so(name, form):
    """pytorch/tutorials PR #3956: a character RNN whose nonlinearity was forgotten."""
    layer = make(name, num_layers=1)
    found = bend(lambda x: layer(x, form=form)[0], 3 * randn(2, 5, D), 3 * randn(2, 5, D))
    if name in LINEAR:
        assert found.max() < 1e-12
    else:
        assert found.mean() > 1e-2


# c_t = f_t ⊙ c_{t−1} + …, where f_t sees the input alone: this is why they can be scanned
LINEAR_IN_THE_STATE = LINEAR | {
    name for name, a in companion.ARCHITECTURES.items() if issubclass(a.cell, LinearCell)
}
CELLS = {name for name in companion.ARCHITECTURES if name.startswith("lstm")}  # state (h, c)


@every_case
def test_45_the_nonlinearity_stands_between_the_steps(name, form):
    """Not only before them: h_n is no affine function of h_0, but where the equations say so."""
    layer, x = make(name, num_layers=1), randn(2, 5, D)
    zero = layer.initial_state(2)

    def last(s):
        """h_n after h_0 = s, or c_n after c_0 = s; what else a state holds starts at 0."""
        state = (*flat_state(zero)[:-1], s) if name in CELLS else (s, *flat_state(zero)[1:])
        final = layer(x, state if isinstance(zero, tuple) else s, form=form)[1]
        return flat_state(final)[-1 if name in CELLS else 0]

    size = flat_state(zero)[0].shape
    found = bend(last, 2 * randn(*size), 2 * randn(*size))
    if name in LINEAR_IN_THE_STATE:
        assert found.max() < 1e-11
    else:
        assert found.max() > 1e-3


def test_45_the_vanilla_outputs_are_bounded_by_it():
    """tanh: |y| < 1 whatever is read; relu: nothing below 0."""
    x = 100 * randn(3, 6, D)
    assert make("rnn")(x)[0].abs().max() <= 1
    y = make("rnn_relu")(x)[0]
    assert y.min() == 0 and y.max() > 1


TEACHERS = {"target", "targets", "label", "labels", "teacher_forcing", "future", "references"}


MODULES = [
    name
    for name in sorted(models.__all__)
    if inspect.isclass(getattr(models, name))
    and issubclass(getattr(models, name), torch.nn.Module)
]


@pytest.mark.parametrize("name", MODULES)
def test_49_no_model_is_given_what_it_has_to_say(name):
    """keon/seq2seq#8: the decoder is fed the right answers in evaluation too.

    Targets reach the objectives alone, so that what a model says cannot depend on them. A Seq2Seq
    scores a target in ``forward``; what writes is a function that takes none.
    """
    model = getattr(models, name)
    said = [getattr(model, method) for method in {"forward", "step", "sample"} & set(dir(model))]
    if name == "Seq2Seq":
        said = [models.generate, models.beam_search]
    for call in said:
        assert not TEACHERS & set(inspect.signature(call).parameters), call


@pytest.mark.parametrize("training", [True, False])
def test_49_a_model_goes_on_with_its_own_tokens(training):
    """It says i + 1 after i, and so leaves any text that says otherwise."""
    model = models.LanguageModel(V, V, V, "rnn", tied=False, dtype=torch.float64)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
        model.embedding.weight.copy_(torch.eye(V))
        model.layers[0].weight_ih_l0.copy_(torch.eye(V))
        model.output.weight.copy_(torch.eye(V).roll(1, 0))
    model.train(training)
    text = torch.tensor([[5, 5, 5, 9, 1], [0, 2, 4, 6, 8]])  # read as a prompt of one and of all
    assert model.sample(text[:, :1], 4, temperature=0).tolist() == [[6, 7, 8, 9], [1, 2, 3, 4]]
    assert model.sample(text, 3, temperature=0).tolist() == [[2, 3, 4], [9, 10, 0]]
    # with the text given, each answer follows the text's own token: teacher forcing, asked for
    forced = model(text)[0].argmax(-1)
    assert forced.tolist() == [[6, 6, 6, 10, 2], [1, 3, 5, 7, 9]]
