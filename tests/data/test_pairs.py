"""Pairs of texts."""

import gzip
import hashlib
import re
import sys
from collections import Counter

import pytest
import torch

from companion.data import CATALOGUE, Messages, Pairs, load, number_names, read_parallel
from companion.data.labelled import FILES

# the spelling before 1990, hyphens below one hundred alone; "et" before un and onze up to 71, an s
# of quatre-vingts and cents at the end alone; mille never changes and has no "un" before it
UNITS = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze "
    "seize dix-sept dix-huit dix-neuf"
).split()
TENS = {20: "vingt", 30: "trente", 40: "quarante", 50: "cinquante", 60: "soixante"}


def french(n):
    if n >= 1000:
        head = "mille" if n < 2000 else f"{french(n // 1000)} mille"
        return head if n % 1000 == 0 else f"{head} {french(n % 1000)}"
    if n >= 200 and n % 100 == 0:
        return f"{UNITS[n // 100]} cents"
    if n >= 100:
        head = "cent" if n < 200 else f"{UNITS[n // 100]} cent"
        return head if n == 100 else f"{head} {french(n % 100)}"
    if n < 20:
        return UNITS[n]
    if n == 80:
        return "quatre-vingts"
    if n > 80:
        return f"quatre-vingt-{UNITS[n - 80]}"
    tens = min(n // 10 * 10, 60)
    rest = n - tens
    joint = " et " if rest in (1, 11) else "-"
    return TENS[tens] + (joint + UNITS[rest] if rest else "")


@pytest.mark.parametrize(
    ("number", "english", "name"),
    [
        (0, "zero", "zéro"),
        (17, "seventeen", "dix-sept"),
        (21, "twenty-one", "vingt et un"),
        (71, "seventy-one", "soixante et onze"),
        (80, "eighty", "quatre-vingts"),
        (81, "eighty-one", "quatre-vingt-un"),
        (99, "ninety-nine", "quatre-vingt-dix-neuf"),
        (200, "two hundred", "deux cents"),
        (201, "two hundred and one", "deux cent un"),
        (1000, "one thousand", "mille"),
        (80_000, "eighty thousand", "quatre-vingt mille"),
        (-5, "minus five", "moins cinq"),
    ],
)
def test_names_of_numbers(number, english, name):
    pairs = number_names([number])
    assert (pairs.sources, pairs.targets) == ([english], [name])


def test_the_numbers_by_name():
    """Every French name below 10,000 follows the rules of the language."""
    numbers = load("numbers")
    assert isinstance(numbers, Pairs) and len(numbers) == 10_000
    assert numbers.targets == [french(n) for n in range(10_000)]
    assert numbers.sources[1999] == "one thousand, nine hundred and ninety-nine"
    assert len(set(numbers.sources)) == len(set(numbers.targets)) == 10_000
    # as the catalogue says
    longest, other = max(map(len, numbers.sources)), max(map(len, numbers.targets))
    assert f"up to {longest} and {other} characters" in CATALOGUE["numbers"].size


def test_other_languages():
    pairs = number_names(iter(range(70, 72)), source="fr_CH", target="de")
    assert pairs.sources == ["septante", "septante et un"]
    assert pairs.targets == ["siebzig", "einundsiebzig"]
    assert pairs.swapped().sources == pairs.targets
    assert len(number_names([])) == 0


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"source": "french"}, ValueError, "^source: expected one of am, ar, .*, got 'french'"),
        ({"target": "xx"}, ValueError, "^target: expected one of .*, got 'xx'"),
        ({"target": None}, TypeError, "^target: expected the code of a language, a str, got None"),
        ({"numbers": [1.5]}, TypeError, r"^numbers: expected ints, got float \(1.5\)"),
        ({"numbers": [True]}, TypeError, r"^numbers: expected ints, got bool \(True\)"),
        ({"numbers": ["1"]}, TypeError, "^numbers: expected ints, got str"),
        ({"numbers": [10**400], "target": "de"}, ValueError, "^numbers: 10{39} has no name in en"),
        ({"numbers": [10**5000]}, ValueError, "^numbers: one of over 3,000 digits has no name"),
        ({"numbers": 3}, TypeError, "^numbers: expected ints one after another, got 3"),
        # what num2words does itself: KeyError, ValueError, TypeError, no name without an error
        ({"numbers": [10**70], "target": "ru"}, ValueError, "^numbers: 10{39} has no name in ru"),
        ({"numbers": [-1], "source": "cs"}, ValueError, "^numbers: -1 has no name in cs"),
        ({"numbers": [-1], "source": "am"}, ValueError, "^numbers: -1 has no name in am"),
        ({"numbers": [10**400], "source": "fa"}, ValueError, "^numbers: 10{39} has no name in fa"),
    ],
)
def test_what_has_no_name(given, error, words):
    with pytest.raises(error, match=words):
        number_names(**{"numbers": [1], **given})


def test_without_num2words(monkeypatch):
    monkeypatch.setitem(sys.modules, "num2words", None)
    for function in (lambda: load("numbers"), lambda: number_names([1])):
        with pytest.raises(ImportError, match="num2words.*pip install num2words"):
            function()
    assert CATALOGUE["numbers"].kind == "pip" and CATALOGUE["numbers"].package == "num2words"


def test_rows_go_together():
    pairs = Pairs(["a", "b", "c"], ["1", "2", "3"])
    assert repr(pairs) == "Pairs(3 pairs)" and len(pairs) == 3
    chosen = pairs.subset(torch.tensor([2, 0]))
    assert (chosen.sources, chosen.targets) == (["c", "a"], ["3", "1"])
    train, valid, test = load("numbers").split(seed=0)
    assert [len(part) for part in (train, valid, test)] == [8000, 1000, 1000]
    rows = [*zip(train.sources + valid.sources + test.sources, strict=True)]
    assert len(set(rows)) == 10_000
    with pytest.raises(ValueError, match="^targets: expected one for each of 2 sources, got 1"):
        Pairs(["a", "b"], ["1"])


@pytest.fixture(scope="module")
def messages():
    return load("interface")


def test_messages_are_what_the_note_says(messages):
    folder = FILES / "interface"
    note = (folder / "SOURCE").read_text(encoding="utf-8")
    packed = (folder / "pairs.tsv.gz").read_bytes()
    assert f"result sha256   {hashlib.sha256(packed).hexdigest()}" in note
    assert f"text sha256     {hashlib.sha256(gzip.decompress(packed)).hexdigest()}" in note
    assert f"pairs           {len(messages)}\n" in note and len(packed) < 400_000
    counts = Counter(messages.origin)
    for origin, line in zip(counts, note.splitlines()[-3:], strict=True):
        assert line.split()[0] == origin and int(line.split()[4]) == counts[origin]
    terms = (folder / "LICENCE").read_text(encoding="utf-8")
    for words in ("Project Jupyter Contributors", "Django Software Foundation", "Apache License"):
        assert words in terms


def test_messages_are_as_told(messages):
    """Each promise of the note, on every pair."""
    assert isinstance(messages, Messages) and len(set(messages.sources)) == len(messages)
    keys = {re.sub(r"\d+", "0", text).casefold().strip(" .…:?!") for text in messages.sources}
    assert len(keys) == len(messages)
    placeholder = re.compile(r"%\(\w+\)[a-z]|%\d+|\{\w*\}")
    for source, target in zip(messages.sources, messages.targets, strict=True):
        assert source != target
        assert Counter(placeholder.findall(source)) == Counter(placeholder.findall(target))
        for text in (source, target):
            assert text == " ".join(text.split()) and 1 <= len(text.split()) <= 30
            assert not re.search(r"[’“”\u0304\u0301]|</|https?:|`", text)


def test_messages_of_each_program(messages):
    rows = {
        source: rest
        for source, *rest in zip(messages.sources, messages.targets, messages.origin, strict=True)
    }
    # django/conf/locale/fr: "Corrigez l’erreur ci-dessous.", with the apostrophe of typesetters
    assert rows["Please correct the error below."] == ["Corrigez l'erreur ci-dessous.", "django"]
    assert rows["Copy Path"] == ["Copier le chemin", "jupyterlab"]
    assert rows["Invalid authentication"][1] == "home-assistant"
    part = messages.subset(torch.tensor([5, 3]))
    assert part.origin == [messages.origin[5], messages.origin[3]]
    swapped = part.swapped()
    assert isinstance(swapped, Messages) and swapped.origin == part.origin
    assert (swapped.sources, swapped.targets) == (part.targets, part.sources)
    with pytest.raises(ValueError, match="^origin: expected one for each of 1 sources, got 0"):
        Messages(["a"], ["b"], [])


def test_lines_that_go_together(tmp_path):
    text = "\ufeff Zwei Hunde. \r\n\nEin \u2028 Haus\n"
    (tmp_path / "a.de").write_bytes(text.encode())
    (tmp_path / "a.en").write_bytes(b"Two dogs.\n\t\nA house")
    pairs = read_parallel(tmp_path / "a.de", str(tmp_path / "a.en"))
    assert pairs.sources == ["Zwei Hunde.", "Ein \u2028 Haus"]
    assert pairs.targets == ["Two dogs.", "A house"]


@pytest.mark.parametrize(
    ("german", "english", "words"),
    [
        (b"a\nb\n", b"a\n", "^a.en: expected as many lines as in a.de, 2, got 1"),
        (b"a\n\n", b"a\nb\n", "^a.de, line 2: expected a text, as a.en has one"),
        (b"a\nb\n", b"a\n \n", "^a.en, line 2: expected a text, as a.de has one"),
        (b"a\n\xff\n", b"a\nb\n", "^a.de, after line .: expected UTF-8, invalid start byte"),
    ],
)
def test_lines_that_do_not(tmp_path, german, english, words):
    (tmp_path / "a.de").write_bytes(german)
    (tmp_path / "a.en").write_bytes(english)
    with pytest.raises(ValueError, match=words):
        read_parallel(tmp_path / "a.de", tmp_path / "a.en")
