"""The script that extracts the messages of programs, on packages made up here."""

import gzip
import hashlib
import importlib.util
import json
import struct
import sys
import zipfile
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def catalog(messages: dict[str, str]) -> bytes:
    """A compiled catalog in the format that the manual of GNU gettext describes."""
    rows = sorted({"": "Content-Type: text/plain; charset=UTF-8\n", **messages}.items())
    tables, texts = [b"", b""], b""
    start = 28 + 16 * len(rows)
    for side in (0, 1):
        for row in rows:
            data = row[side].encode()
            tables[side] += struct.pack("<II", len(data), start + len(texts))
            texts += data + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(rows), 28, 28 + 8 * len(rows), 0, 28)
    return head + b"".join(tables) + texts


JUPYTERLAB = {
    "Save": "Enregistrer",
    "menu\x04Save": "Enregistrer",
    "tool\x04Save": "Sauver",
    "Zebra": "Zebra",
    "Open “%1”…": "Ouvrir «\u00a0%1\u00a0»…",
    "%1 file\0%1 files": "%1 fichier\0%1 fichiers",
    "Line 1\nLine 2": "Ligne 1\nLigne 2",
    "Lost %1": "Perdu",
}
DJANGO = {
    "save.": "Sauvegarder.",
    "You don’t": "Vous n’avez  pas",
    "<b>Bold</b>": "<b>Gras</b>",
    "6 p": "18:00",
    " ".join(["word"] * 31): "phrase",
    "%(n)s of %(m)s": "%(m)s sur %(n)s",
}
# under one key, and under keys that one of the two does not have
ENGLISH = {"title": "Lamp", "a": {"b": "Zone 1", "c": "Zone 2", "d": "{name} is on", "x": "Only"}}
FRENCH = {"title": "Lampe", "a": {"b": "Zone n°1", "c": "Zone n°2", "d": "{name} est allumé"}}


def wheel(path: Path, origin, files: dict[str, bytes], license: str) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        folder = f"{origin.dist}-{origin.version}.dist-info/"
        archive.writestr(folder + origin.license, license)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def script(monkeypatch, tmp_path):
    path = TOOLS / "vendor_interface.py"
    spec = importlib.util.spec_from_file_location("vendor_interface", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "TARGET", tmp_path / "out")
    lamp = "homeassistant/components/lamp/translations/"
    contents = [
        {"jupyterlab_language_pack_fr_FR/locale/fr_FR/LC_MESSAGES/a.mo": catalog(JUPYTERLAB)},
        {
            "django/contrib/admin/locale/fr/LC_MESSAGES/django.mo": catalog(DJANGO),
            "django/contrib/admin/locale/de/LC_MESSAGES/django.mo": catalog({"Cat": "Katze"}),
        },
        {
            lamp + "fr.json": json.dumps(FRENCH).encode(),
            lamp + "en.json": json.dumps(ENGLISH).encode(),
        },
    ]

    def pack(*licenses):
        origins, paths = [], []
        given = licenses or [f"License\n{origin.terms}\n" for origin in module.ORIGINS]
        for i, origin in enumerate(module.ORIGINS):
            paths.append(tmp_path / f"{i}.whl")
            found = wheel(paths[-1], origin, contents[i], given[i])
            origins.append(origin._replace(sha256=found))
        monkeypatch.setattr(module, "ORIGINS", origins)
        monkeypatch.setattr(sys, "argv", ["vendor_interface.py", *map(str, paths)])

    module.pack = pack
    pack()
    return module


def test_extraction(script, tmp_path):
    script.main()
    out = tmp_path / "out"
    packed = (out / "pairs.tsv.gz").read_bytes()
    assert [line.split("\t") for line in gzip.decompress(packed).decode().splitlines()] == [
        ["jupyterlab", "%1 file", "%1 fichier"],  # the singular
        ["jupyterlab", 'Open "%1"…', "Ouvrir « %1 »…"],
        ["jupyterlab", "Save", "Enregistrer"],  # two votes of three
        ["django", "%(n)s of %(m)s", "%(m)s sur %(n)s"],
        ["django", "You don't", "Vous n'avez pas"],  # "save." is "Save"
        ["home-assistant", "Lamp", "Lampe"],
        ["home-assistant", "Zone 1", "Zone n°1"],  # "Zone 2" is as this
        ["home-assistant", "{name} is on", "{name} est allumé"],
    ]
    note = (out / "SOURCE").read_text(encoding="utf-8")
    for origin in script.ORIGINS:
        assert origin.sha256 in note and f"{origin.package} {origin.version} (PyPI)" in note
    assert hashlib.sha256(packed).hexdigest() in note
    assert hashlib.sha256(gzip.decompress(packed)).hexdigest() in note
    # the header is a message too, but no text; "Save" of three contexts has two translations
    table = [line.split() for line in note.splitlines()[-3:]]
    assert [row[:5] for row in table] == [
        ["jupyterlab", "7", "3", "1", "3"],
        ["django", "6", "3", "1", "2"],
        ["home-assistant", "4", "0", "1", "3"],
    ]
    assert max(map(len, note.splitlines())) <= 99
    terms = (out / "LICENCE").read_text(encoding="utf-8")
    assert all(origin.terms.strip() in terms for origin in script.ORIGINS)
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert set(first) == {"pairs.tsv.gz", "LICENCE", "SOURCE"}
    script.main()
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


@pytest.mark.parametrize("at", [0, 1, 2])
def test_another_package_is_refused(script, tmp_path, monkeypatch, at):
    origins = list(script.ORIGINS)
    origins[at] = origins[at]._replace(sha256="0" * 64)
    monkeypatch.setattr(script, "ORIGINS", origins)
    with pytest.raises(SystemExit, match=f"^{at}.whl: expected SHA-256 0000"):
        script.main()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("at", [0, 1, 2])
def test_another_license_is_refused(script, tmp_path, at):
    licenses = [origin.terms for origin in script.ORIGINS]
    licenses[at] = "GNU General Public License"
    script.pack(*licenses)
    with pytest.raises(SystemExit, match="licenses/LICENSE.*: expected '"):
        script.main()
    assert not (tmp_path / "out").exists()


def test_all_wheels_or_none(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["vendor_interface.py", "one.whl"])
    with pytest.raises(SystemExit):
        script.main()
    assert "expected 3 wheels, got 1" in capsys.readouterr().err
