"""Recordings as sequences of frames, of different lengths: spoken digits, vowels, motions."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from companion.checks import check_sizes
from companion.data.labelled import FILES, Labelled
from companion.reproduce import cpu_generator

__all__ = ["Recordings", "load_basic_motions", "load_japanese_vowels", "load_spoken_digits"]


@dataclass(frozen=True, eq=False, repr=False)
class Recordings(Labelled):
    """N recordings of one class each.

    Attributes:
        frames: N tensors float32 (T_i, D), the features of each frame, T_i ≥ 1.
        labels: int64 (N,), positions in ``classes``.
        classes: names of the classes.

    Example:
        >>> from companion.data import load, pad
        >>> digits = load("spoken-digits")
        >>> len(digits), digits.classes[digits.labels[0]], digits.frames[0].shape
        (3000, '5', torch.Size([14, 13]))
        >>> padded, lengths = pad(digits.frames[:3])
        >>> padded.shape, lengths.tolist()
        (torch.Size([3, 14, 13]), [14, 13, 14])
    """

    frames: list[Tensor]
    classes: list[str]
    rows: ClassVar[tuple[str, ...]] = ("frames",)

    def strings(
        self, number: int, shortest: int = 2, longest: int = 6, seed: int = 0
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Draw recordings and join them: what is said is known, when it is said is not.

        Args:
            number: M, of strings to make.
            shortest: recordings in a string at least.
            longest: recordings in a string at most; every length is as likely.
            seed: the same seed gives the same strings on every machine and device.

        Returns:
            M tensors float32 (T_j, D), frames one after another without a pause, and M tensors
            int64 (n_j,), the labels in order: the two that ``torch.nn.CTCLoss`` compares. A
            recording may come in several strings.

        Raises:
            TypeError: one of them is no int.
            ValueError: not 1 ≤ shortest ≤ longest, or number is negative, or there is no
                recording to draw from.

        Example:
            >>> from companion.data import load
            >>> frames, labels = load("spoken-digits").strings(1, seed=0)
            >>> len(frames[0]), labels[0].tolist()
            (86, [5, 4, 1, 8, 4, 8])
        """
        check_sizes(shortest=(shortest, 1))
        check_sizes(number=(number, 0), longest=(longest, shortest))
        if number and not len(self):
            raise ValueError(f"number: expected 0 of 0 recordings to draw from, got {number}")
        generator = cpu_generator(seed)
        frames, labels = [], []
        for _ in range(number):
            n = int(torch.randint(shortest, longest + 1, (), generator=generator, device="cpu"))
            drawn = torch.randint(len(self), (n,), generator=generator, device="cpu")
            frames.append(torch.cat([self.frames[i] for i in drawn.tolist()]))
            labels.append(self.labels[drawn])
        return frames, labels


def load_spoken_digits() -> Recordings:
    """Read the vendored spoken digits: 3,000 recordings of 13 coefficients a frame."""
    import numpy as np

    folder = FILES / "spoken-digits"
    with gzip.open(folder / "mfcc.npy.gz") as file:
        columns = np.load(file, allow_pickle=False)  # (13, frames), float16
    text = (folder / "recordings.tsv").read_text(encoding="utf-8")
    rows = [[int(part) for part in line.split("\t")] for line in text.splitlines()]
    features = torch.from_numpy(columns.T.astype(np.float32))  # (frames, 13)
    return Recordings(
        labels=torch.tensor([digit for digit, _ in rows], device="cpu"),
        frames=[part.contiguous() for part in features.split([n for _, n in rows])],
        classes=[str(digit) for digit in range(10)],
    )


def load_japanese_vowels() -> dict[str, Recordings]:
    """Read the vendored vowels as they are divided: ``train`` has 270, ``test`` 370."""
    speakers = [str(n) for n in range(1, 10)]
    parts = _parts("japanese-vowels", speakers)
    return {p: replace(r, classes=[f"speaker {n}" for n in speakers]) for p, r in parts.items()}


def load_basic_motions() -> dict[str, Recordings]:
    """Read the vendored motions as they are divided: ``train`` has 40 recordings, ``test`` 40.

    Each is 10 s of a watch's accelerometer and gyroscope, three axes each, ten times a second.
    """
    return _parts("basic-motions", ["Badminton", "Running", "Standing", "Walking"])


def _parts(folder: str, classes: Sequence[str]) -> dict[str, Recordings]:
    found = {}
    for part in ("train", "test"):
        with gzip.open(FILES / folder / f"{part}.txt.gz", "rt", encoding="utf-8") as file:
            found[part] = _recordings(file, classes)
    return found


def _recordings(lines: Iterable[str], classes: Sequence[str]) -> Recordings:
    """Lines of a .ts file after @data: channels, each with its values, and the class last."""
    frames, labels = [], []
    for line in lines:
        *channels, label = line.rstrip("\n").split(":")
        values = [[float(value) for value in channel.split(",")] for channel in channels]
        frames.append(torch.tensor(values, dtype=torch.float32, device="cpu").T.contiguous())
        labels.append(classes.index(label))
    return Recordings(
        labels=torch.tensor(labels, dtype=torch.int64, device="cpu"),
        frames=frames,
        classes=list(classes),
    )
