"""What a run's file says it knows: by key, nothing of it believed."""

import pytest

from companion.tasks import TASKS, SettingsError
from companion.tasks.settings import from_json

GOOD = {
    "classify": {"tokens": ["<unk>", "a"], "labels": ["+", "-"], "counts": [2, 3], "ending": ""},
    "lm": {"tokens": ["<unk>", "a"], "counts": [0, 3]},
    "tag": {
        "words": ["<unk>"],
        "endings": ["<unk>"],
        "tags": ["X", "Y"],
        "usual": {"a": "X"},
        "most": "Y",
        "ending": ".conll",
    },
    "forecast": {
        "columns": ["v", "w"],
        "mean": [0.0, 1],
        "std": [1.0, 2.0],
        "unit": "seconds",
        "step": 60.0,
        "ending": ".csv",
    },
}
HOSTILE = [
    ("classify", {"counts": [0, 1]}, "counts: expected counts of at least 1, got 0"),
    ("classify", {"counts": [-1, 1]}, "counts: expected counts of at least 1, got -1"),
    ("classify", {"counts": [10**400, 1]}, "counts: expected counts .* got one that is far too"),
    ("classify", {"counts": [1]}, "labels, counts: expected labels, and a count for each, got 2"),
    ("classify", {"labels": ["+", "+"]}, "labels: expected each name once, got '.' twice"),
    ("classify", {"labels": ["a\tb", "-"]}, r"labels: expected names without tabs .*'a\\tb'"),
    ("classify", {"labels": ["a\nb", "-"]}, r"labels: expected names without tabs .*'a\\nb'"),
    ("classify", {"labels": [" ", "-"]}, "labels: expected names without tabs"),
    ("lm", {"counts": [-1, 3]}, "counts: expected counts of at least 0, got -1"),
    ("lm", {"counts": [0, 0]}, "counts: expected counts of at least 1, got 0"),
    ("lm", {"counts": [0, 10**400]}, "counts: expected counts .* got one that is far too large"),
    ("lm", {"counts": [3]}, "tokens, counts: expected two tokens or more, and a count for each"),
    ("lm", {"tokens": ["<unk>"], "counts": [3]}, "tokens, counts: expected two tokens or more"),
    ("tag", {"tags": ["X", "Y", "X"]}, "tags: expected each name once, got 'X' twice"),
    ("tag", {"tags": ["X", "Y", "a\tb"]}, "tags: expected names without tabs"),
    ("tag", {"tags": []}, "tags: expected tags, got none"),
    ("tag", {"usual": {"a": "Z"}}, "most, usual: expected some of the tags, got 'Z'"),
    ("tag", {"most": "Z"}, "most, usual: expected some of the tags, got 'Z'"),
    ("forecast", {"std": [0.0, 1.0]}, "std: expected finite numbers above 0, got 0.0"),
    ("forecast", {"std": [1.0, -1.0]}, "std: expected finite numbers above 0, got -1.0"),
    ("forecast", {"std": [1.0, float("nan")]}, "std: expected float, got float nan"),
    ("forecast", {"mean": [1.0, float("inf")]}, "mean: expected float, got float inf"),
    ("forecast", {"mean": [10**400, 0.0]}, "mean: expected float, got int 1000"),
    ("forecast", {"mean": [0.0]}, "columns, mean, std: expected columns, and a mean and a dev"),
    ("forecast", {"columns": ["v", "v"]}, "columns: expected each name once, got 'v' twice"),
    ("forecast", {"unit": "weeks"}, "unit: expected one of"),
    ("forecast", {"step": 0.0}, "step: expected finite numbers above 0, got 0.0"),
]


@pytest.mark.parametrize("name", GOOD)
def test_what_training_leaves_is_taken(name):
    assert from_json(TASKS[name].Known, GOOD[name], "here")


@pytest.mark.parametrize("name, changes, message", HOSTILE)
def test_what_training_cannot_have_left(name, changes, message):
    with pytest.raises(SettingsError, match=f"^here: {message}"):
        from_json(TASKS[name].Known, {**GOOD[name], **changes}, "here")


@pytest.mark.parametrize("key", ["words", "endings"])
def test_vocabularies_of_a_tagger(key):
    kind = TASKS["tag"]
    known = from_json(kind.Known, {**GOOD["tag"], key: ["a", "a"]}, "here")
    with pytest.raises(SettingsError, match=f"{key}: expected tokens, each of them once"):
        kind(kind.Settings(), known)


def test_a_network_that_fits_no_memory():
    kind = TASKS["classify"]
    known = from_json(kind.Known, GOOD["classify"], "here")
    message = "the settings do not make a model: its weights need .* GiB, and this machine has"
    with pytest.raises(SettingsError, match=message):
        kind(kind.Settings(hidden_size=10**7), known)
    kind(kind.Settings(hidden_size=10**7), known, "meta")  # nothing is made
