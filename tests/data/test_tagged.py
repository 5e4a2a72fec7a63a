"""Tagged sentences, and the treebank that comes with the package."""

import gzip
import hashlib
from collections import Counter

import pytest
import torch

from companion.data import Tagged, TurkishTreebank, load, read_conllu
from companion.data.labelled import FILES

FOLDER = FILES / "turkish-treebank"


@pytest.fixture(scope="module")
def treebank():
    return load("turkish-treebank")


@pytest.fixture(scope="module")
def note():
    return (FOLDER / "SOURCE").read_text(encoding="utf-8")


def test_the_numbers_are_those_of_the_authors(treebank):
    # README of the repository: 4,851 sentences, 66,466 words, 81,370 inflectional groups; of these
    # the web has 2,541, 26,519 and 32,422, and Wikipedia 2,310 and 39,947
    assert isinstance(treebank, TurkishTreebank) and len(treebank) == 4851
    sizes = {name: Counter() for name in ("web", "wiki")}
    for section, words, sentence in zip(
        treebank.sections, treebank.words, treebank.sentences, strict=True
    ):
        sizes[section] += Counter(sentences=1, words=len(words), groups=len(sentence))
    assert sizes["web"] == {"sentences": 2541, "words": 26519, "groups": 32422}
    assert sizes["wiki"] == {"sentences": 2310, "words": 39947, "groups": 81370 - 32422}
    assert sum(map(len, treebank.words)) == sum(map(len, treebank.tags)) == 66466
    assert repr(treebank) == "TurkishTreebank(4851 sentences, 66466 words, 14 tags)"


def test_known_sentences(treebank):
    # read off the file of the package by hand
    assert treebank.sentences[1].metadata["sent_id"] == "tr-blog:00000584:S049"
    assert treebank.words[1][:3] == ["Açıklanmayan", "soruların", "müfredata"]
    assert treebank.tags[1] == "ADJ NOUN NOUN ADJ ADV NOUN NOUN VERB PUNCT".split()
    assert treebank.words[1][-2:] == ["imkansız", "."]
    groups = Tagged.of(treebank.sentences[1:2])
    assert groups.words[0][:5] == ["Açık", "la", "nma", "yan", "soruların"]
    assert groups.tags[0][:5] == ["NOUN", "VERB", "VERB", "ADJ", "NOUN"]
    fine = Tagged.of(treebank.sentences[1:2], "xpos")
    assert fine.tags[0][:5] == ["NN", "VB", "VB", "VJ", "NN"]
    assert treebank.words[2541][:2] == ["Kemerlerini", "Aralık"]


def test_tags_are_those_of_the_note(treebank, note):
    groups = Tagged.of(treebank.sentences)
    counts = [Counter(tag for tags in some.tags for tag in tags) for some in (groups, treebank)]
    table = [row.split() for row in note.split("groups    words\n")[1].splitlines()]
    assert {tag: (int(a), int(b)) for tag, a, b in table} == {
        tag: (counts[0][tag], counts[1][tag]) for tag in treebank.tagset
    }
    assert len(table) == 14 and treebank.tagset == [tag for tag, _, _ in table]


def test_the_note_has_the_hashes(note):
    for name in ("web", "wiki"):
        packed = (FOLDER / f"{name}.conllu.gz").read_bytes()
        assert packed[4:8] == bytes(4)  # no time of packing in it
        digest = hashlib.sha256(packed).hexdigest()
        assert f"{name} sha256".ljust(16) + digest in note
        assert gzip.decompress(packed).endswith(b"\n\n")
    assert "these files are changed" in note  # the license wants it said
    assert "Apache License" in (FOLDER / "LICENCE").read_text(encoding="utf-8")
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 500_000


def test_the_division_is_that_of_the_authors(treebank):
    parts = treebank.split()
    assert [len(part) for part in parts] == [3881, 485, 485]
    assert parts.valid.words[0] == treebank.words[8]
    assert parts.test.words[0] == treebank.words[9]
    assert parts.train.words[8] == treebank.words[10]
    # the count begins anew with Wikipedia, whose first sentence is number 2541
    assert parts.test.words[254] == treebank.words[2541 + 9]
    assert all(set(part.parts) == {name} for part, name in zip(parts, parts._fields, strict=True))
    whole = Counter(" ".join(words) for words in treebank.words)
    assert sum((Counter(" ".join(w) for w in part.words) for part in parts), Counter()) == whole


def test_a_random_division(treebank):
    first, again = treebank.split(seed=0), treebank.split(seed=0)
    assert [len(part) for part in first] == [4851 - 2 * 485, 485, 485]
    assert all(a.words == b.words for a, b in zip(first, again, strict=True))
    assert treebank.split(seed=1).test.words != first.test.words != treebank.split().test.words
    ids = [s.metadata["sent_id"] for part in first for s in part.sentences]
    assert sorted(ids) == sorted(s.metadata["sent_id"] for s in treebank.sentences)
    with pytest.raises(ValueError, match="valid, test: expected shares"):
        treebank.split(seed=0, valid=0.5, test=0.5)


def toy(n=10):
    return Tagged([[f"w{i}"] * (i + 1) for i in range(n)], [["A"] * (i + 1) for i in range(n)])


def test_split_of_any_sentences():
    torch.manual_seed(99)
    before = torch.get_rng_state()
    train, valid, test = toy().split(seed=4, valid=0.2, test=0.3)
    assert torch.equal(before, torch.get_rng_state())  # the global generator has no part in it
    assert [len(part) for part in (train, valid, test)] == [5, 2, 3]
    assert sorted(len(w) for part in (train, valid, test) for w in part.words) == list(
        range(1, 11)
    )
    assert [len(part) for part in Tagged([], []).split()] == [0, 0, 0]
    with pytest.raises(ValueError, match="^valid, test: .*leave some of 10 rows to train"):
        toy().split(valid=0.55, test=0.449)  # round(5.5) + round(4.49) = 10
    for wrong in (0.5, "0"):
        with pytest.raises(TypeError, match="^seed must be"):
            toy().split(seed=wrong)


def test_subset(treebank):
    part = treebank.subset(torch.tensor([2541, 0, 2541]))
    assert part.sections == ["wiki", "web", "wiki"] and part.words[1] == treebank.words[0]
    assert part.parts == [treebank.parts[i] for i in (2541, 0, 2541)]
    for wrong in ([1], torch.tensor([True]), torch.tensor(1)):
        with pytest.raises(TypeError, match="indices: expected an int64 tensor"):
            treebank.subset(wrong)
    for wrong in (-1, 4851):
        with pytest.raises(IndexError, match=rf"^indices: .*of 4851 rows, got {wrong}"):
            treebank.subset(torch.tensor([wrong, 0]))


def test_words_and_tags_must_agree():
    with pytest.raises(ValueError, match="^tags: expected those of 1 sentences, got 0"):
        Tagged([["a"]], [])
    with pytest.raises(ValueError, match="^tags of sentence 1: expected one .* 2 words, got 1"):
        Tagged([["a"], ["a", "b"]], [["X"], ["X"]])


def test_a_word_without_a_tag_is_an_error():
    rest = 6 * "\t_"
    lines = ["1\ta\t_\tX" + rest, "", "1\ta\t_\tX" + rest, "2\tb\t_\t_" + rest]
    sentences = read_conllu(lines)
    assert Tagged.of(sentences[:1]).tags == [["X"]]
    with pytest.raises(ValueError, match="'upos' .* got '_' for 'b', word 2 of sentence 1"):
        Tagged.of(sentences)
    with pytest.raises(ValueError, match="name: expected one of id, form"):
        Tagged.of(sentences, "pos")


def test_a_default_device_changes_nothing(treebank):
    wanted = treebank.split()
    with torch.device("meta"):
        again = load("turkish_treebank").split()
    assert all(a.words == b.words for a, b in zip(again, wanted, strict=True))
