"""The catalogue: its entries, and what an entry may not be."""

import subprocess
import sys
from pathlib import Path

import pytest

import companion.data
from companion.data import CATALOGUE, DataError, DataFile, DataSet, load, verify
from companion.data.catalogue import find
from companion.data.labelled import FILES

SHA = "sha256:" + "0" * 64
GOOD = dict(name="toy", task="t", size="s", license="l", source="s", kind="download")


def test_names_are_keys():
    assert all(name == entry.name for name, entry in CATALOGUE.items())
    assert {"surnames", "digits", "ptb", "ag-news", "multi30k", "mnist"} <= set(CATALOGUE)


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))
def test_entries_are_complete(entry):
    for field in ("task", "size", "license", "source", "citation", "how_to_get"):
        assert getattr(entry, field), field
    if entry.kind == "vendored":
        folder = FILES / entry.name
        assert {path.name for path in folder.iterdir()} == {"LICENCE", "SOURCE"} | {
            file.name for file in entry.files
        }
        assert all(state.state == "ok" for state in verify(entry.name))
    if entry.kind == "download":
        assert all(file.url.startswith("https://") for file in entry.files)
        assert all(file.url.endswith("/" + file.name) for file in entry.files)


def test_every_vendored_folder_has_an_entry():
    folders = {path.name for path in FILES.iterdir() if path.is_dir()}
    assert folders == {e.name for e in CATALOGUE.values() if e.kind == "vendored"}


@pytest.mark.parametrize(
    "digest",
    ["", "sha256:", "sha256:12", "md5:" + "g" * 32, "0" * 64, "SHA256:" + "0" * 64, "md5:"],
)
def test_no_file_without_a_hash(digest):
    with pytest.raises(ValueError, match="hash of f.txt.*is not fetched"):
        DataFile("f.txt", digest, "https://example.org/f.txt")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../f", "a/../../f", "..", "a\\..\\f"])
def test_no_file_outside_its_folder(name):
    with pytest.raises(ValueError, match="name: expected a file name"):
        DataFile(name, SHA)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "Toy Set"}, "name: expected lower case"),
        ({"name": "../toy"}, "name: expected lower case"),
        ({"kind": "borrowed"}, "kind: expected one of"),
        ({"files": ()}, "files: expected"),
        ({"kind": "vendored", "files": ()}, "files: expected"),
        ({"files": (DataFile("f", SHA, "ftp://example.org/f"),)}, "url of f"),
        ({"files": (DataFile("f", SHA),)}, "url of f"),
        ({"kind": "pip"}, "package: expected"),
        ({"kind": "generated"}, "loader: expected"),
    ],
)
def test_entries_that_are_refused(change, words):
    good = {**GOOD, "files": (DataFile("f", SHA, "https://example.org/f"),)}
    DataSet(**good)
    with pytest.raises(ValueError, match=words):
        DataSet(**{**good, **change})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("surname", "did you mean 'surnames'"),
        ("AG_NEWS", "did you mean 'ag-news'"),
        ("PTB", "did you mean 'ptb'"),
        ("Multi30k", "did you mean 'multi30k'"),
        ("conll-2000", "did you mean 'conll2000'"),
        ("zzzzzzzz", "expected one of ag-news, basic-motions, cmudict"),
        ("", "expected one of"),
    ],
)
def test_unknown_names(name, hint):
    with pytest.raises(ValueError, match="no data set .*" + hint):
        find(name)
    with pytest.raises(ValueError, match="no data set"):
        load(name)


def test_a_download_is_never_fetched_unasked(monkeypatch, tmp_path):
    monkeypatch.setenv("COMPANION_DATA", str(tmp_path))
    monkeypatch.setattr(companion.data, "fetch", lambda name: pytest.fail("it was fetched"))
    with pytest.raises(DataError, match="ptb.train.txt.*data fetch ptb.*download=True"):
        load("ptb")


def test_import_is_light():
    code = (
        "import sys, torch; before = set(sys.modules); import companion.data; "
        "print(sorted({'pooch', 'requests', 'sklearn', 'tqdm', 'matplotlib', 'pandas', "
        "'companion.models', 'companion.train'} & (set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [None, [], 5, ["surnames"], b"surnames"])
def test_names_that_are_none(name):
    for function in (load, find):
        with pytest.raises(TypeError, match="^name: expected the name of a data set"):
            function(name)
