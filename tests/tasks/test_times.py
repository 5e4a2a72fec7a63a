"""Times: the step that they have, and how they go on."""

import pytest

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
    "tenths": (["0.1", "0.2", "0.3"], "number", 0.1, ["0.4", "0.5"]),
}


@pytest.mark.parametrize("case", CASES)
def test_the_step_and_what_comes_next(case):
    texts, unit, step, after = CASES[case]
    times = read_times("a.csv", "time", range(2, 2 + len(texts)), texts, True)
    assert (times.unit, times.step) == (unit, pytest.approx(step))
    assert times.places == tuple(range(len(texts)))
    assert times.after(2) == after


def test_missing_rows_are_gaps_unless_they_are_to_be_ignored():
    # Monday to Friday, then the next Monday
    days = ["2024-03-07", "2024-03-08", "2024-03-11", "2024-03-12", "2024-03-13"]
    lines = range(2, 7)
    assert read_times("a.csv", "time", lines, days, True).places == (0, 1, 4, 5, 6)
    assert read_times("a.csv", "time", lines, days, False).places == (0, 1, 2, 3, 4)
