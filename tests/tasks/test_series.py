"""Series: which columns are read, what is taken for times, and what a trained run takes."""

import math

import pytest
import torch

from companion.tasks import TASKS, FileError, SettingsError
from companion.tasks.forecast import ForecastKnown

FORECAST = TASKS["forecast"]
WAVE = [f"{math.sin(n):.3f}" for n in range(8)]


def table(path, **columns):
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]))
    return path


def read(path, known=None, **settings):
    return FORECAST.read(path, FORECAST.Settings(**settings), known)


GUESSES = {
    "index of pandas": ({"": range(8), "v": WAVE}, {}, ", line 1: column 1 has no name: give it"),
    "number of the row": (
        {"n": range(8), "v": WAVE},
        {},
        ", column 'n': expected values, got numbers that rise from row to row, as times and "
        "numbers of rows do; say --time n if it holds the times, or --target n if",
    ),
    "Unix time": (
        {"stamp": [1.7e9 + n * n + n for n in range(8)], "v": WAVE},
        {},
        ", column 'stamp': expected values, got numbers that rise from row to row",
    ),
    "countdown": (
        {"to go": range(8, 0, -1), "v": WAVE},
        {},
        ", column 'to go': expected values, got numbers that fall from row to row, as times and "
        "numbers of rows do; say --time 'to go' if",
    ),
    "the newest first": (
        {"v": WAVE, "when": range(8, 0, -1)},
        {},
        ", column 'when': expected values, got numbers that fall from row to row, as times and "
        "numbers of rows do; say --time when if it holds the times, or --columns NAMES",
    ),
    "looked at by mistake": (
        {"n": range(8), "v": WAVE},
        {"target": "v"},
        ", column 'n': expected values, got numbers that rise from row to row, as times and "
        "numbers of rows do; say --time n if it holds the times, or --columns NAMES",
    ),
    "beside times": (
        {"time": range(8), "n": range(8), "v": WAVE},
        {},
        ", column 'n': expected values, got numbers that rise from row to row, as times and "
        "numbers of rows do; say --target n if",
    ),
    "a date by another name": (
        {"date": [f"2024-01-0{n}" for n in range(1, 9)], "v": WAVE},
        {},
        ", line 2, column 'date': expected a number such as 3.14, got '2024-01-01'; say --time "
        "date if the column holds the times",
    ),
    "a date of another kind": (
        {"When": ["03/01/2024"] * 8, "v": WAVE},
        {"target": "v"},
        ", line 2, column 'When': expected a number such as 3.14, got '03/01/2024'; say --time",
    ),
    "a name": (
        {"city": ["Bonn"] * 8, "v": WAVE},
        {},
        ", line 2, column 'city': expected a number such as 3.14, got 'Bonn'; if it is not to be",
    ),
    "a mistake": (
        {"v": [*WAVE[:7], "x"], "w": WAVE},
        {},
        ", line 9, column 'v': expected a number such as 3.14, got 'x'",
    ),
}


@pytest.mark.parametrize("case", GUESSES)
def test_no_column_is_guessed_wrongly(tmp_path, case):
    columns, settings, message = GUESSES[case]
    path = table(tmp_path / "a.csv", **columns)
    with pytest.raises(FileError) as error:
        read(path, **settings)
    found = str(error.value)
    assert found.startswith(f"{path}{message}")
    if case == "a mistake":
        assert found == f"{path}{message}"


def test_what_is_named_is_taken(tmp_path):
    path = table(tmp_path / "a.csv", n=range(8), v=WAVE)
    assert read(path, target="n").columns == ("n", "v")
    assert read(path, columns=("n", "v")).columns == ("n", "v")
    assert read(path, target="v", columns=("v",)).columns == ("v",)
    assert read(path, time="n").times.unit == "number"
    unnamed = table(tmp_path / "b.csv", **{"": range(8), "v": WAVE})
    series = read(unnamed, time="")
    assert series.columns == ("v",) and series.times.step == 1
    assert read(unnamed, columns=("v",)).columns == ("v",)
    # the only column is the target, also if it rises
    assert read(table(tmp_path / "c.csv", v=range(8))).columns == ("v",)


@pytest.mark.parametrize("header", ["v,v", "time,v,v", "v,w,w", "time,time,v"])
def test_columns_of_one_name(tmp_path, header):
    path = tmp_path / "a.csv"
    rows = "".join(",".join("12" + str(n)) + "\n" for n in range(9))
    path.write_text(header + "\n" + rows if header.count(",") == 2 else header + "\n1,2\n")
    names = header.split(",")
    twice = next(name for name in names if names.count(name) == 2)
    first = names.index(twice) + 1
    with pytest.raises(FileError) as error:
        read(path)
    want = f"{path}, line 1: expected one column {twice!r}, got columns {first} and {first + 1} of"
    assert str(error.value).startswith(want)


def known(**changes):
    given = {"columns": ("v",), "mean": (0.0,), "std": (1.0,), "unit": "seconds", "step": 86400.0}
    return ForecastKnown(**{**given, "ending": ".csv", **changes})


def test_a_run_without_regard_to_gaps_takes_other_times(tmp_path):
    days = [f"2024-01-{day:02d}" for day in (1, 4, 5, 9, 16, 17, 18, 24)]
    path = table(tmp_path / "a.csv", time=days, v=WAVE)
    series = read(path, known(step=3600.0), gaps="ignore")
    assert series.times.places == tuple(range(8))
    with pytest.raises(FileError, match="expected rows 3600 seconds apart as in training"):
        read(path, known(step=3600.0))
    with pytest.raises(FileError, match="expected rows 1 number apart as in training, got 8"):
        read(path, known(unit="number", step=1.0), gaps="ignore")


def test_a_run_without_times_takes_any(tmp_path):
    path = table(tmp_path / "a.csv", time=[f"2024-01-0{n}" for n in range(1, 9)], v=WAVE)
    assert read(path, known(unit=None, step=0.0)).times.step == 86400


def test_the_step_of_a_single_row_is_that_of_the_training(tmp_path):
    path = table(tmp_path / "a.csv", time=["2024-01-31"], v=[1])
    assert read(path, known(unit="months", step=1.0)).times.after(1) == ["2024-02-29"]
    with pytest.raises(FileError, match="expected rows 1 number apart as in training"):
        read(path, known(unit="number", step=1.0))


def test_past_the_year_9999(tmp_path):
    path = table(tmp_path / "a.csv", time=[f"9999-12-{day}" for day in range(24, 32)], v=WAVE)
    settings = FORECAST.Settings(past=2, horizon=3)
    task = FORECAST(settings, known())
    message = "a.csv, column 'time': 3 times after '9999-12-31' are past the year 9999"
    with pytest.raises(FileError, match=message):
        list(task.predict(path, None, print))


def test_a_column_without_values_in_training(tmp_path):
    path = table(tmp_path / "a.csv", v=[f"{n % 3}" for n in range(60)], w=[""] * 50 + ["1"] * 10)
    settings = FORECAST.Settings(past=2, horizon=1, missing="leave-out")
    whole = FORECAST.read(path, settings)
    with pytest.raises(FileError, match="column 'w': expected a value in the first 40 rows"):
        FORECAST.learn(whole.part(slice(0, 40)), settings)


def test_batches_are_the_windows(tmp_path):
    path = table(tmp_path / "a.csv", v=WAVE, w=[n % 3 for n in range(8)])
    settings = FORECAST.Settings(past=3, horizon=2, batch_size=2)
    series = FORECAST.read(path, settings)
    task = FORECAST(settings, known(columns=("v", "w"), mean=(0.5, 1.0), std=(2.0, 4.0)))
    found = task.windows(series, settings)
    group = type("Group", (), {"rank": 0, "world": 1})
    past, future = map(
        torch.cat, zip(*task.batches(series, shuffle=False, group=group), strict=True)
    )
    order = past[:, 0, 0].argsort()
    want = ((found.past - torch.tensor([0.5, 1.0])) / torch.tensor([2.0, 4.0])).float()
    again = want[:, 0, 0].argsort()
    torch.testing.assert_close(past[order], want[again])
    torch.testing.assert_close(future[order], ((found.future[..., 0] - 0.5) / 2).float()[again])


def test_columns_of_settings():
    for changes, message in (
        ({"columns": ("w", "w")}, "--columns: expected each name once, got 'w' twice"),
        ({"target": "time"}, "--target: expected other columns than 'time', of --time"),
        ({"columns": ("v", "t"), "time": "t"}, "--columns: expected other columns than 't'"),
    ):
        with pytest.raises(SettingsError, match=message):
            FORECAST.Settings(**changes)


def test_a_forecast_keeps_the_digits_that_vary(tmp_path):
    path = table(tmp_path / "a.csv", v=[f"{10**12 + n % 2}" for n in range(8)])
    settings = FORECAST.Settings(past=2, horizon=1)
    task = FORECAST(settings, known(mean=(1e12,), std=(0.5,), unit=None, step=0.0))
    row = list(task.predict(path, None, print))[1].split(",")
    assert abs(float(row[2]) - 1e12) < 10 and row[2] != "1e+12"


def test_a_forecast_of_a_deviation_of_almost_nothing(tmp_path):
    path = table(tmp_path / "a.csv", v=[1.0, 2.0, 1.0])
    task = FORECAST(
        FORECAST.Settings(past=2, horizon=1),
        known(mean=(1e300,), std=(1e-320,), unit=None, step=0.0),
    )
    assert len(list(task.predict(path, None, print))) == 2
