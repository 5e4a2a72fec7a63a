"""The form of an entry of the catalogue: one data set and its files."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

__all__ = ["DataFile", "DataSet", "not_installed"]

Kind = Literal["vendored", "pip", "download", "generated"]
HASH = re.compile(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}")


@dataclass(frozen=True)
class DataFile:
    """One file of a data set.

    Args:
        name: its name in the folder of the data set.
        hash: ``sha256:…`` or ``md5:…`` in lower-case hexadecimal. There is no file without one.
        url: where to get it; empty for vendored files.
        unpack: it is a tar or zip archive, to be unpacked beside itself.

    Raises:
        ValueError: the hash is none, or the name leads out of the folder.

    Example:
        >>> DataFile("a.txt", "md5:" + 32 * "0", "https://example.org/a.txt").name
        'a.txt'
    """

    name: str
    hash: str
    url: str = ""
    unpack: bool = False

    def __post_init__(self) -> None:
        if not HASH.fullmatch(self.hash):
            raise ValueError(
                f"hash of {self.name}: expected sha256:... or md5:... in hexadecimal, "
                f"got {self.hash!r}; a file whose hash is unknown is not fetched"
            )
        if re.search(r"(^|[/\\])\.\.([/\\]|$)|^[/\\]", self.name) or not self.name:
            raise ValueError(f"name: expected a file name in the set's folder, got {self.name!r}")


@dataclass(frozen=True)
class DataSet:
    """One entry of the catalogue.

    Args:
        name: what ``load`` is called with.
        task: what it is used for.
        size: how much of what, in words.
        license: of the data, in words.
        source: package with version, or address, it is from.
        kind: ``vendored`` (comes with this package), ``pip`` (comes with another package),
            ``download`` (fetched on request) or ``generated`` (computed).
        files: files with their hashes, of vendored and download sets.
        loader: reads the set and returns it. That of a download set is given the paths of its
            files by name, of an archive that of its folder; without one ``load`` returns these.
        package: the pip package that carries it, of pip sets.
        citation: paper or author to cite.
        notes: what a user must know.

    Raises:
        ValueError: a field does not fit the kind.

    Example:
        >>> toy = DataSet("toy", "a task", "10 rows", "MIT", "us", "generated", loader=list)
        >>> toy.how_to_get, toy.loader()
        ('load("toy"); it is computed', [])
    """

    name: str
    task: str
    size: str
    license: str
    source: str
    kind: Kind
    files: tuple[DataFile, ...] = ()
    loader: Callable[..., Any] | None = None
    package: str = ""
    citation: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise ValueError(f"name: expected lower case, digits and hyphens, got {self.name!r}")
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: expected one of {get_args(Kind)}, got {self.kind!r}")
        if self.kind in ("vendored", "download") and not self.files:
            raise ValueError(f"files: expected the files of {self.name}, got none")
        for file in self.files:
            if self.kind == "download" and not file.url.startswith(("https://", "http://")):
                raise ValueError(f"url of {file.name}: expected http(s)://..., got {file.url!r}")
        if self.kind == "pip" and not self.package:
            raise ValueError(f"package: expected the pip package that carries {self.name}")
        if self.loader is None and self.kind != "download":
            raise ValueError(f"loader: expected a function that reads {self.name}, got none")

    @property
    def how_to_get(self) -> str:
        """What to type to have this data set, in one phrase."""
        return {
            "vendored": f'load("{self.name}"); it comes with this package',
            "pip": f'pip install {self.package}, then load("{self.name}")',
            "download": f'python -m companion data fetch {self.name}, then load("{self.name}")',
            "generated": f'load("{self.name}"); it is computed',
        }[self.kind]


def not_installed(name: str, package: str) -> ImportError:
    """The error of a data set whose pip package is not there.

    Example:
        >>> raise not_installed("digits", "scikit-learn")
        Traceback (most recent call last):
        ImportError: the data set 'digits' comes with the package scikit-learn, which is not ...
    """
    return ImportError(
        f"the data set {name!r} comes with the package {package}, which is not installed; "
        f"run: pip install {package}"
    )
