"""The record of a run."""

import json
import math

import pytest

from companion.train import History, Skipped


def test_best():
    history = History(
        train_loss=[3.0, 2.0, 1.0],
        valid_loss=[2.0, 1.5, 1.5],
        train_metrics={"accuracy": [0.1, 0.2, 0.9]},
        valid_metrics={"accuracy": [0.1, 0.5, 0.4]},
    )
    assert history.best() == (2, 1.5)  # of equals the earliest
    assert history.best("accuracy") == (2, 0.5)
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
