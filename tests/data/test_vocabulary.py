"""Vocab against what torchtext 0.18 documents and its source does; values worked out by hand."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.data import Vocab, build_vocab_from_iterator
from companion.data.vocabulary import vocab

TEXTS = [["the", "cat", "sat"], ["the", "dog", "sat"], ["the", "end"]]


def torchtext_tokens(texts, min_freq, specials, special_first, max_tokens):
    """torchtext 0.18, torchtext/vocab/vocab_factory.py, written out once more."""
    counts = {}
    for text in texts:
        for token in text:
            counts[token] = counts.get(token, 0) + 1
    pairs = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    if max_tokens is not None:
        assert len(specials) < max_tokens
        pairs = pairs[: max_tokens - len(specials)]
    ordered = dict(pairs)
    for token in specials:
        ordered.pop(token, None)
    tokens = [token for token, count in ordered.items() if count >= min_freq]
    return specials + tokens if special_first else tokens + specials


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text("aAbé<", max_size=9), max_size=5),
    st.integers(0, 4),
    st.lists(st.sampled_from(["<unk>", "a", "é", "z"]), max_size=3, unique=True),
    st.booleans(),
    st.none() | st.integers(4, 9),
)
def test_vocabularies_are_those_of_torchtext(texts, min_freq, specials, first, most):
    got = build_vocab_from_iterator(texts, min_freq, specials, first, most)
    assert got.get_itos() == torchtext_tokens(texts, min_freq, specials, first, most)


def test_order_is_frequency_then_code_point():
    # the 3, sat 2, then cat, dog, end once each
    assert build_vocab_from_iterator(TEXTS).get_itos() == ["the", "sat", "cat", "dog", "end"]
    # capitals come before small letters, ASCII before the rest: code points, not a dictionary
    assert build_vocab_from_iterator([["é", "b", "a", "B"]]).get_itos() == ["B", "a", "b", "é"]


def test_specials_first_and_last():
    v = build_vocab_from_iterator(TEXTS, specials=["<unk>", "<pad>"])
    assert v.get_itos()[:3] == ["<unk>", "<pad>", "the"]
    v = build_vocab_from_iterator(TEXTS, specials=["<unk>", "<pad>"], special_first=False)
    assert v.get_itos()[-3:] == ["end", "<unk>", "<pad>"]


def test_min_freq_does_not_touch_specials():
    v = build_vocab_from_iterator(TEXTS, min_freq=2, specials=["end"])
    assert v.get_itos() == ["end", "the", "sat"]


def test_max_tokens_counts_the_specials():
    v = build_vocab_from_iterator(TEXTS, specials=["<unk>"], max_tokens=3)
    assert v.get_itos() == ["<unk>", "the", "sat"]
    # torchtext cuts first and removes the specials then, so this has one token fewer
    assert build_vocab_from_iterator(TEXTS, specials=["the"], max_tokens=3).get_itos() == [
        "the",
        "sat",
    ]
    with pytest.raises(AssertionError, match="max_tokens"):
        build_vocab_from_iterator(TEXTS, specials=["<unk>", "<pad>"], max_tokens=2)


def test_a_string_is_its_characters():
    assert build_vocab_from_iterator(["abba", "ab", "b"]).get_itos() == ["b", "a"]


def test_generators_and_nothing():
    assert build_vocab_from_iterator(iter(t) for t in TEXTS).get_itos()[0] == "the"
    assert len(build_vocab_from_iterator([])) == 0
    assert build_vocab_from_iterator([[]], specials=["<pad>"]).get_itos() == ["<pad>"]


def test_both_ways():
    v = build_vocab_from_iterator(TEXTS)
    assert len(v) == 5 and "cat" in v and "cow" not in v and 3 not in v
    assert v["dog"] == 3
    assert v(["dog", "the"]) == v.lookup_indices(["dog", "the"]) == v.forward(["dog", "the"])
    assert v.lookup_tokens([3, 0]) == ["dog", "the"]
    assert v.lookup_tokens(torch.tensor([3, 0])) == ["dog", "the"]
    assert v.get_stoi() == {token: i for i, token in enumerate(v.get_itos())}


def test_the_tables_are_copies():
    v = Vocab(["a"])
    v.get_stoi()["b"] = 1
    v.get_itos().append("b")
    assert "b" not in v and len(v) == 1


def test_unknown_token():
    v = Vocab(["<unk>", "a"])
    assert v.get_default_index() is None
    with pytest.raises(RuntimeError, match="'z' not found and default index is not set"):
        v["z"]
    with pytest.raises(RuntimeError, match="not found"):
        v(["a", "z"])
    v.set_default_index(v["<unk>"])
    assert v["z"] == 0 and v.get_default_index() == 0
    v.set_default_index(-1)
    assert v["z"] == -1
    v.set_default_index(None)
    with pytest.raises(RuntimeError):
        v["z"]


def test_insert_and_append():
    v = Vocab(["a", "b", "c"])
    v.set_default_index(1)
    v.insert_token("x", 1)
    v.append_token("z")
    assert v.get_itos() == ["a", "x", "b", "c", "z"]
    assert v(["a", "x", "b", "c", "z"]) == [0, 1, 2, 3, 4]
    assert v.get_default_index() == 1  # a number: it does not follow the token
    v.insert_token("end", 5)
    assert v["end"] == 5
    with pytest.raises(RuntimeError, match="already exists in the Vocab with index: 2"):
        v.append_token("b")
    with pytest.raises(RuntimeError, match="already exists"):
        v.insert_token("b", 0)
    for index in (-1, 7):
        with pytest.raises(RuntimeError, match="out of bounds"):
            v.insert_token("new", index)
    assert len(v) == 6


@pytest.mark.parametrize("index", [-1, 2, 10**9])
def test_index_out_of_range(index):
    with pytest.raises(RuntimeError, match=f"index {index} is out of bounds"):
        Vocab(["a", "b"]).lookup_token(index)
    with pytest.raises(RuntimeError):
        Vocab(["a", "b"]).lookup_tokens([0, index])


def test_odd_arguments():
    with pytest.raises(RuntimeError, match="Duplicate token found in tokens list: 'a'"):
        Vocab(["a", "b", "a"])
    with pytest.raises(RuntimeError, match="Duplicate"):
        build_vocab_from_iterator(TEXTS, specials=["<pad>", "<pad>"])
    with pytest.raises(TypeError, match="expected a str, got int 3"):
        Vocab(["a", 3])
    with pytest.raises(TypeError, match="expected a str, got int"):
        build_vocab_from_iterator([[1, 2]])
    with pytest.raises(TypeError, match="expected a str"):
        Vocab(["a"])[0]
    with pytest.raises(TypeError, match="specials: expected a list"):
        build_vocab_from_iterator(TEXTS, specials="<pad>")
    with pytest.raises(TypeError):
        Vocab(["a"]).lookup_token(0.0)
    with pytest.raises(TypeError, match="^ordered_dict: expected a mapping .* got list"):
        vocab(["a"])


def test_vocab_of_a_mapping_keeps_its_order_and_leaves_it_alone():
    counts = {"c": 1, "a": 5, "b": 3}
    assert vocab(counts).get_itos() == ["c", "a", "b"]
    v = vocab(counts, min_freq=2, specials=["b", "<unk>"], special_first=False)
    assert v.get_itos() == ["a", "b", "<unk>"]
    assert counts == {"c": 1, "a": 5, "b": 3}


def test_copies_are_independent():
    v = Vocab(["a"])
    for twin in (copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
        twin.append_token("b")
        assert "b" not in v and twin["b"] == 1
    assert repr(Vocab("abcd")) == "Vocab(4 tokens: 'a', 'b', 'c', ...)"
