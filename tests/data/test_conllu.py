"""The reader of CoNLL-U: what it takes, and what it refuses."""

import gzip

import pytest

from companion.data import ConlluToken, read_conllu


def line(id, form="w", upos="X", head="_", **more):
    columns = dict(id=id, form=form, lemma="_", upos=upos, xpos="_", feats="_", head=head)
    columns.update(deprel="_", deps="_", misc="_")
    columns.update(more)
    return "\t".join(columns.values())


# after the example of the format's page: a multiword token, and an empty node
EXAMPLE = [
    "# sent_id = 1",
    "# text = vámonos al mar",
    "# a comment",
    line("1-2", "vámonos", "_"),
    line("1", "vamos", "VERB", "0"),
    line("2", "nos", "PRON", "1"),
    line("3-4", "al", "_"),
    line("3", "a", "ADP", "5"),
    line("4", "el", "DET", "5"),
    line("5", "mar", "NOUN", "1"),
    line("5.1", "ve", "VERB"),
    line("5.2", "ve", "VERB"),
    "",
    line("1", "500 000", "NUM", misc="SpaceAfter=No"),
    line("2", "_", "SYM"),
    "",
]


def test_the_example():
    first, second = read_conllu(EXAMPLE)
    assert first.metadata == {"sent_id": "1", "text": "vámonos al mar"}
    assert first.column("form") == ["vamos", "nos", "a", "el", "mar"]
    assert first.column("upos") == ["VERB", "PRON", "ADP", "DET", "NOUN"]
    assert first.column("head") == ["0", "1", "5", "5", "1"]
    assert len(first) == 5 and len(second) == 2 and second.metadata == {}
    assert second.tokens[0] == ConlluToken(
        "1", "500 000", "_", "NUM", "_", "_", "_", "_", "_", "SpaceAfter=No"
    )
    assert second.column("form") == ["500 000", "_"]
    assert repr(second) == "Sentence('500 000 _')"
    with pytest.raises(ValueError, match="name: expected one of id, form, .*, got 'tag'"):
        first.column("tag")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", [[], [""], ["", ""]], ids=len)
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "mark"])
def test_files(tmp_path, newline, end, start):
    data = start + newline.join(EXAMPLE[:-1] + end).encode()
    (tmp_path / "a.conllu").write_bytes(data)
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress(data))
    wanted = read_conllu(EXAMPLE)
    assert read_conllu(tmp_path / "a.conllu") == wanted
    assert read_conllu(str(tmp_path / "a.conllu.gz")) == wanted


def test_nothing_gives_nothing(tmp_path):
    assert read_conllu([]) == read_conllu(["", ""]) == []
    (tmp_path / "a.conllu").touch()
    assert read_conllu(tmp_path / "a.conllu") == []
    with pytest.raises(FileNotFoundError):
        read_conllu(tmp_path / "b.conllu")


GOOD = line("1")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["1 w _ X _ _ _ _ _ _"], "line 1: expected 10 columns with tabs between them, got 1"),
        ([GOOD, line("2") + "\t_"], "line 2: expected 10 columns .* got 11"),
        ([GOOD, " ", GOOD], "line 2: expected 10 columns .* got 1"),
        ([line("1", upos="")], "line 1: upos: expected a value without spaces or '_', got ''"),
        ([line("1", form=" ")], "line 1: form: expected a value"),
        ([line("1", upos="A B")], "line 1: upos: expected .* got 'A B'"),
        ([GOOD, line("3")], "line 2: id: expected 2, got 3$"),
        ([GOOD, GOOD], "line 2: id: expected 2, got 1; is an empty line missing"),
        ([line("01")], "line 1: id: expected 1, got 01"),
        ([line("²")], "line 1: id: expected a number"),
        ([line("0")], "line 1: id: expected 1, got 0"),
        ([line("one")], "line 1: id: expected a number, or one like 3-4 or 8.1, got 'one'"),
        ([line("2-3"), GOOD], "line 1: id: expected a multiword token from word 1 on, got 2-3"),
        ([line("2-1")], "line 1: id: expected a multiword token"),
        ([line("1-2"), line("1-2")], "line 2: id: expected a multiword token"),
        ([line("1-2"), GOOD, line("2-3"), line("2")], "line 3: id: expected a multiword token"),
        ([line("1-2"), GOOD, "", GOOD], "line 2: a multiword token ends at word 2 of 1"),
        ([GOOD, line("1.2")], r"line 2: id: expected the empty node 1\.1, got 1\.2"),
        ([line("1", head="x")], "line 1: head: expected the number of a word, 0 or '_', got 'x'"),
        ([line("1", head="-1")], "line 1: head: expected the number"),
        ([line("1", head=5000 * "9")], "line 1: head: expected the number.{,100}$"),
        ([line(5000 * "9")], "line 1: id: expected 1, got 9{60}$"),
        ([line("1-" + 5000 * "9")], "line 1: id: expected a number, or one like 3-4.{,80}$"),
        ([GOOD, line("1." + 5000 * "9")], "line 2: id: expected a number, or one like"),
        ([line("1", head="2"), "", GOOD], "line 1: head of word 1: expected at most 1, got 2"),
        (["# sent_id = 1", "", GOOD], "line 1: expected words after the comments"),
        ([GOOD, "# sent_id = 2", GOOD], "line 2: a comment inside a sentence"),
    ],
)
def test_faults_have_a_line(lines, words, tmp_path):
    with pytest.raises(ValueError, match="^source, " + words):
        read_conllu(lines)
    path = tmp_path / "my.conllu"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match="^my.conllu, " + words):
        read_conllu(path)


def test_an_empty_node_may_come_first():
    (sentence,) = read_conllu([line("0.1"), GOOD, line("1.1"), line("2"), line("2.1")])
    assert len(sentence) == 2


def test_lines_with_a_byte_order_mark():
    assert read_conllu(["\ufeff" + EXAMPLE[0], *EXAMPLE[1:]]) == read_conllu(EXAMPLE)


@pytest.mark.parametrize("fault", ["cut", "damaged", "no archive"])
def test_a_packed_file_that_cannot_be_read(tmp_path, fault):
    path = tmp_path / "my.conllu.gz"
    packed = gzip.compress("\n".join(EXAMPLE).encode())
    middle = len(packed) // 2
    path.write_bytes(
        {
            "cut": packed[:-10],
            "damaged": packed[:middle] + bytes(20) + packed[middle + 20 :],
            "no archive": b"no archive",
        }[fault]
    )
    with pytest.raises(OSError, match=r"my.conllu.gz cannot be unpacked \("):
        read_conllu(path)


def test_another_encoding_is_an_error(tmp_path):
    path = tmp_path / "latin.conllu"
    path.write_bytes(f"{GOOD}\n{line('2', 'é')}\n".encode("latin-1"))
    with pytest.raises(ValueError, match="^latin.conllu, line 2: expected UTF-8"):
        read_conllu(path)
