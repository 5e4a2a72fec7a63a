"""Readers of the optional benchmarks, on files made up here."""

import dataclasses
import hashlib
import zipfile

import pytest

from companion.data import CATALOGUE, NEWS_CLASSES, DataError, fetch, load, read_ag_news
from tests.data.server import tar

NEWS = (
    '"3","Wall St. Bears Claw Back Into the Black (Reuters)","Reuters - Short-sellers, Wall '
    "Street's band\\of ultra-cynics, are seeing green again.\"\n"
    '"4","He said ""no""","  two, with a comma "\n'
    '"1","Ünited","é"\n'
)
# what torchtext 0.18 makes of them: int(row[0]), " ".join(row[1:]) of csv.reader's rows
RECORDS = [
    (
        3,
        "Wall St. Bears Claw Back Into the Black (Reuters) Reuters - Short-sellers, Wall Street's "
        "band\\of ultra-cynics, are seeing green again.",
    ),
    (4, 'He said "no"   two, with a comma '),
    (1, "Ünited é"),
]


@pytest.fixture
def place(cache, catalogue):
    """Function that puts files where a data set is looked for, and their hashes with it."""

    def place(name, **contents):
        entry = CATALOGUE[name]
        folder = cache / name
        folder.mkdir(parents=True)
        files = []
        for file in entry.files:
            data = contents[file.name.replace(".", "_").replace("-", "_")]
            (folder / file.name).write_bytes(data)
            digest = "sha256:" + hashlib.sha256(data).hexdigest()
            files.append(dataclasses.replace(file, hash=digest))
        catalogue(dataclasses.replace(entry, files=tuple(files)))

    return place


def test_news_are_torchtexts_records(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text(NEWS, encoding="utf-8")
    assert list(read_ag_news(path)) == list(read_ag_news(str(path))) == RECORDS


def test_news_by_name(place):
    place("ag-news", train_csv=NEWS.encode(), test_csv=b'"2","t","d"\n')
    news = load("ag_news")
    assert list(news) == ["train", "test"]
    assert news["train"].texts == [text for _, text in RECORDS]
    assert news["train"].labels.tolist() == [2, 3, 0] and news["test"].labels.tolist() == [1]
    # classes.txt beside the files of Zhang et al.
    assert news["test"].classes == NEWS_CLASSES == ["World", "Sports", "Business", "Sci/Tech"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'"1","a","b"\n"5","a","b"\n', "news.csv, line 2: expected a label from 1 to 4, .*'5'"),
        (b'"1","a"\n', "news.csv, line 1: .*got 2 columns"),
        (b'"1","a","b","c"\n', "news.csv, line 1: .*got 4 columns"),
        (b'"x","a","b"\n', "news.csv, line 1: expected a label"),
        (b"\n", "news.csv, line 1: .*got 0 columns"),
        (b'"1","a","\xff"\n', "news.csv, after line 0: expected UTF-8"),
    ],
)
def test_news_that_are_none(tmp_path, data, words):
    path = tmp_path / "news.csv"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=words):
        list(read_ag_news(path))


def test_lines_of_the_penn_treebank(place):
    place(
        "ptb",
        ptb_train_txt=b" a banknote <unk> N \n mr. x\n",
        ptb_valid_txt=b" consumers\n",
        ptb_test_txt=b" no it was n't black monday\n",
    )
    assert load("ptb") == {
        "train": ["a banknote <unk> N", "mr. x"],
        "valid": ["consumers"],
        "test": ["no it was n't black monday"],
    }


def test_lines_of_wikitext(place, tmp_path):
    with zipfile.ZipFile(tmp_path / "w.zip", "w") as archive:
        for part in ("train", "valid", "test"):
            text = f" \n = {part} = \n \n A <unk> @-@ b . \n"
            archive.writestr(f"wikitext-2/wiki.{part}.tokens", text)
    place("wikitext-2", wikitext_2_v1_zip=(tmp_path / "w.zip").read_bytes())
    lines = load("wikitext_2")
    assert list(lines) == ["train", "valid", "test"]
    assert lines["valid"] == ["", "= valid =", "", "A <unk> @-@ b ."]


MULTI30K = {
    "training_tar_gz": [
        ("train.de", b"Ein Hund.\nZwei M\xc3\xa4nner. \n"),
        ("train.en", b"A dog.\nTwo men.\n"),
    ],
    # in a folder, and with what an Apple leaves beside a file
    "validation_tar_gz": [
        ("folder/val.de", b"a\n"),
        ("folder/val.en", b"b\n"),
        ("folder/._val.de", b"\0"),
        ("folder/val.fr", b"c\nd\n"),
    ],
    "mmt16_task1_test_tar_gz": [("test.de", b"e\n\n"), ("test.en", b"f\n\n")],
}


def test_sentences_of_multi30k(place):
    place("multi30k", **{name: tar(*members) for name, members in MULTI30K.items()})
    pairs = load("multi30k")
    assert list(pairs) == ["train", "valid", "test"]
    assert pairs["train"].sources == ["Ein Hund.", "Zwei Männer."]
    assert pairs["train"].swapped().sources == ["A dog.", "Two men."]
    assert (pairs["valid"].sources, pairs["valid"].targets) == (["a"], ["b"])
    assert (pairs["test"].sources, pairs["test"].targets) == (["e"], ["f"])


def test_multi30k_is_fetched_and_read(server, cache, catalogue):
    """From an address to pairs; nothing is there before it is asked for."""
    names = [name.replace("_tar_gz", ".tar.gz") for name in MULTI30K]
    server.files.update(zip(names, [tar(*members) for members in MULTI30K.values()], strict=True))
    served = server.entry("whole", *names, unpack=True)
    catalogue(dataclasses.replace(CATALOGUE["multi30k"], files=served.files))
    with pytest.raises(DataError, match="training.tar.gz.*data fetch multi30k"):
        load("multi30k")
    assert server.requests == []
    assert len(load("multi30k", download=True)["train"]) == 2
    assert len(server.requests) == 3
    fetch("multi30k")
    assert load("multi30k")["test"].targets == ["f"] and len(server.requests) == 3


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("train.de", b"a\n")], "expected one file train.en in the archive, got 0"),
        ([("train.de", b"a\n"), ("b/train.de", b"a\n")], "one file train.de .*got 2"),
        ([("../train.de", b"a\n")], "'../train.de' would be written outside"),
    ],
)
def test_another_multi30k(place, members, words):
    parts = {**MULTI30K, "training_tar_gz": members}
    place("multi30k", **{name: tar(*content) for name, content in parts.items()})
    with pytest.raises(DataError, match=words):
        load("multi30k")


def test_hashes_are_those_of_torchtext():
    archives = [file.hash for file in CATALOGUE["multi30k"].files]
    # torchtext 0.18, datasets/multi30k.py
    assert archives == [
        "sha256:20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e",
        "sha256:a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c",
        "sha256:6d1ca1dba99e2c5dd54cae1226ff11c2551e6ce63527ebb072a1f70f72a5cd36",
    ]
    found = {n: [f.hash for f in CATALOGUE[n].files] for n in ("ag-news", "ptb", "wikitext-2")}
    assert found == {
        "ag-news": [
            "md5:b1a00f826fdfbd249f79597b59e1dc12",
            "md5:d52ea96a97a2d943681189a97654912d",
        ],
        "ptb": [
            "md5:f26c4b92c5fdc7b3f8c7cdcb991d8420",
            "md5:aa0affc06ff7c36e977d7cd49e3839bf",
            "md5:8b80168b89c18661a38ef683c0dc3721",
        ],
        "wikitext-2": ["md5:542ccefacc6c27f945fb54453812b3cd"],
    }
