"""Wrong decodings and characters that nobody sees; honest text of many scripts passes."""

import pytest

from qkv.data.doctor.encoding import broken, unseen

HONEST = [
    "Größe, Äpfel, ça va, où, niño, żółć, ŠČ",
    "Привет, мир",
    "日本語のテキスト",
    "مرحبا بالعالم",
    "„Ich vergaß“, war ihre Antwort.",
    "Wirklich? Ja.",
    "What?! No.",
    "https://example.org/find?word=a",
    "5 °C ± 2 µm, 20 £ – «oui» …",
]


@pytest.mark.parametrize("text", HONEST)
def test_honest_text_passes(text: str) -> None:
    assert broken(text) is None
    assert unseen(text) is None


@pytest.mark.parametrize("text", ["Größe", "naïve café", "Привет", "„so“ – nicht", "日本語", "5 €"])
@pytest.mark.parametrize("wrongly", ["cp1252", "latin-1"])
def test_utf8_read_as_something_else(text: str, wrongly: str) -> None:
    assert broken(text.encode("utf-8").decode(wrongly, "ignore"))


def test_what_was_lost() -> None:
    assert broken("Gr\ufffdße") == "'\ufffd'"
    assert broken("M?ller") == "'M?l'"


@pytest.mark.parametrize("character", ["\x00", "\x07", "\t", "\u200b", "\u202e", "\u2028", "\ufeff", "\x85", "\x7f"])
def test_the_unseen_is_named(character: str) -> None:
    assert unseen(f"ein{character} Hund") == f"U+{ord(character):04X}"


def test_joiners_that_scripts_need_are_no_fault() -> None:
    assert unseen("می\u200cخواهم") is None
    assert unseen("क\u094d\u200dष") is None
