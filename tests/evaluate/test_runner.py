"""A report's numbers are those of the metrics and of the translator, and it is JSON."""

import json
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from qkv.errors import DataError
from qkv.evaluate.runner import Asked, by_length, read_output, report, scores_of, translated
from qkv.pipeline.load import load
from qkv.pipeline.translator import Translator
from tests.pipeline.tiny import tiny_bundle

REFERENCES = [
    "a man walks .",
    "two dogs run in the big green park today , says he and goes home",
    "",
    "the house is red",
]
GOOD = ["a man walks .", "two dogs run in the green park today , says he and goes", "", "the house is red"]
BAD = ["man a", "dogs in parks", "nothing", "red"]
FEW = Asked(tokenize="none", resamples=50)


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = tmp_path_factory.mktemp("bundles") / "tiny"
    tiny_bundle(folder)
    return load(folder, precision="fp32", device="cpu")


def test_scores_are_sacrebleus_with_their_signatures() -> None:
    found = report(read_output("good", GOOD), [REFERENCES], FEW)
    bleu, chrf, ter = found.scores
    assert [each.name for each in found.scores] == ["BLEU", "chrF", "TER"]
    assert bleu.value == pytest.approx(sacrebleu.corpus_bleu(GOOD, [REFERENCES], tokenize="none", force=True).score)
    assert chrf.value == pytest.approx(sacrebleu.corpus_chrf(GOOD, [REFERENCES]).score)
    assert ter.value == pytest.approx(sacrebleu.corpus_ter(GOOD, [REFERENCES]).score)
    assert all(each.low <= each.value <= each.high and "version:" in each.signature for each in found.scores)
    assert found.counts == {"blank": 1} and found.sentences == 4


def test_lengths_share_out_all_sentences() -> None:
    buckets = by_length(scores_of(GOOD, [REFERENCES], FEW), REFERENCES)
    assert [(b.shortest, b.longest, b.sentences) for b in buckets] == [(0, 10, 3), (11, 20, 1)]
    assert buckets[0].scores["BLEU"] == pytest.approx(100)
    alone = sacrebleu.corpus_chrf(GOOD[1:2], [REFERENCES[1:2]]).score
    assert buckets[1].scores["chrF"] == pytest.approx(alone)
    edges = [" ".join("w" * n) for n in (10, 11, 40, 41, 60)]
    found = by_length(scores_of(edges, [edges], FEW), edges)
    assert [(b.shortest, b.longest, b.sentences) for b in found] == [
        (0, 10, 1),
        (11, 20, 1),
        (31, 40, 1),
        (41, None, 2),
    ]


def test_two_systems_are_compared_on_the_same_sentences() -> None:
    found = report(read_output("good", GOOD * 5), [REFERENCES * 5], FEW, read_output("bad", BAD * 5))
    assert found.against == "bad"
    by_name = {each.name: each for each in found.comparisons}
    assert by_name["BLEU"].difference > 0 and by_name["BLEU"].wins == 1.0 and by_name["BLEU"].p < 0.05
    assert by_name["TER"].difference < 0 and by_name["TER"].wins == 1.0
    with pytest.raises(DataError, match="20 lines and bad 4"):
        report(read_output("good", GOOD * 5), [REFERENCES * 5], FEW, read_output("bad", BAD))


def test_a_models_report_is_json_and_adds_up(translator: Translator) -> None:
    sources = ["ein hund läuft .", "", "zwei katze " * 20, "mann"]
    references = ["mann frau", "", "hund .", "auf läuft"]
    seen: list[int] = []
    output = translated(translator, sources, [references], {"num_beams": 1}, seen.append)
    assert seen == [1, 2, 3, 4]
    assert output.lines == translator.translate(sources, num_beams=1)
    assert output.counts["truncated"] == 1 and output.counts["blank"] == 1
    assert output.decoding is not None and output.decoding["num_beams"] == 1
    found = report(output, [references], FEW)
    assert json.loads(json.dumps(found.plain())) == json.loads(json.dumps(found.plain()))
    plain = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert plain["name"] == "tiny" and plain["speed"]["seconds"] > 0
    assert plain["counts"]["new_tokens"] == sum(each[0].tokens for each in translator.candidates(sources, num_beams=1))


def test_perplexity_counts_every_token_once(translator: Translator) -> None:
    sources, references = ["ein hund", "mann"], ["mann frau", "auf"]
    output = translated(translator, sources, [references], {})
    scored = translator.score(sources, references)
    assert output.perplexity is not None and output.perplexity.tokens == 5
    expected = np.exp(-sum(each.log_probability for each in scored) / 5)
    assert output.perplexity.value == pytest.approx(float(expected))
    assert output.perplexity.value > 1


def test_an_ensemble_has_no_perplexity(tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "a")
    both = load(tmp_path / "a", tmp_path / "a", precision="fp32", device="cpu")
    assert translated(both, ["ein"], [["hund"]], {}).perplexity is None


def test_misaligned_sets_are_refused_before_translating(translator: Translator) -> None:
    with pytest.raises(DataError, match="2 translations stand against 1 lines"):
        translated(translator, ["ein", "zwei"], [["hund"]], {})
