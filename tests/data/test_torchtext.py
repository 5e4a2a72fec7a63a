"""Ours and torchtext 0.18 itself, on all vendored text: `make torchtext` runs it in torch 2.3.

Elsewhere it is skipped; what other tests know of torchtext was written out from its source.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import warnings

import pytest
import torch

if importlib.util.find_spec("torchtext") is None:
    pytest.skip("torchtext is not installed here (make torchtext)", allow_module_level=True)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torchtext

    torchtext.disable_torchtext_deprecation_warning()
    import torchtext.data.metrics
    import torchtext.datasets
    import torchtext.vocab

import companion.data
from companion.data import basic_english, get_tokenizer, load, read_ag_news
from companion.data.vocabulary import vocab
from companion.train import metrics

THEIR_TOKENS = torchtext.data.get_tokenizer("basic_english")
THEIRS = torchtext.vocab.build_vocab_from_iterator
OURS = companion.data.build_vocab_from_iterator


def lines_of(name):
    """The text of a vendored set, as the pieces in which it would be tokenized."""
    if name == "state-of-the-union":
        return [address.text for address in load(name)]
    if name == "shakespeare":
        return [line for play in load(name) for line in play.text.splitlines()]
    if name == "wordnet-glosses":
        return load(name).texts
    if name == "surnames":
        return list(load(name).names)
    if name == "cmudict":
        return list(load(name).words)
    return [" ".join(words) for words in load(name).words]


TEXTS = [
    "state-of-the-union",
    "shakespeare",
    "wordnet-glosses",
    "surnames",
    "cmudict",
    "turkish-treebank",
]
each_text = pytest.mark.parametrize("name", TEXTS)


@pytest.fixture(scope="module")
def tokens():
    return {name: [basic_english(line) for line in lines_of(name)] for name in TEXTS}


@each_text
def test_tokens(name, tokens):
    lines = lines_of(name)
    assert len(lines) > 50
    for line, ours in zip(lines, tokens[name], strict=True):
        assert ours == THEIR_TOKENS(line), line[:200]
        assert get_tokenizer(None)(line) == torchtext.data.get_tokenizer(None)(line)


@each_text
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"specials": ["<unk>", "<pad>"]},
        {"specials": ["<unk>", "<pad>"], "special_first": False},
        {"specials": ["<unk>", "the", "a"], "max_tokens": 500},  # specials that are words too
        {"min_freq": 3, "specials": ["<unk>"], "max_tokens": 20_000},
        {"min_freq": 0, "max_tokens": 7},
    ],
    ids=str,
)
def test_vocabularies(name, options, tokens):
    ours, theirs = OURS(tokens[name], **options), THEIRS(tokens[name], **options)
    assert len(ours) == len(theirs) >= 1
    assert ours.get_itos() == theirs.get_itos() and ours.get_stoi() == theirs.get_stoi()
    if "<unk>" in options.get("specials", []):
        for v in (ours, theirs):
            v.set_default_index(v["<unk>"])
        for line in tokens[name][:2000]:
            assert ours(line) == theirs(line) == theirs.lookup_indices(line)
        sample = list(range(0, len(ours), 17))
        assert ours.lookup_tokens(sample) == theirs.lookup_tokens(sample)
        assert all((w in ours) == (w in theirs) for w in ("the", "<unk>", "zzz", ""))


@each_text
def test_characters(name):
    lines = lines_of(name)[:300]
    assert OURS(lines).get_itos() == THEIRS(map(list, lines)).get_itos()


def outcome(action):
    """What an action gives: its value, or the type of its error."""
    try:
        return action()
    except Exception as error:  # compared with that of the other
        return type(error)


ACTIONS = {
    "default index": lambda v, V: v.get_default_index(),
    "unknown": lambda v, V: v["zzz"],
    "unknown in a list": lambda v, V: v(["a", "zzz"]),
    "default set": lambda v, V: (v.set_default_index(1), v["zzz"], v.get_default_index()),
    "default −1": lambda v, V: (v.set_default_index(-1), v(["zzz", "a"])),
    "default taken back": lambda v, V: (v.set_default_index(1), v.set_default_index(None), v["z"]),
    "default of a str": lambda v, V: v.set_default_index("a"),
    "insert": lambda v, V: (v.insert_token("z", 1), v.get_itos(), v.get_stoi()),
    "insert at the end": lambda v, V: (v.insert_token("z", 3), v.get_itos()),
    "insert moves no default": lambda v, V: (
        v.set_default_index(0),
        v.insert_token("z", 0),
        v["unknown"],
    ),
    "insert what is there": lambda v, V: v.insert_token("a", 0),
    "insert beyond": lambda v, V: v.insert_token("z", 4),
    "insert before": lambda v, V: v.insert_token("z", -1),
    "append": lambda v, V: (v.append_token("z"), v["z"], len(v)),
    "append what is there": lambda v, V: v.append_token("b"),
    "lookup": lambda v, V: (v.lookup_token(2), v.lookup_tokens([1, 0]), v.lookup_indices(["b"])),
    "lookup −1": lambda v, V: v.lookup_token(-1),
    "lookup beyond": lambda v, V: v.lookup_tokens([0, 3]),
    "lookup of a float": lambda v, V: v.lookup_token(0.0),
    "token that is none": lambda v, V: v[0],
    "contains": lambda v, V: ("a" in v, "z" in v, len(v)),
    "forward": lambda v, V: v.forward(["b", "a"]),
    "no specials": lambda v, V: V({"b": 1, "a": 2, "c": 0}).get_itos(),
    "all options": lambda v, V: V({"b": 1, "a": 2}, 2, ["<u>", "b"], False).get_itos(),
    "special twice": lambda v, V: V({"a": 1}, specials=["<u>", "<u>"]),
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_vocab_does_the_same_and_fails_alike(action):
    counts = {"a": 3, "c": 1, "b": 2}
    ours = outcome(lambda: action(vocab(counts), vocab))
    theirs = outcome(lambda: action(torchtext.vocab.vocab(counts), torchtext.vocab.vocab))
    assert ours == theirs


def test_no_room_beside_the_specials():
    for build in (OURS, THEIRS):
        with pytest.raises(AssertionError):
            build([["a"]], specials=["<unk>", "<pad>"], max_tokens=2)


# ---- BLEU ---------------------------------------------------------------------------------------


def corpus(n=200, drop=0.15, seed=0):
    """Glosses as references, and as hypotheses the same with words dropped and exchanged."""
    g = torch.Generator().manual_seed(seed)
    right = [basic_english(text) for text in load("wordnet-glosses").texts[:n]]
    words = [word for line in right for word in line]
    said = []
    for line in right:
        kept = [
            w for w, p in zip(line, torch.rand(len(line), generator=g), strict=True) if p > drop
        ]
        place = int(torch.randint(len(kept) + 1, (1,), generator=g))
        other = words[int(torch.randint(len(words), (1,), generator=g))]
        said.append([*kept[:place], other, *kept[place:]])
    return said, right


def bleus(said, references):
    """Ours and theirs, both from 0 to 1. Tokens are joined by spaces and cut there again."""
    joined = [[" ".join(r) for r in several] for several in references]
    ours = metrics.bleu([" ".join(s) for s in said], joined, tokenize="none") / 100
    return ours, torchtext.data.metrics.bleu_score(said, references)


@pytest.mark.parametrize("drop", [0.0, 0.15, 0.4])
def test_bleu_of_a_corpus(drop):
    """Equal with tokenize="none", where 4 words match somewhere: then nothing is smoothed."""
    said, right = corpus(drop=drop)
    ours, theirs = bleus(said, [[r] for r in right])
    assert 0.2 < ours < 1
    assert ours == pytest.approx(theirs, rel=2e-6)  # theirs is computed in float32


def test_bleu_with_several_references():
    said, right = corpus()
    other, _ = corpus(seed=1)
    # the shorter reference first: of two equally near lengths sacrebleu takes the shorter, as
    # Papineni et al. do, and torchtext the first
    pairs = [sorted(pair, key=len) for pair in zip(right, other, strict=True)]
    ours, theirs = bleus(said, pairs)
    assert ours == pytest.approx(theirs, rel=2e-6) and 0.2 < ours < 1


def test_bleu_where_they_differ():
    """No match of 4 words: torchtext gives 0, sacrebleu's "exp" counts 1/2 of a match."""
    ours, theirs = bleus([["a", "b", "c", "x", "y"]], [[["a", "b", "c", "z", "y"]]])
    # precisions 4/5, 2/4, 1/3, and (1/2)/2; equal lengths
    assert ours == pytest.approx((4 / 5 * 2 / 4 * 1 / 3 * 1 / 4) ** 0.25, rel=1e-9)
    assert theirs == 0


# ---- AG_NEWS ------------------------------------------------------------------------------------


@pytest.fixture
def news(tmp_path, monkeypatch):
    """A file in the form of AG_NEWS where torchtext caches it, with the hash it asks for."""
    path = tmp_path / "datasets" / "AG_NEWS" / "test.csv"
    path.parent.mkdir(parents=True)
    glosses = load("wordnet-glosses").texts[:400]
    with open(path, "w", encoding="utf-8", newline="") as file:
        write = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow
        for n, (title, text) in enumerate(zip(glosses[::2], glosses[1::2], strict=True)):
            write([n % 4 + 1, title, f'Reuters - "{text}", é,\\  #{n} '])
    module = importlib.import_module("torchtext.datasets.ag_news")
    digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    monkeypatch.setitem(module.MD5, "test", digest)
    return path


@pytest.mark.filterwarnings("ignore")  # torchdata's, on its own end
def test_news_are_torchtexts(news):
    root = news.parents[2]
    theirs = list(torchtext.datasets.AG_NEWS(root=str(root), split="test"))
    ours = list(read_ag_news(news))
    assert len(ours) == 200 and ours == theirs
    assert {label for label, _ in ours} == {1, 2, 3, 4}
