"""Extract the data set BasicMotions from the package aeon.

    python tools/vendor_basic_motions.py           # downloads it with pip, checks its SHA-256
    python tools/vendor_basic_motions.py some.whl  # uses a wheel that is already here

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
CHANNELS = 6
CLASSES = {"Standing", "Running", "Walking", "Badminton"}
TARGET = Path(__file__).resolve().parents[1] / "companion" / "data" / "files" / "basic-motions"

LICENCE = """\
BasicMotions, from the UEA multivariate time series classification archive, 2018 (Bagnall et al.,
arXiv:1811.00075; https://www.timeseriesclassification.com/description.php?Dataset=BasicMotions).

The files were taken from the package aeon, which distributes them under the BSD license that
follows (SPDX: BSD-3-Clause) and has no other statement on this data. The data carries none of its
own.

{license}"""

SOURCE = """\
Four motions of a wrist that wears a watch: {total} recordings.

package         aeon {version} (PyPI), see LICENCE
package file    {package}
package sha256  {sha256}
path inside     aeon/datasets/data/BasicMotions/BasicMotions_<TRAIN|TEST>.ts
script          tools/vendor_basic_motions.py
result          train.txt.gz, test.txt.gz: gzip of text, one recording a line
train sha256    {train}
test sha256     {test}
recordings      {n_train} for training, {n_test} for the test

What was done
- The lines after @data are kept as they are: {channels} channels with : between them, each the
  values of its {frames} frames with commas between them, and last the motion.

The head of the files says: a student project, in which four students wore a smart watch during
four activities (walking, resting, running, badminton), each five times; an accelerometer and a
gyroscope of three axes each; ten samples a second, for ten seconds. It does not say which channel
is which, in what units, or who is in which part; "resting" is called Standing in the lines.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", help="a file of the package that is already here")
    given = parser.parse_args().package

    with tempfile.TemporaryDirectory() as folder:
        path = package(given, folder, f"aeon=={VERSION}", SHA256)
        parts, license = tables(path, VERSION, "BasicMotions", CHANNELS, CLASSES)
    files = {part: packed(lines) for part, lines in parts.items()}
    lengths = {line.partition(":")[0].count(",") + 1 for lines in parts.values() for line in lines}
    note = SOURCE.format(
        total=sum(map(len, parts.values())),
        version=VERSION,
        package=path.name,
        sha256=SHA256,
        train=digest(files["train"]),
        test=digest(files["test"]),
        n_train=len(parts["train"]),
        n_test=len(parts["test"]),
        channels=CHANNELS,
        frames=" or ".join(map(str, sorted(lengths))),
    )
    TARGET.mkdir(parents=True, exist_ok=True)
    for part, data in files.items():
        write(TARGET / f"{part}.txt.gz", data)
    write(TARGET / "LICENCE", LICENCE.format(license=license).encode())
    write(TARGET / "SOURCE", note.encode())
    sizes = ", ".join(f"{part} {len(data)} bytes" for part, data in files.items())
    print(f"{sum(map(len, parts.values()))} recordings; {sizes}")


if __name__ == "__main__":
    main()
