"""Study: short series. Carbon dioxide by the month, sunspots by the year: LSTM and linear map.

The rate of each network is chosen on the validation part with a seed that is not reported, and
the best epoch on the validation part is kept.
"""

from __future__ import annotations

import torch
from statsmodels.datasets import co2, sunspots
from torch import Tensor

from companion.data import Scaler, Windows, batches, split_by_time, windows
from companion.look import run_study
from companion.models import Forecaster, forecasting_objective
from companion.reproduce import deterministic, seed_all
from companion.train import EarlyStopping, Trainer

SEEDS, RATES, RATE_SEED, EPOCHS, BATCH, HIDDEN = (
    range(5),
    (3e-3, 1e-2, 3e-2, 1e-1),
    100,
    60,
    32,
    32,
)
CO2 = (36, 12, 0.1, 0.2)  # past, future, shares of validation and test
SUN = (22, 5, 0.15, 0.25)


def carbon() -> Tensor:
    """Monthly means in ppm, (526, 1); five months without a value are interpolated."""
    monthly = co2.load_pandas().data["co2"].resample("MS").mean().interpolate()
    return torch.tensor(monthly.to_numpy())[:, None]


def spots() -> Tensor:
    """Yearly means, (309, 1)."""
    yearly = sunspots.load_pandas().data["SUNACTIVITY"]
    return torch.tensor(yearly.to_numpy())[:, None]


def parts(series: Tensor, sizes: tuple[int, int, float, float]) -> tuple[list[Windows], Scaler]:
    past, future, valid, test = sizes
    split = split_by_time(len(series), valid, test, context=past)
    scaler = Scaler.fit(series[split.train])
    scaled = scaler.transform(series).float()
    return [windows(scaled[p], past, future) for p in split], scaler


def run(found: list[Windows], relative: bool, seed: int, rate: float) -> tuple[float, Tensor]:
    """Validation loss, and scaled forecasts of the test."""
    train, valid, test = found
    seed_all(seed)
    model = Forecaster(1, train.future.shape[1], HIDDEN, "lstm", relative=relative)
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    trainer = Trainer(
        model,
        forecasting_objective,
        adam,
        clip_norm=1.0,
        early_stopping=EarlyStopping(EPOCHS),
        progress=False,
    )
    rows = batches(train.past, train.future[..., 0], batch_size=BATCH, shuffle=True, seed=seed)
    history = trainer.fit(rows, [(valid.past, valid.future[..., 0])], epochs=EPOCHS)
    with torch.no_grad():
        return history.best()[1], model.eval()(test.past)


def rates(found: list[Windows], relative: bool) -> float:
    return min(RATES, key=lambda rate: run(found, relative, RATE_SEED, rate)[0])


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    series = carbon()
    tasks = {
        "co2_level": (*parts(series, CO2), False),
        "co2_relative": (*parts(series, CO2), True),
        "co2_seasonal": (*parts(series[12:] - series[:-12], CO2), False),
        "sun": (*parts(spots(), SUN), False),
    }
    best = {name: rates(found, relative) for name, (found, _, relative) in tasks.items()}
    print(best, flush=True)

    def one_seed(seed: int) -> dict[str, float]:
        values = {}
        for name, (found, scaler, relative) in tasks.items():
            _, forecast = run(found, relative, seed, best[name])
            error = (forecast - found[2].future[..., 0]) * scaler.std.item()
            values[f"{name}_rmse"] = error.square().mean().sqrt().item()
            values[f"{name}_1"] = error[:, 0].square().mean().sqrt().item()
        return values

    what = {
        "co2_level": ("CO2: LSTM that gives levels", "ppm"),
        "co2_relative": ("CO2: LSTM that gives differences from the last value", "ppm"),
        "co2_seasonal": ("CO2: LSTM on differences from the same month a year before", "ppm"),
        "sun": ("sunspots: LSTM", ""),
    }
    path = run_study(
        __file__,
        f"Test RMSE of all steps. LSTM of {HIDDEN} units, {EPOCHS} passes in batches of {BATCH}, "
        f"Adam at the best of {RATES} on the validation part, best epoch kept. CO2: 36 months "
        "known, 12 forecast; sunspots: 22 years known, 5 forecast.",
        one_seed,
        SEEDS,
        {f"{name}_rmse": (f"{text}, all steps", unit) for name, (text, unit) in what.items()}
        | {f"{name}_1": (f"{text}, one step ahead", unit) for name, (text, unit) in what.items()},
    )
    print(path.name)
