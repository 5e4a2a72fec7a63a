"""Extract the vendored surnames from the Faker package.

    python tools/vendor_surnames.py            # downloads the wheel with pip, checks its SHA-256
    python tools/vendor_surnames.py some.whl   # uses a wheel that is already here

No code of the package runs: the lists are read from its source with ``ast``. The result does not
depend on the machine, so running this again must leave the repository unchanged.
"""

from __future__ import annotations

import argparse
import ast
import tempfile
import unicodedata
import zipfile
from pathlib import Path

from vendoring import digest, package, write

VERSION = "40.63.0"
SHA256 = "36627c20b575b4138f54b6c21f8703e9ab122fd487aca11319beec2aa6ca7232"
LIMIT = 800
TARGET = Path(__file__).resolve().parents[1] / "companion" / "data" / "files" / "surnames"

# language -> the locales of Faker and the class attributes that hold its surnames.
# All are written in Latin letters: with another script one letter would give the answer away.
LISTS: dict[str, list[tuple[str, str]]] = {
    "Arabic": [("fr_DZ", "last_names")],
    "Croatian": [("hr_HR", "last_names")],
    "Dutch": [("nl_NL", "last_names")],
    "English": [("en_GB", "last_names")],
    "Estonian": [("et_EE", "last_names_est")],
    "Finnish": [("fi_FI", "last_names")],
    "French": [("fr_FR", "last_names"), ("fr_CA", "last_names")],
    "German": [("de_DE", "last_names"), ("de_AT", "last_names")],
    "Irish": [("ga_IE", "last_names")],
    "Italian": [("it_IT", "last_names")],
    "Polish": [("pl_PL", "unisex_last_names"), ("pl_PL", "male_last_names")],
    "Slovak": [("sk_SK", "last_names_male"), ("sk_SK", "last_names_female")],
    "Spanish": [("es_ES", "last_names")],
    "Swedish": [("sv_SE", "last_names")],
    "Zulu": [("zu_ZA", "last_names_male")],
}

SOURCE = """\
Surnames of 15 languages, from the lists of the Faker package.

package         Faker {version} (PyPI), MIT license, see LICENCE
package file    {wheel}
package sha256  {sha256}
path inside     faker/providers/person/<locale>/__init__.py, class Provider
script          tools/vendor_surnames.py
result          surnames.tsv, UTF-8, name<TAB>language, sorted by language, then name
result sha256   {result}
names           {total}

What was done
- The lists are read from the source with ast.literal_eval; nothing of the package is executed.
  Where Faker gives a weight to each name, the names are kept and the weights dropped.
- Unicode NFC; the typographic apostrophe becomes '; spaces around a name are removed.
- Names that are not letters of the Latin alphabet, space, hyphen or apostrophe are dropped.
- A name that two of the languages share (letter case aside) is dropped from both.
- At most {limit} names a language: those with the smallest SHA-256, a draw that is the same on
  every machine (Faker's lists are alphabetical, so the first {limit} would all begin with A to M).

Scripts: no language has a script of its own here; all 15 are written in Latin letters. Accents
are kept, as they are part of the spelling.

Limits: Arabic means surnames of Algeria in French spelling. English, French and Swedish are lists
of frequent surnames of a country, so they hold some names of other origin. Slovak has the
masculine and the feminine forms.

language    locales         names  dropped as shared
{table}
"""


def literal(node: ast.expr) -> object:
    """Value of a literal, or of the one literal inside ``OrderedDict(...)``."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return ast.literal_eval(node)


def surnames(source: str, attribute: str) -> list[str]:
    """Names in one attribute of the class ``Provider``; weights are dropped."""
    for cls in ast.parse(source).body:
        if not (isinstance(cls, ast.ClassDef) and cls.name == "Provider"):
            continue
        for item in cls.body:
            if isinstance(item, ast.AnnAssign):
                target, value = item.target, item.value
            elif isinstance(item, ast.Assign):
                target, value = item.targets[0], item.value
            else:
                continue
            if isinstance(target, ast.Name) and target.id == attribute and value is not None:
                found = literal(value)
                if not isinstance(found, (list, tuple, dict)):
                    raise SystemExit(f"{attribute}: expected a list of names, got {type(found)}")
                # OrderedDict((name, weight), ...) holds pairs, a plain list holds strings
                return [x if isinstance(x, str) else x[0] for x in found]
    raise SystemExit(f"class Provider has no attribute {attribute}")


def clean(name: str) -> str | None:
    """The name in normal form, or None if it is not written in Latin letters."""
    name = unicodedata.normalize("NFC", name).replace("\u2019", "'").strip()
    letters = [c for c in name if c not in " -'"]
    latin = all(unicodedata.name(c, "").startswith("LATIN ") for c in letters)
    return name if latin and 2 <= len(letters) <= 25 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", nargs="?", help="a wheel of faker that is already here")
    given = parser.parse_args().wheel

    with tempfile.TemporaryDirectory() as folder:
        path = package(given, folder, f"faker=={VERSION}", SHA256)
        with zipfile.ZipFile(path) as wheel:
            license = wheel.read(f"faker-{VERSION}.dist-info/licenses/LICENSE.txt").decode()
            raw = {
                language: [
                    name
                    for locale, attribute in lists
                    for name in surnames(
                        wheel.read(f"faker/providers/person/{locale}/__init__.py").decode(),
                        attribute,
                    )
                ]
                for language, lists in LISTS.items()
            }

    # {language: {name without case: name}}: one entry for each name of a language
    names = {
        language: {n.casefold(): n for n in map(clean, listed) if n is not None}
        for language, listed in raw.items()
    }
    languages_of: dict[str, int] = {}
    for entries in names.values():
        for key in entries:
            languages_of[key] = languages_of.get(key, 0) + 1

    rows: list[tuple[str, str]] = []
    table: list[str] = []
    for language, entries in sorted(names.items()):
        own = [name for key, name in entries.items() if languages_of[key] == 1]
        kept = sorted(sorted(own, key=lambda name: digest(name.encode()))[:LIMIT])
        rows += [(name, language) for name in kept]
        locales = ", ".join(dict.fromkeys(locale for locale, _ in LISTS[language]))
        table.append(f"{language:<11} {locales:<14} {len(kept):>6} {len(entries) - len(own):>18}")

    tsv = "".join(f"{name}\t{language}\n" for name, language in rows)
    TARGET.mkdir(parents=True, exist_ok=True)
    write(TARGET / "surnames.tsv", tsv.encode())
    write(TARGET / "LICENCE", license.encode())
    write(
        TARGET / "SOURCE",
        SOURCE.format(
            version=VERSION,
            wheel=path.name,
            sha256=SHA256,
            result=digest(tsv.encode()),
            total=len(rows),
            limit=LIMIT,
            table="\n".join(table),
        ).encode(),
    )
    print(f"{len(rows)} names, {len(tsv.encode())} bytes, SHA-256 {digest(tsv.encode())}")


if __name__ == "__main__":
    main()
