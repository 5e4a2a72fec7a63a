"""Data sets of one label a row, and the data sets that chapters load by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from companion.checks import check_number
from companion.data.entry import not_installed
from companion.reproduce import cpu_generator

__all__ = ["Digits", "Labelled", "Split", "Surnames", "load_digits", "load_surnames"]

FILES = Path(__file__).parent / "files"


class Split(NamedTuple):
    """Three disjoint parts of one data set."""

    train: Any
    valid: Any
    test: Any


class Rows:
    """N rows in columns, a list each; what ``Tagged`` and ``Pronunciations`` have in common."""

    # the fields with one entry a row
    rows: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return len(getattr(self, self.rows[0]))

    def subset(self, indices: Tensor) -> Self:
        """The rows with these indices, in this order.

        Args:
            indices: int64 of shape (n,); a row may come several times.

        Raises:
            TypeError: indices is not a one-dimensional int64 tensor.
            IndexError: there is no such row.
        """
        chosen = checked_indices(indices, len(self)).tolist()
        columns: dict[str, Any] = {
            field: [getattr(self, field)[i] for i in chosen] for field in self.rows
        }
        return replace(self, **columns)  # type: ignore[type-var]  # those who inherit are dataclasses

    def split(self, seed: int = 0, valid: float = 0.1, test: float = 0.1) -> Split:
        """Divide the rows at random into three disjoint parts.

        Args:
            seed: the same seed gives the same parts on every machine and device.
            valid: share of the rows for validation.
            test: share of the rows for the test. What remains is for training.

        Returns:
            Split(train, valid, test), each of the class of the whole, in random order; the last
            two have round(N · valid) and round(N · test) rows.

        Raises:
            TypeError: a share or the seed is no number.
            ValueError: a share is negative, or they leave nothing for training.
        """
        checked_shares(valid, test)
        order = torch.randperm(len(self), generator=cpu_generator(seed), device="cpu")
        sizes = part_sizes(len(self), valid, test)
        check_training(sizes[0], len(self))
        return Split(*(self.subset(part) for part in order.split(sizes)))


@dataclass(frozen=True, eq=False, repr=False)
class Labelled:
    """N rows with one label each; what ``Surnames`` and ``Digits`` have in common."""

    labels: Tensor
    # the fields with one entry a row, next to labels
    rows: ClassVar[tuple[str, ...]] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows, fields: labels, {', '.join(self.rows)})"

    def subset(self, indices: Tensor) -> Self:
        """The rows with these indices, in this order.

        Args:
            indices: int64 of shape (n,); a row may come several times.

        Raises:
            TypeError: indices is not a one-dimensional int64 tensor.
            IndexError: there is no such row.
        """
        checked_indices(indices, len(self))
        chosen: dict[str, Any] = {"labels": self.labels[indices]}
        for field in self.rows:
            column = getattr(self, field)
            chosen[field] = (
                column[indices]
                if isinstance(column, Tensor)
                else [column[i] for i in indices.tolist()]
            )
        return replace(self, **chosen)

    def split(self, seed: int = 0, valid: float = 0.1, test: float = 0.1) -> Split:
        """Divide the rows into three disjoint parts, each label in the same proportion.

        Args:
            seed: the same seed gives the same parts on every machine and device.
            valid: share of the rows for validation.
            test: share of the rows for the test. What remains is for training.

        Returns:
            Split(train, valid, test), each of the class of the whole, rows in random order. Of a
            label with n rows, round(n · valid) and round(n · test) go to the last two parts.

        Raises:
            TypeError: a share or the seed is no number.
            ValueError: a share is negative, or they leave nothing for training.
        """
        checked_shares(valid, test)
        generator = cpu_generator(seed)
        parts: list[list[Tensor]] = [[], [], []]
        labels = self.labels.cpu()
        for label in labels.unique():
            rows = (labels == label).nonzero(as_tuple=True)[0]
            rows = _mixed(rows, generator)
            chosen = rows.split(part_sizes(len(rows), valid, test))
            for part, own in zip(parts, chosen, strict=True):
                part.append(own)
        check_training(sum(map(len, parts[0])), len(labels))
        shuffled = []
        for part in parts:
            rows = torch.cat(part) if part else labels[:0]
            shuffled.append(self.subset(_mixed(rows, generator)))
        return Split(*shuffled)


def checked_indices(indices: Tensor, rows: int) -> Tensor:
    """The indices of rows, or an error that says what they ought to be."""
    if not isinstance(indices, Tensor) or indices.dtype != torch.int64 or indices.ndim != 1:
        got = (
            f"{indices.dtype} of shape {tuple(indices.shape)}"
            if isinstance(indices, Tensor)
            else type(indices).__name__
        )
        raise TypeError(f"indices: expected an int64 tensor of shape (n,), got {got}")
    if len(indices) and not (0 <= int(indices.min()) and int(indices.max()) < rows):
        wrong = indices[(indices < 0) | (indices >= rows)][0]
        raise IndexError(f"indices: expected 0 ... {rows - 1}, of {rows} rows, got {wrong}")
    return indices


def checked_shares(valid: float, test: float) -> None:
    """Refuse shares of the rows that cannot be."""
    check_number("valid", valid)
    check_number("test", test)
    if not (valid >= 0 and test >= 0 and valid + test < 1):
        raise ValueError(
            "valid, test: expected shares of at least 0 with a sum below 1, "
            f"got valid={valid}, test={test}"
        )


def part_sizes(rows: int, valid: float, test: float) -> list[int]:
    """Rows of the training, the validation and the test."""
    n_valid, n_test = round(rows * valid), round(rows * test)
    return [rows - n_valid - n_test, n_valid, n_test]


def check_training(left: int, rows: int) -> None:
    """Refuse shares that leave nothing to train."""
    if rows and not left:
        raise ValueError(f"valid, test: expected shares that leave some of {rows} rows to train")


def _mixed(rows: Tensor, generator: torch.Generator) -> Tensor:
    return rows[torch.randperm(len(rows), generator=generator, device="cpu")]


@dataclass(frozen=True, eq=False, repr=False)
class Surnames(Labelled):
    """Surnames and the language of each.

    Attributes:
        names: N surnames, in Latin letters with the accents of their language.
        labels: int64 (N,), positions in ``languages``.
        languages: names of the 15 languages, in alphabetical order.

    Example:
        >>> surnames = load_surnames()
        >>> surnames.names[0], surnames.languages[surnames.labels[0]]
        ('Abada', 'Arabic')
    """

    names: list[str]
    languages: list[str]
    rows: ClassVar[tuple[str, ...]] = ("names",)


@dataclass(frozen=True, eq=False, repr=False)
class Digits(Labelled):
    """Handwritten digits of 8 × 8 pixels.

    Attributes:
        images: float32 (N, 8, 8), from 0 (paper) to 1 (ink).
        labels: int64 (N,), the digit itself.

    Example:
        >>> digits = load_digits()
        >>> digits.images.shape, digits.labels[:5].tolist()
        (torch.Size([1797, 8, 8]), [0, 1, 2, 3, 4])
    """

    images: Tensor
    rows: ClassVar[tuple[str, ...]] = ("images",)


def load_surnames() -> Surnames:
    """Read the vendored surnames: 9,584 names of 15 languages."""
    text = (FILES / "surnames" / "surnames.tsv").read_text(encoding="utf-8")
    pairs = [line.split("\t") for line in text.splitlines()]
    languages = sorted({language for _, language in pairs})
    position = {language: i for i, language in enumerate(languages)}
    labels = torch.tensor([position[language] for _, language in pairs], device="cpu")
    return Surnames(labels=labels, names=[name for name, _ in pairs], languages=languages)


def load_digits() -> Digits:
    """Read the 1,797 digits that scikit-learn carries.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits as read
    except ImportError as error:
        raise not_installed("digits", "scikit-learn") from error
    bunch = read()
    return Digits(
        labels=torch.tensor(bunch.target, dtype=torch.int64, device="cpu"),
        images=torch.tensor(bunch.images / 16, dtype=torch.float32, device="cpu"),
    )
