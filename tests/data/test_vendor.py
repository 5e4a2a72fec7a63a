"""The script that extracts the surnames, on a package made up here."""

import hashlib
import importlib.util
import sys
import zipfile
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"

LOCALES = {
    "fr_DZ": 'class Provider:\n    last_names = ("Abad", "Zidane")\n',
    # weights, in the two forms that the package has had
    "sv_SE": 'class Provider:\n    last_names = OrderedDict((("Öberg", 0.3), ("Abad", 0.1)))\n',
    "en_GB": 'class Provider:\n  last_names = OrderedDict({"Smith": 3, "SMITH": 1, "O’Neil": 2})',
    "et_EE": 'class Provider:\n    last_names_est: tuple = ("Ots ", "Иванов", "A1", "X")\n',
}


@pytest.fixture
def script(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("vendor_surnames", TOOLS / "vendor_surnames.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wheel = tmp_path / "faker.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for locale, text in LOCALES.items():
            archive.writestr(f"faker/providers/person/{locale}/__init__.py", text)
        archive.writestr(f"faker-{module.VERSION}.dist-info/licenses/LICENSE.txt", "license text")
    lists = {
        language: found
        for language, found in module.LISTS.items()
        if all(locale in LOCALES for locale, _ in found)
    }
    monkeypatch.setattr(module, "LISTS", lists)
    monkeypatch.setattr(module, "TARGET", tmp_path / "out")
    monkeypatch.setattr(module, "SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    monkeypatch.setattr(sys, "argv", ["vendor_surnames.py", str(wheel)])
    return module


def test_extraction(script, tmp_path):
    script.main()
    out = tmp_path / "out"
    # Abad is in two languages, SMITH is Smith, and three entries are no names in Latin letters
    assert (out / "surnames.tsv").read_text(encoding="utf-8").splitlines() == [
        "Zidane\tArabic",
        "O'Neil\tEnglish",
        "SMITH\tEnglish",
        "Ots\tEstonian",
        "Öberg\tSwedish",
    ]
    assert (out / "LICENCE").read_text(encoding="utf-8") == "license text"
    note = (out / "SOURCE").read_text(encoding="utf-8")
    assert hashlib.sha256((out / "surnames.tsv").read_bytes()).hexdigest() in note
    assert script.SHA256 in note and script.VERSION in note
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    script.main()
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_the_limit_is_kept(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "LIMIT", 1)
    script.main()
    rows = (tmp_path / "out" / "surnames.tsv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == len({row.split("\t")[1] for row in rows}) == 4


def test_another_package_is_refused(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "SHA256", "0" * 64)
    with pytest.raises(SystemExit, match="expected SHA-256 0000"):
        script.main()
    assert not (tmp_path / "out").exists()


def test_code_is_not_run(script):
    with pytest.raises(ValueError):
        script.surnames(
            "class Provider:\n    last_names = exit()\n    last_names = f()\n", "last_names"
        )
    with pytest.raises(SystemExit, match="no attribute last_names"):
        script.surnames("class Other:\n    last_names = ()\n", "last_names")
