"""The record of a run."""

import json
import math

import numpy as np
import pytest
import torch

from companion.train import History, Skipped


def test_best():
    history = History(
        train_loss=[3.0, 2.0, 1.0],
        valid_loss=[2.0, 1.5, 1.5],
        train_metrics={"accuracy": [0.1, 0.2, 0.9]},
        valid_metrics={"accuracy": [0.1, 0.5, 0.4]},
    )
    assert history.best() == (2, 1.5)  # of equals the earliest
    assert history.best("accuracy", largest=True) == (2, 0.5)
    assert history.best("accuracy", largest=False) == (1, 0.1)
    with pytest.raises(KeyError, match="no metric 'f1'; there are: accuracy, loss"):
        history.best("f1")


def test_best_without_validation_and_with_nan():
    assert History(train_loss=[math.nan, 2.0, math.inf]).best() == (2, 2.0)
    with pytest.raises(ValueError, match="no finite value"):
        History(train_loss=[math.nan]).best()
    with pytest.raises(ValueError, match="no finite value in 0 epochs"):
        History().best()


def test_repr_says_nothing_that_a_machine_changes():
    history = History(train_loss=[0.123], grad_norm=[1.0, 2.0], seconds=[9.87])
    assert repr(history) == "History(1 epoch, 2 steps, 0 skipped)"


def test_to_dict_is_json():
    history = History(train_loss=[1.0], skipped=[Skipped(1, 2, "loss nan")])
    assert json.loads(json.dumps(history.to_dict()))["skipped"] == [
        {"epoch": 1, "batch": 2, "reason": "loss nan"}
    ]


def test_plot_labels_and_places():
    import matplotlib.pyplot as plt

    ax = History(train_loss=[3.0, 2.0], valid_loss=[2.5, 2.2]).plot(unit="bits")
    train, valid = ax.lines
    assert list(train.get_xdata()) == [0.5, 1.5] and list(valid.get_xdata()) == [1, 2]
    assert list(train.get_ydata()) == [3.0, 2.0] and list(valid.get_ydata()) == [2.5, 2.2]
    assert ax.get_xlabel() == "epochs trained" and ax.get_ylabel() == "mean loss (bits)"
    _, other = plt.subplots()
    assert History(train_loss=[1.0]).plot(other) is other and len(other.lines) == 1
    with pytest.raises(ValueError, match="no epoch"):
        History().plot()
    plt.close("all")


def test_best_of_a_metric_needs_its_direction():
    # of a perplexity the smallest is best: no default can know that
    history = History(
        train_loss=[2.0, 1.0], valid_metrics={}, train_metrics={"perplexity": [7, 3]}
    )
    with pytest.raises(ValueError, match="largest: .*'perplexity'"):
        history.best("perplexity")
    assert history.best("perplexity", largest=False) == (2, 3)
    assert history.best("loss", largest=True) == (1, 2.0)


def test_validation_that_begins_late_keeps_its_epochs():
    import matplotlib.pyplot as plt

    history = History(train_loss=[5.0, 4.0, 3.0, 2.0])
    history.add_validation(2.5, {"accuracy": 0.5})
    history.train_loss.append(1.0)
    history.add_validation(1.5, {"accuracy": 0.4})
    assert history.best() == (5, 1.5) and history.best("accuracy", largest=True) == (4, 0.5)
    valid = history.plot().lines[1]
    drawn = [(x, y) for x, y in zip(*valid.get_data(), strict=True) if math.isfinite(y)]
    assert drawn == [(4, 2.5), (5, 1.5)]
    plt.close("all")


def test_to_dict_has_no_nan_at_any_depth():
    nan, inf = math.nan, math.inf
    history = History(train_loss=[nan, 1.0], valid_loss=[inf], train_metrics={"a": [nan, -inf]})
    record = json.loads(json.dumps(history.to_dict(), allow_nan=False))
    assert record["train_loss"] == [None, 1.0] and record["valid_loss"] == [None]
    assert record["train_metrics"] == {"a": [None, None]}
    assert math.isnan(history.train_loss[0])  # the history itself stays


def test_to_dict_of_numbers_of_every_kind_is_json():
    history = History(train_loss=[np.float32(0.5), torch.tensor(2.0)], grad_norm=[np.int64(3)])
    history.train_metrics["a"] = [np.float64("nan")]
    record = json.loads(json.dumps(history.to_dict(), allow_nan=False))
    assert record["train_loss"] == [0.5, 2.0] and record["grad_norm"] == [3]
    assert record["train_metrics"] == {"a": [None]}
