"""Case and punctuation: what a label says, what is lost, and the way back."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.data import RESTORATION_LABELS, case_and_punctuation, load, restore_text


@pytest.fixture(scope="module")
def addresses():
    return load("state-of-the-union")


def test_the_labels():
    assert len(set(RESTORATION_LABELS)) == 3 * 7
    assert {"lower", "Capitalized,", "UPPER.", "lower-", "lower:", "lower;", "lower?"} <= set(
        RESTORATION_LABELS
    )


# text -> its words, its labels; by hand
CASES = {
    "": ("", ""),
    " \n ": ("", ""),
    "Go on": ("go on", "Capitalized lower"),
    "I am; you: are?": ("i am you are", "Capitalized lower; lower: lower?"),
    "NASA's men, NASA": ("nasa's men nasa", "UPPER lower, UPPER"),
    "I'm in the U.S. Army.": (
        "i'm in the u.s army",
        "Capitalized lower lower UPPER. Capitalized.",
    ),
    "hard-working Anglo-American": (
        "hard working anglo american",
        "lower- lower Capitalized- Capitalized",
    ),
    "$1,650.50 or 5 1/2% at 10:30": (
        "$1,650.50 or 5 1/2% at 10:30",
        "lower lower lower lower lower lower",
    ),
    "the 1960's, the 87th and a 3D": (
        "the 1960's the 87th and a 3d",
        "lower lower, lower lower lower lower UPPER",
    ),
    "Émile, Ёлка, ÜBER.": ("émile ёлка über", "Capitalized, Capitalized, UPPER."),
    # without a space behind it a point parts words, but not digits or initials
    "end.The 3.5 G.I. Bill": (
        "end the 3.5 g.i bill",
        "lower. Capitalized lower UPPER. Capitalized",
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_words_and_labels(text):
    words, labels = case_and_punctuation(text)
    assert (words, labels) == tuple(part.split() for part in CASES[text])
    assert set(labels) <= set(RESTORATION_LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "Yes, the U.S. is well-known. Isn't it?",
        "NATO's 16 members: all of them, A to Z; and I.",
        "In the 1990's $1.5 billion, 10%, went to F-16s. At 10:30?",
        "cafe\u0301s, E\u0301mile, \u0130stanbul.",
        "one",
        "",
    ],
)
def test_nothing_is_lost_that_a_label_can_say(text):
    assert restore_text(*case_and_punctuation(text)) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('He said, "Go!" (Applause.)', "He said, Go. Applause."),
        ("McCain and eBay", "Mccain and ebay"),
        (
            "plenty-[laughter]-from the world — friend or foe",
            "plenty-laughter-from the world-friend or foe",
        ),
        ("it’s ‘so’…  and\nnew", "it's so. and new"),
        ("What?! No -- yes.", "What? No-yes."),
    ],
)
def test_what_is_lost(text, left):
    assert restore_text(*case_and_punctuation(text)) == left


@pytest.mark.parametrize(
    ("text", "words", "labels"),
    [
        ("ẞa", "ẞa", "lower"),  # its small letter is ß, whose capitals are SS
        ("STRAẞE Straße", "straẞe straße", "UPPER Capitalized"),
        ("İsT", "İst", "lower"),  # its small letter is two characters
        (
            "\u212aelvin \u01c5a",
            "\u212aelvin \u01c5a",
            "lower lower",
        ),  # K, Dž: those of k, dž differ
        ("DŽA", "džA".lower(), "UPPER"),
    ],
)
def test_capitals_whose_small_letter_does_not_give_them_back(text, words, labels):
    found = case_and_punctuation(text)
    assert found == (words.split(), labels.split())
    assert case_and_punctuation(restore_text(*found)) == found


def test_known_words_of_an_address(addresses):
    words, labels = case_and_punctuation(addresses[0].text)
    assert words[:6] == ["mr", "speaker", "mr", "vice", "president", "members"]
    assert labels[:6] == [
        "Capitalized.",
        "Capitalized,",
        "Capitalized.",
        "Capitalized",
        "Capitalized,",
        "Capitalized",
    ]


def test_round_trip_of_the_addresses(addresses):
    kept = total = 0
    for address in addresses:
        words, labels = case_and_punctuation(address.text)
        assert len(words) == len(labels) and set(labels) <= set(RESTORATION_LABELS)
        assert all(word == word.lower() for word in words)
        text = restore_text(words, labels)
        assert case_and_punctuation(text) == (words, labels), address
        # counted as sets with repetition: what is split at a dash moves the others along
        before, after = Counter(address.text.split()), Counter(text.split())
        kept += (before & after).total()
        total += before.total()
    assert kept / total > 0.99


def test_frequencies_are_those_the_label_set_was_chosen_by(addresses):
    counts = Counter(
        label for address in addresses for label in case_and_punctuation(address.text)[1]
    )
    total = counts.total()
    marks = Counter()
    for label, n in counts.items():
        marks[label if label in ("lower", "Capitalized", "UPPER") else label[-1]] += n
    stated = {",": 5.1, ".": 5.1, "-": 1.0, ":": 0.23, ";": 0.23, "?": 0.05}
    assert {mark for mark in marks if len(mark) == 1} == set(stated)
    for mark, percent in stated.items():
        assert 100 * marks[mark] / total == pytest.approx(percent, rel=0.06), mark
    assert sum(address.text.count("!") for address in addresses) < marks["?"] / 2


@settings(max_examples=50, deadline=None)
@given(
    st.text(max_size=60)
    | st.text(alphabet="aZé'’.,-—:;?! 1$%Ußẞ\u0130\u0301\u212a\u01c5", max_size=40)
)
def test_a_second_round_changes_nothing(text):
    words, labels = case_and_punctuation(text)
    once = restore_text(words, labels)
    assert case_and_punctuation(once) == (words, labels)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "go", "isn't", "u.n", "1960's", "ß", "3.5"]),
            st.sampled_from(RESTORATION_LABELS),
        ),
        max_size=12,
    )
)
def test_any_labels_can_be_written(pairs):
    text = restore_text([w for w, _ in pairs], [label for _, label in pairs])
    assert text == text.strip() and "  " not in text
    assert sum(text.count(mark) for mark in ",;?") == sum(label[-1] in ",;?" for _, label in pairs)


def test_wrong_arguments():
    for wrong in (None, b"text", ["text"]):
        with pytest.raises(TypeError, match="^text: expected a str, got"):
            case_and_punctuation(wrong)
    with pytest.raises(ValueError, match="^labels: expected one for each of 2 words, got 1"):
        restore_text(["a", "b"], ["lower"])
    with pytest.raises(ValueError, match="^labels: expected some of RESTORATION_LABELS.*'title'"):
        restore_text(["a"], ["title"])
