"""Spoken digits, vowels and motions."""

import gzip
import hashlib

import pytest
import torch

from companion.data import Recordings, load
from companion.data.labelled import FILES


@pytest.fixture(scope="module")
def digits():
    return load("spoken-digits")


@pytest.fixture(scope="module")
def vowels():
    return load("japanese-vowels")


def test_digits_are_what_the_data_set_says(digits):
    # 3,000 recordings, 50 of each digit by each of 6 speakers: README of the data set
    assert isinstance(digits, Recordings) and len(digits) == len(digits.frames) == 3000
    assert digits.labels.bincount().tolist() == [300] * 10
    assert digits.classes == list("0123456789")
    lengths = [len(part) for part in digits.frames]
    assert sum(lengths) == 53_999 and (min(lengths), max(lengths)) == (6, 92)
    for part in digits.frames:
        assert part.shape[1:] == (13,) and part.dtype == torch.float32 and part.is_contiguous()
        assert part.isfinite().all()


def test_known_coefficients(digits):
    # the first frame in the package, to 16 bits: 11 of a significand
    first = [-160.79697, 64.151886, -32.92765, -61.952324, 13.4979725, 15.430042]
    torch.testing.assert_close(digits.frames[0][0, :6], torch.tensor(first), rtol=2**-11, atol=0)
    assert digits.labels[:6].tolist() == [5, 3, 1, 2, 4, 3]
    assert [len(part) for part in digits.frames[:6]] == [14, 13, 14, 13, 16, 12]


def test_digits_are_under_a_license_of_their_own():
    license = (FILES / "spoken-digits" / "LICENCE").read_text(encoding="utf-8")
    assert "CC-BY-SA-4.0" in license and "this folder alone" in license
    assert "Zohar Jackson" in license and "rounded to 16 bits" in license
    note = (FILES / "spoken-digits" / "SOURCE").read_text(encoding="utf-8")
    for label, name in {"mfcc": "mfcc.npy.gz", "lines": "recordings.tsv"}.items():
        digest = hashlib.sha256((FILES / "spoken-digits" / name).read_bytes()).hexdigest()
        assert f"{label} sha256".ljust(16) + digest in note


def test_strings_are_recordings_one_after_another(digits):
    few = digits.subset(torch.arange(4))
    frames, labels = few.strings(50, shortest=2, longest=4, seed=1)
    counts = [len(row) for row in labels]
    assert set(counts) == {2, 3, 4}
    known = {
        tuple(part.flatten().tolist()): int(y)
        for part, y in zip(few.frames, few.labels, strict=True)
    }
    for string, row in zip(frames, labels, strict=True):
        rest, said = string, []
        while len(rest):
            # which recording does it begin with?
            (part,) = [p for p in few.frames if torch.equal(rest[: len(p)], p)]
            said.append(known[tuple(part.flatten().tolist())])
            rest = rest[len(part) :]
        assert said == row.tolist()
    again = few.strings(50, shortest=2, longest=4, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(frames, again[0], strict=True))
    assert few.strings(0) == ([], [])


def test_strings_refuse(digits):
    for wrong, error, words in (
        ((1, 0, 2), ValueError, "^shortest: expected at least 1, got 0"),
        ((1, 3, 2), ValueError, "^longest: expected at least 3, got 2"),
        ((-1,), ValueError, "^number: expected at least 0, got -1"),
        ((1.5,), TypeError, "^number: expected an int, got float"),
    ):
        with pytest.raises(error, match=words):
            digits.strings(*wrong)
    with pytest.raises(ValueError, match="^number: .*of 0 recordings"):
        digits.subset(torch.arange(0)).strings(1)


def test_vowels_are_what_the_repository_says(vowels):
    # UCI: blocks of the speakers 1 to 9 in ae.train and ae.test
    assert vowels["train"].labels.bincount().tolist() == [30] * 9
    assert vowels["test"].labels.bincount().tolist() == [31, 35, 88, 44, 29, 24, 40, 50, 29]
    lengths = [len(part) for rows in vowels.values() for part in rows.frames]
    assert (min(lengths), max(lengths)) == (7, 29)
    for rows in vowels.values():
        assert all(part.shape[1:] == (12,) and part.isfinite().all() for part in rows.frames)
        assert rows.classes == [f"speaker {n}" for n in range(1, 10)]
    # the beginnings of the first four channels in the package
    first = torch.tensor([1.860936, -0.207383, 0.261557, -0.214562])
    torch.testing.assert_close(vowels["train"].frames[0][0, :4], first)
    note = (FILES / "japanese-vowels" / "SOURCE").read_text(encoding="utf-8")
    for part in vowels:
        packed = (FILES / "japanese-vowels" / f"{part}.txt.gz").read_bytes()
        assert f"{part} sha256".ljust(16) + hashlib.sha256(packed).hexdigest() in note
        assert len(gzip.decompress(packed).splitlines()) == len(vowels[part])


def test_motions_are_what_the_head_of_the_files_says():
    # 4 students, 4 motions, 5 times each; ten samples a second for ten seconds
    motions = load("basic-motions")
    assert list(motions) == ["train", "test"]
    for rows in motions.values():
        assert rows.classes == ["Badminton", "Running", "Standing", "Walking"]
        assert rows.labels.bincount().tolist() == [10] * 4
        assert all(part.shape == (100, 6) and part.isfinite().all() for part in rows.frames)
    # the beginnings of the channels, and the last label, in the package
    first = torch.tensor([[0.079106, 0.394032], [0.079106, 0.394032], [-0.903497, -3.666397]])
    torch.testing.assert_close(motions["train"].frames[0][:3, :2], first)
    torch.testing.assert_close(motions["test"].frames[0][0, 0], torch.tensor(-0.740653))
    train = motions["train"]
    assert train.classes[train.labels[0]] == "Standing"
    assert train.classes[train.labels[-1]] == "Badminton"
    note = (FILES / "basic-motions" / "SOURCE").read_text(encoding="utf-8")
    for part in motions:
        packed = (FILES / "basic-motions" / f"{part}.txt.gz").read_bytes()
        assert f"{part} sha256".ljust(16) + hashlib.sha256(packed).hexdigest() in note


def test_parts_of_recordings(digits, vowels):
    train, valid, test = digits.split(seed=0)
    assert [len(part) for part in (train, valid, test)] == [2400, 300, 300]
    assert test.labels.bincount().tolist() == [30] * 10
    i = 17
    at = [k for k, part in enumerate(digits.frames) if torch.equal(part, test.frames[i])]
    assert [int(digits.labels[k]) for k in at] == [int(test.labels[i])]
    fit, valid, rest = vowels["train"].split(valid=0.2, test=0)
    assert [len(fit), len(valid), len(rest)] == [216, 54, 0]


def test_a_default_device_changes_nothing(digits):
    with torch.device("meta"):
        again = load("spoken-digits")
        frames, labels = again.strings(2)
        assert torch.equal(again.frames[5], digits.frames[5])
    assert all(a.tolist() == b.tolist() for a, b in zip(digits.strings(2)[1], labels, strict=True))
    assert not frames[0].is_meta and not load("japanese-vowels")["test"].frames[0].is_meta
