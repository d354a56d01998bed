"""A tokenizer's folder: read back the same, loaded by the plain library, refused when anything in it was touched."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Library

from qkv.data.tokenizers.base import OPTIONS, TOKENIZER, Specials, Tokenizer
from qkv.data.tokenizers.bpe import Bpe
from qkv.data.tokenizers.words import Words
from qkv.errors import BundleError

TEXTS = ["the cat sat on the mat", "the cats sat , and sat again .", "a mat for the cat"] * 3


@pytest.fixture(params=["bpe", "words"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Words.train(TEXTS) if request.param == "words" else Bpe.train(TEXTS, vocabulary=300, dropout=0.25)


def test_a_folder_gives_the_same_tokenizer_back(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "deep" / "one")
    loaded = Tokenizer.load(tmp_path / "deep" / "one")
    assert type(loaded) is type(tokenizer)
    assert (loaded.tokens, loaded.options()) == (tokenizer.tokens, tokenizer.options())
    assert loaded.fingerprint() == tokenizer.fingerprint()
    unseen = ["dogs sat on a cat", "", "zebra"]
    assert loaded.encode(unseen) == tokenizer.encode(unseen)
    assert loaded.encode_varied(TEXTS, range(9)) == tokenizer.encode_varied(TEXTS, range(9))
    loaded.save(tmp_path / "two")
    for name in (TOKENIZER, OPTIONS):
        assert (tmp_path / "two" / name).read_bytes() == (tmp_path / "deep" / "one" / name).read_bytes()


def test_the_plain_library_gives_the_same_ids_and_text(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    library = Library.from_file(str(tmp_path / TOKENIZER))
    assert library.get_vocab_size() == tokenizer.size
    unseen = [*TEXTS, "dogs sät on  a cat .", "", "zebra"]
    ids = tokenizer.encode(unseen)
    assert [library.encode(text).ids for text in unseen] == ids
    marked = [[Specials.BOS, *row, Specials.EOS, Specials.PAD] for row in ids]
    assert library.decode_batch(marked) == tokenizer.decode(marked) == tokenizer.decode(ids)


def test_another_process_gets_the_same_tokenizer(tokenizer: Tokenizer) -> None:
    copied = pickle.loads(pickle.dumps(tokenizer))
    texts = [*TEXTS, "<s> the </s> <pad>"]
    assert copied.encode(texts) == tokenizer.encode(texts)
    assert copied.encode_varied(texts, range(10)) == tokenizer.encode_varied(texts, range(10))
    assert copied.fingerprint() == tokenizer.fingerprint()


def test_a_concrete_class_loads_its_own_kind_alone(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    other = Bpe if isinstance(tokenizer, Words) else Words
    with pytest.raises(BundleError, match=f"is not a {other.name} tokenizer's"):
        other.load(tmp_path)
    assert type(tokenizer).load(tmp_path).size == tokenizer.size


def edit(path: Path, change: Callable[[Any], object]) -> None:
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")


def swapped(content: Any) -> None:
    vocabulary = content["model"]["vocab"]
    vocabulary["<s>"], vocabulary["</s>"] = vocabulary["</s>"], vocabulary["<s>"]


DAMAGE: dict[str, tuple[str, Callable[[Any], object], str]] = {
    "no vocabulary": (TOKENIZER, lambda c: c["model"].pop("vocab"), "no vocabulary"),
    "a gap": (TOKENIZER, lambda c: c["model"]["vocab"].update({"new": 5000}), "without a gap"),
    "an id twice": (TOKENIZER, lambda c: c["model"]["vocab"].update({"new": 4}), "without a gap"),
    "ids as text": (TOKENIZER, lambda c: c["model"]["vocab"].update({"<s>": "2"}), "not a whole number"),
    "truth as an id": (TOKENIZER, lambda c: c["model"]["vocab"].update({"<unk>": True}), "not a whole number"),
    "marks swapped": (TOKENIZER, swapped, "ids 0 to 3"),
    "half a character": (
        TOKENIZER,
        lambda c: c["model"]["vocab"].update({"\ud800": len(c["model"]["vocab"])}),
        "Unicode",
    ),
    "another model": (TOKENIZER, lambda c: c["model"].update(type="Unigram"), '"model.type" is not'),
    "a normalizer": (TOKENIZER, lambda c: c.update(normalizer={"type": "NFKC"}), '"normalizer'),
    "a post-processor": (
        TOKENIZER,
        lambda c: c.update(post_processor={"type": "ByteLevel"}),
        '"post_processor" is not',
    ),
    "an unknown part": (TOKENIZER, lambda c: c.update(script="rm"), '"script" is not'),
    "fewer marks": (TOKENIZER, lambda c: c["added_tokens"].pop(), '"added_tokens" is not'),
    "not an object": (OPTIONS, lambda c: c.clear(), "format None"),
    "a newer format": (OPTIONS, lambda c: c.update(format=2), "format 2 where this version reads 1"),
    "an unknown name": (OPTIONS, lambda c: c.update(name="bqe"), 'no tokenizer is called "bqe"'),
    "a path as a name": (OPTIONS, lambda c: c.update(name="os:system"), 'no tokenizer is called "os:system"'),
    "a list as a name": (OPTIONS, lambda c: c.update(name=["bpe"]), "is not a tokenizer tokenizer's"),
    "an unknown option": (OPTIONS, lambda c: c.update(sleep=1), "options"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_touched_file_is_refused(tokenizer: Tokenizer, tmp_path: Path, name: str) -> None:
    tokenizer.save(tmp_path)
    file, change, why = DAMAGE[name]
    edit(tmp_path / file, change)
    with pytest.raises(BundleError, match=why) as caught:
        Tokenizer.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


MERGES: dict[str, tuple[str, Callable[[Any], object], str]] = {
    "lost": (TOKENIZER, lambda c: c["model"].pop("merges"), "no merges"),
    "of nothing": (TOKENIZER, lambda c: c["model"]["merges"].append(["q", "x"]), "not of two tokens into a third"),
    "of three": (TOKENIZER, lambda c: c["model"]["merges"][0].append("x"), "merge 1 is not of two"),
    "twice": (TOKENIZER, lambda c: c["model"]["merges"].append(c["model"]["merges"][0]), "stands twice"),
    "dropout on": (TOKENIZER, lambda c: c["model"].update(dropout=0.5), '"model.dropout" is not'),
    "dropout above 1": (OPTIONS, lambda c: c.update(dropout=1.5), "not those of a bpe"),
    "a flag as a number": (OPTIONS, lambda c: c.update(lowercase=0), "not those of a bpe"),
    "another flag": (OPTIONS, lambda c: c.update(lowercase=True), '"normalizer'),
    "no bytes": (OPTIONS, lambda c: c.update(byte_fallback=False), '"decoder|"model.byte_fallback"'),
}


@pytest.mark.parametrize("name", MERGES)
def test_touched_merges_are_refused(tmp_path: Path, name: str) -> None:
    Bpe.train(TEXTS, vocabulary=300).save(tmp_path)
    file, change, why = MERGES[name]
    edit(tmp_path / file, change)
    with pytest.raises(BundleError, match=why):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"[1]", b"null"])
def test_what_is_no_tokenizer_at_all_is_refused(tokenizer: Tokenizer, tmp_path: Path, content: bytes) -> None:
    for name in (TOKENIZER, OPTIONS):
        tokenizer.save(tmp_path)
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BundleError, match=name):
            Tokenizer.load(tmp_path)
        (tmp_path / name).unlink()
        with pytest.raises(BundleError, match=f"{name} is missing"):
            Tokenizer.load(tmp_path)


def test_the_fingerprint_follows_what_decides_the_ids() -> None:
    base = Bpe.train(TEXTS, vocabulary=300)
    assert Bpe.train(iter(TEXTS), vocabulary=300).fingerprint() == base.fingerprint()
    others = [
        Bpe.train(TEXTS, vocabulary=299),
        Bpe.train(TEXTS, vocabulary=300, dropout=0.1),
        Bpe.train(TEXTS, vocabulary=300, lowercase=True),
        Words.train(TEXTS),
    ]
    assert len({base.fingerprint(), *(other.fingerprint() for other in others)}) == 5
