"""One file is read in one way, by training, evaluation and prediction; or it is refused."""

import io
import types

import pytest

from companion.tasks import TASKS, FileError, Request, evaluate, load, train
from tests.tasks.toys import reviews, sentences

SMALL = {"hidden_size": 8, "embedding_dim": 8, "batch_size": 8, "epochs": 1}
LABELS = {"+", "-"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("formats")


@pytest.fixture(scope="module")
def trained(place):
    """Tasks by the ending of their training file."""

    def make(name, write, ending, **settings):
        path = write(place / f"{name}{ending}")
        if settings.get("separator") == ";":
            path.write_text(path.read_text().replace('",', '";').replace("text,", "text;"))
        folder, kind = place / f"run{ending}-{name}", TASKS[name]
        told = {"folder": folder, "device": "cpu", "say": lambda line: None}
        train(kind, path, kind.Settings(**SMALL, **settings), **told)
        return load(folder), path

    return {
        "csv": make("classify", reviews, ".csv"),
        "txt": make("classify", reviews, ".txt", separator=";"),
        "conll": make("tag", sentences, ".conll"),
        "columns": make("tag", sentences, ".txt"),
    }


def predicted(task, path):
    notes = []
    lines = list(task.predict(path, Request(), notes.append))
    return lines, notes


def typed(monkeypatch, text):
    stdin = types.SimpleNamespace(buffer=io.BytesIO(text.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    return "-"


def test_a_table_is_a_table_by_any_name_it_was_trained_under(trained, place):
    task, path = trained["txt"]
    rows = task.read(path, task.settings, task.known)
    assert len(rows) == 60 and evaluate(task, path)
    lines, notes = predicted(task, path)
    assert len(lines) == 61 and not notes
    # what is not called .csv, .tsv or .jsonl is read as the training file was
    other = place / "other.dat"
    other.write_bytes(path.read_bytes())
    assert task.read(other, task.settings, task.known) == rows
    objects = place / "other.jsonl"  # here its own ending tells, and there is no separator
    objects.write_text('{"text": "it was lovely", "label": "+"}\n')
    assert len(predicted(task, objects)[0]) == 2


def test_lines_are_lines_unless_they_look_like_a_table(trained, place, monkeypatch):
    task, table = trained["csv"]
    plain = place / "plain.txt"
    plain.write_text("it was lovely\ntext\n")
    assert len(predicted(task, plain)[0]) == 3
    plain.write_bytes(table.read_bytes())
    with pytest.raises(FileError, match=r"plain.txt, line 1: got 'text,label', which looks like"):
        predicted(task, plain)
    lines, notes = predicted(task, typed(monkeypatch, "text,label\na,+\n"))
    assert len(lines) == 3 and "looks like the header of a table" in notes[0]


def test_sentences_in_columns_by_any_name_they_were_trained_under(trained, place, monkeypatch):
    task, path = trained["columns"]
    found = [sentence.words for sentence in task.read(path, task.settings)]
    lines, notes = predicted(task, path)
    assert [line.split("\t")[0] for line in lines if line] == sum(found, []) and not notes
    plain = place / "sentences.txt"  # a sentence a line is refused, not cut down to a word
    plain.write_text("the light goes\nwe light\n")
    with pytest.raises(FileError, match="line 2: expected columns as in line 1, 3 of them, got 2"):
        predicted(task, plain)
    assert predicted(task, typed(monkeypatch, "the light goes"))[0][3:] == [""]
    task = trained["conll"][0]
    assert [line for line in predicted(task, plain)[0] if not line] == ["", ""]
    note = predicted(task, typed(monkeypatch, "the\tDET\n"))[1][0]
    assert note.startswith("line 1 ends in a tag, 'DET', but is read as a sentence")


def test_what_was_trained_on_is_kept_in_the_one_file(trained):
    assert {name: task.known.ending for name, (task, _) in trained.items()} == {
        "csv": ".csv",
        "txt": ".txt",
        "conll": ".conll",
        "columns": ".txt",
    }
    assert set(trained["csv"][0].known.labels) == LABELS


@pytest.mark.parametrize("task", ["classify", "forecast"])
def test_separators(task):
    kind = TASKS[task]
    for wrong in ("", "ab", '"', "\n", "\r"):
        with pytest.raises(ValueError, match="^--separator: expected one character"):
            kind.Settings(separator=wrong)


def test_a_tab_may_be_written_out(place):
    path, kind = place / "tabs.txt", TASKS["classify"]
    path.write_text('text\tlabel\nsay "no\t+\na,b\t-\n')
    found = kind.read(path, kind.Settings(separator=r"\t"))
    assert [row.text for row in found] == ['say "no', "a,b"]
    objects = place / "tabs.jsonl"
    objects.write_text('{"text": "a", "label": "b"}\n')
    with pytest.raises(FileError, match="--separator is for columns; a file that ends in .jsonl"):
        kind.read(objects, kind.Settings(separator=";"))


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", "text;label\na;b\n", "line 1: expected commas between the columns, got semi"),
        ("a.csv", "\nx;y\n1,5;2\n", "line 2: expected commas between the columns, got semico"),
        ("a.txt", "text\tlabel\na\tb\n", r"got tabs; say --separator '\\t'"),
        ("a.tsv", "text,label\na,b\n", "expected tabs between the columns, got commas; say --se"),
        ("a.csv", "text|label\na|b\n", r"got bars; say --separator '\|'"),
        ("a.csv", "when;then\n1\n", "line 1: expected one column 'text', got none"),
        (
            "a.json",
            '[{"text": "a", "label": "b"}]',
            "a.json: expected an object a line, in a file",
        ),
    ],
)
def test_another_separator_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    kind = TASKS["classify"]
    with pytest.raises(FileError, match=message):
        kind.read(tmp_path / name, kind.Settings())


def test_a_single_column_may_have_marks_in_it(tmp_path):
    path, kind = tmp_path / "a.csv", TASKS["forecast"]
    path.write_text("load; kW\n1\n2\n")
    assert kind.read(path, kind.Settings()).columns == ("load; kW",)


def test_text_and_label_are_two_columns():
    with pytest.raises(ValueError, match="^--text, --label: expected two columns, got 'a' for bo"):
        TASKS["classify"].Settings(text="a", label="a")
