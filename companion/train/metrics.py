"""Measurements of a task, by the libraries that its field reports with.

They are what the extra ``train`` installs, and are imported when they are called. Each function
takes plain values and returns one float. Within an objective, a metric is a mean over a batch,
weighted as the loss is; what is no such mean (F1, BLEU, a word error rate) is measured once, on
all predictions together.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

__all__ = ["accuracy", "bleu", "chrf", "error_rate", "f1", "perplexity", "word_error_rate"]


def perplexity(losses: float | Sequence[float], weights: Sequence[float] | None = None) -> float:
    r"""Return :math:`\exp(\sum_b w_b \ell_b / \sum_b w_b)`, for mean losses in nats per token.

    Args:
        losses: a mean negative log-likelihood per token, or one for each of several batches.
        weights: the number of tokens of each; needed if there are several.

    Returns:
        the perplexity; inf if it is beyond the largest float.

    Raises:
        TypeError: if they are no numbers.
        ValueError: if there is no token, or lengths differ.

    Example:
        >>> round(perplexity(math.log(50)), 9)
        50.0
        >>> round(perplexity([math.log(8), math.log(2)], [1, 3]), 3)  # not the mean of 8 and 2
        2.828
    """
    if isinstance(losses, Real) or getattr(losses, "ndim", None) == 0:
        losses, weights = [float(losses)], [1] if weights is None else weights  # type: ignore[arg-type]
    if weights is None:
        raise ValueError("weights: expected the number of tokens of each loss, got None")
    means, counts = _floats("losses", losses), _floats("weights", weights)
    if len(counts) != len(means):
        raise ValueError(f"weights: expected {len(means)} of them, got {len(counts)}")
    if not counts or not (
        0 <= min(counts) and 0 < max(counts) and all(map(math.isfinite, counts))
    ):
        raise ValueError(f"weights: expected numbers of tokens, some above 0, got {weights!r:.80}")
    most = max(counts)  # shares of it cannot overflow
    tokens = math.fsum(count / most for count in counts)
    pairs = zip(means, counts, strict=True)
    try:
        return math.exp(math.fsum(loss * (n / most / tokens) for loss, n in pairs if n))
    except OverflowError:
        return math.inf


def accuracy(predicted: Tensor, target: Tensor, *, ignore: int | None = None) -> float:
    """Return the share of classes that were predicted.

    Args:
        predicted, target: classes and the true ones, integers, of the same shape.
        ignore: a class of ``target`` that does not count, such as padding.

    Returns:
        the share, from 0 to 1.

    Raises:
        TypeError, ValueError: if shapes differ, classes are no integers, or nothing counts.

    Example:
        >>> target = torch.tensor([[2, 1], [1, -1]])
        >>> round(accuracy(torch.tensor([[2, 0], [1, 1]]), target, ignore=-1), 6)
        0.666667
    """
    predicted, target = _classes(predicted, target, ignore)
    return int((predicted == target).sum()) / target.numel()  # a float32 has too few digits


def f1(
    predicted: Tensor,
    target: Tensor,
    *,
    classes: int | None = None,
    average: str = "macro",
    ignore: int | None = None,
) -> float:
    r"""Return :math:`F_1 = 2PR/(P + R)`, with precision P and recall R of each class.

    Args:
        predicted, target: classes and the true ones, integers, of the same shape.
        classes: how many there are; by default one more than the largest that occurs.
        average: ``"macro"``: the mean over the classes that occur; ``"micro"``: of all decisions
            together; ``"weighted"``: by how often a class is true.
        ignore: a class of ``target`` that does not count, such as padding.

    Returns:
        the measure, from 0 to 1.

    Raises:
        TypeError, ValueError: if shapes differ, classes are no integers, or nothing counts.
        ModuleNotFoundError: if torchmetrics is not installed.

    Example:
        >>> predicted, target = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 1])
        >>> round(f1(predicted, target), 6)  # (2/3 + 4/5) / 2
        0.733333
    """
    if average not in ("macro", "micro", "weighted"):
        raise ValueError(f"average must be 'macro', 'micro' or 'weighted', got {average!r}")
    if classes is not None and (isinstance(classes, bool) or not isinstance(classes, Integral)):
        raise TypeError(f"classes: expected an int, got {type(classes).__name__}: {classes!r:.60}")
    predicted, target = _classes(predicted, target, ignore)
    size = int(torch.maximum(predicted, target).max()) + 1
    if classes is not None and classes < size:
        raise ValueError(f"classes: expected at least {size}, for class {size - 1}, got {classes}")
    size = max(size if classes is None else classes, 2)
    classification = _library("torchmetrics.functional.classification")
    # counts, not its multiclass_f1_score: that is a float32
    counts = classification.multiclass_stat_scores(predicted, target, int(size), average=None)
    hits, wrong, _, missed, support = counts.double().T
    if average == "micro":
        hits, wrong, missed = (part.sum(0, keepdim=True) for part in (hits, wrong, missed))
    both = 2 * hits + wrong + missed
    scores = 2 * hits / both.clamp(min=1)
    weight = {"macro": (both > 0).double(), "micro": torch.ones(1), "weighted": support}[average]
    return float((scores * weight).sum() / weight.sum())


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str | Sequence[str]],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> float:
    """Return the BLEU of a whole corpus, from 0 to 100, as sacrebleu reports it.

    Args:
        hypotheses: sentences, not tokenized.
        references: for each the right one, or several right ones.
        tokenize: sacrebleu's name of a tokenizer. Values of different ones cannot be compared.
        lowercase: whether to ignore case.

    Returns:
        the measure.

    Raises:
        TypeError, ValueError: if there are no sentences, or other numbers of them, or there is no
            such tokenizer.
        ModuleNotFoundError: if sacrebleu is not installed.

    Source:
        Papineni et al. (2002); Post (2018), "A call for clarity in reporting BLEU scores".

    Example:
        >>> round(bleu(["the cat sat on the mat"], ["the cat sat on the mat"]), 6)
        100.0
    """
    streams = _streams(hypotheses, references)
    sacrebleu = _library("sacrebleu")
    if tokenize not in list(sacrebleu.BLEU.TOKENIZERS):
        known = ", ".join(sacrebleu.BLEU.TOKENIZERS)
        raise ValueError(f"tokenize: expected one of {known}, got {tokenize!r}")
    score = sacrebleu.corpus_bleu(
        list(hypotheses), streams, tokenize=tokenize, lowercase=lowercase
    )
    return min(float(score.score), 100.0)  # which it exceeds by rounding


def chrf(
    hypotheses: Sequence[str],
    references: Sequence[str | Sequence[str]],
    *,
    words: int = 0,
) -> float:
    """Return the chrF of a whole corpus, from 0 to 100: F-score of character n-grams.

    Args:
        hypotheses: sentences.
        references: for each the right one, or several right ones.
        words: n of the longest word n-grams that count too; 2 is chrF++.

    Returns:
        the measure.

    Raises:
        TypeError, ValueError: if there are no sentences, or other numbers of them.
        ModuleNotFoundError: if sacrebleu is not installed.

    Source:
        Popović (2015), "chrF: character n-gram F-score for automatic MT evaluation".

    Example:
        >>> round(chrf(["a dog"], [["a dog", "one dog"]]), 6)
        100.0
    """
    if isinstance(words, bool) or not isinstance(words, Integral) or words < 0:
        raise ValueError(f"words: expected an int >= 0, got {words!r}")
    streams = _streams(hypotheses, references)
    sacrebleu = _library("sacrebleu")
    score = sacrebleu.corpus_chrf(list(hypotheses), streams, word_order=int(words))
    return min(float(score.score), 100.0)


def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    r"""Return :math:`(S + D + I) / N` over a corpus: word edits for N words of the references.

    Args:
        hypotheses: sentences, split at white space.
        references: the right ones.

    Returns:
        the rate; above 1 if much was put in.

    Raises:
        TypeError, ValueError: if there are no sentences, other numbers of them, or no word.
        ModuleNotFoundError: if jiwer is not installed.

    Example:
        >>> word_error_rate(["the cat sat", "dogs"], ["the cat sat down", "a dog"])
        0.5
    """
    _streams(hypotheses, references)
    for n, right in enumerate(references):
        if not isinstance(right, str):
            raise TypeError(f"references[{n}]: expected a str, got {type(right).__name__}")
    return error_rate([h.split() for h in hypotheses], [r.split() for r in references])


def error_rate(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    r"""Return :math:`(S + D + I) / N` over a corpus of symbols, such as phonemes.

    Args:
        hypotheses: sequences of symbols.
        references: the right ones.

    Returns:
        the least number of substitutions, deletions and insertions for each right symbol.

    Raises:
        TypeError, ValueError: if there are no sequences, other numbers of them, no right symbol,
            or a symbol is empty or holds white space.
        ModuleNotFoundError: if jiwer is not installed.

    Example:
        >>> error_rate([["HH", "AH", "L", "OW"]], [["HH", "EH", "L", "OW"]])
        0.25
    """
    _same_number(hypotheses, references)
    for name, corpus in {"hypotheses": hypotheses, "references": references}.items():
        for sequence in corpus:
            if isinstance(sequence, str) or not hasattr(sequence, "__len__"):
                what = f"the {type(sequence).__name__} {sequence!r:.60}"
                raise TypeError(f"{name}: expected sequences of symbols, got {what}")
            for symbol in sequence:
                if not isinstance(symbol, str):
                    what = f"{type(symbol).__name__}: {symbol!r:.60}"
                    raise TypeError(f"{name}: expected symbols that are a str, got {what}")
                if symbol.split() != [symbol]:
                    raise ValueError(f"{name}: a symbol is empty or holds white space: {symbol!r}")
    if not any(len(reference) for reference in references):
        raise ValueError("references: there is no symbol in them, and no rate without one")
    jiwer = _library("jiwer")
    both = list(zip(hypotheses, references, strict=True))
    # releases of jiwer differ about an empty reference; all of its hypothesis is insertions
    extra = sum(len(h) for h, r in both if not len(r))
    said, right = zip(*((" ".join(h), " ".join(r)) for h, r in both if len(r)), strict=True)
    counts = jiwer.process_words(list(right), list(said))
    edits = counts.substitutions + counts.deletions + counts.insertions + extra
    return float(edits / sum(map(len, references)))


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.split(".")[0]
        raise ModuleNotFoundError(
            f"this metric needs {package}, which is not installed; in the clone of the book: "
            'pip install -e ".[train]"'
        ) from error


def _floats(name: str, values: Any) -> list[float]:
    try:
        if isinstance(values, str | bytes):
            raise TypeError("float would take its digits")
        return [float(value) for value in values]
    except (TypeError, ValueError, OverflowError) as error:
        what = f"{type(values).__name__}: {values!r:.60}"
        raise TypeError(f"{name}: expected a sequence of numbers, got {what}") from error


def _classes(predicted: Tensor, target: Tensor, ignore: int | None) -> tuple[Tensor, Tensor]:
    for name, tensor in {"predicted": predicted, "target": target}.items():
        no_classes = isinstance(tensor, Tensor) and torch.is_floating_point(tensor.real)
        if not isinstance(tensor, Tensor) or no_classes:
            got = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
            raise TypeError(f"{name}: expected a tensor of classes, integers, got {got}")
    if predicted.shape != target.shape:
        raise ValueError(
            f"predicted: expected the shape of target, {tuple(target.shape)}, "
            f"got {tuple(predicted.shape)}"
        )
    predicted, target = predicted.long(), target.long()  # uint8 has no -100, and would take 156
    counts = torch.ones_like(target, dtype=torch.bool) if ignore is None else target != ignore
    if not counts.any():
        raise ValueError("target: there is nothing in it that counts")
    predicted, target = predicted[counts], target[counts]
    for name, tensor in {"predicted": predicted, "target": target}.items():
        if tensor.min() < 0:
            raise ValueError(f"{name}: expected classes from 0 on, got {int(tensor.min())}")
    return predicted, target


def _streams(
    hypotheses: Sequence[str], references: Sequence[str | Sequence[str]]
) -> list[list[str | None]]:
    """The references as sacrebleu wants them: all first ones, all second ones, …"""
    _same_number(hypotheses, references)
    for n, hypothesis in enumerate(hypotheses):
        if not isinstance(hypothesis, str):
            raise TypeError(f"hypotheses[{n}]: expected a str, got {type(hypothesis).__name__}")
    several = [[right] if isinstance(right, str) else right for right in references]
    for n, right in enumerate(several):
        some = isinstance(right, Sequence) and len(right) > 0
        if not some or not all(isinstance(sentence, str) for sentence in right):
            raise TypeError(f"references[{n}]: expected a str or several, got {right!r:.80}")
    most = max(len(right) for right in several)
    return [[right[n] if n < len(right) else None for right in several] for n in range(most)]


def _same_number(hypotheses: Sequence[Any], references: Sequence[Any]) -> None:
    for name, corpus in {"hypotheses": hypotheses, "references": references}.items():
        if isinstance(corpus, str):
            raise TypeError(f"{name}: expected one entry for each sentence, got a str")
    if len(hypotheses) != len(references) or not len(hypotheses):
        raise ValueError(
            f"references: expected one for each hypothesis, and at least one, got "
            f"{len(references)} for {len(hypotheses)}"
        )
