"""Study: a classical method, Theta, on the weather and on carbon dioxide, beside the linear map.

Theta is fitted anew at each origin, to the last week of hours or to all months up to there; at
each twelfth window of the weather, at each of the carbon dioxide.
"""

from __future__ import annotations

import forecast_weather
import forecast_years
import numpy as np
import torch
from statsmodels.tsa.forecasting.theta import ThetaModel
from torch import Tensor

from companion.data import split_by_time
from companion.look import run_study
from companion.models import LinearForecaster, SeasonalNaive

WEEK, EACH = 168, 12


def theta(past: np.ndarray, period: int, steps: int) -> Tensor:
    fit = ThetaModel(past, period=period, use_test=False, method="additive").fit()
    return torch.tensor(fit.forecast(steps).to_numpy())


def results(name: str, error: Tensor) -> dict[str, float]:
    return {
        f"{name}_1": error[:, 0].square().mean().sqrt().item(),
        f"{name}_rmse": error.square().mean().sqrt().item(),
    }


def hours() -> dict[str, float]:
    common = forecast_weather
    (train, _, test), scaler, values = common.parts("temp")
    first = split_by_time(len(values), 0.1, 0.2, context=common.PAST).test.start
    chosen: list[int] = []
    forecasts: list[Tensor] = []
    for i in range(0, len(test), EACH):
        now = first + int(test.starts[i]) + common.PAST
        hour = common.weather.time[now - WEEK : now]
        if hour[-1] - hour[0] != np.timedelta64(WEEK - 1, "h"):
            continue
        chosen.append(i)
        forecasts.append(theta(values[now - WEEK : now, 0].numpy(), 24, common.FUTURE))
    past, future = test.past[chosen], test.future[chosen, :, 0]
    linear = LinearForecaster(1, common.PAST, common.FUTURE, relative=True)
    linear.fit(train.past, train.future)
    std, mean = scaler.std[0], scaler.mean[0]
    naive = SeasonalNaive(common.FUTURE)(past)
    return (
        results("hours_theta", torch.stack(forecasts) - (future * std + mean))
        | results("hours_linear", (linear(past).detach() - future) * std)
        | results("hours_naive", (naive - future) * std)
        | {"hours_windows": len(chosen)}
    )


def months() -> dict[str, float]:
    series = forecast_years.carbon()
    known, ahead, valid, share = forecast_years.CO2
    (_, _, test), scaler = forecast_years.parts(series, forecast_years.CO2)
    first = split_by_time(len(series), valid, share, context=known).test.start
    values = series[:, 0].numpy()
    forecasts = [
        theta(values[: first + start + known], 12, ahead) for start in test.starts.tolist()
    ]
    future = test.future[..., 0] * scaler.std + scaler.mean
    return results("months_theta", torch.stack(forecasts) - future)


if __name__ == "__main__":
    torch.set_num_threads(1)
    keys: dict[str, str | tuple[str, str]] = {"hours_windows": "windows of the weather"}
    for task, unit in (("hours", "°F"), ("months", "ppm")):
        for method in ("theta", "linear", "naive") if task == "hours" else ("theta",):
            keys[f"{task}_{method}_1"] = (f"{task}, {method}: test RMSE one step ahead", unit)
            keys[f"{task}_{method}_rmse"] = (f"{task}, {method}: test RMSE, all steps", unit)
    path = run_study(
        __file__,
        f"Theta on each {EACH}th test window of the weather, fitted to the {WEEK} hours before, "
        "and on each test window of CO2, fitted to all months before. Nothing is drawn.",
        lambda seed: hours() | months(),
        [0],
        keys,
    )
    print(path.name)
