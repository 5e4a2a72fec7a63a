"""Study: seven networks forecast the temperature of the next day, at equal budget.

Hourly temperature at JFK, 2013: 48 hours are known, 24 are forecast. All networks see the same
windows in the same number of steps; the rate of each is chosen on the validation part with a seed
that is not among the reported ones, and the best epoch on the validation part is kept.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from companion.data import Scaler, Windows, batches, load, split_by_time, windows
from companion.look import run_study
from companion.models import (
    NBEATS,
    TCN,
    Forecaster,
    TransformerForecaster,
    forecasting_objective,
)
from companion.reproduce import deterministic, seed_all
from companion.train import EarlyStopping, Trainer

SEEDS = range(5)
PAST, FUTURE, STRIDE, EPOCHS, BATCH = 48, 24, 2, 12, 64
RATES, RATE_SEED = (1e-3, 3e-3, 1e-2, 3e-2), 100
HOURS = (1, 2, 3, 6, 9, 12, 15, 18, 21, 24)
MODELS: dict[str, Callable[[], nn.Module]] = {
    "rnn": lambda: Forecaster(1, FUTURE, 64, "rnn", relative=True),
    "lstm": lambda: Forecaster(1, FUTURE, 32, "lstm", relative=True),
    "gru": lambda: Forecaster(1, FUTURE, 36, "gru", relative=True),
    "tcn": lambda: TCN(1, FUTURE, 14, 5, relative=True),
    "nbeats": lambda: NBEATS(1, PAST, FUTURE, 2, 24, 2, relative=True),
    "transformer": lambda: TransformerForecaster(1, FUTURE, 20, 4, 1, relative=True),
    "blind": lambda: TransformerForecaster(1, FUTURE, 20, 4, 1, positions=False, relative=True),
}
weather = load("weather")


def parts(*names: str) -> tuple[list[Windows], Scaler, Tensor]:
    """Windows of training, validation and test, their scaler, and the columns."""
    values = weather.select(*names)
    split = split_by_time(len(values), 0.1, 0.2, context=PAST)
    scaler = Scaler.fit(values[split.train])
    scaled = scaler.transform(values)
    return (
        [windows(scaled[p], PAST, FUTURE, time=weather.time[p]) for p in split],
        scaler,
        values,
    )


def fitted(
    model: nn.Module, train: Windows, valid: Windows, seed: int, rate: float, steps: int = FUTURE
) -> Trainer:
    """Train for EPOCHS passes and go back to the best; the first ``steps`` hours are targets."""
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    trainer = Trainer(
        model,
        forecasting_objective,
        adam,
        clip_norm=1.0,
        early_stopping=EarlyStopping(EPOCHS),
        progress=False,
    )
    rows = batches(
        train.past[::STRIDE],
        train.future[::STRIDE, :steps, 0],
        batch_size=BATCH,
        shuffle=True,
        seed=seed,
    )
    held = batches(valid.past, valid.future[:, :steps, 0], batch_size=500)
    trainer.fit(rows, held, epochs=EPOCHS)
    return trainer


@torch.no_grad()
def errors(model: nn.Module, part: Windows, scaler: Scaler) -> Tensor:
    """Forecast minus what came, (N, F), in °F."""
    model.eval()
    return (model(part.past) - part.future[..., 0]) * scaler.std[0]


def chosen_rate(make: Callable[[], nn.Module], train: Windows, valid: Windows) -> float:
    losses = {}
    for rate in RATES:
        seed_all(RATE_SEED)
        trainer = fitted(make(), train, valid, RATE_SEED, rate)
        losses[rate] = trainer.history.best()[1]
    return min(losses, key=losses.__getitem__)


def measured(error: Tensor, scale: float) -> dict[str, float]:
    by_hour = error.square().mean(0).sqrt()
    values = {f"{hour}": by_hour[hour - 1].item() for hour in HOURS}
    return values | {"rmse": error.square().mean().sqrt().item(), "mase": mase(error, scale)}


def mase(error: Tensor, scale: float) -> float:
    return error.abs().mean().item() / scale


def season_scale(values: Tensor, rows: slice, season: int = 24) -> float:
    """Mean absolute difference of the training hours from those one season before."""
    past, future = season, 1
    pairs = windows(values[rows], past, future, time=weather.time[rows])
    return (pairs.future[:, 0, 0] - pairs.past[:, 0, 0]).abs().mean().item()


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    (train, valid, test), scaler, values = parts("temp")
    scale = season_scale(values, split_by_time(len(values), 0.1, 0.2).train)
    rates = {name: chosen_rate(make, train, valid) for name, make in MODELS.items()}
    print(rates, flush=True)

    def one_seed(seed: int) -> dict[str, float]:
        found = {}
        for name, make in MODELS.items():
            seed_all(seed)
            model = make()
            trainer = fitted(model, train, valid, seed, rates[name])
            results = measured(errors(model, test, scaler), scale)
            found |= {f"{name}_{key}": value for key, value in results.items()}
            found[f"{name}_valid"] = trainer.history.best()[1] ** 0.5 * scaler.std[0].item()
            found[f"{name}_weights"] = sum(w.numel() for w in model.parameters())
            found[f"{name}_rate"] = rates[name]
        return found

    keys: dict[str, str | tuple[str, str]] = {}
    for name in MODELS:
        keys |= {
            f"{name}_{hour}": (f"{name}: test RMSE {hour} hours ahead", "°F") for hour in HOURS
        }
        keys[f"{name}_rmse"] = (f"{name}: test RMSE of all 24 hours", "°F")
        keys[f"{name}_mase"] = f"{name}: test MASE of all 24 hours, scale of season 24"
        keys[f"{name}_valid"] = (f"{name}: validation RMSE of the epoch kept", "°F")
        keys[f"{name}_weights"] = f"{name}: number of weights"
        keys[f"{name}_rate"] = f"{name}: rate chosen on the validation part"
    path = run_study(
        __file__,
        f"Temperature at JFK, {PAST} hours known, {FUTURE} forecast. Every second of the training "
        f"windows, {EPOCHS} passes, batches of {BATCH}, Adam at the best of {RATES} on the "
        f"validation part (seed {RATE_SEED}), gradient clipped at norm 1, best epoch kept.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
