"""Windows, splits by time and the scaler: no gap inside, no future in the training."""

import datetime

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.data import Scaler, Weather, load, split_by_time, windows

NAN = float("nan")


def slow(series, past, future, stride, time):
    """Windows one by one: (starts kept, starts left out)."""
    kept, out = [], []
    for start in range(0, len(series) - past - future + 1, stride):
        rows = series[start : start + past + future]
        steps = np.diff(time)
        inside = steps[start : start + past + future - 1]
        fault = rows.isnan().any() or (inside != steps.min()).any()
        (out if fault else kept).append(start)
    return kept, out


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, NAN]), min_size=2, max_size=30),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 4),
    st.data(),
)
def test_windows_one_by_one(values, past, future, stride, data):
    series = torch.tensor(values)[:, None] + torch.tensor([[0.0, 10.0]])
    jumps = data.draw(
        st.lists(st.sampled_from([1, 1, 1, 2]), min_size=len(values), max_size=len(values))
    )
    time = np.cumsum(jumps)
    found = windows(series, past, future, stride=stride, time=time)
    kept, out = slow(series, past, future, stride, time)
    assert (found.starts.tolist(), found.left_out.tolist()) == (kept, out)
    assert found.past.shape == (len(kept), past, 2)
    assert found.future.shape == (len(kept), future, 2)
    for i, start in enumerate(kept):
        assert torch.equal(found.past[i], series[start : start + past])
        assert torch.equal(found.future[i], series[start + past : start + past + future])


def test_without_gaps_nothing_is_copied():
    series = torch.arange(20.0)[:, None]
    found = windows(series, 3, 2, stride=2)
    assert found.starts.tolist() == [0, 2, 4, 6, 8, 10, 12, 14] and len(found.left_out) == 0
    assert found.past.data_ptr() == series.data_ptr()
    assert repr(found) == "Windows(8 of 3 + 2 rows, 0 left out)" and len(found) == 8


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_series_shorter_than_a_window(rows):
    found = windows(torch.zeros(rows, 2), 3, 2, time=np.arange(rows))
    assert len(found) == len(found.left_out) == 0
    assert found.past.shape == (0, 3, 2) and found.future.shape == (0, 2, 2)


def test_times_of_every_kind():
    series = torch.zeros(5, 1)
    hours = np.array([0, 1, 2, 4, 5], dtype="datetime64[h]")
    tensors = torch.tensor([0, 10, 20, 40, 50])
    tenths = np.array([0.0, 0.1, 0.2, 0.4, 0.5])  # 0.2 - 0.1 is not 0.1 - 0.0
    for time in (hours, tensors, tenths, tenths.astype(np.float32)):
        found = windows(series, 1, 1, time=time)
        assert found.starts.tolist() == [0, 1, 3] and found.left_out.tolist() == [2]
    found = windows(series, 1, 1, time=torch.tensor([0, 10, 20, 40, 50], dtype=torch.bfloat16))
    assert found.left_out.tolist() == [2]
    # one row has no neighbor
    assert len(windows(torch.zeros(1, 1), 1, 1, time=hours[:1])) == 0


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_times_that_decrease(kind):
    time = np.array([9, 6, 3], dtype=kind)  # 6 - 9 wraps to a large number, without a sign
    with pytest.raises(ValueError, match="^time: expected times that increase, got 6 in row 1"):
        windows(torch.zeros(3, 1), 1, 1, time=time)
    assert len(windows(torch.zeros(3, 1), 1, 1, time=time[::-1])) == 2


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "float16"])
def test_steps_that_their_dtype_does_not_hold(kind):
    info = np.finfo(kind) if kind == "float16" else np.iinfo(kind)
    time = np.array([info.min, info.max - 64, info.max - 32, info.max], dtype=kind)
    found = windows(torch.zeros(4, 1), 1, 1, time=time)
    assert found.starts.tolist() == [1, 2] and found.left_out.tolist() == [0]


def test_windows_of_the_weather():
    weather = load("weather")
    found = windows(weather.select("temp", "pressure"), 48, 6, time=weather.time)
    # by the stretches of hours without a gap, counted another way
    stretches = weather.stretches("temp", "pressure", at_least=54)
    assert len(found) == sum(s.stop - s.start - 53 for s in stretches)
    assert len(found) + len(found.left_out) == 8706 - 53
    times = weather.time[found.starts.numpy()[:, None] + np.arange(54)]
    assert (np.diff(times, axis=1) == np.timedelta64(1, "h")).all()
    assert isinstance(weather, Weather) and not found.past.isnan().any()
    assert not found.future.isnan().any()


def test_parts_follow_one_another():
    assert split_by_time(100) == (slice(0, 80), slice(80, 90), slice(90, 100))
    assert split_by_time(7, valid=0.3, test=0.3) == (slice(0, 3), slice(3, 5), slice(5, 7))
    assert split_by_time(10, valid=0, test=0) == (slice(0, 10), slice(10, 10), slice(10, 10))
    assert split_by_time(0) == (slice(0, 0), slice(0, 0), slice(0, 0))
    # what lies before the first row cannot be known
    assert split_by_time(10, 0.2, 0.2, context=50).valid == slice(0, 8)


@pytest.mark.parametrize(("past", "future"), [(1, 1), (5, 3), (24, 6)])
def test_no_window_reaches_into_the_future(past, future):
    series = torch.arange(300.0)[:, None]  # each value is its own row
    parts = split_by_time(300, valid=0.2, test=0.2, context=past)
    train, valid, test = (windows(series[part], past, future) for part in parts)
    targets = [set(w.future.flatten().int().tolist()) for w in (train, valid, test)]
    # the targets of a part are its own rows, from the first to the last
    assert targets == [set(range(past, 180)), set(range(180, 240)), set(range(240, 300))]
    # nothing that the training sees, past or future, is a target afterwards
    seen = set(train.past.flatten().int().tolist()) | targets[0]
    assert max(seen) == 179
    for w in (train, valid, test):
        assert (w.past.amax(1) < w.future.amin(1)).all()


def test_scaled_columns():
    series = torch.tensor([[1.0, 2.0, 7.0], [3.0, NAN, 7.0], [5.0, 6.0, 7.0]])
    scaler = Scaler.fit(series)
    assert scaler.mean.tolist() == [3.0, 4.0, 7.0]
    # deviations of a population: sqrt(8/3), and 2 over the two values that are there
    torch.testing.assert_close(scaler.std, torch.tensor([(8 / 3) ** 0.5, 2.0, 1.0]))
    z = scaler.transform(series)
    assert z[:, 2].tolist() == [0, 0, 0] and z[0, 1] == -1 and z[1, 1].isnan()
    torch.testing.assert_close(scaler.inverse(z), series, equal_nan=True)
    assert not series[:, 0].isnan().any() and series[0, 0] == 1  # unchanged
    pair = scaler.select(2, 0)
    torch.testing.assert_close(pair.inverse(z[..., [2, 0]]), series[..., [2, 0]])
    batch = scaler.transform(series.expand(4, 3, 3))
    torch.testing.assert_close(batch[1], z, equal_nan=True)


def test_large_offsets_and_constant_columns():
    # 100,000 values near a million: sums in float32 would be off by far more than the deviation
    x = 1e6 + torch.randn(100_000, 1, generator=torch.Generator().manual_seed(0)).round()
    scaler = Scaler.fit(x)
    assert scaler.mean.item() == pytest.approx(x.double().mean().item(), abs=0.1)
    assert scaler.std.item() == pytest.approx(x.double().std(correction=0).item(), rel=1e-5)
    for constant in (0.0, 0.1, -1e6, 1e-8):
        assert Scaler.fit(torch.full((1000, 1), constant)).std.item() == 1


@pytest.mark.parametrize(
    ("pair", "deviation"),
    [
        ((1e-9, 3e-9), 1e-9),
        ((1e-200, 3e-200), 1e-200),  # whose squares are 0
        ((1e200, 2e200), 5e199),  # whose squares are infinite
        ((-1.5e308, 1.5e308), 1.5e308),
        ((5e-324, 15e-324), 5e-324),  # the smallest number there is
        ((1e6, 1e6 + 2**-23), 2**-24),
        ((0.1, 0.1), 1.0),
    ],
)
def test_deviations_of_every_size(pair, deviation):
    series = torch.tensor(pair, dtype=torch.float64)[:, None]
    scaler = Scaler.fit(series)
    assert scaler.std.item() == pytest.approx(deviation, rel=1e-6, abs=0)
    assert scaler.mean.item() == pytest.approx(pair[0] / 2 + pair[1] / 2, abs=0)
    assert scaler.transform(series).flatten().tolist() == pytest.approx(
        [0, 0] if pair[0] == pair[1] else [-1, 1], abs=1e-2
    )


@pytest.mark.parametrize(
    ("values", "dtype"), [([0.0, 0.0, 6e-8], torch.float16), ([0.0, 1e-45], torch.float32)]
)
def test_a_deviation_that_the_dtype_does_not_hold(values, dtype):
    series = torch.tensor(values, dtype=dtype)[:, None]
    assert series.count_nonzero() == 1  # it does hold the values
    scaler = Scaler.fit(series)
    assert scaler.std.item() == 1 and scaler.std.dtype == dtype
    assert scaler.transform(series).isfinite().all()


def test_a_scaler_knows_the_training_alone():
    series = torch.arange(100.0)[:, None]
    parts = split_by_time(100, valid=0.2, test=0.2, context=5)
    changed = series.clone()
    changed[60:] = 1e9
    assert torch.equal(Scaler.fit(series[parts.train]).mean, Scaler.fit(changed[parts.train]).mean)
    assert Scaler.fit(series[parts.train]).mean.item() == 29.5


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: windows([1.0], 1, 1), TypeError, r"^series: .*shape \(T, D\), got list"),
        (lambda: windows(torch.arange(9), 1, 1), TypeError, "^series: .*torch.int64"),
        (lambda: windows(torch.zeros(9), 1, 1), ValueError, r"^series: .*got \(9,\)"),
        (lambda: windows(torch.zeros(9, 1), 0, 1), ValueError, "^past: .*got 0"),
        (lambda: windows(torch.zeros(9, 1), 1, 1.0), TypeError, "^future: .*float .1.0"),
        (lambda: windows(torch.zeros(9, 1), 1, 1, stride=True), TypeError, "^stride: .*True"),
        (
            lambda: windows(torch.zeros(3, 1), 1, 1, time=[1, 2]),
            ValueError,
            r"^time: expected shape \(3,\) like the series, got \(2,\)",
        ),
        (
            lambda: windows(torch.zeros(3, 1), 1, 1, time=[1, 2, 2]),
            ValueError,
            "^time: expected times that increase, got 2 in row 2",
        ),
        (
            lambda: windows(torch.zeros(3, 1), 1, 1, time=np.array([0.0, NAN, 2.0])),
            ValueError,
            "^time: expected times that increase, got nan in row 1",
        ),
        (
            lambda: windows(torch.zeros(3, 1), 1, 1, time=[True, False, True]),
            TypeError,
            "^time: expected numbers or numpy datetime64, got dtype bool",
        ),
        (
            lambda: windows(torch.zeros(2, 1), 1, 1, time=["a", "b"]),
            TypeError,
            "^time: .*dtype <U",
        ),
        (
            lambda: windows(torch.zeros(1, 1), 1, 1, time=[datetime.datetime(2024, 1, 1)]),
            TypeError,
            "^time: .*dtype object",
        ),
        (lambda: split_by_time(10, "a"), TypeError, "^valid: expected a number, got str"),
        (lambda: split_by_time(10.0), TypeError, "^rows: expected an int, got float"),
        (lambda: split_by_time(10, 0.5, 0.5), ValueError, "^valid, test: expected shares"),
        (lambda: split_by_time(2, 0.45, 0.5), ValueError, "^valid, test: .*some of 2 rows"),
        (lambda: split_by_time(-1), ValueError, "^rows: .*got -1"),
        (lambda: split_by_time(9, context=-1), ValueError, "^context: .*got -1"),
        (lambda: Scaler.fit(torch.tensor([[NAN]])), ValueError, "^series: .*column 0.*but NaN"),
        (
            lambda: Scaler.fit(torch.tensor([[1.0, float("inf")]])),
            ValueError,
            "^series: .*column 1, got an infinity",
        ),
        (
            lambda: Scaler.fit(torch.zeros(2, 3)).transform(torch.zeros(2, 2)),
            ValueError,
            r"^x: expected 3 columns in the last dimension, got shape \(2, 2\)",
        ),
        (
            lambda: Scaler.fit(torch.zeros(2, 3)).inverse(torch.zeros(2, 2)),
            ValueError,
            r"^z: expected 3 columns in the last dimension, got shape \(2, 2\)",
        ),
        (lambda: Scaler.fit(torch.zeros(2, 3)).transform([1.0]), TypeError, "^x: .*got list"),
        (lambda: Scaler.fit(torch.zeros(2, 3)).select(1.5), TypeError, "^columns: .*got 1.5"),
        (lambda: Scaler.fit(torch.zeros(2, 3)).select(0, 3), IndexError, r"^columns: .*2, got 3"),
        (lambda: Scaler.fit(torch.zeros(2, 3)).select(-1), IndexError, "^columns: .*got -1"),
    ],
)
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_dates_of_python():
    day = datetime.datetime(2024, 2, 28)
    time = np.array([day, day + datetime.timedelta(1), day + datetime.timedelta(3)])
    found = windows(torch.zeros(3, 1), 1, 1, time=time.astype("datetime64[D]"))
    assert found.starts.tolist() == [0] and found.left_out.tolist() == [1]
