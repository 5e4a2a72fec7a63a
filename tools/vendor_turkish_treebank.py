"""Extract the vendored treebank from the package turkish-treebanks.

    python tools/vendor_turkish_treebank.py            # downloads it with pip, checks its SHA-256
    python tools/vendor_turkish_treebank.py some.whl   # uses a wheel that is already here

No code of the package runs: the two files and the license are read from the archive. The text does
not depend on the machine. The packed bytes may, with another version of zlib.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

from vendoring import digest, package, write

VERSION = "1.0.0"
SHA256 = "5a009c29a8e96e8f7e25059d59ac293c3baead6d746bf0fa4c9d3349b1e37ba0"
SECTIONS = ("web", "wiki")
TARGET = Path(__file__).resolve().parents[1] / "companion" / "data" / "files" / "turkish-treebank"

SOURCE = """\
The Turkish Web Treebank (TWT): sentences of the web and of Wikipedia with parts of speech.

package         turkish-treebanks {version} (PyPI), Apache License 2.0, see LICENCE
package file    {wheel}
package sha256  {sha256}
path inside     data/web.conllu, data/wiki.conllu
script          tools/vendor_turkish_treebank.py
result          web.conllu.gz, wiki.conllu.gz: gzip of UTF-8 text in the format CoNLL-U
web sha256      {web}
wiki sha256     {wiki}
sentences       {sentences}
groups          {groups}
words           {words}

What was done: these files are changed.
- Kept of the columns: ID, FORM, UPOS (coarse part of speech), XPOS (fine) and MISC; LEMMA, FEATS
  and HEAD are replaced by an underscore, which takes off half the size.
- Of DEPREL only the value ig is kept. It marks an inflectional group that goes on in the next
  line: a word is a run of lines that ends with the first one not marked ig.
- The comment "# text = ..." is left out: FORM and SpaceAfter=No give the same text, which the
  script checks. The comment "# sent_id = ..." is kept; for Wikipedia it has the address of the
  page.
- The order of the sentences is that of the package.

Division: the authors' README advises to take every ninth sentence of a file for development, every
tenth for the test, and all others for training.

Cite: Tolga Kayadelen, Adnan Öztürel and Bernd Bohnet (2020). A Gold Standard Dependency Treebank
for Turkish. Proceedings of the 12th Language Resources and Evaluation Conference (LREC 2020).

tag      groups    words
{table}
"""


def reduced(sentence: str) -> str:
    """The lines of a sentence that are kept; its text must follow from them."""
    kept, text, stated = [], "", None
    for line in sentence.splitlines():
        if line.startswith("# text = "):
            stated = line.removeprefix("# text = ")
        elif line.startswith("#"):
            kept.append(line)
        else:
            id, form, _, upos, xpos, _, _, deprel, _, misc = line.split("\t")
            if (misc, deprel) == ("_", "ig") or misc not in ("_", "SpaceAfter=No"):
                raise SystemExit(f"{sentence}\nMISC: expected _ or SpaceAfter=No, got {misc}")
            text += form + ("" if misc == "SpaceAfter=No" else " ")
            relation = "ig" if deprel == "ig" else "_"
            kept.append("\t".join([id, form, "_", upos, xpos, "_", "_", relation, "_", misc]))
    if stated is None or text.strip() != stated.strip():
        raise SystemExit(f"{sentence}\ntext: expected {text.strip()!r}, got {stated!r}")
    return "\n".join(kept) + "\n\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", nargs="?", help="a wheel that is already here")
    given = parser.parse_args().wheel

    with tempfile.TemporaryDirectory() as folder:
        path = package(given, folder, f"turkish-treebanks=={VERSION}", SHA256)
        with zipfile.ZipFile(path) as wheel:
            license = wheel.read(f"turkish_treebanks-{VERSION}.dist-info/LICENSE").decode()
            raw = {name: wheel.read(f"data/{name}.conllu").decode() for name in SECTIONS}
    if "Apache License\n                           Version 2.0" not in license:
        raise SystemExit("LICENSE: expected the Apache License, Version 2.0")

    sentences = 0
    groups: Counter[str] = Counter()
    words: Counter[str] = Counter()
    packed = {}
    for name, text in raw.items():
        found = [reduced(sentence) for sentence in text.strip().split("\n\n")]
        sentences += len(found)
        for line in "".join(found).splitlines():
            if line and not line.startswith("#"):
                columns = line.split("\t")
                groups[columns[3]] += 1
                words[columns[3]] += columns[7] != "ig"
        packed[name] = gzip.compress("".join(found).encode(), compresslevel=9, mtime=0)

    rows = [f"{tag:<5} {n:>9} {words[tag]:>8}" for tag, n in sorted(groups.items())]
    note = SOURCE.format(
        version=VERSION,
        wheel=path.name,
        sha256=SHA256,
        sentences=sentences,
        groups=groups.total(),
        words=words.total(),
        table="\n".join(rows),
        **{name: digest(data) for name, data in packed.items()},
    )
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, data in packed.items():
        write(TARGET / f"{name}.conllu.gz", data)
    write(TARGET / "LICENCE", license.encode())
    write(TARGET / "SOURCE", note.encode())
    sizes = ", ".join(f"{name} {len(data)} bytes" for name, data in packed.items())
    print(f"{sentences} sentences, {words.total()} words; {sizes}")


if __name__ == "__main__":
    main()
