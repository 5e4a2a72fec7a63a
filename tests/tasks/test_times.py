"""Times: the step that they have, and how they go on."""

import pytest

from companion.tasks import FileError
from companion.tasks.times import read_times

CASES = {
    "days": (["2024-02-27", "2024-02-28"], "seconds", 86400, ["2024-02-29", "2024-03-01"]),
    "hours": (
        ["2024-12-31 22:00", "2024-12-31 23:00"],
        "seconds",
        3600,
        ["2025-01-01 00:00", "2025-01-01 01:00"],
    ),
    "zone": (
        ["2024-01-01T00:00:00Z", "2024-01-01T00:00:10Z"],
        "seconds",
        10,
        ["2024-01-01T00:00:20Z", "2024-01-01T00:00:30Z"],
    ),
    "months": (["2023-11", "2023-12"], "months", 1, ["2024-01", "2024-02"]),
    "ends": (
        ["2023-11-30", "2023-12-31", "2024-01-31"],
        "months",
        1,
        ["2024-02-29", "2024-03-31"],
    ),
    "quarters": (["2023-07-01", "2023-10-01"], "months", 3, ["2024-01-01", "2024-04-01"]),
    "years": (["2022", "2023"], "number", 1, ["2024", "2025"]),
    "compact": (
        ["20241231T2200", "20241231T2300"],
        "seconds",
        3600,
        ["20250101T0000", "20250101T0100"],
    ),
    "compact zone": (
        ["20240101T000000+0100", "20240101T000001+0100"],
        "seconds",
        1,
        ["20240101T000002+0100", "20240101T000003+0100"],
    ),
    "compact days": (["20240228", "20240229"], "seconds", 86400, ["20240301", "20240302"]),
    "ends of compact months": (["20240131", "20240229"], "months", 1, ["20240331", "20240430"]),
    "hours alone": (["2024-01-01T22", "2024-01-01T23"], "seconds", 3600, ["2024-01-02T00"]),
    "early": (["0998-12-30", "0998-12-31"], "seconds", 86400, ["0999-01-01"]),
    "tenths of a second": (
        ["2024-01-01T00:00:00.8", "2024-01-01T00:00:00.9"],
        "seconds",
        0.1,
        ["2024-01-01T00:00:01", "2024-01-01T00:00:01.100000"],
    ),
    "epochs with a fraction": (
        ["1700000000.1", "1700000000.2", "1700000000.3"],
        "number",
        0.1,
        ["1700000000.4", "1700000000.5"],
    ),
    "nanoseconds": (
        ["1700000000000000001", "1700000000000001002"],
        "number",
        1001,
        ["1700000000000002003"],
    ),
    "tiny": (["1e-12", "2e-12"], "number", 1e-12, ["0.000000000003"]),
    "tenths": (["0.1", "0.2", "0.3"], "number", 0.1, ["0.4", "0.5"]),
}


@pytest.mark.parametrize("case", CASES)
def test_the_step_and_what_comes_next(case):
    texts, unit, step, after = CASES[case]
    times = read_times("a.csv", "time", range(2, 2 + len(texts)), texts, True)
    assert (times.unit, times.step) == (unit, pytest.approx(step))
    assert times.places == tuple(range(len(texts)))
    assert times.after(len(after)) == after


def test_numbers_of_eight_digits_are_dates_only_if_all_of_them_are():
    times = read_times("a.csv", "time", range(2, 4), ["20240228", "20240230"], True)
    assert (times.unit, times.step) == ("number", 2)
    with pytest.raises(FileError, match="line 3, column 'time': expected a time as in line 2"):
        read_times("a.csv", "time", range(2, 4), ["20240228T00", "20240230T00"], True)


def test_the_end_of_time():
    times = read_times("a.csv", "time", range(2, 4), ["9999-11", "9999-12"], True)
    with pytest.raises(OverflowError, match="1 times after '9999-12' are past the year 9999"):
        times.after(1)


def test_missing_rows_are_gaps_unless_they_are_to_be_ignored():
    # Monday to Friday, then the next Monday
    days = ["2024-03-07", "2024-03-08", "2024-03-11", "2024-03-12", "2024-03-13"]
    lines = range(2, 7)
    assert read_times("a.csv", "time", lines, days, True).places == (0, 1, 4, 5, 6)
    assert read_times("a.csv", "time", lines, days, False).places == (0, 1, 2, 3, 4)
