"""Take the glossary's Chinese characters from Noto Sans SC, in @fontsource/noto-sans-sc.

    python tools/vendor_cjk.py           # downloads it with npm (73 MB), checks its SHA-256
    python tools/vendor_cjk.py some.tgz  # uses a package that is already here

Run it again when the book has a new Chinese character; a test says so. A machine without any
Chinese font would show boxes, in the browser as in the PDF. No code of the package runs.
"""

from __future__ import annotations

import argparse
import io
import re
import tarfile
import tempfile
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from vendoring import digest, package, write

VERSION = "5.3.0"
SHA256 = "05a7abac78a6cac4bd1361e7b24c680ee820fcc2f22cf5cc92673f4cd12771c5"
BOOK = Path(__file__).resolve().parents[1] / "book"
TARGET = BOOK / "_static/cjk"
# ideographs, and the punctuation that goes with them
CHINESE = re.compile(r"[\u2e80-\u9fff\u3000-\u303f\uff00-\uffef]")
FILE = "package/files/noto-sans-sc-chinese-simplified-400-normal.woff"

SOURCE = """\
Chinese characters of the book's glossary, from Noto Sans SC.

package         @fontsource/noto-sans-sc {version} (npm), SIL Open Font License 1.1, see LICENCE
package sha256  {sha256}
path inside     {file}
script          tools/vendor_cjk.py
result          cjk.woff: {count} characters, weight 400, without hinting and layout features
result sha256   {result}
"""


def characters() -> str:
    """Every Chinese character in the book's pages, once, in the order of their code points."""
    pages = [*BOOK.glob("*.md"), *BOOK.glob("*.ipynb")]
    return "".join(
        sorted({c for p in pages for c in CHINESE.findall(p.read_text(encoding="utf-8"))})
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("package", nargs="?")
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"@fontsource/noto-sans-sc@{VERSION}"
        path = package(parser.parse_args().package, folder, wanted, SHA256)
        with tarfile.open(path) as archive:
            font, terms = (archive.extractfile(name).read() for name in (FILE, "package/LICENSE"))
    made = TTFont(io.BytesIO(font), recalcTimestamp=False)
    options = subset.Options(flavor="woff", hinting=False, layout_features=[])
    options.drop_tables += ["STAT"]
    options.name_IDs = ["*"]  # the names hold the copyright
    maker = subset.Subsetter(options)
    maker.populate(text=characters())
    maker.subset(made)
    made.flavor = "woff"
    missing = set(map(ord, characters())) - set(made.getBestCmap())
    if missing:
        raise SystemExit(f"{FILE} has no glyph for {''.join(map(chr, missing))}")
    result = io.BytesIO()
    made.save(result)
    TARGET.mkdir(exist_ok=True)
    write(TARGET / "cjk.woff", result.getvalue())
    write(TARGET / "LICENCE", terms)
    known = {"version": VERSION, "sha256": SHA256, "file": FILE}
    known |= {"count": len(characters()), "result": digest(result.getvalue())}
    write(TARGET / "SOURCE", SOURCE.format(**known).encode())


if __name__ == "__main__":
    main()
