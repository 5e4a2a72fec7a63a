"""Study: other ways to forecast the same weather: step by step, in quantiles, from more columns.

The windows, the budget and the choice of the epoch are those of the study forecast_weather; every
network is an LSTM of 32 units.
"""

from __future__ import annotations

import forecast_weather as common
import torch
from torch import Tensor, nn

from companion.data import Scaler, Windows, split_by_time, windows
from companion.look import run_study
from companion.models import Forecaster
from companion.reproduce import deterministic, seed_all

SEEDS, RATE = range(5), 1e-2
HOURS, LEVELS = common.HOURS, (0.1, 0.5, 0.9)
COLUMNS = {
    "temp": ("temp",),
    "dewp": ("temp", "dewp"),
    "wind": ("temp", "dewp", "wind_dir", "wind_speed"),
    "clock": ("temp",),
    "dewp_clock": ("temp", "dewp"),
}


def inputs(key: str) -> tuple[list[Windows], Scaler]:
    """Windows of the columns of one key; where it says so, with the hour of the day."""
    values = common.weather.select(*COLUMNS[key])
    if key == "wind":  # a direction as a vector; at 0 mph there is none
        angle, speed = values[:, 2].deg2rad(), values[:, 3]
        calm = speed == 0
        east, north = ((speed * part).where(~calm, 0.0) for part in (angle.sin(), angle.cos()))
        values = torch.cat([values[:, :2], torch.stack([east, north], 1)], 1)
    if "clock" in key:
        hour = torch.from_numpy(common.weather.time.astype("int64") % 24).float()
        angle = hour * (2 * torch.pi / 24)
        values = torch.cat([values, torch.stack([angle.sin(), angle.cos()], 1)], 1)
    split = split_by_time(len(values), 0.1, 0.2, context=common.PAST)
    scaler = Scaler.fit(values[split.train])
    scaled = scaler.transform(values)
    time = common.weather.time
    return [windows(scaled[p], common.PAST, common.FUTURE, time=time[p]) for p in split], scaler


@torch.no_grad()
def rolled(model: nn.Module, past: Tensor, steps: int) -> Tensor:
    """Forecasts of one step each read back as input, (N, steps)."""
    model.eval()
    for _ in range(steps):
        past = torch.cat([past[:, 1:], model(past)[:, :1, None]], 1)
    return past[:, -steps:, 0]


def lstm(columns: int, steps: int, **options: object) -> Forecaster:
    return Forecaster(columns, steps, 32, "lstm", relative=True, **options)  # type: ignore[arg-type]


def recursive(seed: int) -> dict[str, float]:
    (train, valid, test), scaler = inputs("temp")
    seed_all(seed)
    model = lstm(1, 1)
    common.fitted(model, train, valid, seed, RATE, steps=1)
    found = {}
    future = test.future[..., 0]
    error = (rolled(model, test.past, common.FUTURE) - future) * scaler.std[0]
    by_hour = error.square().mean(0).sqrt()
    found |= {f"recursive_{hour}": by_hour[hour - 1].item() for hour in HOURS}
    found["recursive_rmse"] = error.square().mean().sqrt().item()
    return found


@torch.no_grad()
def quantiles(seed: int) -> dict[str, float]:
    (train, valid, test), scaler = inputs("temp")
    seed_all(seed)
    model = lstm(1, common.FUTURE, quantiles=LEVELS)
    with torch.enable_grad():
        common.fitted(model, train, valid, seed, RATE)
    model.eval()
    found = {}
    for name, part in (("train", train), ("valid", valid), ("test", test)):
        forecast, future = model(part.past), part.future[..., 0]
        below = (future[..., None] <= forecast).double()
        found |= {
            f"below_{name}_{level:g}": below[..., k].mean().item()
            for k, level in enumerate(LEVELS)
        }
        inside = below[..., 2] - below[..., 0]
        found[f"inside_{name}"] = inside.mean().item()
        width = (forecast[..., 2] - forecast[..., 0]) * scaler.std[0]
        found[f"width_{name}"] = width.mean().item()
        if name == "test":
            found |= {f"inside_{hour}": inside[:, hour - 1].mean().item() for hour in HOURS}
            found["crossed"] = (forecast.diff(dim=-1) < 0).double().mean().item()
            weight = (forecast[..., 1] - future) * scaler.std[0]
            found["median_mae"] = weight.abs().mean().item()
    return found


def columns(seed: int) -> dict[str, float]:
    found = {}
    for key in COLUMNS:
        (train, valid, test), scaler = inputs(key)
        seed_all(seed)
        model = lstm(train.past.shape[2], common.FUTURE)
        common.fitted(model, train, valid, seed, RATE)
        error = common.errors(model, test, scaler)
        by_hour = error.square().mean(0).sqrt()
        found[f"{key}_rmse"] = error.square().mean().sqrt().item()
        found |= {f"{key}_{hour}": by_hour[hour - 1].item() for hour in HOURS}
    return found


def one_seed(seed: int) -> dict[str, float]:
    return recursive(seed) | quantiles(seed) | columns(seed)


def keys() -> dict[str, str | tuple[str, str]]:
    named: dict[str, str | tuple[str, str]] = {}
    for key in ("recursive", *COLUMNS):
        named |= {f"{key}_{hour}": (f"{key}: test RMSE {hour} h ahead", "°F") for hour in HOURS}
        named[f"{key}_rmse"] = (f"{key}: test RMSE of all 24 hours", "°F")
    for part in ("train", "valid", "test"):
        for level in LEVELS:
            named[f"below_{part}_{level:g}"] = f"{part}: share at or below quantile {level:g}"
        named[f"inside_{part}"] = f"{part}: share between quantiles 0.1 and 0.9"
        named[f"width_{part}"] = (f"{part}: mean width of the interval", "°F")
    named |= {f"inside_{hour}": f"test: share between, {hour} h ahead" for hour in HOURS}
    named["crossed"] = "test: share of neighboring quantiles that cross"
    named["median_mae"] = ("test: mean absolute error of the median", "°F")
    return named


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"LSTM of 32 units on the windows and budget of forecast_weather, Adam at {RATE:g}: one "
        f"step ahead, read back; quantiles {LEVELS}; more columns (dew point; wind as a vector; "
        "the hour of the day).",
        one_seed,
        SEEDS,
        keys(),
    )
    print(path.name)
