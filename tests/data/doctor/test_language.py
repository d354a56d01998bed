"""Languages of lines: as the library says, many at a time; short lines are not judged."""

from pathlib import Path

import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from qkv.data.doctor.language import FEWEST_LETTERS, Languages, identifier, long_enough, told
from qkv.data.sources import Pair, Unreadable
from qkv.errors import ConfigError
from tests.data.doctor.planted import FOREIGN

GERMAN = "Gestern haben wir den ganzen Nachmittag im Garten gearbeitet und danach gegessen."
ENGLISH = "Yesterday we worked in the garden for the whole afternoon and had dinner afterwards."


def test_it_is_the_library_s_own_answer() -> None:
    texts = [*FOREIGN, GERMAN, ENGLISH, GERMAN.upper(), "", "?", "zu kurz", "日本語の文", "e\u0301te\u0301", "a" * 300]
    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    for text, found in zip(texts, identifier().classify(texts), strict=True):
        language, confidence = model.classify(text)
        assert found.confidence == pytest.approx(confidence, abs=1e-4)
        assert found.language == language or confidence < 0.02  # nothing is known of "": all are alike
    assert identifier().classify([]) == []


def test_a_line_in_another_language_is_named() -> None:
    languages = Languages(("de", "en"))
    assert languages.disagree([GERMAN, ENGLISH], 0) == [None, "en, not de"]
    assert languages.disagree([GERMAN, ENGLISH], 1) == ["de, not en", None]
    assert all(languages.disagree(FOREIGN, 0))
    assert Languages((None, "en")).disagree([ENGLISH], 0) == [None]


def test_languages_that_are_taken_for_one_another_are_let_pass() -> None:
    norwegian = "Barna lekte ute i hagen hele ettermiddagen før de gikk inn for å spise middag."
    assert Languages(("da", "en")).disagree([norwegian], 0) == [None]


def test_short_lines_are_not_judged() -> None:
    assert not long_enough("x" * (FEWEST_LETTERS - 1))
    assert long_enough("x" * FEWEST_LETTERS)
    assert not long_enough("1 2 3 4 5 6 7 8 9 " * 10)


def test_the_languages_of_a_corpus_are_told_by_its_lines() -> None:
    rows = [Pair(GERMAN, ENGLISH), Unreadable("nul", Path("x")), Pair("kurz", "short")]
    assert told(rows * 20) == ("de", "en")
    assert told(rows) == (None, None)


def test_a_language_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigError, match='language "deu" is not one'):
        Languages(("deu", "en"))
