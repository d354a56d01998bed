"""Lines keep their order and their number, whatever the batch; what is cut says so; scores agree with the search."""

from pathlib import Path
from typing import get_type_hints

import pytest
import torch

from qkv.config import settings_of
from qkv.decode.settings import SearchSettings
from qkv.errors import ConfigError, DataError
from qkv.models.protocols import Predicts
from qkv.pipeline.load import load
from qkv.pipeline.translator import BLANK, Options, Translator, chunks
from tests.pipeline.tiny import tiny_bundle

TEXTS = [
    "ein hund läuft im park .",
    "",
    "zwei katze",
    "frau",
    "   ",
    "mann sitzt auf dem haus rot blau .",
    "ein unbekannt .",
]
LONG = "zwei katze " * 20


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = tmp_path_factory.mktemp("bundles") / "m"
    tiny_bundle(folder)
    return load(folder, precision="fp32", device="cpu")


def test_options_are_the_settings_of_the_search() -> None:
    assert get_type_hints(Options).keys() == settings_of(SearchSettings).keys()


def test_order_is_kept_and_blank_lines_stay_blank(translator: Translator) -> None:
    whole = translator.translate(TEXTS)
    assert len(whole) == len(TEXTS)
    assert whole[1] == whole[4] == ""
    assert translator.candidates(["  "]) == [[BLANK]]
    assert translator.translate([]) == []
    alone = [translator.translate(text) for text in TEXTS]
    assert whole == alone
    assert len(set(whole)) > 3, "a random model that says one thing would prove nothing"


def test_small_batches_say_the_same(translator: Translator, tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "m")
    careful = load(tmp_path / "m", precision="fp32", device="cpu", max_tokens=8)
    assert careful.translate(TEXTS) == translator.translate(TEXTS)
    assert list(careful.translate_lines(iter(TEXTS))) == translator.translate(TEXTS)


def test_a_stream_is_read_chunk_by_chunk(translator: Translator) -> None:
    read = 0

    def lines() -> "list[str]":
        nonlocal read
        for text in TEXTS:
            read += 1
            yield text

    found = translator.candidates_lines(lines(), chunk_lines=2)
    first = next(found)
    assert read == 2
    assert [first[0].text, *(each[0].text for each in found)] == translator.translate(TEXTS)


def test_chunks_are_bounded_by_lines_and_by_characters() -> None:
    assert [len(c) for c in chunks(["a"] * 5, most=2)] == [2, 2, 1]
    assert [len(c) for c in chunks(["a" * 10] * 5, most=100, characters=20)] == [2, 2, 1]
    assert list(chunks([])) == []


def test_what_is_too_long_is_cut_and_says_so(translator: Translator) -> None:
    (cut,), (whole,) = translator.candidates([LONG, "ein hund"])
    assert (cut.truncated, whole.truncated) == (True, False)
    room = "zwei katze " * 11 + "zwei"  # 23 tokens and the end mark
    assert cut.text == translator.translate(room)
    assert not translator.candidates([room])[0][0].truncated


def test_n_best_lists_are_sorted_and_begin_with_the_best(translator: Translator) -> None:
    for text, found in zip(TEXTS, translator.candidates(TEXTS, num_beams=4, num_return_sequences=4), strict=True):
        assert len(found) == (4 if text.strip() else 1)
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
        assert found[0].text == translator.translate(text, num_beams=4)
        assert len({each.text for each in found}) > 1 or not text.strip()


def test_more_sequences_than_the_models_beam_widen_it(translator: Translator) -> None:
    assert translator.decoding.num_beams == 2
    assert len(translator.candidates(["ein hund"], num_return_sequences=3)[0]) == 3
    assert translator.settings(num_return_sequences=2).num_beams == 2
    with pytest.raises(ConfigError, match="num_return_sequences=3"):
        translator.candidates(["ein hund"], num_beams=2, num_return_sequences=3)
    with pytest.raises(ConfigError, match=r"candidates\(\.\.\.\)"):
        translator.translate("ein hund", num_return_sequences=3)


def test_settings_of_the_bundle_and_of_the_call(translator: Translator) -> None:
    assert translator.settings().max_new_tokens == 12
    assert translator.settings(max_new_tokens=3).max_new_tokens == 3
    assert all(each[0].tokens <= 3 for each in translator.candidates(TEXTS, max_new_tokens=3))
    with pytest.raises(ConfigError, match='did you mean "num_beams"'):
        translator.translate("ein hund", num_beam=3)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"num_beams is 0"):
        translator.translate("ein hund", num_beams=0)


def test_sampling_is_keyed_by_the_line(translator: Translator) -> None:
    drawn = translator.translate(TEXTS, do_sample=True, seed=3)
    assert drawn == list(translator.translate_lines(TEXTS, do_sample=True, seed=3))
    chunked = [each[0].text for each in translator.candidates_lines(TEXTS, chunk_lines=2, do_sample=True, seed=3)]
    assert drawn == chunked
    assert drawn != translator.translate(TEXTS, do_sample=True, seed=4)


def test_a_prefix_begins_every_translation(translator: Translator) -> None:
    found = translator.translate(["ein hund", "", "zwei"], prefix="blau rot")
    assert found[0].startswith("blau rot") and found[2].startswith("blau rot") and found[1] == ""
    each = translator.translate(["ein hund", "zwei"], prefix=["rot", ""])
    assert each[0].startswith("rot") and each[1] == translator.translate("zwei")
    with pytest.raises(DataError, match="1 prefixes stand against 2 texts"):
        translator.translate(["ein hund", "zwei"], prefix=["rot"])


def test_scores_of_given_targets_are_those_of_the_search(translator: Translator) -> None:
    found = [each[0] for each in translator.candidates(TEXTS) if each[0].tokens]
    full = [text for text in TEXTS if text.strip()]
    scored = translator.score(full, [each.text for each in found])
    finished = [(mine, theirs) for mine, theirs in zip(scored, found, strict=True) if theirs.finished]
    for mine, theirs in finished:
        assert mine.tokens == theirs.tokens
        assert mine.log_probability == pytest.approx(theirs.log_probability, abs=1e-4)
    forced = translator.score(["ein hund"] * 2, ["", "mann frau"])
    assert [each.tokens for each in forced] == [1, 3]
    assert translator.score([], []) == []


def test_scores_do_not_depend_on_the_batch(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = list(reversed(TEXTS))
    together = [each.log_probability for each in translator.score(TEXTS, targets)]
    alone = [translator.score([s], [t])[0].log_probability for s, t in zip(TEXTS, targets, strict=True)]
    assert together == pytest.approx(alone, abs=1e-4)
    monkeypatch.setattr("qkv.pipeline.scoring.POSITIONS", 3)
    assert [each.log_probability for each in translator.score(TEXTS, targets)] == pytest.approx(together, abs=1e-5)


def test_scores_by_hand(translator: Translator) -> None:
    model = translator.model
    assert isinstance(model, Predicts)
    source = torch.tensor([[*translator.source.encode(["ein hund"])[0], 3]])
    target = [2, *translator.target.encode(["mann frau"])[0], 3]
    from qkv.data.batch import Batch, Tokens

    batch = Batch.of(
        torch.tensor([0]),
        Tokens(source, torch.tensor([source.shape[1]])),
        Tokens(torch.tensor([target]), torch.tensor([len(target)])),
    )
    with torch.no_grad():
        hidden, _ = model.hidden(batch)
        weight, _ = model.projection()
        logs = torch.log_softmax(hidden[0] @ weight.T, -1)
    expected = sum(float(logs[i, word]) for i, word in enumerate(target[1:]))
    (mine,) = translator.score(["ein hund"], ["mann frau"])
    assert mine.log_probability == pytest.approx(expected, abs=1e-4)
    assert mine.perplexity == pytest.approx(float(torch.tensor(-expected / 3).exp()), rel=1e-4)


def test_misaligned_pairs_and_silly_budgets(translator: Translator) -> None:
    with pytest.raises(DataError, match="2 sources stand against 1 targets"):
        translator.score(["a", "b"], ["c"])
    with pytest.raises(ConfigError, match="max_tokens 0"):
        Translator(
            translator.model,
            translator.source,
            translator.target,
            decoding=translator.decoding,
            longest_source=9,
            max_tokens=0,
        )
