"""The language model's numbers: every token is a target once, and unknown ones are counted."""

import math
import types

import pytest
import torch
import torch.nn.functional as F

from companion.tasks import TASKS, FileError, Request, SettingsError, evaluate
from companion.tasks.files import Rows
from companion.tasks.lm import LanguageModelKnown
from companion.tasks.pieces import Pieces, side_by_side

LM = TASKS["lm"]
ALONE = types.SimpleNamespace(rank=0, world=1)


def made(text, **settings):
    torch.manual_seed(0)
    told = LM.Settings(**{"hidden_size": 8, "embedding_dim": 4, "steps": 3, **settings})
    return LM(told, LM.learn(Rows(text), told), "cpu")


@pytest.mark.parametrize("length", range(2, 30))
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_token_but_the_first_is_a_target_once(length, count):
    text = torch.arange(1, length + 1)
    streams = side_by_side(text, count)
    assert len(streams) == count
    pairs = []
    for x, y, _ in Pieces(streams, 4, masked=False):
        pairs += [(a, b) for a, b in zip(x.flatten(), y.flatten(), strict=True) if b >= 0]
    assert sorted((int(a), int(b)) for a, b in pairs) == [(n, n + 1) for n in range(1, length)]


@pytest.mark.parametrize("streams", [1, 4])
def test_perplexity_of_every_target(streams):
    """By the formula, on the stretches that start from the initial state."""
    task = made("abcab" * 40, batch_size=streams, steps=2)
    rows = Rows("cabba" * 15 + "a")  # 76 tokens, 75 targets: no multiple of 4
    found = task.measure(rows)
    tokens = torch.tensor(task.vocab(rows))
    length, total, targets = math.ceil(75 / streams), 0.0, 0
    for start in range(0, 75, length):
        part = tokens[start : start + length + 1]
        with torch.no_grad():
            logits = task.model.eval()(part[None, :-1])[0][0]
        total += float(F.cross_entropy(logits, part[1:], reduction="sum"))
        targets += len(part) - 1
    assert targets == 75
    assert found["loss"] == pytest.approx(total / 75, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(total / 75), rel=1e-5)
    counts = {token: 40 * "abcab".count(token) for token in "abc"}
    want = -sum(math.log(counts[token] / 200) for token in rows[1:]) / 75
    assert task.baselines(rows)["frequencies"]["loss"] == pytest.approx(want)


def test_unknown_tokens_are_counted():
    task = made("aabb" * 20)
    rows = Rows("?aa?b!")  # unknown and unseen while training: no target, but told
    found = task.measure(rows)
    assert found["unknown"] == 0.5
    y = torch.cat([batch.y.flatten() for batch in task.batches(rows, shuffle=False, group=ALONE)])
    assert sorted(y[y >= 0].tolist()) == sorted(task.vocab(["a", "a", "b"]))
    with pytest.raises(SettingsError, match="expected some characters that training has, got a p"):
        task.measure(Rows("??!\n"))


def test_nothing_but_unknown_tokens(tmp_path):
    task = made("aabb\n" * 20)
    (tmp_path / "a.txt").write_text("xyz\nxyz\n")
    with pytest.raises(FileError, match="a.txt: expected some characters that training had"):
        evaluate(task, tmp_path / "a.txt")


def test_no_token_twice(tmp_path):
    (tmp_path / "a.txt").write_text("abcdefghijklmnop")
    settings = LM.Settings(valid_share=0, test_share=0)
    parts = LM.divide(LM.read(tmp_path / "a.txt", settings), settings)
    message = (
        r"a.txt: expected characters that occur 2 times or more in training, got none among 17"
    )
    with pytest.raises(SettingsError, match=message):
        LM.learn(parts.train, settings)


def test_how_much_of_the_training_is_unknown():
    task = made("aaab?ab" * 2 + "!xyzuvw")
    assert task.known == LanguageModelKnown(("<unk>", "a", "b", "?"), (7, 8, 4, 2))
    told = task.describe(types.SimpleNamespace(_asdict=lambda: {"train": "x" * 21}))
    assert told == "4 different characters; length: 21 train; 33.3% of training are unknown"


def test_scores_that_are_no_numbers(tmp_path):
    task = made("aabb\n" * 20)
    with torch.no_grad():
        task.model.bias.fill_(float("nan"))
    (tmp_path / "a.txt").write_text("a\n")
    with pytest.raises(SettingsError, match="the network gives no probabilities: logits"):
        list(task.predict(tmp_path / "a.txt", Request(), print))


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"tokens": -1}, "--tokens: expected at least 0, got -1"),
        ({"tokens": 10**20}, "--tokens: expected at most 10000000, got 1000000"),
        ({"top_k": 0}, "--top-k: expected at least 1, got 0"),
        ({"seed": 2**32}, r"--seed: expected 0 ... 2\*\*32 - 1, got 4294967296"),
    ],
)
def test_draws_without_meaning(tmp_path, asked, message):
    (tmp_path / "a.txt").write_text("a\n")
    with pytest.raises(SettingsError, match=message):
        list(made("aabb\n" * 20).predict(tmp_path / "a.txt", Request(**asked), print))


def test_more_than_all_tokens_are_all_tokens(tmp_path):
    task, many = made("aabb\n" * 20), (None, 4, 10**20)
    (tmp_path / "a.txt").write_text("a\n")
    told = [list(task.predict(tmp_path / "a.txt", Request(30, top_k=k), print)) for k in many]
    assert told[0] == told[1] == told[2] and len("\n".join(told[0])) == 31
