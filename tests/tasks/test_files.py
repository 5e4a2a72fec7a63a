"""People's files: what is read, and with which line and reason the others are refused."""

import pytest

from companion.tasks import TASKS, FileError, SettingsError
from companion.tasks.files import read_lines, read_sentences, read_table

HOURS = "time,x\n" + "".join(f"2024-01-01T{h:02d}:00,{h}\n" for h in range(24))


@pytest.fixture
def written(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def test_a_table_in_all_its_dresses(written):
    want = [("a,b", "x"), ('say "no"', "y"), ("two\nlines", "z"), ("", "w")]
    text = 'text,label\n"a,b",x\n"say ""no""",y\n\n"two\nlines",z\n,w\n'
    dresses = {
        "plain.csv": text,
        "mark.csv": b"\xef\xbb\xbf" + text.encode(),
        "windows.csv": text.replace("\n", "\r\n"),
        "mac.csv": text.replace("\n", "\r"),
        "open.csv": text.removesuffix("\n"),
    }
    for name, content in dresses.items():
        header, rows = read_table(written(name, content), ["text", "label"])
        assert header == ["text", "label"], name
        assert [tuple(row.values.values()) for row in rows] == want, name
        assert [row.line for row in rows] == [2, 3, 5, 7], name  # the empty line is no row


def test_separators_and_json_lines(written):
    rows = read_table(written("a.tsv", 'text\tlabel\nsay "no\tx\n'), ["text"])[1]
    assert rows[0].values == {"text": 'say "no', "label": "x"}, "a quotation mark is a character"
    rows = read_table(written("a.txt", "text;label\na,b;x\n"), ["text"], ";")[1]
    assert rows[0].values == {"text": "a,b", "label": "x"}
    content = '{"text": "a\\nb", "label": 1, "more": [2]}\n\n{"label": 2, "text": "c"}\n'
    header, rows = read_table(written("a.jsonl", content), ["text", "label"])
    assert [row.values["text"] for row in rows] == ["a\nb", "c"]
    assert [row.values["label"] for row in rows] == ["1", "2"]
    assert [row.line for row in rows] == [1, 3]


def test_lines_end_where_lines_end(written):
    # str.splitlines would also cut at the other three
    assert read_lines(written("a.txt", "a\x0cb\u2028c\x85d\r\ne\n\n")) == [
        "a\x0cb\u2028c\x85d",
        "e",
        "",
    ]


def test_sentences_in_columns(written):
    content = "-DOCSTART- -X- O\n\nEU NNP B\nrejects VBZ O\n\n\nPeter NNP B\n"
    found = read_sentences(written("a.conll", content))
    assert found == [([3, 4], ["EU", "rejects"], ["B", "O"]), ([7], ["Peter"], ["B"])]
    # between tabs a token may hold a space
    assert read_sentences(written("b.conll", "New York\tCITY\n"))[0][1] == ["New York"]


BAD = {
    # task, name, content: the message after the path
    "missing": ("classify", None, None, ": there is no such file"),
    "empty": ("lm", "a.txt", "", ": expected text, got an empty file"),
    "blank": ("tag", "a.conll", " \n\n", ": expected text, got an empty file"),
    "zip": ("classify", "a.csv", b"PK\x03\x04rest", ": expected text, got a packed file (zip"),
    "gzip": ("lm", "a.txt", b"\x1f\x8b\x08rest", ": expected text, got a packed file (gzip"),
    "utf-16": ("lm", "a.txt", "abc".encode("utf-16"), ": expected UTF-8, got UTF-16"),
    "zero bytes": (
        "lm",
        "a.txt",
        b"ab\r\nc\0d",
        ", line 2: expected text, got the byte 0 (byte 2",
    ),
    "latin-1": (
        "classify",
        "a.csv",
        "text,label\ngut,+\nschön,-\n".encode("latin-1"),
        ", line 3: expected UTF-8, got the byte 0xf6 (byte 4 of the line, 20 of the file)",
    ),
    "no rows": ("classify", "a.csv", "text,label\n", ": expected rows after the header, got none"),
    "no column": (
        "classify",
        "a.csv",
        "text,class\na,b\n",
        ", line 1: expected one column 'label', got none; the columns are 'text', 'class'",
    ),
    "two columns": (
        "classify",
        "a.csv",
        "text,label,label\na,b,c\n",
        ", line 1: expected one column 'label', got 2 of them",
    ),
    "ragged": (
        "classify",
        "a.csv",
        "text,label\na,+\nb, c,-\n",
        ", line 3: expected 2 columns as in the header (text, label), got 3",
    ),
    "open quote": (
        "classify",
        "a.csv",
        'text,label\na,+\n"b,-\nc,+\n',
        ", line 3: expected CSV, but a quotation mark opens a field that is not closed",
    ),
    "quote amid": ("classify", "a.csv", 'text,label\n"a"b,+\n', ", line 2: expected CSV, but"),
    "no text": (
        "classify",
        "a.csv",
        "text,label\na,+\n ,-\n",
        ", line 3, column 'text': expected a text, got an empty one",
    ),
    "one class": (
        "classify",
        "a.csv",
        "text,label\na,+\nb,+\n",
        ", column 'label': expected at least two labels, got '+' in every row",
    ),
    "no json": ("classify", "a.jsonl", '{"text": "a"\n', ", line 1: expected a JSON object, but"),
    "json list": ("classify", "a.jsonl", "[1]\n", ", line 1: expected a JSON object, got [1]"),
    "json lacks": (
        "classify",
        "a.jsonl",
        '{"text": "a", "label": "b"}\n{"text": "c"}\n',
        ", line 2: expected a text or a number under 'label' as in line 1, got none",
    ),
    "one column": (
        "tag",
        "a.conll",
        "the\tDET\n\nrain\n",
        ", line 3: expected a token and a tag, got one column: 'rain'",
    ),
    "no tag": ("tag", "a.conll", "the\t\n", ", line 1: expected a tag, got an empty column"),
    "conllu": (
        "tag",
        "a.conllu",
        "# text = x\n1\tGo\t_\tVERB\n",
        ", line 2: expected 10 columns with tabs between them, got 4",
    ),
    "conllu tag": (
        "tag",
        "a.conllu",
        "1\tGo" + "\t_" * 8 + "\n",
        ", column 'upos': expected a tag for every word, got none for 'Go', word 1 of sentence 1",
    ),
    "word for number": (
        "forecast",
        "a.csv",
        "x\n1\nmany\n",
        ", line 3, column 'x': expected a number such as 3.14, got 'many'",
    ),
    "comma for point": (
        "forecast",
        "a.csv",
        'x\n1\n"3,5"\n',
        ", line 3, column 'x': expected a number such as 3.14, got '3,5'",
    ),
    "infinite": (
        "forecast",
        "a.csv",
        "x,y\n1,inf\n",
        ", line 2, column 'y': expected a finite number, got 'inf'",
    ),
    "nan": (
        "forecast",
        "a.csv",
        "x\n1\nNaN\n",
        ", line 3, column 'x': expected a number, got 'NaN'",
    ),
    "nothing there": (
        "forecast",
        "a.csv",
        "x,y\n1,2\n,3\n",
        ", line 3, column 'x': expected a number, got '', a missing value",
    ),
    "no values": ("forecast", "a.csv", "time\n1\n", ", line 1: expected a column of values"),
    "backwards": (
        "forecast",
        "a.csv",
        "time,x\n2024-01-02,1\n2024-01-01,2\n",
        ", line 3, column 'time': expected a time after '2024-01-02' of the row before",
    ),
    "irregular": (
        "forecast",
        "a.csv",
        HOURS + "2024-01-01T23:30,5\n",
        ", line 26, column 'time': expected a whole number of steps of 3600 seconds",
    ),
    "no time": (
        "forecast",
        "a.csv",
        "time,x\n2024-01-02,1\nlater,2\n",
        ", line 3, column 'time': expected a time as in line 2, got 'later'",
    ),
    "zones": (
        "forecast",
        "a.csv",
        "time,x\n2024-01-02T00:00Z,1\n2024-01-02T01:00,2\n",
        ", line 3, column 'time': expected a time as in line 2",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_named_with_its_line_and_reason(written, tmp_path, case):
    task, name, content, message = BAD[case]
    path = tmp_path / "none.csv" if name is None else written(name, content)
    with pytest.raises(FileError) as error:
        TASKS[task].read(path, TASKS[task].Settings())
    assert str(error.value).startswith(f"{path}{message}")


def test_a_folder_is_no_file(tmp_path):
    for kind in TASKS.values():
        with pytest.raises(FileError, match="expected a file, got a folder"):
            kind.read(tmp_path, kind.Settings())


@pytest.mark.parametrize(
    "task, content, message",
    [
        ("classify", "text,label\na,+\nb,-\n", "too few examples: of 2, 2 are needed"),
        ("tag", "a\tX\nb\tY\n", "too few examples: of 1, 1 are needed"),
        ("lm", "ab", "a text of 3 characters is too short to be divided"),
        ("forecast", "x\n" + "1\n" * 70, "has no whole window of --past 48 and --horizon 12 rows"),
    ],
)
def test_too_little_data(written, task, content, message):
    kind, settings = TASKS[task], TASKS[task].Settings()
    with pytest.raises(SettingsError, match=message):
        kind.divide(kind.read(written("a.csv", content), settings), settings)
