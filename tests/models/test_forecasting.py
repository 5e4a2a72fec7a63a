"""Forecasters: what each may see, what it gives by hand, and that it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from companion.models import (
    NBEATS,
    TCN,
    Forecaster,
    LinearForecaster,
    SeasonalNaive,
    TransformerForecaster,
    forecasting_objective,
    pinball_loss,
    sinusoids,
)
from companion.train import Trainer

NEW = {"dtype": torch.float64}
NETWORKS = {
    "recurrence": lambda **o: Forecaster(2, 3, 8, "gru", **o),
    "tcn": lambda **o: TCN(2, 3, 8, 3, **o),
    "nbeats": lambda **o: NBEATS(2, 12, 3, 2, 16, 2, **o),
    "transformer": lambda **o: TransformerForecaster(2, 3, 8, 2, 1, **o),
}
every_network = pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)

# ---------------------------------------------------------------- what all share


@every_network
def test_quantiles_target_and_relative(make):
    past = torch.randn(5, 12, 2, **NEW)
    torch.manual_seed(0)
    plain = make(**NEW)
    assert make(quantiles=(0.1, 0.5, 0.9), **NEW)(past).shape == (5, 3, 3)
    assert make(quantiles=(0.5,), **NEW)(past).shape == (5, 3, 1)
    relative = make(relative=True, target=1, **NEW)
    relative.load_state_dict(plain.state_dict())
    torch.testing.assert_close(relative(past), plain(past) + past[:, -1:, 1])


def test_quantiles_of_a_step_stand_together():
    """Row k of the last matrix is quantile k mod Q of step k div Q."""
    model = Forecaster(2, 3, 4, quantiles=(0.25, 0.75))
    torch.nn.init.zeros_(model.output.weight)
    model.output.bias.data = torch.arange(6.0)
    assert model(torch.randn(1, 5, 2)).tolist() == [[[0, 1], [2, 3], [4, 5]]]


@every_network
@pytest.mark.parametrize("quantiles", [(), (0.1, 0.5, 0.9)], ids=["mean", "quantiles"])
def test_learns_a_sine(make, quantiles):
    torch.manual_seed(0)
    t = torch.arange(15.0) + 6.28 * torch.rand(64, 1) / 0.7
    wave = torch.stack([torch.sin(0.7 * t), torch.randn_like(t)], 2)
    batch = wave[:, :12], wave[:, 12:]
    model = make(quantiles=quantiles)
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    trainer = Trainer(model, forecasting_objective, adam, progress=False)
    history = trainer.fit([batch], epochs=100)
    naive = (SeasonalNaive(3, 1, 2)(batch[0]) - batch[1][..., 0]).abs().mean()
    assert history.train_metrics["mae"][-1] < 0.4 * naive


def test_objective_by_hand():
    class Fixed(torch.nn.Module):
        def __init__(self, forecast, quantiles=()):
            super().__init__()
            self.forecast, self.horizon = (
                forecast,
                Forecaster(1, 2, 3, quantiles=quantiles).horizon,
            )

        def forward(self, past):
            return self.forecast

    past, future = torch.zeros(1, 3, 1), torch.tensor([[1.0, 4.0]])
    loss, count, metrics = forecasting_objective(Fixed(torch.tensor([[2.0, 2.0]])), (past, future))
    assert (loss.item(), count, metrics["mae"].item()) == (2.5, 1, 1.5)
    quantiles = torch.tensor([[[0.0, 2.0], [0.0, 3.0]]])
    model = Fixed(quantiles, (0.1, 0.5))
    loss, _, metrics = forecasting_objective(model, (past, future[..., None]))
    # 0.1 · (1 + 4), 0.5 · (1 + 1)
    assert loss.item() == pytest.approx((0.5 + 1) / 4) and metrics["mae"].item() == 1
    with pytest.raises(ValueError, match=r"future: expected shape \(1, 2\), got \(1, 3\)"):
        forecasting_objective(model, (past, torch.zeros(1, 3)))


@every_network
@pytest.mark.parametrize("quantiles", [(), (0.1, 0.5)], ids=["mean", "quantiles"])
def test_objective_of_no_window(make, quantiles):
    model = make(quantiles=quantiles)
    loss, count, metrics = forecasting_objective(model, (torch.ones(0, 12, 2), torch.ones(0, 3)))
    assert (loss.item(), count, metrics["mae"].item()) == (0, 0, 0)
    loss.backward()


def test_pinball_is_least_at_the_quantile():
    """Of 0 … 100, the constant that costs least at level q is the q-quantile, 100 q."""
    future = torch.arange(101, **NEW)
    for q in (0.1, 0.5, 0.9):
        costs = [
            pinball_loss(torch.full((101, 1), c, **NEW), future, (q,)).item() for c in range(101)
        ]
        assert int(np.argmin(costs)) == round(100 * q)
    error = torch.tensor([3.0, -5.0])
    both = pinball_loss(torch.zeros(2, 2), error, (0.2, 0.5))
    assert both.item() == pytest.approx((0.2 * 3 + 0.8 * 5 + 0.5 * 3 + 0.5 * 5) / 4)


# ---------------------------------------------------------------- one network at a time


def test_direct_forecast_of_the_last_valid_row():
    torch.manual_seed(0)
    model = Forecaster(2, 3, 4, "lstm", relative=True, **NEW)
    past = torch.randn(3, 6, 2, **NEW)
    y, _ = model.recurrence(past)
    want = model.output(y[:, -1]) + past[:, -1:, 0]
    torch.testing.assert_close(model(past), want)
    past[1, 2:] = math.nan
    short = model(past, [6, 2, 6])
    torch.testing.assert_close(short[1:2], model(past[1:2, :2]))
    torch.testing.assert_close(short[[0, 2]], want[[0, 2]])
    with pytest.raises(ValueError, match="lengths: expected at least 1 row .* a length of 0"):
        model(past, [6, 0, 6])


@pytest.mark.parametrize("levels, kernel, field", [(1, 2, 3), (2, 3, 13), (3, 2, 15), (3, 1, 1)])
def test_tcn_sees_its_receptive_field_and_not_the_future(levels, kernel, field):
    """By the gradient of one output: non-zero within the field, 0 outside of it."""
    torch.manual_seed(0)
    model = TCN(1, 1, 16, levels, kernel, **NEW)
    assert model.receptive_field == field
    past = torch.randn(1, 30, 1, **NEW).requires_grad_()
    t = 20
    features = model.features(past)
    (g,) = torch.autograd.grad(features[0, t].sum(), past)
    seen = g[0, :, 0].nonzero().squeeze(1).tolist()
    assert (seen[0], seen[-1]) == (t - field + 1, t)


def test_tcn_written_out_by_loops():
    torch.manual_seed(0)
    model = TCN(2, 1, 3, 2, 2, **NEW)
    past = torch.randn(1, 5, 2, **NEW)

    def convolution(x, conv, dilation):  # relu(b + sum_j W_j x_{t - j d}); torch stores W reversed
        rows = []
        for t in range(len(x)):
            z = conv.bias.clone()
            for j in range(2):
                if t - j * dilation >= 0:
                    z = z + conv.weight[:, :, 1 - j] @ x[t - j * dilation]
            rows.append(z.relu())
        return torch.stack(rows)

    x = past[0]
    for i, block in enumerate(model.blocks):
        z = convolution(convolution(x, block.first, 2**i), block.second, 2**i)
        if block.shortcut is not None:
            x = x @ block.shortcut.weight[:, :, 0].T + block.shortcut.bias
        x = (z + x).relu()
    torch.testing.assert_close(model.features(past)[0], x)
    torch.testing.assert_close(model(past)[0], model.output(x[-1]))


def test_nbeats_residuals_add_up():
    """past = sum of the backcasts + what remains; forecast = sum of the forecasts."""
    torch.manual_seed(0)
    model = NBEATS(2, 5, 3, 3, 8, 2, **NEW)
    past = torch.randn(4, 5, 2, **NEW)
    x, forecast = past.reshape(4, 10), 0
    for block in model.blocks:
        z = x
        for layer in block.layers:
            z = (z @ layer.weight.T + layer.bias).relu()
        x = x - (z @ block.backcast.weight.T + block.backcast.bias)
        forecast = forecast + z @ block.forecast.weight.T + block.forecast.bias
    parts, rest = model.parts(past)
    assert parts.shape == (3, 4, 3)
    torch.testing.assert_close(rest, x)
    torch.testing.assert_close(model(past), forecast)
    with pytest.raises(ValueError, match=r"past: expected shape \(B, 5, 2\).*got \(4, 6, 2\)"):
        model(torch.randn(4, 6, 2, **NEW))


def test_without_positions_order_does_not_count():
    torch.manual_seed(0)
    past = torch.randn(2, 9, 2, **NEW)
    mixed = torch.cat([past[:, torch.randperm(8)], past[:, 8:]], 1)
    for positions in (False, True):
        model = TransformerForecaster(2, 3, 8, 2, 2, positions=positions, **NEW)
        same = torch.allclose(model(past), model(mixed), rtol=0, atol=1e-12)
        assert same is not positions


def test_sinusoids_by_the_formula():
    p = sinusoids(7, 6)
    for t in range(7):
        for i in range(3):
            angle = t / 10000 ** (2 * i / 6)
            assert p[t, 2 * i].item() == pytest.approx(math.sin(angle))
            assert p[t, 2 * i + 1].item() == pytest.approx(math.cos(angle))
    odd = sinusoids(7, 5)
    assert odd.shape == (7, 5) and sinusoids(0, 4).shape == (0, 4)
    assert odd[3, 4].item() == pytest.approx(math.sin(3 / 10000 ** (4 / 5)))


def test_seasonal_naive_by_hand():
    past = torch.arange(1.0, 8)[None, :, None]
    for horizon, season, want in [
        (3, 1, [7, 7, 7]),
        (2, 7, [1, 2]),
        (5, 2, [6, 7, 6, 7, 6]),
        (4, 4, [4, 5, 6, 7]),
    ]:
        model = SeasonalNaive(horizon, season)
        assert model(past).tolist() == [want]
        for h in range(1, horizon + 1):  # y_{P + h - m ceil(h / m)}, from 1
            assert want[h - 1] == 7 + h - season * math.ceil(h / season)
    with pytest.raises(ValueError, match="past: expected at least 8 rows, one season, got 7"):
        SeasonalNaive(1, 8)(past)


@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_linear_is_the_ridge_solution(ridge):
    """Against the normal equations with an intercept that is not penalized."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(50, 4, 2)), rng.normal(size=(50, 3))
    model = LinearForecaster(2, 4, 3, ridge, **NEW)
    assert model.fit(torch.from_numpy(X), torch.from_numpy(Y)) is model
    A = np.hstack([X.reshape(50, 8), np.ones((50, 1))])
    penalty = ridge * np.diag([1.0] * 8 + [0.0])
    solution = np.linalg.solve(A.T @ A + penalty, A.T @ Y)
    np.testing.assert_allclose(model.weight.detach().numpy(), solution[:8].T, atol=1e-12)
    np.testing.assert_allclose(model.bias.detach().numpy(), solution[8], atol=1e-12)


def test_linear_relative_is_shift_equivariant_and_target_is_chosen():
    torch.manual_seed(0)
    past, future = torch.randn(40, 4, 2, **NEW), torch.randn(40, 3, 2, **NEW)
    model = LinearForecaster(2, 4, 3, 0.1, target=1, relative=True, **NEW).fit(past, future)
    torch.testing.assert_close(model(past + 5), model(past) + 5)
    alone = LinearForecaster(2, 4, 3, 0.1, target=1, relative=True, **NEW)
    torch.testing.assert_close(alone.fit(past, future[..., 1])(past), model(past))
    # fewer windows than weights: of all exact solutions the one of least norm
    small = LinearForecaster(2, 4, 1, **NEW).fit(past[:3], future[:3, :1])
    torch.testing.assert_close(small(past[:3]), future[:3, :1, 0])
    assert 0 < small.weight.norm() < 10


def test_linear_holds_any_dlinear():
    """A linear map of the moving average plus one of the rest is a linear map of the window."""
    torch.manual_seed(0)
    past = torch.randn(60, 8, 1, **NEW)
    padded = torch.nn.functional.pad(past.transpose(1, 2), (1, 1), mode="replicate")
    trend = torch.nn.functional.avg_pool1d(padded, 3, 1)[:, 0]
    future = trend @ torch.randn(8, 2, **NEW) + (past[..., 0] - trend) @ torch.randn(8, 2, **NEW)
    model = LinearForecaster(1, 8, 2, **NEW).fit(past, future)
    torch.testing.assert_close(model(past), future)


def test_a_default_device_changes_nothing():
    torch.manual_seed(0)
    past, future = torch.randn(9, 4, 2), torch.randn(9, 3)
    ridge = LinearForecaster(2, 4, 3, 0.5, device="cpu").fit(past, future)
    transformer = TransformerForecaster(2, 3, 8, 2, 1)
    want = ridge(past), transformer(past)
    with torch.device("meta"):  # what is made on it has no values at all
        again = LinearForecaster(2, 4, 3, 0.5, device="cpu").fit(past, future)
        assert torch.equal(again(past), want[0]) and torch.equal(transformer(past), want[1])
        assert sinusoids(2, 4).device.type == "cpu"


def test_errors_name_the_argument():
    past = torch.zeros(4, 5, 2)
    linear = LinearForecaster(2, 5, 3)
    nan = past.clone()
    nan[0, 0, 0] = math.nan
    cases = [
        (lambda: Forecaster(0, 3), ValueError, "input_size: expected at least 1, got 0"),
        (lambda: TCN(2, 0), ValueError, "horizon: expected at least 1, got 0"),
        (lambda: TCN(2, 3, kernel_size=0), ValueError, "kernel_size: .*at least 1"),
        (lambda: NBEATS(2, 5, 3, target=2), ValueError, "target: expected less than 2"),
        (lambda: NBEATS(2, 5, 3, blocks=0), ValueError, "blocks: expected at least 1"),
        (lambda: Forecaster(2, 3, quantiles=(0.5, 0.1)), ValueError, "quantiles: .*increase"),
        (lambda: Forecaster(2, 3, quantiles=(0.5, 1)), ValueError, "quantiles: .*between 0 and 1"),
        (lambda: TransformerForecaster(2, 3, 9, 2), ValueError, "hidden_size: .*multiple of 2"),
        (lambda: SeasonalNaive(3, 0), ValueError, "season: expected at least 1, got 0"),
        (lambda: LinearForecaster(2, 5, 3, -1), ValueError, "ridge: expected at least 0"),
        (lambda: linear.fit(past, torch.zeros(4, 2)), ValueError, r"future: .*\(4, 3\).*\(4, 2\)"),
        (lambda: linear.fit(past[:0], torch.zeros(0, 3)), ValueError, "future: .*each window"),
        (lambda: linear.fit(nan, torch.zeros(4, 3)), ValueError, "past: expected finite"),
        (lambda: linear(past.double()), ValueError, "past: expected dtype torch.float32"),
        (lambda: linear(past[:, :0]), ValueError, "past: expected shape"),
        (lambda: Forecaster(2, 3)(past[:, :0]), ValueError, "past: .*at least one row"),
        (lambda: pinball_loss(past, past, (0.5,)), ValueError, r"forecast: .*\(4, 5, 2, 1\)"),
        (lambda: pinball_loss([1.0], past, (0.5,)), TypeError, "^forecast: .*tensor, got list"),
        (lambda: pinball_loss(past, [1.0], (0.5,)), TypeError, "^future: .*tensor, got list"),
        (lambda: pinball_loss(past, past, ()), ValueError, "^quantiles: .*one level, got none"),
        (lambda: Forecaster(2, 3, quantiles=0.5), TypeError, r"^quantiles: .*float \(0.5\)"),
        (lambda: TCN(2, 3, quantiles="ab"), TypeError, "^quantiles: expected a number, got str"),
        (lambda: linear.fit(past, [[1.0]]), TypeError, "^future: expected a tensor, got list"),
        (
            lambda: forecasting_objective(linear, (past, torch.zeros(4, 3, 1))),
            ValueError,
            r"^future: expected shape \(B, F\), or \(B, F, 2\) of all.*\(4, 3, 1\)",
        ),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
