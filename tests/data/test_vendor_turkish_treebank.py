"""The script that extracts the treebank, on a package made up here."""

import gzip
import hashlib
import importlib.util
import sys
import zipfile
from pathlib import Path

import pytest

from companion.data import read_conllu

TOOLS = Path(__file__).parents[2] / "tools"

WEB = """\
# sent_id = tr-blog:1
# text = Açıklanan soru.
1\tAçıkla\taçıkla\tVERB\tVB\tA=B\t2\tig\t_\tSpaceAfter=No
2\tnan\t_\tADJ\tVJ\tA=B\t3\trcmod\t_\t_
3\tsoru\tsoru\tNOUN\tNN\tA=B\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\tA=B\t3\tp\t_\t_

# sent_id = tr-blog:2
# text = Evet
1\tEvet\tevet\tADV\tRB\tA=B\t0\troot\t_\t_"""
WIKI = WEB.replace("tr-blog:", "http://tr.wikipedia.org/")
LICENSE = f"\n{33 * ' '}Apache License\n{27 * ' '}Version 2.0, January 2004\n"


@pytest.fixture
def script(monkeypatch, tmp_path):
    name = "vendor_turkish_treebank"
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "TARGET", tmp_path / "out")

    def pack(web=WEB, license=LICENSE):
        path = tmp_path / "package.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(f"turkish_treebanks-{module.VERSION}.dist-info/LICENSE", license)
            wheel.writestr("data/web.conllu", web)
            wheel.writestr("data/wiki.conllu", WIKI)
        monkeypatch.setattr(module, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
        monkeypatch.setattr(sys, "argv", [f"{name}.py", str(path)])

    module.pack = pack
    pack()
    return module


def test_extraction(script, tmp_path):
    script.main()
    out = tmp_path / "out"
    assert gzip.decompress((out / "web.conllu.gz").read_bytes()).decode().splitlines() == [
        "# sent_id = tr-blog:1",
        "1\tAçıkla\t_\tVERB\tVB\t_\t_\tig\t_\tSpaceAfter=No",
        "2\tnan\t_\tADJ\tVJ\t_\t_\t_\t_\t_",
        "3\tsoru\t_\tNOUN\tNN\t_\t_\t_\t_\tSpaceAfter=No",
        "4\t.\t_\tPUNCT\t.\t_\t_\t_\t_\t_",
        "",
        "# sent_id = tr-blog:2",
        "1\tEvet\t_\tADV\tRB\t_\t_\t_\t_\t_",
        "",
    ]
    assert [len(sentence) for sentence in read_conllu(out / "wiki.conllu.gz")] == [4, 1]
    assert (out / "LICENCE").read_text(encoding="utf-8") == LICENSE
    note = (out / "SOURCE").read_text(encoding="utf-8")
    for name in ("web", "wiki"):
        assert hashlib.sha256((out / f"{name}.conllu.gz").read_bytes()).hexdigest() in note
    assert script.SHA256 in note and script.VERSION in note
    assert "sentences       4\ngroups          10\nwords           8\n" in note
    assert "VERB          2        0" in note and "ADJ           2        2" in note
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert set(first) == {"web.conllu.gz", "wiki.conllu.gz", "LICENCE", "SOURCE"}
    script.main()
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_another_package_is_refused(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "SHA256", "0" * 64)
    with pytest.raises(SystemExit, match="expected SHA-256 0000"):
        script.main()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"license": "MIT"}, "LICENSE: expected the Apache License"),
        (
            {"web": WEB.replace("text = Evet", "text = Hayır")},
            "text: expected 'Evet', got 'Hayır'",
        ),
        ({"web": WEB.replace("# text = Evet\n", "")}, "text: expected 'Evet', got None"),
        ({"web": WEB.replace("SpaceAfter=No", "_", 1)}, "MISC: expected _ or SpaceAfter=No"),
        ({"web": WEB.replace("_\tSpaceAfter=No", "_\tGloss=x")}, "MISC: expected .* got Gloss=x"),
    ],
)
def test_what_is_not_expected_is_refused(script, tmp_path, change, words):
    script.pack(**change)
    with pytest.raises(SystemExit, match=words):
        script.main()
    assert not (tmp_path / "out").exists()
