"""What needs no network to write a text: the answer to the most similar question that is known."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import torch

from companion.reproduce import cpu_generator
from companion.tasks.known import most_frequent

__all__ = ["Nearest", "remembered"]

MOST = 5000  # answers to be kept
# and characters of them: JSON within JSON has up to 7 bytes for one, and the header of a model's
# file has room for 100 MB
CHARACTERS = 2_000_000


class Nearest:
    r"""Texts found by the pairs and triples of characters that they share.

    .. math:: s(a, b) = \frac{2\,|A \cap B|}{|A| + |B|}

    with A and B the different n-grams of two texts, their ends among them (Dice).

    Args:
        memory: the answer to each text.
        otherwise: the answer where nothing is shared.

    Example:
        >>> nearest = Nearest({"one day": "un jour", "one night": "une nuit"}, "?")
        >>> nearest("two days"), nearest("xyz")
        ('un jour', '?')
    """

    def __init__(self, memory: Mapping[str, str], otherwise: str) -> None:
        self._answers, self._otherwise = list(memory.values()), otherwise
        self._sizes: list[int] = []
        self._holders: dict[str, list[int]] = defaultdict(list)
        for n, text in enumerate(memory):
            grams = ngrams(text)
            self._sizes.append(len(grams))
            for gram in grams:
                self._holders[gram].append(n)

    def __call__(self, text: str) -> str:
        """The answer to the most similar text; of equals that of the first."""
        grams = ngrams(text)
        shared: Counter[int] = Counter()
        for gram in grams:
            shared.update(self._holders.get(gram, ()))
        if not shared:
            return self._otherwise
        best = max(shared, key=lambda n: (shared[n] / (len(grams) + self._sizes[n]), -n))
        return self._answers[best]


def ngrams(text: str) -> set[str]:
    """The different pairs and triples of neighboring characters, the ends marked.

    Example:
        >>> sorted(ngrams("on"))
        [' o', ' on', 'n ', 'on', 'on ']
    """
    marked = f" {text} "
    return {marked[i : i + n] for n in (2, 3) for i in range(len(marked) - n + 1)}


def remembered(pairs: Iterable[tuple[str, str]], seed: int) -> dict[str, str]:
    """The most frequent answer to each text, or to a random choice of them if there are many.

    Args:
        pairs: texts and answers.
        seed: of the choice.
    """
    answers: dict[str, Counter[str]] = {}
    for text, answer in pairs:
        answers.setdefault(text, Counter())[answer] += 1
    best = [(text, most_frequent(counts)) for text, counts in answers.items()]
    room = CHARACTERS
    kept: list[int] = []
    for i in torch.randperm(len(best), generator=cpu_generator(seed), device="cpu").tolist():
        size = len(best[i][0]) + len(best[i][1])
        if len(kept) < MOST and size <= room:
            kept.append(i)
            room -= size
    return dict(best[i] for i in sorted(kept))
