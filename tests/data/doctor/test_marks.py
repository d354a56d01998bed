"""Numbers and placeholders: the same ones in other clothes agree, others do not."""

import pytest

from qkv.data.doctor.marks import numbers, numbers_disagree, placeholders_disagree

AGREE = [
    ("1.000,50 Euro", "1,000.50 euros"),
    ("12 000 Leute", "12,000 people"),
    ("am 05.03.2018", "on 3/5/2018"),
    ("um 17 Uhr", "at 5 pm"),
    ("um 17.30 Uhr", "at 17:30"),
    ("2 Euro", "2.00 euros"),
    ("drei Hunde", "3 dogs"),
    ("hundert Leute", "100 people"),
    ("keine", "none"),
    ("10'000 Franken", "10,000 francs"),
    ("1.000.000 Mal", "1,000,000 times"),
]
DISAGREE = [
    ("Band 12 von 40", "volume 12 of 41"),
    ("im Jahr 1984", "in the year"),
    ("1.000 Euro", "100 euros"),
    ("5 Hunde", "7 dogs"),
    ("5 und 5", "5"),
    ("35 Jahre", "25 years"),
]


@pytest.mark.parametrize(("source", "target"), AGREE)
def test_numbers_agree(source: str, target: str) -> None:
    assert numbers_disagree(source, target) is None
    assert numbers_disagree(target, source) is None


@pytest.mark.parametrize(("source", "target"), [pair for pair in DISAGREE if pair[0] != "5 und 5"])
def test_numbers_disagree(source: str, target: str) -> None:
    assert numbers_disagree(source, target)
    assert numbers_disagree(target, source)


def test_what_people_write_as_a_word_may_be_missing() -> None:
    assert numbers_disagree("5 und 5", "5") is None
    assert numbers_disagree("85 und 85", "85") == "85 against no number"


def test_a_number_is_its_digits() -> None:
    assert numbers("3.5 und 3,5") == {"35": 2}
    assert numbers("24.12.2018") == {"24": 1, "12": 1, "2018": 1}
    assert numbers("007") == {"7": 1}


SAME = [
    ("Hallo {name}!", "Hello {name}!"),
    ("%s von %s", "%s of %s"),
    ("{{ count }} Dateien", "{{count}} files"),
    ("<b>fett</b>", "<b>bold</b>"),
    ("50% der Leute, 100%ig", "50% of people"),
    ("a < b und b > c", "a < b and b > c"),
    ("siehe https://example.org/x.", "see https://example.org/x"),
    ("A & B; C", "A & B; C"),
    ("ein % s", "one"),
]
OTHER = [
    ("Hallo {name}!", "Hello {nom}!"),
    ("%s von %s", "%s"),
    ("%1$s", "%2$s"),
    ("%(count)d", "count"),
    ("<b>fett</b>", "<b>bold"),
    ("${user}", "{user}"),
    ("max@example.org", "max"),
    ("http://example.org", "http://example.com"),
    ("%.2f", "%.2f %d"),
]


@pytest.mark.parametrize(("source", "target"), SAME)
def test_placeholders_agree(source: str, target: str) -> None:
    assert placeholders_disagree(source, target) is None


@pytest.mark.parametrize(("source", "target"), OTHER)
def test_placeholders_disagree(source: str, target: str) -> None:
    assert placeholders_disagree(source, target)
    assert placeholders_disagree(target, source)


def test_it_says_which() -> None:
    assert placeholders_disagree("{a} {b}", "{b} {c}") == "{a} against {c}"
    assert placeholders_disagree("{a}", "") == "{a} against nothing"
