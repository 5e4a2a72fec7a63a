"""What needs no network to write a text: the answer to the most similar question that is known."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

__all__ = ["Nearest", "most_frequent"]


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


def most_frequent(counts: Counter[str]) -> str:
    """The most frequent; of equals the first in the order of the characters' numbers."""
    return min(counts, key=lambda text: (-counts[text], text))
