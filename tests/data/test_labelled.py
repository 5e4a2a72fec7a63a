"""The data sets that chapters load by name, and how they are divided."""

import hashlib
import sys
import unicodedata
from collections import Counter

import pytest
import torch

from companion.data import Digits, Surnames, load
from companion.data.labelled import FILES


@pytest.fixture(scope="module")
def surnames():
    return load("surnames")


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def test_surnames_are_what_the_note_says(surnames):
    assert isinstance(surnames, Surnames)
    assert len(surnames) == len(surnames.names) == 9584
    assert surnames.labels.dtype == torch.int64 and surnames.labels.shape == (9584,)
    assert len(surnames.languages) == 15 and surnames.languages == sorted(surnames.languages)
    counts = Counter(surnames.languages[i] for i in surnames.labels.tolist())
    note = (FILES / "surnames" / "SOURCE").read_text(encoding="utf-8")
    table = [line.split() for line in note.split("dropped as shared\n")[1].splitlines()]
    assert {row[0]: int(row[-2]) for row in table} == counts
    assert max(counts.values()) <= 800


def test_the_note_has_the_hash_of_the_file():
    note = (FILES / "surnames" / "SOURCE").read_text(encoding="utf-8")
    data = (FILES / "surnames" / "surnames.tsv").read_bytes()
    assert f"result sha256   {hashlib.sha256(data).hexdigest()}" in note
    assert "MIT" in note and (FILES / "surnames" / "LICENCE").stat().st_size > 500


def test_no_script_gives_a_language_away(surnames):
    for name in surnames.names:
        assert name == unicodedata.normalize("NFC", name) == name.strip()
        assert all(c in " -'" or "LATIN" in unicodedata.name(c) for c in name), name


def test_no_name_has_two_languages(surnames):
    assert len({name.casefold() for name in surnames.names}) == len(surnames)


def test_known_names(surnames):
    language = dict(
        zip(surnames.names, (surnames.languages[i] for i in surnames.labels.tolist()), strict=True)
    )
    assert language["Ó Rallaigh"] == "Irish"
    assert language["Pöllänen"] == "Finnish"
    assert language["van der Kint"] == "Dutch"
    assert language["Ferrándiz"] == "Spanish"


def test_parts_are_disjoint_and_complete(surnames):
    parts = surnames.split(seed=0)
    names = [set(part.names) for part in parts]
    assert sum(map(len, names)) == len(surnames) and set.union(*names) == set(surnames.names)
    where = dict(zip(surnames.names, surnames.labels.tolist(), strict=True))
    for part in parts:
        assert [where[name] for name in part.names] == part.labels.tolist()
        assert part.languages == surnames.languages


def test_parts_are_stratified(surnames):
    train, valid, test = surnames.split(seed=3, valid=0.2, test=0.05)
    for label in range(15):
        n = int((surnames.labels == label).sum())
        assert int((valid.labels == label).sum()) == round(n * 0.2)
        assert int((test.labels == label).sum()) == round(n * 0.05)
        assert int((train.labels == label).sum()) == n - round(n * 0.2) - round(n * 0.05)


def test_rows_of_a_part_are_mixed(surnames):
    train = surnames.split(seed=0).train
    assert len(set(train.labels[:100].tolist())) > 8  # in the file the first 286 are one language


def test_the_seed_decides(surnames):
    first = surnames.split(seed=0)
    torch.manual_seed(99)  # the global generator has no part in it
    before = torch.get_rng_state()
    again = surnames.split(seed=0)
    assert torch.equal(before, torch.get_rng_state())
    assert all(a.names == b.names for a, b in zip(first, again, strict=True))
    assert surnames.split(seed=1).test.names != first.test.names


def test_parts_may_be_empty_but_not_the_training(surnames):
    train, valid, test = surnames.split(valid=0, test=0)
    assert (len(train), len(valid), len(test)) == (9584, 0, 0) and valid.names == []
    for shares in ({"valid": -0.1}, {"valid": 0.5, "test": 0.5}):
        with pytest.raises(ValueError, match="valid, test: expected shares"):
            surnames.split(**shares)
    with pytest.raises(ValueError, match="^test: expected a finite number, got nan"):
        surnames.split(test=float("nan"))
    with pytest.raises(TypeError, match="^valid: expected a number, got str"):
        surnames.split(valid="a")
    three = surnames.subset(torch.tensor([0, 1, 2]))  # of one language: 1.5 and 1.47 of them
    with pytest.raises(ValueError, match="^valid, test: .*leave some of 3 rows to train"):
        three.split(valid=0.5, test=0.49)
    assert [len(part) for part in valid.split()] == [0, 0, 0]


def test_subset(surnames):
    part = surnames.subset(torch.tensor([5, 0, 5]))
    assert part.names == [surnames.names[i] for i in (5, 0, 5)]
    assert torch.equal(part.labels, surnames.labels[[5, 0, 5]])
    for wrong in ([1, 2], torch.tensor([True, False]), torch.tensor(1), torch.tensor([1.0])):
        with pytest.raises(TypeError, match="indices: expected an int64 tensor"):
            surnames.subset(wrong)
    for wrong in (-1, 9584):
        with pytest.raises(IndexError, match=rf"^indices: expected 0 \.\.\. 9583.*got {wrong}"):
            surnames.subset(torch.tensor([0, wrong]))


def test_repr_is_short(surnames):
    assert repr(surnames) == "Surnames(9584 rows, fields: labels, names)"


def test_digits_are_those_of_scikit_learn(digits):
    from sklearn.datasets import load_digits

    images, target = load_digits(return_X_y=True)
    assert isinstance(digits, Digits) and len(digits) == 1797
    assert digits.images.shape == (1797, 8, 8) and digits.images.dtype == torch.float32
    assert digits.labels.dtype == torch.int64 and digits.labels.tolist() == target.tolist()
    assert digits.images.min() == 0 and digits.images.max() == 1
    assert (digits.images.reshape(1797, 64) * 16).tolist() == images.tolist()


def test_digits_are_divided_the_same_way(digits):
    train, valid, test = digits.split(seed=0)
    assert len(train) + len(valid) + len(test) == 1797
    assert train.images.shape == (len(train), 8, 8)
    assert test.labels.bincount(minlength=10).tolist() == [
        round(n * 0.1) for n in digits.labels.bincount(minlength=10).tolist()
    ]


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match="'digits'.*pip install scikit-learn"):
        load("digits")


def test_a_default_device_changes_nothing(surnames):
    wanted = surnames.split(seed=0)
    with torch.device("meta"):
        again = load("surnames")
        digits = load("digits")
        parts = again.split(seed=0)
    assert torch.equal(again.labels, surnames.labels) and digits.images.max() == 1
    assert all(a.names == b.names for a, b in zip(parts, wanted, strict=True))
    with pytest.raises(TypeError, match="^seed must be an int"):
        surnames.split(seed=0.5)
