"""Metrics against their definitions, written out."""

import importlib.util
import math
import random
import sys

import numpy as np
import pytest
import torch

from companion.train import metrics


def needs(package):
    found = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(not found, reason=f"{package} is not installed")


def edits(a, b):
    """Levenshtein's distance by its recursion, row by row."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def test_perplexity_is_of_all_tokens():
    # 3 tokens of probability 1/8, 1 of 1/2: (8·8·8·2)^(1/4)
    found = metrics.perplexity([math.log(8), math.log(2)], [3, 1])
    assert found == pytest.approx(1024**0.25, rel=1e-14)
    assert metrics.perplexity(0.0) == 1 and metrics.perplexity(1e4) == math.inf
    assert metrics.perplexity([math.nan, math.log(3)], [0, 2]) == pytest.approx(3)


@pytest.mark.parametrize(
    "losses, weights, message",
    [
        ([1.0, 2.0], None, "weights: expected the number of tokens of each loss, got None"),
        ([1.0, 2.0], [1], "weights: expected 2 of them, got 1"),
        ([], [], "weights: expected numbers of tokens"),
        ([1.0], [0], "weights: expected numbers of tokens, some above 0"),
        ([1.0, 1.0], [2, -1], "weights: expected numbers of tokens"),
        ([1.0], [math.inf], "weights: expected numbers of tokens"),
        ([1.0], [math.nan], "weights: expected numbers of tokens"),
    ],
)
def test_perplexity_of_nothing(losses, weights, message):
    with pytest.raises(ValueError, match=message):
        metrics.perplexity(losses, weights)


def classes(ignored=True):
    g = torch.Generator().manual_seed(0)
    predicted = torch.randint(4, (6, 5), generator=g)
    target = torch.randint(4, (6, 5), generator=g)
    if ignored:
        target[2:4, 3:] = -100
    return predicted, target


def test_accuracy():
    predicted, target = classes()
    counts = target != -100
    want = (predicted == target)[counts].double().mean().item()
    assert metrics.accuracy(predicted, target, ignore=-100) == pytest.approx(want, rel=1e-14)
    seven = torch.tensor([1] * 7 + [0] * 3)
    assert metrics.accuracy(seven, torch.ones(10).long()) == 0.7  # no float32
    assert metrics.accuracy(torch.tensor([0]), torch.tensor([0])) == 1


def f1_of(predicted, target, c):
    hits = ((predicted == c) & (target == c)).sum().item()
    return 2 * hits / ((predicted == c).sum().item() + (target == c).sum().item())


@needs("torchmetrics")
def test_f1():
    predicted, target = classes()
    p, t = predicted[target != -100], target[target != -100]
    each = [f1_of(p, t, c) for c in range(4)]
    want = {
        "macro": sum(each) / 4,
        "micro": (p == t).double().mean().item(),
        "weighted": sum(f * (t == c).double().mean().item() for c, f in enumerate(each)),
    }
    for average, value in want.items():
        found = metrics.f1(predicted, target, average=average, ignore=-100)
        assert found == pytest.approx(value, rel=1e-14), average
    # a class that neither occurs nor is predicted does not count as 0
    assert metrics.f1(torch.tensor([0, 1]), torch.tensor([0, 1]), classes=9) == 1


@pytest.mark.parametrize("measure", [metrics.accuracy, metrics.f1])
@pytest.mark.parametrize(
    "predicted, target, kind, message",
    [
        (torch.ones(2), torch.ones(2).long(), TypeError, "predicted: expected .* got torch.float"),
        ([1], torch.ones(1).long(), TypeError, "predicted: expected .* got list"),
        (torch.ones(2).long(), torch.ones(2), TypeError, "target: expected .*"),
        (torch.ones(2).long(), torch.ones(3).long(), ValueError, r"shape of target, \(3,\)"),
        (torch.ones(0).long(), torch.ones(0).long(), ValueError, "nothing in it that counts"),
        (torch.tensor([1j]), torch.tensor([1]), TypeError, "predicted: .* got torch.complex64"),
        (torch.tensor([-1]), torch.tensor([0]), ValueError, "predicted: expected classes from 0"),
        (torch.tensor([0]), torch.tensor([-1]), ValueError, "target: expected classes from 0 on"),
    ],
)
def test_classes_without_meaning(measure, predicted, target, kind, message):
    with pytest.raises(kind, match=message):
        measure(predicted, target)


@needs("torchmetrics")
def test_options_of_f1():
    with pytest.raises(ValueError, match="average must be"):
        metrics.f1(*classes(False), average="none")
    with pytest.raises(ValueError, match="classes: expected at least 4, for class 3, got 2"):
        metrics.f1(*classes(False), classes=2)
    for wrong in ("3", 2.5, True):
        with pytest.raises(TypeError, match="classes: expected an int, got (str|float|bool)"):
            metrics.f1(*classes(False), classes=wrong)


def ngrams(tokens, n):
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def bleu_of(hypotheses, references):
    """Papineni et al. (2002), equations 1 to 3, over the corpus, one reference each."""
    pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
    logs = 0.0
    for n in range(1, 5):
        hits = total = 0
        for h, r in pairs:
            there = ngrams(r, n)
            for gram in set(ngrams(h, n)):
                hits += min(ngrams(h, n).count(gram), there.count(gram))
            total += len(ngrams(h, n))
        logs += math.log(hits / total) / 4
    c, r = (sum(len(pair[i]) for pair in pairs) for i in (0, 1))
    return 100 * math.exp(logs + min(0, 1 - r / c))


HYPOTHESES = ["the cat sat on the mat today", "a dog ran over the green hill", "no"]
REFERENCES = ["the cat sat on the red mat", "the dog ran over the green hill quickly", "no way"]


@needs("sacrebleu")
def test_bleu():
    want = bleu_of(HYPOTHESES, REFERENCES)
    assert 20 < want < 80
    assert metrics.bleu(HYPOTHESES, REFERENCES) == pytest.approx(want, rel=1e-9)
    several = [[r, h] for r, h in zip(REFERENCES, HYPOTHESES, strict=True)]
    assert metrics.bleu(HYPOTHESES, several) == pytest.approx(100)
    some = [REFERENCES[0], [REFERENCES[1], HYPOTHESES[1]], REFERENCES[2]]
    assert want < metrics.bleu(HYPOTHESES, some) < 100
    assert metrics.bleu(["A B C D"], ["a b c d"]) == 0
    assert metrics.bleu(["A B C D"], ["a b c d"], lowercase=True) == pytest.approx(100)


@needs("sacrebleu")
def test_chrf():
    # "ab" for "abc": precisions 1, 1 of unigrams and bigrams, recalls 2/3 and 1/2; beta 2
    p, r = 1.0, (2 / 3 + 1 / 2) / 2
    want = 100 * 5 * p * r / (4 * p + r)
    assert metrics.chrf(["ab"], ["abc"]) == pytest.approx(want, rel=1e-9)
    assert metrics.chrf(HYPOTHESES, HYPOTHESES) == pytest.approx(100)
    # "ab ab" for "ab": characters "abab" for "ab", precisions 2/4 and 1/3; words 1/2; recalls 1
    for words, p in {0: (2 / 4 + 1 / 3) / 2, 2: (2 / 4 + 1 / 3 + 1 / 2) / 3}.items():
        found = metrics.chrf(["ab ab"], ["ab"], words=words)
        assert found == pytest.approx(100 * 5 * p / (4 * p + 1), rel=1e-9)


@needs("jiwer")
def test_error_rates_are_edits_for_right_symbols():
    rng = random.Random(0)
    pairs = [
        ([rng.choice("abc") for _ in range(n)], [rng.choice("abc") for _ in range(m)])
        for n in range(6)
        for m in range(6)
    ]
    h, r = ([pair[i] for pair in pairs] for i in (0, 1))
    want = sum(edits(*pair) for pair in pairs) / sum(map(len, r))
    assert metrics.error_rate(h, r) == pytest.approx(want, rel=1e-12)
    words = [[" ".join(s) for s in side] for side in (h, r)]
    assert metrics.word_error_rate(*words) == pytest.approx(want, rel=1e-12)
    assert metrics.word_error_rate(["a b c"], ["a"]) == 2
    assert metrics.word_error_rate(["The"], ["the"]) == 1, "nothing is normalized in silence"


@pytest.mark.parametrize("measure", [metrics.bleu, metrics.chrf, metrics.word_error_rate])
@pytest.mark.parametrize(
    "hypotheses, references, kind, message",
    [
        (["a"], [], ValueError, "references: expected one for each hypothesis.* got 0 for 1"),
        ([], [], ValueError, "references: expected one for each .* got 0 for 0"),
        ("a", ["a"], TypeError, "hypotheses: expected one entry for each sentence, got a str"),
        (["a"], "a", TypeError, "references: expected one entry for each sentence, got a str"),
        ([["a"]], ["a"], TypeError, r"hypotheses\[0\]: expected a str, got list"),
        (["a"], [3], TypeError, "references"),
        (["a"], [[]], TypeError, r"references\[0\]: expected a str or several"),
        (["a"], [None], TypeError, r"references\[0\]: expected a str or several, got None"),
        (["a"], [[None]], TypeError, r"references\[0\]: expected a str or several"),
    ],
)
def test_sentences_without_meaning(measure, hypotheses, references, kind, message):
    if references == [3]:
        references, message = [[3]], r"references\[0\]: expected a str or several"
    with pytest.raises(kind, match=message):
        measure(hypotheses, references)


@pytest.mark.parametrize(
    "hypotheses, references, kind, message",
    [
        (["ab"], [["a"]], TypeError, "hypotheses: expected sequences of symbols, got the str"),
        ([["a"]], [["a b"]], ValueError, "references: a symbol is empty or holds white space"),
        ([[""]], [["a"]], ValueError, "hypotheses: a symbol is empty"),
        ([["a"]], [[]], ValueError, "references: there is no symbol in them"),
        ([[1]], [["a"]], TypeError, "hypotheses: expected symbols that are a str, got int: 1"),
        ([None], [["a"]], TypeError, "hypotheses: expected sequences of symbols, got the None"),
    ],
)
def test_symbols_without_meaning(hypotheses, references, kind, message):
    with pytest.raises(kind, match=message):
        metrics.error_rate(hypotheses, references)


@pytest.mark.parametrize(
    "package, call",
    [
        ("torchmetrics", lambda: metrics.f1(*classes(False))),
        ("sacrebleu", lambda: metrics.bleu(["a"], ["a"])),
        ("sacrebleu", lambda: metrics.chrf(["a"], ["a"])),
        ("jiwer", lambda: metrics.word_error_rate(["a"], ["a"])),
    ],
)
def test_a_missing_package_is_named(monkeypatch, package, call):
    for name in [n for n in sys.modules if n.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    pattern = rf'this metric needs {package}, .*pip install -e "\.\[train\]"$'
    with pytest.raises(ModuleNotFoundError, match=pattern):
        call()


def test_perplexity_of_one_number_of_any_kind():
    for three in (3, 3.0, np.float32(3), np.array(3.0), torch.tensor(3.0)):
        assert metrics.perplexity(three) == pytest.approx(math.exp(3), rel=1e-14)
    for wrong in ("ab", ["a"], None, [None, 1.0]):
        with pytest.raises(TypeError, match="losses: expected a sequence of numbers"):
            metrics.perplexity(wrong, [1, 1])
    with pytest.raises(TypeError, match="weights: expected a sequence of numbers"):
        metrics.perplexity([1.0, 2.0], "11")


def test_perplexity_overflows_to_infinity_only_where_it_is_that_large():
    assert metrics.perplexity([1e308, 1e308], [1, 1]) == math.inf
    assert metrics.perplexity([1.0, 1.0], [1e308, 1e308]) == pytest.approx(math.e, rel=1e-14)


def test_an_ignored_class_is_that_number_in_every_dtype():
    target = torch.tensor([156, 1], dtype=torch.uint8)  # 156 is -100, 8 bits of it
    assert metrics.accuracy(target.clone(), target, ignore=-100) == 1
    assert metrics.accuracy(torch.tensor([0, 1]), target, ignore=-100) == 0.5


@needs("sacrebleu")
def test_options_and_bounds_of_sacrebleu():
    same = ["a b c d e", "x y z w v"]
    assert metrics.bleu(same, same) == metrics.chrf(same, same) == 100  # not a rounding more
    with pytest.raises(ValueError, match="tokenize: expected one of .*13a.*, got 'nope'"):
        metrics.bleu(same, same, tokenize="nope")
    for wrong in (-1, "2", True):
        with pytest.raises(ValueError, match="words: expected an int >= 0, got"):
            metrics.chrf(same, same, words=wrong)


def test_a_word_error_rate_has_one_reference():
    with pytest.raises(TypeError, match=r"references\[0\]: expected a str, got list"):
        metrics.word_error_rate(["a b"], [["a b", "a c"]])
