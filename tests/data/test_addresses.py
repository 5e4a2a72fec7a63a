"""The State of the Union addresses."""

import gzip
import hashlib

import pytest

from companion.data import Address, load
from companion.data.labelled import FILES

FOLDER = FILES / "state-of-the-union"


@pytest.fixture(scope="module")
def addresses():
    return load("state-of-the-union")


@pytest.fixture(scope="module")
def note():
    return (FOLDER / "SOURCE").read_text(encoding="utf-8")


def test_one_address_a_year(addresses):
    assert all(isinstance(address, Address) for address in addresses)
    # Reagan's of 1981 is not in the package, Carter's is; 1961 is Kennedy's alone
    assert [address.year for address in addresses] == list(range(1961, 2022))
    assert len({address.president for address in addresses}) == 12
    assert repr(addresses[0]) == "Address(1961, 'John F Kennedy', 5165 words)"


# who was in office in January or February of the year
IN_OFFICE = {
    1963: ("John F Kennedy", "Democratic"),
    1969: ("Lyndon B Johnson", "Democratic"),
    1974: ("Richard Nixon", "Republican"),
    1977: ("Gerald R Ford", "Republican"),
    1981: ("Jimmy Carter", "Democratic"),
    1988: ("Ronald Reagan", "Republican"),
    1989: ("George Bush", "Republican"),
    2000: ("William J Clinton", "Democratic"),
    2001: ("George W Bush", "Republican"),
    2016: ("Barack Obama", "Democratic"),
    2017: ("Donald J Trump", "Republican"),
    2021: ("Joseph R Biden", "Democratic"),
}


def test_presidents_and_parties(addresses):
    by_year = {address.year: address for address in addresses}
    for year, expected in IN_OFFICE.items():
        assert (by_year[year].president, by_year[year].party) == expected
    assert len({(address.president, address.party) for address in addresses}) == 12


def test_known_sentences(addresses):
    by_year = {address.year: address.text for address in addresses}
    assert "constitute an axis of evil" in by_year[2002]
    assert "The era of big Government is over." in by_year[1996]
    assert "unconditional war on poverty in America" in by_year[1964]
    assert by_year[2016].endswith("God bless the United States of America. Thank you.")


def test_texts_are_in_plain_form(addresses):
    for address in addresses:
        assert address.text == " ".join(address.text.split())
        assert not set(address.text) & set("\u2018\u2019\u201c\u201d\u2011\ufffd"), address
        assert len(address.text.split()) > 1500


def test_words_are_those_of_the_note(addresses, note):
    words: dict[str, list[int]] = {}
    for address in addresses:
        words.setdefault(address.president, []).append(len(address.text.split()))
    table = [row for row in note.split("addresses    words\n")[1].splitlines()]
    assert {row[:21].strip(): [int(n) for n in row.split()[-2:]] for row in table} == {
        name: [len(found), sum(found)] for name, found in words.items()
    }
    assert sum(map(sum, words.values())) == 357_759 and "words           357759" in note
    (longest,) = [a for a in addresses if a.year == 1981]
    assert len(longest.text.split()) == 33_558 and "33,558 words" in note


def test_the_note_has_the_hashes(note):
    packed = (FOLDER / "addresses.jsonl.gz").read_bytes()
    assert f"result sha256   {hashlib.sha256(packed).hexdigest()}" in note
    assert f"text sha256     {hashlib.sha256(gzip.decompress(packed)).hexdigest()}" in note
    assert packed[4:8] == bytes(4) and len(packed) < 750_000
    license = (FOLDER / "LICENCE").read_text(encoding="utf-8")
    assert "PDDL 1.0" in license and "CC0 1.0" in license


def test_an_underscore_counts_as_a_hyphen(addresses):
    assert load("state_of_the_union") == addresses
    with pytest.raises(ValueError, match="did you mean 'state-of-the-union'"):
        load("State_of_the_Union")
