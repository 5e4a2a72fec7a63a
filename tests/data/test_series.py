"""The weather: what was measured, what was not, and the hours in between."""

import gzip
import hashlib
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import torch

from companion.data import Weather, load
from companion.data.labelled import FILES

FOLDER = FILES / "weather"


@pytest.fixture(scope="module")
def weather():
    return load("weather")


@pytest.fixture(scope="module")
def note():
    return (FOLDER / "SOURCE").read_text(encoding="utf-8")


def test_the_form(weather):
    assert isinstance(weather, Weather) and len(weather) == 8706
    assert weather.values.shape == (8706, 9) and weather.values.dtype == torch.float32
    assert weather.values.is_contiguous()
    assert weather.time.shape == (8706,) and weather.time.dtype == np.dtype("datetime64[h]")
    assert tuple(weather.units) == weather.columns
    assert weather.units["temp"] == "°F" and weather.units["pressure"] == "mbar"
    assert repr(weather).startswith("Weather(8706 hours, columns: temp, dewp, humid, wind_dir,")


# read off the table of the package by hand
ROWS = {
    "2013-01-01T06": (39.02, 26.06, 59.37, 260, 12.65858, None, 0, 1012.6, 10),
    "2013-05-09T02": (13.1, 12.02, 95.34, 80, 8.05546, None, 0, 1016.9, 10),
    "2013-12-30T23": (30.02, 10.04, 42.66, 340, 18.41248, None, 0, 1020.9, 10),
}


@pytest.mark.parametrize("hour", ROWS)
def test_known_rows(weather, hour):
    (row,) = weather.values[torch.from_numpy(weather.time == np.datetime64(hour))].tolist()
    for found, stated in zip(row, ROWS[hour], strict=True):
        assert math.isnan(found) if stated is None else found == pytest.approx(stated, rel=1e-6)


def test_the_time_is_that_of_the_package(weather, note):
    assert str(weather.time[0]) == "2013-01-01T06" and str(weather.time[-1]) == "2013-12-30T23"
    # one o'clock in the morning in New York, five hours behind
    first = datetime(2013, 1, 1, 1) + timedelta(hours=5)
    assert weather.time[0].astype(datetime).replace(tzinfo=UTC) == first.replace(tzinfo=UTC)
    assert "time_hour is in UTC" in note


def test_gaps(weather, note):
    steps = np.diff(weather.time).astype(int)
    assert steps.min() == 1
    places = np.flatnonzero(steps > 1)
    assert len(places) == 14 and int((steps - 1).sum()) == 24
    # 364 days less 7 hours, both ends counted, is the number of rows and of missing hours
    assert 364 * 24 - 7 + 1 == len(weather) + 24
    listed = [line.split() for line in note.split("first hour after it\n")[1].splitlines()]
    ends = [[f"{weather.time[i]}:00:00Z" for i in (k, k + 1)] for k in places]
    assert listed == ends


def test_missing_values(weather, note):
    missing = dict(zip(weather.columns, weather.values.isnan().sum(0).tolist(), strict=True))
    assert missing == {
        "temp": 0,
        "dewp": 0,
        "humid": 0,
        "wind_dir": 51,
        "wind_speed": 3,
        "wind_gust": 7199,
        "precip": 0,
        "pressure": 831,
        "visib": 0,
    }
    table = note.split("hours without a value\n")[1].split("\n\n")[0]
    assert {name: int(n) for name, n in map(str.split, table.splitlines())} == missing


def test_what_was_measured_can_be(weather):
    low = dict(temp=0, dewp=-15, humid=0, wind_dir=0, wind_speed=0, precip=0, pressure=950)
    high = dict(temp=105, dewp=85, humid=100, wind_dir=360, wind_speed=80, precip=2, pressure=1060)
    for name in low:
        column = weather.select(name)
        column = column[~column.isnan()]
        assert low[name] <= column.min() and column.max() <= high[name], name
    # air cools to its dew point, not below it
    temp, dewp = weather.select("temp", "dewp").unbind(1)
    assert (dewp <= temp).all()


def test_the_note_has_the_hashes(note):
    packed = (FOLDER / "weather.csv.gz").read_bytes()
    assert f"result sha256   {hashlib.sha256(packed).hexdigest()}" in note
    assert f"text sha256     {hashlib.sha256(gzip.decompress(packed)).hexdigest()}" in note
    assert len(packed) < 90_000
    assert packed[4:8] == bytes(4)  # no time of packing in it
    assert "License: CC0" in (FOLDER / "LICENCE").read_text(encoding="utf-8")


def test_select(weather):
    assert torch.equal(weather.select("temp"), weather.values[:, :1])
    both = weather.select("visib", "temp")
    assert torch.equal(both, weather.values[:, [8, 0]])
    assert weather.select().shape == (8706, 9)
    with pytest.raises(ValueError, match=r"names: expected some of \('temp'.*got 'rain'"):
        weather.select("temp", "rain")


def toy(hours, values):
    time = np.array([f"2013-03-10T{hour:02}" for hour in hours], dtype="datetime64[h]")
    units = {"a": "m", "b": "m"}
    return Weather(time=time, values=torch.tensor(values), columns=("a", "b"), units=units)


NAN = float("nan")


def test_stretches_by_hand():
    # the gap is between rows 2 and 3; b was not measured at rows 0, 4 and 7
    hours = (0, 1, 2, 5, 6, 7, 8, 9)
    table = toy(hours, [[1.0, NAN if i in (0, 4, 7) else 1.0] for i in range(8)])
    assert table.stretches("a") == [slice(0, 3), slice(3, 8)]
    assert table.stretches("b") == [slice(1, 3), slice(3, 4), slice(5, 7)]
    assert table.stretches("a", "b") == table.stretches() == table.stretches("b")
    assert table.stretches("b", at_least=2) == [slice(1, 3), slice(5, 7)]
    assert table.stretches("b", at_least=3) == []


@pytest.mark.parametrize("values", [[[NAN, 1.0]], [[NAN, 1.0], [NAN, 1.0]]])
def test_stretches_of_little(values):
    table = toy(range(len(values)), values)
    assert table.stretches("a") == []
    assert table.stretches("b") == [slice(0, len(values))]


def test_stretches_of_the_weather(weather):
    assert len(weather.stretches("temp")) == 15  # 14 gaps
    names = ("temp", "humid", "wind_speed", "pressure")
    stretches = weather.stretches(*names)
    kept = torch.cat([torch.arange(len(weather))[stretch] for stretch in stretches])
    complete = ~weather.select(*names).isnan().any(1)
    assert torch.equal(kept, complete.nonzero()[:, 0])
    for stretch in stretches:
        assert (np.diff(weather.time[stretch]).astype(int) == 1).all()
    longest = max(stretches, key=lambda stretch: stretch.stop - stretch.start)
    assert longest.stop - longest.start == 312
    assert str(weather.time[longest.start]) == "2013-09-22T07"


def test_stretches_called_wrongly(weather):
    with pytest.raises(ValueError, match="at_least: expected at least 1, got 0"):
        weather.stretches("temp", at_least=0)
    with pytest.raises(TypeError, match="at_least: expected an int, got float"):
        weather.stretches("temp", at_least=1.5)
    with pytest.raises(ValueError, match="names: expected some of"):
        weather.stretches("rain")
