"""Texts that are rewritten: tokens, numbers by hand, beams, and what is refused."""

import io
import itertools
import math
import types
from dataclasses import replace

import pytest
import torch

from companion.tasks import (
    TASKS,
    FileError,
    Request,
    SettingsError,
    evaluate,
    load,
    nearest,
    train,
    writing,
)
from companion.tasks.cutting import cut, joined, plain, scores, token_error
from companion.tasks.files import Rows
from companion.tasks.nearest import Nearest, ngrams, remembered
from companion.tasks.seq2seq import Pair
from companion.tasks.settings import to_json
from companion.train import save_model
from tests.tasks.toys import numerals

KIND = TASKS["seq2seq"]
SMALL = {"hidden_size": 16, "embedding_dim": 16, "batch_size": 8, "dropout": 0.0, "seed": 1}
SPACES = {"source_tokens": "spaces", "target_tokens": "spaces"}


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    place = tmp_path_factory.mktemp("seq2seq")
    settings = KIND.Settings(**SMALL, **SPACES, epochs=10, learning_rate=0.02)
    path = numerals(place / "n.csv")
    train(KIND, path, settings, folder=place / "run", device="cpu", say=lambda line: None)
    return load(place / "run", "cpu")


def table(path, *rows, header="source,target"):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def predicted(task, path, **request):
    notes = []
    return list(task.predict(path, Request(**request), notes.append)), notes


def typed(monkeypatch, text):
    stdin = types.SimpleNamespace(buffer=io.BytesIO(text.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    return "-"


TEXTS = ["Don't: L'écraser ?", "x", "« %1 »…", "a_b 3.50 €", "東京 と", "{name} — ok!"]


@pytest.mark.parametrize("units", ["characters", "words", "spaces"])
def test_tokens_give_the_text_back(units):
    for text in TEXTS:
        tokens = cut(text, units)
        assert joined(tokens, units) == plain(text, units) == text
        assert all(tokens)
    # a word is one token, wherever it stands
    assert cut("no no", "words") == [" no", " no"] and cut("no no", "spaces") == ["no", "no"]
    assert joined([], units) == ""


def test_scores_by_hand():
    # three edits for 4 + 2 tokens: one put in, two left out
    written, right = ["a b c d e", ""], ["a b c d", "x y"]
    assert scores(written, right, "spaces") == {"exact": 0.0, "token_error": 0.5}
    assert token_error(["deux cent"], ["deux cents"], "characters") == pytest.approx(0.1)
    found = scores(["the cat sat on it", "no"], ["the cat sat on it", "no"], "words")
    assert found["exact"] == 1 and found["token_error"] == 0
    assert found["bleu"] == found["chrf"] == pytest.approx(100)


def test_nearest_by_brute_force():
    words = ["".join(letters) for letters in itertools.product("ab", repeat=4)]
    memory = {word: word.upper() for word in words[::2]}
    nearest = Nearest(memory, "?")

    def dice(a, b):
        return 2 * len(ngrams(a) & ngrams(b)) / (len(ngrams(a)) + len(ngrams(b)))

    for word in (*words, "abba ab", "b"):
        found = nearest(word)
        assert dice(word, found.lower()) == max(dice(word, other) for other in memory)
        same = [o for o in memory if dice(word, o) == dice(word, found.lower())]
        assert found.lower() == same[0]
    assert nearest("xyz") == "?" and Nearest({}, "?")("ab") == "?"


def test_baselines_by_hand(task, tmp_path):
    first = next(iter(task.known.memory))
    most = task.known.most
    path = table(tmp_path / "a.csv", f"{first},{task.known.memory[first]}", f"1,{most}", "one,one")
    found = evaluate(task, path)["baselines"]
    assert found["the source itself"]["exact"] == pytest.approx(1 / 3)
    assert found["most similar source"]["exact"] >= 1 / 3
    assert found["most frequent target"]["exact"] >= 1 / 3
    right = [len(text.split()) for text in (task.known.memory[first], most, "one")]
    # "one" shares no token with the digits before it: those are all wrong
    assert found["the source itself"]["token_error"] == pytest.approx(
        (right[0] + max(right[1], 1)) / sum(right)
    )


def test_numbers_are_those_of_what_is_written(task, tmp_path):
    rows = ["1 2,one two", "3,three", "2 2 1,two one one", "3 1,three five"]
    path = table(tmp_path / "a.csv", *rows)
    written = [task.text(best) for best, *_ in task.write(["1 2", "3", "2 2 1", "3 1"])]
    right = [row.split(",")[1] for row in rows]
    numbers = task.measure(task.read(path, task.settings, task.known))
    assert numbers["exact"] == sum(a == b for a, b in zip(written, right, strict=True)) / 4
    assert numbers["token_error"] == pytest.approx(token_error(written, right, "spaces"))
    assert numbers["unknown"] == pytest.approx(1 / 8)  # five
    # the loss, token by token by the chain rule
    nll, model = 0.0, task.model.eval()
    for row in rows:
        source, target = row.split(",")
        tokens = [*task.indices(target, 1), model.eos]
        with torch.no_grad():
            now = model.begin(torch.tensor([task.indices(source, 0)]))
            last = model.bos
            for token in tokens:
                logits, _, now = model.decoder.step(torch.tensor([last]), now)
                nll -= logits.log_softmax(-1)[0, token].item()
                last = token
    assert numbers["loss"] == pytest.approx(nll / 12, rel=1e-4)
    header, *lines = task.details(path)
    assert header == "exact\ttoken_error\tsource\ttarget\twritten"
    cells = [line.split("\t") for line in lines]
    assert [row[2:] for row in cells] == [
        [*row.split(","), text] for row, text in zip(rows, written, strict=True)
    ]
    assert [row[0] for row in cells] == [
        str(int(a == b)) for a, b in zip(written, right, strict=True)
    ]


def test_predictions_in_order(task, tmp_path, monkeypatch):
    given = ["3", "", "1 2 3", "2  1", "1 seven"]
    alone, notes = predicted(task, typed(monkeypatch, "\r\n".join(given)))
    assert alone[:4] == ["three", "", "one two three", "two one"]
    assert notes[0].startswith("line 2 is empty")
    assert notes[1] == "text 5: unknown in training: 'seven'"
    (tmp_path / "t.txt").write_text("\n".join(given))
    assert predicted(task, tmp_path / "t.txt")[0] == alone
    columns = table(
        tmp_path / "t.csv", *(f"{n},{t}" for n, t in enumerate(given)), header="n,source"
    )
    assert predicted(task, columns)[0] == alone


def test_beams(task, tmp_path):
    (tmp_path / "t.txt").write_text("1 2\n3 3 1\n")
    (greedy, _), _ = predicted(task, tmp_path / "t.txt", log_prob=True)
    asked = {"beam": 4, "n_best": 3, "log_prob": True}
    (first, second), _ = predicted(task, tmp_path / "t.txt", **asked, length_penalty=0.0)
    cells = first.split("\t")
    assert len(cells) == 6 and cells[0] == "one two" == greedy.split("\t")[0]
    assert float(cells[1]) == pytest.approx(float(greedy.split("\t")[1]), abs=1e-3)
    chances = [float(cell) for cell in cells[1::2]]
    assert chances == sorted(chances, reverse=True) and chances[0] <= 0
    assert sum(map(math.exp, chances)) <= 1
    assert len(set(cells[::2])) == 3
    assert second.split("\t")[0] == "three three one"
    # a large one prefers what is long, the order is then that of log p / ((5 + n) / 6)**a
    (other, _), _ = predicted(task, tmp_path / "t.txt", **asked, length_penalty=40.0)
    cells = other.split("\t")
    scores = [
        float(lp) / ((6 + len(text.split())) / 6) ** 40
        for text, lp in zip(cells[::2], cells[1::2], strict=True)
    ]
    assert scores == sorted(scores, reverse=True) and other != first
    usual, _ = predicted(task, tmp_path / "t.txt", **asked)
    assert usual == predicted(task, tmp_path / "t.txt", **asked, length_penalty=0.6)[0]
    for wrong, message in (
        ({"beam": 0}, "--beam: expected at least 1, got 0"),
        ({"beam": 10**20}, "--beam: expected at most 1000, got 1000"),
        ({"n_best": 0, "beam": 2}, "--n-best: expected at least 1, got 0"),
        ({"n_best": 3, "beam": 2}, "--n-best: expected at most --beam, 2, got 3"),
        ({"length_penalty": 1.0}, "--length-penalty: expected --beam above 1 with it, got 1"),
        ({"length_penalty": -1.0, "beam": 2}, "--length-penalty: expected at least 0"),
        ({"length_penalty": math.nan, "beam": 2}, "--length-penalty: expected at least 0"),
    ):
        with pytest.raises(SettingsError, match=message):
            predicted(task, tmp_path / "t.txt", **wrong)


def test_nothing_unknown_is_written_and_what_has_no_end_is_said(task, tmp_path):
    bias = task.model.decoder.output.bias
    before = bias.detach().clone()
    (tmp_path / "t.txt").write_text("1 2\n")
    try:
        with torch.no_grad():
            bias[0], bias[task.model.bos], bias[task.model.eos] = 50.0, 50.0, -torch.inf
        for beam in (1, 3):
            (line,), notes = predicted(task, tmp_path / "t.txt", beam=beam)
            steps = task.known.longest + task.known.longest // 2 + 1
            assert len(line.split()) == steps and set(line.split()) <= {"one", "two", "three"}
            assert notes == [f"text 1: broken off after {steps} tokens, without an end"]
        assert bias[0] == bias[task.model.bos] == 50.0, "the model is as it was"
    finally:
        with torch.no_grad():
            bias.copy_(before)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("source,target\na,b\n,c\n", "line 3, column 'source': expected a text, got an empty one"),
        ("source,target\na,b\nc, \n", "line 3, column 'target': expected a text, got an empty"),
        ('source,target\na,"b\nc"\n', "line 2, column 'target': expected a text without tabs"),
        ("source,text\na,b\n", "expected one column 'target', got none"),
    ],
)
def test_files_that_are_refused(tmp_path, content, message):
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(FileError, match=message):
        KIND.read(path, KIND.Settings())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention": "dot"}, "--attention dot: expected --no-bidirectional"),
        ({"target": "source"}, "--target: expected another column than 'source'"),
        ({"min_count": 0}, "--min-count: expected at least 1, got 0"),
    ],
)
def test_settings_without_meaning(changes, message):
    with pytest.raises(SettingsError, match=message):
        KIND.Settings(**changes)


def test_rare_tokens(tmp_path):
    path = table(tmp_path / "a.csv", *(f"s{n},t{n}" for n in range(20)))
    whole = KIND.read(path, KIND.Settings())
    with pytest.raises(
        SettingsError, match="column 'source': no token occurs --min-count 2 times"
    ):
        KIND.learn(whole, KIND.Settings(**SPACES))
    assert len(KIND.learn(whole, KIND.Settings(**SPACES, min_count=1)).target_tokens) == 21
    with pytest.raises(SettingsError, match="too few pairs"):
        KIND.divide(Rows(whole[:2], path), KIND.Settings())
    parts = KIND.divide(Rows(whole[:3], path), KIND.Settings())
    assert [len(part) for part in parts] == [1, 1, 1]


def test_what_a_file_claims_is_checked(task):
    known = task.known.target_tokens
    for changes, message in (
        ({"longest": 0}, "longest: expected at least 1"),
        ({"longest": 10**9}, "longest: expected at least 1, below"),
        ({"target_tokens": ("<unk>", "a\nb")}, "target_tokens: expected them without tabs"),
        ({"target_tokens": ("<unk>", "\ud800")}, "target_tokens: expected text, got half a"),
        (
            {"target_tokens": (*known[:-1], known[1])},
            "target_tokens: .* each of them once",
        ),
        ({"source_tokens": ()}, "expected tokens, each of them once"),
    ):
        with pytest.raises(SettingsError, match=message):
            KIND(task.settings, replace(task.known, **changes))


@pytest.mark.parametrize("attention", ["general", "additive", "dot", "none"])
def test_every_attention(task, tmp_path, attention):
    """Each learns something of the toy in one pass, and loads again as it was."""
    path = numerals(tmp_path / "n.csv", 40)
    settings = KIND.Settings(
        **SMALL, **SPACES, attention=attention, bidirectional=attention != "dot", epochs=1
    )
    metrics = train(KIND, path, settings, folder=tmp_path / "run", say=lambda line: None)
    again = load(tmp_path / "run")
    assert hasattr(again.model.decoder, "attention") == (attention != "none")
    whole = again.read(path, again.settings, again.known)
    assert 0 < again.measure(whole)["loss"] < math.log(8) and metrics["epochs"] == 1


def test_what_combines_is_of_its_word():
    """One word each: e and an accent (NFD), Hindi with vowel signs, Persian with a joiner."""
    words = ["e\u0301te\u0301", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0645\u06cc\u200c\u062e"]
    assert cut(" ".join(words), "words") == [f" {word}" for word in words]
    # a red heart is a mark and a selector; a family is three marks, as its joiners are no words
    assert cut("\u2764\ufe0f!", "words") == [" \u2764\ufe0f", "!"]
    text = "\U0001f469\u200d\U0001f467 \u0301x \u200c"
    assert joined(cut(text, "words"), "words") == text


def test_long_texts_are_not_all_remembered(monkeypatch):
    """A header holds 100 MB, and a run that could not be read again would be lost."""
    rows = [Pair("ab" * n, answer) for n in range(1, 41) for answer in ("cd", "ef", "ef")]
    whole = remembered(rows, 0)
    assert whole == {"ab" * n: "ef" for n in range(1, 41)}
    for most in (0, 3, 100, 1000):
        monkeypatch.setattr(nearest, "CHARACTERS", most)
        memory = remembered(rows, 0)
        size = sum(len(source) + len(target) for source, target in memory.items())
        left_out = [len(source) + 2 for source in whole if source not in memory]
        assert size <= most and min(left_out) > most - size, "nothing else would fit"
        assert list(memory) == sorted(memory, key=len) and memory.items() <= whole.items()
    monkeypatch.setattr(nearest, "MOST", 7)
    assert len(remembered(rows, 0)) == 7 and remembered(rows, 0) != remembered(rows, 1)


def test_a_memory_as_large_as_can_be_is_saved(task, tmp_path):
    """Two million characters, each of the longest kind in JSON: the file is whole."""
    memory = remembered([("\u0434" * 399 + str(n), "x") for n in range(1000, 7000)], 0)
    assert 1_990_000 < sum(len(a) + len(b) for a, b in memory.items()) <= 2_000_000
    known = replace(task.known, memory=memory)
    config = {"task": "seq2seq", "settings": to_json(task.settings), "known": to_json(known)}
    save_model(task.model, tmp_path / "m.safetensors", config)
    assert load(tmp_path / "m.safetensors", "cpu").known.memory == memory


def test_rows_of_wide_beams(task, monkeypatch):
    """A beam of B has B rows for each source; with fewer sources at once nothing changes."""
    sizes, sources = [], [" ".join("123"[n % 3] * (n % 4 + 1)) for n in range(24)]
    search = writing.beam_search

    def counted(model, tokens, *rest, **beams):
        sizes.append(len(tokens))
        return search(model, tokens, *rest, **beams)

    monkeypatch.setattr(writing, "beam_search", counted)
    narrow = task.write(sources, writing.Beams(beam=16))
    assert max(sizes) == 8  # batch_size
    sizes.clear()
    wide = task.write(sources, writing.Beams(beam=64))
    assert max(sizes) == 2
    sizes.clear()
    assert len(task.write(sources[:3], writing.Beams(beam=1000))) == 3 and sizes == [1, 1, 1]
    same = [task.text(a) == task.text(b) for (a, *_), (b, *_) in zip(narrow, wide, strict=True)]
    assert sum(same) >= 23 and len(wide) == 24
