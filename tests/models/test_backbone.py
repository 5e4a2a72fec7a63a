"""A backbone is called as any recurrence is, whatever it is made of."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from companion.attention import CausalAttention
from companion.cells import ARCHITECTURES, GRUCell, map_state
from companion.models import (
    Backbone,
    Forecaster,
    LanguageModel,
    SpeechRecognizer,
    Tagger,
    TextClassifier,
)
from tests.helpers import assert_close

F64 = {"dtype": torch.float64}
B, T, D, E = 3, 9, 5, 8
LENGTHS = [9, 4, 0]
WORDS = [[name] for name in ARCHITECTURES] + [
    ["attention"],
    ["qrnn", "attention", "gru"],
    [GRUCell, "attention"],
]
every_backbone = pytest.mark.parametrize("words", WORDS, ids=lambda w: "+".join(map(str, w)))


def backbone(words, **options):
    torch.manual_seed(0)
    return Backbone(D, E, words, **{"heads": 2, "window": 4, **options}, **F64)


def sequence(seed=1, T=T):
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(seed), **F64)


def resets():
    cuts = torch.zeros(B, T, dtype=torch.bool)
    cuts[0, [0, 5]] = cuts[1, [2, 7]] = cuts[2, 3] = True
    return cuts


def test_it_is_its_equation():
    net, x = backbone(["gru", "attention"], expand=2), sequence()
    first, second = net.blocks
    a = net.input(x)
    for block in (first, second):
        a = a + block.mixer(block.norm(a))[0]
        wide = nn.functional.gelu(block.wide(block.forward_norm(a)))
        assert wide.shape[2] == 2 * E
        a = a + block.narrow(wide)
    assert_close(net(x)[0], net.norm(a))


@every_backbone
def test_any_split_and_every_step_is_the_whole(words):
    net, x = backbone(words), sequence()
    whole, last = net(x)
    for cut in (0, 1, 5, T):
        first, state = net(x[:, :cut])
        second, after = net(x[:, cut:], state)
        assert_close(torch.cat([first, second], 1), whole)
    state = net.initial_state(B)
    for t in range(T):
        y, state = net.step(x[:, t], state)
        assert_close(y, whole[:, t])
    for one, other, final in zip(state, after, last, strict=True):
        map_state(assert_close, one, other)
        map_state(assert_close, one, final)


@every_backbone
def test_padding_is_never_read_and_rows_are_separate(words):
    net, x = backbone(words), sequence()
    y, state = net(x, lengths=LENGTHS, reset=resets())
    spoiled = x.clone()
    for b, n in enumerate(LENGTHS):
        spoiled[b, n:] = torch.nan
    spoiled.requires_grad_()
    other, after = net(spoiled, lengths=LENGTHS, reset=resets())
    assert_close(other, y)
    assert all((y[b, n:] == 0).all() for b, n in enumerate(LENGTHS))
    grads = torch.autograd.grad((other**2).sum(), (spoiled, *net.parameters()), allow_unused=True)
    assert all(g.isfinite().all() for g in grads if g is not None)
    assert_close(net(x[1:2], lengths=[4], reset=resets()[1:2])[0], y[1:2])
    assert_close(net(x[:1, 5:])[0], y[:1, 5:])
    later = sequence(2, 3)
    assert_close(net(later, after)[0], net(later, state)[0])


@every_backbone
def test_nothing_later_is_seen(words):
    net, x = backbone(words), sequence()
    changed = x.clone()
    changed[:, 5:] += 1
    assert_close(net(changed)[0][:, :5], net(x)[0][:, :5])


def test_words_are_repeated_and_have_options_of_their_own():
    net = backbone(
        ["lstm", "attention"],
        num_layers=2,
        expand=0,
        options={"attention": {"kv_heads": 1, "window": None}, "lstm": {"peephole": True}},
    )
    assert net.words == ["lstm", "attention"] * 2
    assert [block.wide for block in net.blocks] == [None] * 4
    assert net.blocks[3].mixer.kv_heads == 1
    assert net.blocks[3].mixer.window is None
    assert net.blocks[2].mixer.options["peephole"] is True
    assert Backbone(E, E, ["gru"]).input is None


def test_griffin_is_two_recurrent_blocks_to_one_of_attention():
    """Multi-query attention to a window: what is kept does not grow with what was read."""
    options = {"attention": {"kv_heads": 1}, "griffin": {"width": 6, "heads": 2}}
    net = backbone(["griffin", "griffin", "attention"], num_layers=2, options=options)
    x = sequence()
    whole, state = net(x)
    sizes = [sum(s.numel() for s in part) for part in state]
    assert sizes == [B * 6 + B * 3 * 6] * 2 + [2 * B * 3 * 4 + B * 3 + B] + sizes[3:]
    assert sizes[:3] == sizes[3:]
    more, state = net(sequence(2), state)
    assert [sum(s.numel() for s in part) for part in state] == sizes
    assert_close(net(torch.cat([x, sequence(2)], 1))[0], torch.cat([whole, more], 1))


def test_dropout_acts_while_training_alone():
    net, x = backbone(["gru", "attention"], dropout=0.5), sequence()
    assert not torch.equal(net(x)[0], net(x)[0])
    net.eval()
    assert_close(net(x)[0], net(x)[0])


def test_the_transformer_decoder_of_torch_is_one():
    net = backbone(["attention"], window=None, options={"attention": {"rotary": False}})
    x = torch.randn(B, T, E, **F64)
    net.input = None
    net.input_size = E
    (block,) = net.blocks
    other = nn.TransformerEncoderLayer(
        E, 2, 4 * E, 0.0, "gelu", batch_first=True, norm_first=True, **F64
    ).eval()
    attend: CausalAttention = block.mixer
    with torch.no_grad():
        other.self_attn.in_proj_weight.copy_(
            torch.cat([attend.query.weight, attend.key.weight, attend.value.weight])
        )
        other.self_attn.out_proj.weight.copy_(attend.output.weight)
        other.self_attn.in_proj_bias.zero_()
        other.self_attn.out_proj.bias.zero_()
        for name, ours in (
            ("norm1", block.norm),
            ("norm2", block.forward_norm),
            ("linear1", block.wide),
            ("linear2", block.narrow),
        ):
            getattr(other, name).load_state_dict(ours.state_dict())
    mask = nn.Transformer.generate_square_subsequent_mask(T, **F64)
    assert_close(net(x)[0], net.norm(other(x, mask, is_causal=True)))


@pytest.mark.parametrize(
    "model, x",
    [
        (lambda **o: LanguageModel(20, 8, 8, **o), torch.randint(20, (3, 7))),
        (lambda **o: TextClassifier(20, 4, 8, 8, **o), torch.randint(20, (3, 7))),
        (lambda **o: Tagger(20, 4, 8, 8, **o), torch.randint(20, (3, 7))),
        (lambda **o: Forecaster(3, 4, 8, **o), torch.randn(3, 7, 3)),
        (lambda **o: SpeechRecognizer(3, 4, 8, **o), torch.randn(3, 7, 3)),
    ],
    ids=["language model", "classifier", "tagger", "forecaster", "recognizer"],
)
def test_models_take_a_list_of_words(model, x):
    options = {"bidirectional": False} if model().__class__ in (Tagger, SpeechRecognizer) else {}
    net = model(cell=["sru", "attention"], num_layers=2, **options).eval()
    made = [m for m in net.modules() if isinstance(m, CausalAttention)]
    assert len(made) == 2
    given = (x,) if isinstance(net, LanguageModel) else (x, [7, 4, 2])
    y = net(*given)
    y = y[0] if isinstance(y, tuple) else y
    assert y.shape[0] == 3
    assert y.isfinite().all()


def test_a_language_model_of_a_backbone_writes_on_from_its_caches():
    torch.manual_seed(0)
    model = LanguageModel(20, 8, 8, cell=["sru", "attention"], num_layers=2).eval()
    prompt = torch.tensor([3, 1, 4])
    drawn = model.sample(prompt, 5, temperature=0.0)
    text = prompt
    for _ in range(5):
        text = torch.cat([text, model(text[None])[0][:, -1].argmax(-1)])
    assert text[3:].tolist() == drawn.tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Backbone(3, 4, "gru"), "layers: expected a list of words, got 'gru'"),
        (lambda: Backbone(3, 4, []), "layers: expected at least one word"),
        (lambda: Backbone(3, 4, ["gruu"]), "layers: expected 'attention' or one of"),
        (lambda: Backbone(3, 4, ["gru"], options={"lstm": {}}), "options: expected words of"),
        (lambda: Backbone(3, 4, ["gru"], expand=-1), "expand: expected 0 or a factor of at"),
        (lambda: Backbone(3, 4, ["gru"], expand=float("nan")), "expand: expected 0 or a factor"),
        (lambda: Backbone(3, 4, ["gru"], expand=0.1), "at least 1 / 4, got 0.1"),
        (lambda: Backbone(3, 4, ["gru"], heads=0), "heads: expected at least 1"),
        (lambda: Backbone(3, 4, ["gru"], window=-3), "window: expected at least 1"),
        (lambda: Backbone(3, 4, ["gru"], options=3), "options: expected a mapping, got int"),
        (lambda: Backbone(3, 4, ["gru"], options={"gru": 3}), "options.'gru'.: expected a map"),
        (
            lambda: Backbone(3, 4, ["gru"], options={"gru": {"batch_first": False}}),
            "options.'gru'.: expected options of the layer, got 'batch_first'",
        ),
        (
            lambda: Backbone(3, 4, ["attention"], options={"attention": {"num_heads": 2}}),
            "got 'num_heads', which the backbone decides",
        ),
        (lambda: Backbone(3, 4, ["gru"], expand="4"), "expand: expected a number, got str"),
        (lambda: Backbone(3, 4, ["attention"], heads=3), "expected a multiple of 3 heads"),
        (lambda: backbone(["gru"])(torch.zeros(2, 7, 3, **F64)), r"x: expected \(B, T, 5\)"),
        (lambda: backbone(["gru"]).step(torch.zeros(2, 7, 5, **F64)), r"x_t: expected \(B, 5\)"),
        (lambda: backbone(["gru"])(sequence(), ()), "state: expected a tuple of 1"),
        (lambda: Tagger(9, 3, cell=["gru"], bidirectional=True), "bidirectional: expected False"),
        (lambda: LanguageModel(9, cell=["gru"], weight_drop=0.1), "weight_drop: expected 0"),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()
