"""The script that extracts the addresses, on a package made up here."""

import gzip
import hashlib
import importlib.util
import io
import json
import sys
import tarfile
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def address(year, name, text):
    return json.dumps({"year": year, "name": name, "party": "none", "text": text})


DATA = {
    "1962_b_d": address(1962, "B", "  Second.  The last\u2014year\u2019s \u201cword\u201d.\n"),
    "1961_john_f_kennedy_d": address(1961, "A", "First \u2018one\u2019, well\u2011off."),
    "1961_dwight_d_eisenhower_r": address(1961, "Z", "Too early."),
    "1900_c_r": address(1900, "C", "Much too early."),
}
README = "[State of the Union][sotu] addresses are works of the United States Government and thus"


@pytest.fixture
def script(monkeypatch, tmp_path):
    name = "vendor_state_of_the_union"
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "TARGET", tmp_path / "out")

    def pack(license=module.STATEMENT + "\n\nApache License", readme=README):
        path = tmp_path / "package.tgz"
        files = {f"data/{key}.json": text for key, text in DATA.items()}
        files |= {"LICENSE": license, "README.md": readme, "data/1962_b_d.txt": "no"}
        with tarfile.open(path, "w:gz") as archive:
            for member, text in files.items():
                entry = tarfile.TarInfo(f"package/{member}")
                entry.size = len(text.encode())
                archive.addfile(entry, io.BytesIO(text.encode()))
        monkeypatch.setattr(module, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
        monkeypatch.setattr(sys, "argv", [f"{name}.py", str(path)])

    module.pack = pack
    pack()
    return module


def test_extraction(script, tmp_path):
    script.main()
    out = tmp_path / "out" / "state-of-the-union"
    packed = (out / "addresses.jsonl.gz").read_bytes()
    assert [json.loads(line) for line in gzip.decompress(packed).decode().splitlines()] == [
        {"year": 1961, "president": "A", "party": "none", "text": "First 'one', well-off."},
        {
            "year": 1962,
            "president": "B",
            "party": "none",
            "text": 'Second. The last\u2014year\'s "word".',
        },
    ]
    assert script.STATEMENT in (out / "LICENCE").read_text(encoding="utf-8")
    note = (out / "SOURCE").read_text(encoding="utf-8")
    assert hashlib.sha256(packed).hexdigest() in note
    assert hashlib.sha256(gzip.decompress(packed)).hexdigest() in note
    assert script.SHA256 in note and script.VERSION in note and "1961 to 1962" in note
    assert [row.split() for row in note.splitlines()[-2:]] == [
        ["A", "1961-1961", "1", "3"],
        ["B", "1962-1962", "1", "4"],
    ]
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert set(first) == {"addresses.jsonl.gz", "LICENCE", "SOURCE"}
    script.main()
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_another_package_is_refused(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "SHA256", "0" * 64)
    with pytest.raises(SystemExit, match="expected SHA-256 0000"):
        script.main()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("change", [{"license": "Apache License"}, {"readme": "Addresses."}])
def test_another_license_is_refused(script, tmp_path, change):
    script.pack(**change)
    with pytest.raises(SystemExit, match="expected the statement of PDDL 1.0 and CC0 1.0"):
        script.main()
    assert not (tmp_path / "out").exists()
