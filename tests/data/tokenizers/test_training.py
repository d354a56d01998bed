"""Learning BPE: sizes as asked, the same bytes each time, and a sentence for what cannot be."""

from pathlib import Path
from typing import Any

import pytest

from qkv.data.tokenizers.base import SPECIAL_TOKENS, TOKENIZER
from qkv.data.tokenizers.bpe import Bpe
from qkv.data.tokenizers.spelling import BYTE_TOKENS
from qkv.errors import ConfigError, DataError

STEMS = "low new wide sand stone river hand winter thread".split()  # noqa: SIM905
TEXTS = [f"the {stem}{end} {n}" for stem in STEMS for end in ("", "er", "est", "ing", "s") for n in range(10, 14)]


def test_ids_stand_in_the_promised_order() -> None:
    bpe = Bpe.train(TEXTS, vocabulary=320)
    assert bpe.size == len(set(bpe.tokens)) == 320
    assert bpe.tokens[:260] == (*SPECIAL_TOKENS, *BYTE_TOKENS)
    alphabet = [token for token in bpe.tokens[260:] if len(token) == 1]
    assert alphabet == sorted(set("▁" + "".join(TEXTS)) - {" "})
    assert bpe.tokens[260 : 260 + len(alphabet)] == tuple(alphabet)
    assert bpe.tokens[260 + len(alphabet) :] == tuple(dict.fromkeys(a + b for a, b in bpe.merges))


def test_the_first_merge_is_the_most_frequent_pair() -> None:
    bpe = Bpe.train(["ab ab ab ac"] * 3, merges=1, pretokenized=True, byte_fallback=False)
    assert bpe.merges == (("▁", "a"),)
    assert bpe.tokens == (*SPECIAL_TOKENS, "a", "b", "c", "▁", "▁a")


@pytest.mark.parametrize("merges", [0, 1, 7, 25])
def test_merges_fix_their_number(merges: int) -> None:
    whole, some = Bpe.train(TEXTS, vocabulary=320), Bpe.train(TEXTS, vocabulary=5, merges=merges)
    assert some.merges == whole.merges[:merges]


def test_training_is_deterministic(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Bpe.train(iter(TEXTS), vocabulary=320).save(tmp_path / name)
    assert (tmp_path / "a" / TOKENIZER).read_bytes() == (tmp_path / "b" / TOKENIZER).read_bytes()


def test_pairs_below_the_minimum_are_left_apart() -> None:
    texts = ["xy"] * 2 + ["ab"] * 5
    assert ("x", "y") in {(a[-1], b) for a, b in Bpe.train(texts, merges=99).merges}
    assert "y" not in {b for _, b in Bpe.train(texts, merges=99, minimum=3).merges}


def test_rare_characters_are_spelled_in_bytes() -> None:
    texts = ["aaaa bbbb"] * 200 + ["aaaЖbbbb"]
    assert "Ж" in Bpe.train(texts, vocabulary=300).tokens
    bpe = Bpe.train(texts, vocabulary=300, coverage=0.999)
    assert "Ж" not in bpe.tokens
    assert bpe.decode(bpe.encode(["Жa"])) == ["Жa"]


def test_no_merge_spells_a_reserved_token() -> None:
    bpe = Bpe.train(["x<s>y x<0x41>y x</s>y"] * 50, merges=60, pretokenized=True)
    texts = ["x<s>y x<0x41>y </s>", "<0x41> <s>"]
    assert bpe.decode(bpe.encode(texts)) == texts
    assert all(min(row) >= 4 for row in bpe.encode(texts))
    assert not {a + b for a, b in bpe.merges} & {*SPECIAL_TOKENS, *BYTE_TOKENS}


def test_no_token_grows_without_end() -> None:
    assert max(map(len, Bpe.train(["a" * 5000] * 4, vocabulary=330).tokens)) <= 64


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"vocabulary": 200}, r"vocabulary 200 has no room beside 4 special tokens and 256 bytes; take more than 260"),
        (
            {"vocabulary": 270},
            r"vocabulary 270 is too small: the text has 21 different characters; take 281 at the least",
        ),
        ({"vocabulary": 9, "byte_fallback": False}, r"vocabulary 9 is too small: .* take 25 at the least"),
        ({"dropout": 1.5}, r"dropout 1\.5 .* 0 to 1"),
        ({"merges": -1}, r"merges -1 must be at least 0"),
        ({"coverage": 0.0}, r"coverage 0\.0 must be above 0 and at most 1"),
        ({"minimum": 0}, r"minimum 0 must be at least 1"),
        ({"sample_bytes": 0}, r"sample_bytes 0 must be at least 1"),
    ],
)
def test_what_cannot_be_asked_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Bpe.train(["the quick brown fox 0123 ."] * 3, **settings)


def test_the_least_vocabulary_named_is_enough() -> None:
    assert Bpe.train(["the quick brown fox 0123 ."] * 3, vocabulary=281).merges == ()


@pytest.mark.parametrize("texts", [[], [""], [" \n "]])
def test_no_text_is_refused(texts: list[str]) -> None:
    with pytest.raises(DataError, match="is empty"):
        Bpe.train(texts)


def test_what_is_not_unicode_is_refused() -> None:
    with pytest.raises(DataError, match="text 2 of 2: holds half a surrogate"):
        Bpe.train(["a", "\ud800"])
    bpe = Bpe.train(TEXTS, vocabulary=300, dropout=0.5)
    for encode in (bpe.encode, lambda texts: bpe.encode_varied(texts, [1, 2])):
        with pytest.raises(DataError, match="text 2 of 2: holds half a surrogate"):
            encode(["a", "\udfff"])
