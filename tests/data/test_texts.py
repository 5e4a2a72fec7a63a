"""The plays, the glosses, and the passages by president."""

import gzip
import hashlib
import re
from collections import Counter

import pytest
import torch

from companion.data import FOUR_PRESIDENTS, Address, Passages, Play, Texts, load, passages
from companion.data.labelled import FILES


def note(name):
    return (FILES / name / "SOURCE").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plays():
    return load("shakespeare")


def test_plays_are_what_the_note_says(plays):
    assert all(isinstance(play, Play) for play in plays)
    table = note("shakespeare").split("characters\n")[-1].splitlines()
    assert {row[:25].strip(): int(row[25:]) for row in table} == {
        play.title: len(play.text) for play in plays
    }
    assert sum(len(play.text) for play in plays) == 1_036_467  # facts/data.md
    assert repr(plays[1]) == "Play('Macbeth', 103427 characters)"
    assert plays[0].title == "Hamlet" and len({play.title for play in plays}) == 8


def test_known_lines(plays):
    text = {play.title: play.text for play in plays}
    assert "To be, or not to be,--that is the question:--" in text["Hamlet"]
    assert "Double, double, toil and trouble" in text["Macbeth"]
    assert "wherefore art thou Romeo?" in text["Romeo and Juliet"]
    assert "Et tu, Brute?" in text["Julius Caesar"]
    assert "Our revels now are ended" in text["The Tempest"]
    for play in plays:
        assert "Gutenberg" not in play.text and play.text.isascii() and "\r" not in play.text


@pytest.mark.parametrize(
    ("name", "file"),
    [("shakespeare", "plays.jsonl.gz"), ("wordnet-glosses", "glosses.tsv.gz")],
)
def test_the_notes_have_the_hashes(name, file):
    packed = (FILES / name / file).read_bytes()
    assert f"result sha256   {hashlib.sha256(packed).hexdigest()}" in note(name)
    assert f"text sha256     {hashlib.sha256(gzip.decompress(packed)).hexdigest()}" in note(name)
    assert packed[4:8] == bytes(4) and len(packed) < 700_000


@pytest.fixture(scope="module")
def glosses():
    return load("wordnet-glosses")


def test_glosses_are_what_the_note_says(glosses):
    assert isinstance(glosses, Texts) and len(glosses) == len(glosses.texts) == 20_000
    assert glosses.classes == ["act", "artifact", "communication", "person"]
    assert Counter(glosses.labels.tolist()) == dict.fromkeys(range(4), 5000)
    for row in note("wordnet-glosses").split("mean words\n")[1].splitlines():
        name, of, drawn, mean = row.split()
        own = [
            text
            for text, label in zip(glosses.texts, glosses.labels.tolist(), strict=True)
            if glosses.classes[label] == name
        ]
        assert len(own) == int(drawn) < int(of)
        assert f"{sum(len(text.split()) for text in own) / len(own):.1f}" == mean
    terms = (FILES / "wordnet-glosses" / "LICENCE").read_text(encoding="utf-8")
    assert "Copyright 2006 by Princeton University" in terms
    assert "WordNet 3.1 Copyright 2011 by Princeton University" in note("wordnet-glosses")


def test_glosses_are_plain(glosses):
    assert len(set(glosses.texts)) == 20_000  # so no two classes share one
    for text in glosses.texts:
        assert text == " ".join(text.split()) and len(text.split()) >= 4 and '; "' not in text


def test_texts_of_pairs():
    texts = Texts.of([("x y", "b"), ("z", "a")])
    assert texts.classes == ["a", "b"] and texts.labels.tolist() == [1, 0]
    assert texts.subset(torch.tensor([1])).texts == ["z"]
    assert repr(texts) == "Texts(2 rows, fields: labels, texts)"
    assert len(Texts.of([])) == 0


@pytest.fixture(scope="module")
def found():
    return passages(load("state-of-the-union"))


def test_passages_have_the_lengths_of_news_items(found):
    lengths = [len(text.split()) for text in found.texts]
    assert min(lengths) == 20 and max(lengths) == 90
    assert 40 < sum(lengths) / len(lengths) < 47  # facts/data.md asks for about 43
    assert found.classes == list(FOUR_PRESIDENTS) and len(found.labels.unique()) == 4
    for text in found.texts:
        assert not re.search(r"\[(applause|laughter)\]", text, re.IGNORECASE)
        assert not re.search(r"[.!?] The President\. ", text)
    whole = [text for text in found.texts if re.search(r"""[.?!]["')\]]*$""", text)]
    assert len(whole) > 0.99 * len(found)
    assert sum(text.endswith("Mr.") for text in found.texts) == 0


def test_passages_are_in_their_addresses(found):
    addresses = {address.year: address for address in load("state-of-the-union")}
    for i in range(0, len(found), 97):
        address = addresses[int(found.years[i])]
        assert address.president == found.classes[found.labels[i]]
        plain = re.sub(r"\s*\[(?:laughter|applause)\]", "", address.text, flags=re.IGNORECASE)
        assert found.texts[i] in plain


def test_an_address_is_in_one_part(found):
    for seed in range(3):
        parts = found.split(seed)
        years = [set(part.years.tolist()) for part in parts]
        assert sum(map(len, years)) == len(set.union(*years)) == 31  # 7 + 8 + 8 + 8 addresses
        assert sum(map(len, parts)) == len(found)
        assert all(isinstance(part, Passages) and len(part.labels.unique()) == 4 for part in parts)
        # 0.15 of 7 or 8 addresses is one
        assert [len(y) for y in years] == [23, 4, 4]
    assert found.split(0).test.texts == found.split(0).test.texts != found.split(1).test.texts
    train, valid, test = found.split(valid=0, test=0.3)
    assert len(valid) == 0 and len(set(test.years.tolist())) == 8


def test_passages_by_hand():
    sentence = "One two three four five. "
    first = Address(2000, "A", "Democratic", sentence * 7 + "[Laughter] Mr. Speaker, six.")
    second = Address(2001, "B", "Republican", "word " * 12 + "end. And so on.")
    got = passages([first, second], ["B", "A"], shortest=10, longest=10)
    # two sentences make ten words; of the last eight words of A, none are left over
    assert got.classes == ["B", "A"] and got.labels.tolist() == [1, 1, 1, 0]
    assert got.texts[:3] == [sentence.strip() + " " + sentence.strip()] * 3
    assert got.texts[3] == "word " * 9 + "word"  # cut at ten, and "And so on." is too short
    assert got.years.tolist() == [2000, 2000, 2000, 2001]
    one = passages([second], ["B"], shortest=1, longest=40, seed=3)
    assert "And so on." in one.texts[-1]


def test_passages_refuse():
    address = Address(2000, "A", "Democratic", "word " * 30)
    with pytest.raises(ValueError, match="^presidents: .*got 'Nobody'"):
        passages([address], ["A", "Nobody"])
    for shortest, longest, error, words in (
        (0, 5, ValueError, "^shortest: expected at least 1, got 0"),
        (6, 5, ValueError, "^longest: expected at least 6, got 5"),
        (2.5, 5, TypeError, "^shortest: expected an int, got float"),
    ):
        with pytest.raises(error, match=words):
            passages([address], ["A"], shortest=shortest, longest=longest)
    with pytest.raises(ValueError, match="^presidents: expected each once, got .'A', 'A'"):
        passages([address], ["A", "A"])
    with pytest.raises(TypeError, match="^presidents: expected a list of names, got the str 'A'"):
        passages([address], "A")
    with pytest.raises(ValueError, match="leave an address of A to train.* of 1"):
        passages([address], ["A"]).split()
    with pytest.raises(ValueError, match="^valid, test: expected shares"):
        passages([address], ["A"]).split(valid=-1)
