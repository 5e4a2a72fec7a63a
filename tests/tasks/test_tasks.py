"""Each task from its file to its predictions: what a toy teaches is known beforehand."""

import dataclasses
import io
import json
import math
import types

import pytest
import torch

from companion import ARCHITECTURES
from companion.tasks import TASKS, FileError, Request, SettingsError, evaluate, load, train
from companion.tasks.files import Rows
from companion.tasks.task import RowBatches, divide
from tests.tasks.toys import BAD, GOOD, hours, numerals, reviews, sentences, story

SMALL = {"hidden_size": 16, "batch_size": 8, "learning_rate": 0.01, "seed": 1}
MADE = {
    "classify": (reviews, "reviews.csv", {"epochs": 6, "embedding_dim": 16}),
    "lm": (story, "story.txt", {"epochs": 5, "embedding_dim": 16, "steps": 16, "dropout": 0.0}),
    "tag": (sentences, "s.conll", {"epochs": 5, "embedding_dim": 16}),
    "forecast": (hours, "h.csv", {"epochs": 4, "past": 6, "horizon": 3}),
    "seq2seq": (
        numerals,
        "n.csv",
        {"epochs": 10, "patience": 10, "embedding_dim": 16, "dropout": 0.0, "learning_rate": 0.02}
        | {"source_tokens": "spaces", "target_tokens": "spaces"},
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each task: its file, its folder, its numbers, and what it said."""
    place, made = tmp_path_factory.mktemp("runs"), {}
    for name, (write, file, changes) in MADE.items():
        path, said = write(place / file), []
        settings = TASKS[name].Settings(**{**SMALL, **changes})
        metrics = train(
            TASKS[name], path, settings, folder=place / name, device="cpu", say=said.append
        )
        made[name] = types.SimpleNamespace(
            path=path, folder=place / name, metrics=metrics, said=said
        )
    return made


def predicted(task, path, request=None):
    notes = []
    lines = list(task.predict(path, request or Request(), notes.append))
    return lines, notes


def typed(monkeypatch, text):
    stdin = types.SimpleNamespace(buffer=io.BytesIO(text.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    return "-"


@pytest.mark.parametrize("name", MADE)
def test_a_run_leaves_what_it_says(runs, name):
    run = runs[name]
    here = {path.name for path in run.folder.iterdir()}
    assert here == {
        "config.json",
        "checkpoints",
        "history.json",
        "metrics.json",
        "model.safetensors",
    }
    history = json.loads((run.folder / "history.json").read_text())
    epochs = MADE[name][2]["epochs"]
    assert len(history["valid_loss"]) == epochs == run.metrics["epochs"]
    assert [line.startswith("epoch") for line in run.said].count(True) == epochs
    assert any("is better" in line for line in run.said), run.said
    assert json.loads((run.folder / "metrics.json").read_text()) == run.metrics


def test_what_the_toys_teach(runs):
    numbers = {name: run.metrics["test"] for name, run in runs.items()}
    assert numbers["classify"]["network"]["accuracy"] == 1.0
    assert numbers["tag"]["network"]["accuracy"] == 1.0
    # "light" has one usual tag, and the other one half of the time
    assert numbers["tag"]["baselines"]["usual tag of the word"]["accuracy"] < 0.95
    # after five of the letters of "the cat sat on the mat" there is a choice of two or more
    assert numbers["lm"]["network"]["perplexity"] < 2.5
    assert numbers["lm"]["baselines"]["frequencies"]["perplexity"] > 8
    network, rival = numbers["forecast"]["network"], numbers["forecast"]["baselines"]
    assert network["mae"] < 0.5 * rival["the last value"]["mae"]
    network, rival = numbers["seq2seq"]["network"], numbers["seq2seq"]["baselines"]
    assert network["exact"] > 0.8
    assert network["token_error"] < 0.5 * rival["most similar source"]["token_error"]


def test_baselines_by_hand(runs, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,+\nb,-\nc,-\nd,-\n")
    task = load(runs["classify"].folder)
    share = dict(zip(task.known.labels, task.known.counts, strict=True))
    most = max(share, key=share.__getitem__)
    found = evaluate(task, path)["baselines"][f"always {most!r}"]
    assert found["accuracy"] == {"+": 0.25, "-": 0.75}[most]
    p = {label: count / sum(share.values()) for label, count in share.items()}
    assert found["loss"] == pytest.approx(-(math.log(p["+"]) + 3 * math.log(p["-"])) / 4)

    text = tmp_path / "a.txt"
    text.write_text("tea\n" * 30)
    task = load(runs["lm"].folder)
    counts = dict(zip(task.known.tokens, task.known.counts, strict=True))
    whole = sum(counts.values())
    rows = task.read(text, task.settings)
    pieces = list(task.batches(rows, shuffle=False, group=types.SimpleNamespace(rank=0, world=1)))
    targets = task.vocab.lookup_tokens(torch.cat([y.flatten() for _, y, _ in pieces]))
    want = -sum(math.log(counts[token] / whole) for token in targets) / len(targets)
    found = evaluate(task, text)["baselines"]["frequencies"]
    assert found["loss"] == pytest.approx(want)
    assert found["perplexity"] == pytest.approx(math.exp(want))

    series = tmp_path / "a.csv"
    series.write_text("time,load\n" + "".join(f"2025-01-01T{h:02d}:00,{h}\n" for h in range(12)))
    task = load(runs["forecast"].folder)  # of a ramp the last value is 1, 2, 3 off
    assert evaluate(task, series)["baselines"]["the last value"]["mae"] == pytest.approx(2.0)


def test_classify_predicts_what_it_is_evaluated_on(runs, tmp_path, monkeypatch):
    task, path = load(runs["classify"].folder), runs["classify"].path
    lines, notes = predicted(task, path)
    assert lines[0] == "label\t+\t-" and not notes
    rows = task.read(path, task.settings)
    right = [line.split("\t")[0] == row.label for line, row in zip(lines[1:], rows, strict=True)]
    assert sum(right) / len(rows) == evaluate(task, path)["network"]["accuracy"] == 1.0
    # one by one and with others, in a table and in lines: the same
    texts = [f"it was {word}" for word in (*GOOD, *BAD)] + ["", "it was a very very lovely day"]
    alone, notes = predicted(task, typed(monkeypatch, "\r\n".join(texts)))
    assert len(notes) == 1 and "line 7 is empty" in notes[0]
    (tmp_path / "t.txt").write_text("\n".join(texts))
    together, _ = predicted(task, tmp_path / "t.txt")
    assert alone == together
    assert [line[:1] for line in alone[1:]] == ["+", "+", "+", "-", "-", "-", "", "+"]
    assert sum(map(float, alone[1].split("\t")[1:])) == pytest.approx(1, abs=2e-4)


def test_tag_predicts_in_order(runs, tmp_path, monkeypatch):
    task = load(runs["tag"].folder)
    want = ["the\tDET", "light\tNOUN", "goes\tVERB", "", "", "we\tPRON", "light\tVERB", ""]
    given = "the light goes\n\nwe  light"
    alone, notes = predicted(task, typed(monkeypatch, given))
    assert alone == want and "line 2 is empty" in notes[0]
    (tmp_path / "t.txt").write_text(given)
    assert predicted(task, tmp_path / "t.txt")[0] == want
    (tmp_path / "t.conll").write_text("the\nlight\ngoes\n\nwe\nlight\n")  # no tags needed
    assert predicted(task, tmp_path / "t.conll")[0] == [*want[:4], *want[5:]]


def test_lm_goes_on_where_a_line_ends(runs, monkeypatch):
    task = load(runs["lm"].folder)
    likeliest = Request(tokens=10, temperature=0)
    lines, notes = predicted(task, typed(monkeypatch, "the cat sat \nthe ca\u00df"), likeliest)
    assert lines[0].startswith("the cat sat on the ") and lines[1] == ""
    assert notes == ["line 2: unknown in training: '\u00df'"]
    # a draw follows from the seed and the place of its line, not from the other lines
    draws = Request(tokens=30, seed=3)
    one, _ = predicted(task, typed(monkeypatch, "the"), draws)
    two, _ = predicted(task, typed(monkeypatch, "the\nthe"), draws)
    assert one == two[:1] and two[0] != two[2]
    assert "<unk>" not in "".join(predicted(task, typed(monkeypatch, "q" * 50), draws)[0])
    for wrong, message in (
        (Request(temperature=-1), "^--temperature: expected at least 0, got -1"),
        (Request(top_p=2.0), "^--top-p: expected more than 0 and at most 1, got 2.0"),
        (Request(top_k=0), "^--top-k: expected"),
        (Request(tokens=-1), "^--tokens: expected at least 0, got -1"),
        (Request(seed=2**32), r"^--seed: expected 0 ... 2\*\*32 - 1, got 4294967296"),
    ):
        with pytest.raises(SettingsError, match=message):
            predicted(task, typed(monkeypatch, "a"), wrong)


def test_lm_tells_the_perplexity_of_each_line(runs, tmp_path):
    task = load(runs["lm"].folder)
    (tmp_path / "t.txt").write_text("the cat sat\n\nmat mat the sat on cat cat\n")
    header, *rows = [line.split("\t") for line in task.details(tmp_path / "t.txt")]
    assert header == ["perplexity", "tokens", "line"]
    assert [(int(count), line) for _, count, line in rows][:2] == [(12, "the cat sat"), (1, "")]
    for number, count, line in rows:  # token by token, by the chain rule
        nll, state, last = 0.0, None, "\n"
        for token in line + "\n":
            with torch.no_grad():
                logits, state = task.model.eval().step(torch.tensor(task.vocab([last])), state)
            nll -= logits.log_softmax(-1)[0, task.vocab[token]].item()
            last = token
        assert float(number) == pytest.approx(math.exp(nll / int(count)), rel=1e-3)
    with pytest.raises(SettingsError, match="has no numbers for single lines"):
        load(runs["tag"].folder).details(tmp_path / "t.txt")


def test_forecast_goes_on_where_the_file_ends(runs, tmp_path):
    task, path = load(runs["forecast"].folder), runs["forecast"].path
    header, *rows = predicted(task, path)[0]
    assert header == "time,load_q0.1,load_q0.5,load_q0.9"
    assert [row.split(",")[0] for row in rows] == [
        "2024-01-17T16:00",
        "2024-01-17T17:00",
        "2024-01-17T18:00",
    ]
    for n, row in enumerate(rows, 400):
        low, middle, high = map(float, row.split(",")[1:])
        assert low <= middle <= high
        assert middle == pytest.approx(10 + 3 * math.sin(n * math.tau / 24), abs=1)
    lines = path.read_text().splitlines()
    series = tmp_path / "few.csv"
    for bad, message in (
        (lines[:6], "expected at least --past 6 rows, got 5"),
        ([*lines[:9], lines[10]], "no missing time in the last 6 rows"),
        ([lines[0], *lines[1:60:2]], "expected rows 3600 seconds apart as in training, got 7200"),
        (["load", *"123456789"], "expected one column 'time', got none"),
    ):
        series.write_text("\n".join(bad))
        with pytest.raises(FileError, match=message):
            predicted(task, series)


@pytest.mark.parametrize("name", ["classify", "forecast"])
def test_more_weights_than_can_be_counted(runs, name):
    task = load(runs[name].folder)
    settings = dataclasses.replace(task.settings, hidden_size=2**32 - 1)
    with pytest.raises(SettingsError, match="do not make a model: .*smaller --hidden-size"):
        TASKS[name](settings, task.known)


def test_labels_that_training_did_not_have(runs, tmp_path):
    for name, file, content, message in (
        ("classify", "a.csv", "text,label\na,+\nb,?\n", r"line 3, column 'label': the label '\?'"),
        ("tag", "a.conll", "the\tDET\nlight\tADJ\n", "line 2: the tag 'ADJ' is unknown"),
    ):
        (tmp_path / file).write_text(content)
        with pytest.raises(FileError, match=message):
            evaluate(load(runs[name].folder), tmp_path / file)


def test_forecast_looks_at_no_later_row(tmp_path):
    kind = TASKS["forecast"]
    settings = kind.Settings(past=6, horizon=3)
    path = hours(tmp_path / "h.csv", 100)
    whole = kind.read(path, settings)
    parts = kind.divide(whole, settings)
    known = kind.learn(parts.train, settings)
    later = whole.values.clone()
    later[80:] = 1e6  # validation and test
    changed = kind.divide(dataclasses.replace(whole, values=later), settings)
    assert kind.learn(changed.train, settings) == known
    cut = {n: kind.windows(p, settings) for n, p in parts._asdict().items()}
    targets = {n: {round(v, 4) for v in w.future.flatten().tolist()} for n, w in cut.items()}
    assert len(cut["train"]) == 80 - 8 and len(cut["valid"]) == len(cut["test"]) == 10 - 2
    assert parts.train.times.texts[-1] < parts.valid.times.texts[6], "first target of validation"
    assert targets["train"]


def test_missing_values_and_gaps_are_left_out(tmp_path):
    kind = TASKS["forecast"]
    rows = hours(tmp_path / "h.csv", 100).read_text().splitlines()
    rows[10] = rows[10].split(",")[0] + ","
    del rows[50]
    path = tmp_path / "gaps.csv"
    path.write_text("\n".join(rows))
    settings = kind.Settings(past=6, horizon=3, missing="leave-out", valid_share=0, test_share=0)
    parts = kind.divide(kind.read(path, settings), settings)
    found = kind.windows(parts.train, settings)
    # 99 rows have 91 windows of 9: 9 hold the empty value, 8 reach over the gap
    assert len(found) == 91 - 9 - 8 and parts.valid is None


def test_every_label_is_in_training():
    rows = Rows((n, "rare" if n == 7 else "ab"[n % 2]) for n in range(40))
    for seed in range(20):
        settings = TASKS["classify"].Settings(seed=seed)
        parts = divide(rows, settings, lambda row: [row[1]])
        assert {label for _, label in parts.train} == {"a", "b", "rare"}
        assert sorted([*parts.train, *parts.valid, *parts.test]) == rows
        assert len(parts.valid) == len(parts.test) == 4
    again = divide(rows, settings, lambda row: [row[1]])
    assert again == parts != divide(rows, TASKS["classify"].Settings(), lambda row: [row[1]])


@pytest.mark.parametrize("world", [1, 2, 3])
def test_processes_share_each_batch(world):
    rows = list(range(10))
    shared = RowBatches(rows, [1] * 10, 4, True, 0, list, world)
    whole = list(RowBatches(rows, [1] * 10, 4, True, 0, list))
    parts = list(shared)
    assert len(shared) == len(parts) == 3 * world
    for n, batch in enumerate(whole):
        assert sorted(sum(parts[n * world : (n + 1) * world], [])) == sorted(batch)
    assert list(shared) != parts, "the next epoch has another order"


@pytest.mark.parametrize("name", TASKS)
def test_a_batch_of_nobody_counts_for_nothing(runs, name):
    if name == "lm":
        pytest.skip("its processes have streams of their own")
    task = load(runs[name].folder)
    rows = task.read(runs[name].path, task.settings)
    group = types.SimpleNamespace(rank=0, world=200)
    parts = list(task.batches(rows, shuffle=False, group=group))
    loss, weight = task.objective(task.model, parts[-1])[:2]
    assert weight == 0 and loss.dim() == 0


@pytest.mark.parametrize("cell", ARCHITECTURES)
def test_every_architecture_does_every_task(runs, cell):
    for name, run in runs.items():
        trained = load(run.folder)
        settings = dataclasses.replace(trained.settings, cell=cell)
        kind = type(trained)
        task, empty = kind(settings, trained.known), kind(settings, trained.known, "meta")
        shapes = {n: p.shape for n, p in task.model.named_parameters()}
        assert {n: p.shape for n, p in empty.model.named_parameters()} == shapes
        rows = task.read(run.path, settings)
        batches = task.batches(rows, shuffle=False, group=types.SimpleNamespace(rank=0, world=1))
        batch = next(iter(batches))
        loss = task.objective(task.model, batch, *([None] if kind.stateful else []))[0]
        loss.backward()
        assert all(p.grad is not None for p in task.model.parameters()), name


def test_validation_and_test_in_files_of_their_own(tmp_path):
    kind, path = TASKS["classify"], reviews(tmp_path / "a.csv")
    (tmp_path / "valid.csv").write_text("text,label\nit was great,+\nit was dull,-\n")
    (tmp_path / "test.csv").write_text("text,label\nit was poor,-\n")
    own = {"valid_file": str(tmp_path / "valid.csv"), "test_file": str(tmp_path / "test.csv")}
    said = []
    settings = kind.Settings(**SMALL, **own, epochs=1)
    train(kind, path, settings, folder=tmp_path / "run", say=said.append)
    assert "60 train, 2 valid, 1 test" in said[0]
    files = json.loads((tmp_path / "run/config.json").read_text())["files"]
    assert {part: entry["path"] for part, entry in files.items()} == {
        "train": str(path),
        "valid": own["valid_file"],
        "test": own["test_file"],
    }
    (tmp_path / "test.csv").write_text("text,label\nit was poor,?\n")
    with pytest.raises(FileError, match=r"test.csv, line 2, column 'label': the label '\?'"):
        train(kind, path, settings, folder=tmp_path / "other", say=said.append)
    assert not (tmp_path / "other").exists(), "a bad file leaves no folder"
