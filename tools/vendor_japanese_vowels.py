"""Extract the data set Japanese Vowels from the package aeon.

    python tools/vendor_japanese_vowels.py           # downloads it with pip, checks its SHA-256
    python tools/vendor_japanese_vowels.py some.whl  # uses a wheel that is already here

No code of the package runs here: the two tables are read from the archive. The text does not
depend on the machine. The packed bytes may, with another version of zlib.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from vendoring import digest, package, packed, tables, write

VERSION = "1.6.0"
SHA256 = "d05227086706f80111ac5fee8de4d5d3115bb3bcfd1c786c8629393055816409"
CHANNELS = 12
TARGET = Path(__file__).resolve().parents[1] / "companion" / "data" / "files" / "japanese-vowels"

LICENCE = """\
Japanese Vowels, by Mineichi Kudo, Jun Toyama and Masaru Shimbo, from the UCI Machine Learning
Repository, https://doi.org/10.24432/C5NS47.

The repository distributes the data under the Creative Commons Attribution 4.0 International
license (SPDX: CC-BY-4.0), https://creativecommons.org/licenses/by/4.0/. You may share and adapt
it, also commercially, if you give credit and say what you changed. There is no warranty.

The package aeon, from which the files were taken, has no statement of its own on this data. The
package is under the BSD license that follows, and refers to the repository in the files.

{license}"""

SOURCE = """\
Nine speakers, each saying the vowels a and e of Japanese: {total} utterances.

package         aeon {version} (PyPI), see LICENCE
package file    {package}
package sha256  {sha256}
path inside     aeon/datasets/data/JapaneseVowels/JapaneseVowels_<TRAIN|TEST>.ts
script          tools/vendor_japanese_vowels.py
result          train.txt.gz, test.txt.gz: gzip of text, one utterance a line
train sha256    {train}
test sha256     {test}
utterances      {n_train} for training, {n_test} for the test

What was done
- The lines after @data are kept as they are: {channels} channels with : between them, each the
  values of its frames with commas between them, and last the speaker, 1 to 9.

The values are coefficients of a linear prediction analysis of degree 12: cepstra of frames of
25.6 ms that are 6.4 ms apart, sampled at 10 kHz (documentation of the repository). An utterance
has {shortest} to {longest} frames. The speakers are the same in both parts, each with 30
utterances in the first.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", help="a file of the package that is already here")
    given = parser.parse_args().package

    with tempfile.TemporaryDirectory() as folder:
        path = package(given, folder, f"aeon=={VERSION}", SHA256)
        parts, license = tables(path, VERSION, "JapaneseVowels", CHANNELS, set("123456789"))
    files = {part: packed(lines) for part, lines in parts.items()}
    lengths = [line.partition(":")[0].count(",") + 1 for lines in parts.values() for line in lines]
    note = SOURCE.format(
        total=len(lengths),
        version=VERSION,
        package=path.name,
        sha256=SHA256,
        train=digest(files["train"]),
        test=digest(files["test"]),
        n_train=len(parts["train"]),
        n_test=len(parts["test"]),
        channels=CHANNELS,
        shortest=min(lengths),
        longest=max(lengths),
    )
    TARGET.mkdir(parents=True, exist_ok=True)
    for part, data in files.items():
        write(TARGET / f"{part}.txt.gz", data)
    write(TARGET / "LICENCE", LICENCE.format(license=license).encode())
    write(TARGET / "SOURCE", note.encode())
    sizes = ", ".join(f"{part} {len(data)} bytes" for part, data in files.items())
    print(f"{len(lengths)} utterances; {sizes}")


if __name__ == "__main__":
    main()
