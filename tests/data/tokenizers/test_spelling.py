"""What a text keeps through encoding and decoding, on any Unicode."""

import re
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from qkv.data.tokenizers.base import SPECIAL_TOKENS, Specials
from qkv.data.tokenizers.bpe import Bpe

TEXTS = ["The cat's 12 mats ( and hats ) .", "▁ Ärger <s> é", "naïve façade 3,50\u00a0€ 漢字"] * 4
RAW = Bpe.train(TEXTS, vocabulary=330, dropout=0.3)
LOWER = Bpe.train(TEXTS, vocabulary=330, lowercase=True)
TOKENISED = Bpe.train([*TEXTS, "<s></s><0x41><0x41>"] * 3, vocabulary=400, pretokenized=True, dropout=0.3)
NO_BYTES = Bpe.train(TEXTS, merges=20, byte_fallback=False)

# Unassigned code points compose by whichever Unicode version a library knows.
SCRAPS = ["<s>", "</s>", "<pad>", "<unk>", "<0x41>", "▁", " ", "  ", "\u2028", "\u00a0", "e\u0301", "\t", "\x85", "12"]
ANY = st.text(st.characters(exclude_categories=["Cs", "Cn"]))
UNICODE = st.lists(st.one_of(ANY, st.sampled_from(SCRAPS))).map("".join)


def kept(text: str) -> str:
    """What spelling.py promises of raw text."""
    return re.sub("[ \t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+", " ", unicodedata.normalize("NFC", text)).strip(" ")


@given(UNICODE)
@example("  a\tb\r\n c  ")
@example("▁a ▁ b▁")
@example("".join(SPECIAL_TOKENS) + "<0x41>")
def test_raw_text_comes_back_composed_with_single_spaces(text: str) -> None:
    (ids,) = RAW.encode([text])
    assert RAW.decode([ids]) == [kept(text)]
    assert not set(ids) & {Specials.PAD, Specials.UNK, Specials.BOS, Specials.EOS}
    assert RAW.decode(RAW.encode_varied([text], [7])) == [kept(text)]


@given(UNICODE)
@example("<s></s> <0x41><unk>")
def test_tokenised_text_comes_back_exactly(text: str) -> None:
    text = " ".join(word for word in text.split(" ") if word)
    (ids,) = TOKENISED.encode([text])
    assert TOKENISED.decode([ids]) == [text]
    assert min(ids, default=4) >= 4
    assert TOKENISED.decode(TOKENISED.encode_varied([text], [7])) == [text]


def test_the_noncharacter_is_all_that_is_lost() -> None:
    assert RAW.decode(RAW.encode(["a\ufdd0b"])) == ["a▁b"]


def test_spaces_around_tokenised_words_are_made_single() -> None:
    assert TOKENISED.decode(TOKENISED.encode(["  a   b\tc\u00a0 "])) == ["a b\tc\u00a0"]


def test_lower_case_is_all_that_lowercase_changes() -> None:
    assert LOWER.decode(LOWER.encode(["Die  ÄRGER der İ 12!"])) == ["die ärger der i\u0307 12!"]


def test_digits_and_punctuation_stand_alone() -> None:
    assert RAW.words("It's 25 % (or 7).") == ["▁It", "'", "s", "▁", "2", "5", "▁%", "▁(", "or", "▁", "7", ")", "."]
    assert RAW.words("3\u00a0€ a\u0308b ▁") == ["▁", "3", "\u00a0", "€", "▁äb", "▁\ufdd0"]
    assert TOKENISED.words("It's 25\u00a0% .") == ["▁It's", "▁25\u00a0%", "▁."]


def test_without_bytes_an_unseen_character_is_unknown_and_visible() -> None:
    (ids,) = NO_BYTES.encode(["cat Ж"])
    assert ids.count(Specials.UNK) == 1
    assert NO_BYTES.decode([ids]) == ["cat <unk>"]
    assert NO_BYTES.size == len(NO_BYTES.tokens) < 256
