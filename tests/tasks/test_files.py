"""People's files: what is read, and with which line and reason the others are refused."""

import hashlib
import io
import os
import types

import pytest

from companion.tasks import TASKS, FileError, SettingsError
from companion.tasks.files import digest_of, read_bytes, read_lines
from companion.tasks.sentences import read_sentences
from companion.tasks.tables import read_table

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
        header, rows, _ = read_table(written(name, content), ["text", "label"])
        assert header == ["text", "label"], name
        assert [tuple(row.values.values()) for row in rows] == want, name
        assert [row.line for row in rows] == [2, 3, 5, 7], name  # the empty line is no row


def test_separators_and_json_lines(written):
    rows = read_table(written("a.tsv", 'text\tlabel\nsay "no\tx\n'), ["text"]).rows
    assert rows[0].values == {"text": 'say "no', "label": "x"}, "a quotation mark is a character"
    rows = read_table(written("a.txt", "text;label\na,b;x\n"), ["text"], ";")[1]
    assert rows[0].values == {"text": "a,b", "label": "x"}
    content = '{"text": "a\\nb", "label": 1, "more": [2]}\n\n{"label": 2, "text": "c"}\n'
    header, rows, _ = read_table(written("a.jsonl", content), ["text", "label"])
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
        ", line 2: expected text in UTF-8, got the byte 0 (byte 2",
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
        ", line 1: expected one column 'label', got columns 2 and 3 of that name",
    ),
    "ragged": (
        "classify",
        "a.csv",
        "text,label\na,+\nb, c,-\n",
        ", line 3: expected 2 columns as in the header (text, label), got 3",
    ),
    "utf-32": ("lm", "a.txt", "abc".encode("utf-32"), ": expected UTF-8, got UTF-32"),
    "utf-16 without a mark": (
        "lm",
        "a.txt",
        "ab".encode("utf-16-le"),
        ", line 1: expected text in UTF-8, got the byte 0 (byte 2 of the line); a binary file, or",
    ),
    "header further down": (
        "classify",
        "a.csv",
        "\n\ntext,class\na,b\n",
        ", line 3: expected one column 'label', got none",
    ),
    "long field": (
        "classify",
        "a.csv",
        "text,label\n" + 10_000_001 * "a" + ",+\n",
        ", line 2: expected CSV, but a field has more than 10,000,000 characters",
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
    "json twice": (
        "classify",
        "a.jsonl",
        '{"text": "a", "label": "b", "text": "c"}\n',
        ", line 1: expected every key once, got 'text' twice",
    ),
    "json in json": (
        "classify",
        "a.jsonl",
        '{"text": "a", "label": ["b"]}\n',
        ", line 1: expected a text or a number under 'label', got a list",
    ),
    "json deep": (
        "classify",
        "a.jsonl",
        "[" * 100_000,
        ", line 1: expected a JSON object, got one that is too deep",
    ),
    "half a character": (
        "classify",
        "a.jsonl",
        '{"text": "a", "label": "b"}\n{"text": "\\uD83D", "label": "b"}\n',
        ", line 2, column 'text': expected text, got half a character, \\ud83d",
    ),
    "label with an end of line": (
        "classify",
        "a.jsonl",
        '{"text": "a", "label": "b\\rc"}\n',
        ", line 1, column 'label': expected a label without tabs and ends of line, got 'b\\rc'",
    ),
    "spaces in a token": (
        "tag",
        "a.conll",
        "the DET\nNew York CITY\n",
        ", line 2: expected columns as in line 1, 2 of them, got 3: 'New York CITY'",
    ),
    "conllu by another name": (
        "tag",
        "a.conll",
        "# text = x\n1\tGo\tgo\tVERB" + "\t_" * 6 + "\n",
        ", line 2: expected a token and a tag, got CoNLL-U; let its name end in .conllu",
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
        ", line 1, column 'upos': expected a tag for every word, got none for 'Go'",
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
        (
            "classify",
            "text,label\na,+\nb,-\n",
            "a.csv: too few rows: got 2, expected 4: 2 to show all 2 lab",
        ),
        (
            "tag",
            "a\tX\nb\tY\n",
            "a.csv: too few sentences: got 1, expected 3: 1 to show",
        ),
        ("lm", "ab", "a text of 3 characters is too short to be divided"),
        ("forecast", "x\n" + "1\n" * 70, "has no whole window of --past 48 and --horizon 12 rows"),
    ],
)
def test_too_little_data(written, task, content, message):
    kind, settings = TASKS[task], TASKS[task].Settings()
    with pytest.raises(SettingsError, match=message):
        kind.divide(kind.read(written("a.csv", content), settings), settings)


def test_json_lines_as_they_are_written(written):
    """Numbers keep their digits, truth is a label, and what nobody asks for may lack."""
    content = (
        '{"text": 1.50, "label": true, "by": "Li"}\n{"text": null, "label": false}\n'
        f'{{"text": {"9" * 5000}, "label": true}}\n'
    )
    rows = read_table(written("a.jsonl", content), ["text", "label"]).rows
    assert [row.values["label"] for row in rows] == ["true", "false", "true"]
    assert [row.values["text"] for row in rows] == ["1.50", "", "9" * 5000]
    assert [row.values["by"] for row in rows] == ["Li", "", ""]


def test_comments_are_no_tokens(written):
    dressed = "# newpar\n# sent_id = 3\n# text = The\train\nThe\tDET\n# aside\nrain\tNOUN\n\n"
    dressed += "# newdoc\n#\tSYM\n1\tNUM\n\n#\tSYM\n"
    found = read_sentences(written("a.conll", dressed))
    assert [sentence.words for sentence in found] == [["The", "rain"], ["#", "1"], ["#"]]
    assert found[1].tags == ["SYM", "NUM"] and found[0].lines == [4, 6]
    # between spaces the number of columns tells, and "name = value"
    spaced = "# sent_id = 3\n# newpar id 7\n# SYM\n1 NUM\n\nfive NUM\n# SYM\n\n# SYM\n"
    found = read_sentences(written("b.conll", spaced))
    assert [sentence.words for sentence in found] == [["#", "1"], ["five", "#"], ["#"]]
    found = read_sentences(written("b.conll", "# newdoc\n# newpar \na X\n# X\n\n# newpar\nb Y\n"))
    assert [sentence.words for sentence in found] == [["a", "#"], ["b"]]
    # and of tokens alone
    found = read_sentences(written("c.conll", "# sent_id = 3\n#\n1\n"), tagged=False)
    assert [sentence.words for sentence in found] == [["#", "1"]]
    with pytest.raises(FileError, match="line 2: expected a token and a tag, got one column: '#x"):
        read_sentences(written("d.conll", "the\tDET\n#x\n"))


def test_words_of_conllu_have_their_lines(written):
    rows = [f"{n}\tw{n}\t_\tX" + "\t_" * 6 for n in (1, 2)]
    content = ["# a", "1-2\tw" + "\t_" * 8, *rows, "2.1\te" + "\t_" * 8, "", "# b", rows[0], ""]
    found = read_sentences(written("a.conllu", "\n".join(content)))
    assert [sentence.lines for sentence in found] == [[3, 4], [8]]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for kind in TASKS.values():
        with pytest.raises(FileError, match="expected a file, got a named pipe; give what comes"):
            kind.read(tmp_path / "pipe", kind.Settings())
        with pytest.raises(FileError, match="/dev/zero: expected a file, got a device"):
            kind.read("/dev/zero", kind.Settings())


def test_a_stream_is_read_once(monkeypatch):
    for content in (b"a\n", b"b\n"):  # another stream is another text
        stream = types.SimpleNamespace(buffer=io.BytesIO(content))
        monkeypatch.setattr("sys.stdin", stream)
        assert read_bytes("-") == read_bytes("-") == content
        assert digest_of("-") == hashlib.sha256(content).hexdigest()
    if os.path.isdir("/dev/fd"):
        out, into = os.pipe()
        os.write(into, b"text\n")
        os.close(into)
        assert read_lines(f"/dev/fd/{out}") == read_lines(f"/dev/fd/{out}") == ["text"]
        os.close(out)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(FileError, match="standard input: expected a file, which several"):
        read_bytes("-")
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(FileError, match="standard input: expected data, but it is closed"):
        read_bytes("-")
