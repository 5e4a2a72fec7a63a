"""Settings: what has no meaning, and what a file may claim."""

import dataclasses

import pytest

from companion import ARCHITECTURES
from companion.tasks import TASKS, SettingsError
from companion.tasks.settings import from_json, to_json

FORECAST = TASKS["forecast"].Settings


@pytest.mark.parametrize("kind", TASKS.values(), ids=TASKS)
def test_there_and_back(kind):
    settings = kind.Settings(valid_file="a", cell="gru")
    assert from_json(kind.Settings, to_json(settings), "here") == settings


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"hidden_size": 0}, "--hidden-size: expected at least 1, got 0"),
        ({"seed": -1}, "--seed: expected at least 0, got -1"),
        ({"seed": 2**32}, "--seed: expected at most 4294967295, got 4294967296"),
        ({"hidden_size": 10**20}, "--hidden-size: expected at most 4294967295, got 1000000"),
        ({"past": 10**400}, "--past: expected at most 4294967295, got 1000000"),
        ({"dropout": 1.0}, "--dropout: expected at least 0, below 1, got 1.0"),
        ({"valid_share": 0.6, "test_share": 0.5}, "expected a sum below 1"),
        ({"learning_rate": float("nan")}, "--learning-rate: expected a number above 0, got nan"),
        ({"cell": "transformer"}, "--cell: expected one of .*lstm.*, got 'transformer'"),
        ({"num_layers": 1000}, "--num-layers: expected at most 100"),
        ({"season": 100}, "--season: expected at most --past, 48, got 100"),
        ({"quantiles": (0.9, 0.1)}, "--quantiles: expected levels between 0 and 1 that increase"),
    ],
)
def test_settings_without_meaning(changes, message):
    with pytest.raises(SettingsError, match=message):
        FORECAST(**changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"hook": "os.system"}, "unknown: hook; missing: none"),
        ({"hidden_size": "64"}, "here: hidden_size: expected int, got str '64'"),
        ({"hidden_size": True}, "here: hidden_size: expected int, got bool"),
        ({"dropout": None}, "here: dropout: expected float, got NoneType"),
        ({"precision": "half"}, "here: precision: expected one of"),
        ({"columns": ["x", 1]}, "here: columns: expected str, got int"),
        ({"columns": "x"}, "here: columns: expected .*tuple.*, got str"),
        ({"cell": "evil"}, "here: --cell: expected one of"),
    ],
)
def test_a_file_is_not_believed(changes, message):
    with pytest.raises(SettingsError, match=message):
        from_json(FORECAST, {**to_json(FORECAST()), **changes}, "here")
    with pytest.raises(SettingsError, match="expected an object, got list"):
        from_json(FORECAST, [], "here")


@pytest.mark.parametrize("kind", TASKS.values(), ids=TASKS)
def test_every_setting_is_explained(kind):
    source = "".join(
        open(__import__(base.__module__, fromlist=["x"]).__file__, encoding="utf-8").read()
        for base in kind.Settings.__mro__[:-1]
    )
    for field in dataclasses.fields(kind.Settings):
        at = source.index(f"\n    {field.name}: ")
        assert source[at:].split("\n")[2].startswith('    """'), field.name
    assert len(ARCHITECTURES) > 10
