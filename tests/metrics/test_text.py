"""Scores are sacreBLEU's, parts of a corpus score as if alone, and GLEU is what is counted by hand."""

import sacrebleu
from pytest import approx, mark, raises

from qkv.errors import ConfigError, DataError
from qkv.metrics.text import bleu, chrf, sentence_gleu, split_compounds, ter

HYPOTHESES = [
    "the cat sat on the mat .",
    "a dog runs in the park , happily .",
    "two men are talking",
    "",
    "Der Hund schläft heute nicht .",
]
REFERENCES = [
    "the cat is on the mat .",
    "a dog is running happily in the park .",
    "two men talk to each other .",
    "nothing was said",
    "Der Hund schläft heute nicht .",
]
OTHERS = [
    "there is a cat on the mat .",
    "in the park , a dog runs .",
    "two men are talking .",
    "silence",
    "Heute schläft der Hund nicht .",
]


@mark.parametrize("tokenize", ["13a", "none", "intl", "char"])
@mark.parametrize("lowercase", [False, True])
def test_bleu_is_sacrebleus(tokenize: str, lowercase: bool) -> None:
    metric = sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase)
    expected = metric.corpus_score(HYPOTHESES, [REFERENCES, OTHERS])
    mine = bleu(HYPOTHESES, [REFERENCES, OTHERS], tokenize=tokenize, lowercase=lowercase)
    assert mine.score() == approx(expected.score)
    assert mine.signature == str(metric.get_signature())
    assert f"tok:{tokenize}" in mine.signature and "nrefs:2" in mine.signature


def test_chrf_and_ter_are_sacrebleus() -> None:
    assert chrf(HYPOTHESES, [REFERENCES]).score() == approx(
        sacrebleu.CHRF().corpus_score(HYPOTHESES, [REFERENCES]).score
    )
    assert ter(HYPOTHESES, [REFERENCES]).score() == approx(sacrebleu.TER().corpus_score(HYPOTHESES, [REFERENCES]).score)
    plus = chrf(HYPOTHESES, [REFERENCES], word_order=2)
    assert plus.name == "chrF++"
    assert plus.score() == approx(sacrebleu.CHRF(word_order=2).corpus_score(HYPOTHESES, [REFERENCES]).score)


def test_a_part_of_the_corpus_scores_as_if_it_were_alone() -> None:
    for score in (bleu, chrf, ter):
        alone = score(HYPOTHESES[1:3], [REFERENCES[1:3]]).score()
        assert score(HYPOTHESES, [REFERENCES]).of([1, 2]) == approx(alone)


def test_perfect_and_hopeless() -> None:
    assert bleu(REFERENCES, [REFERENCES]).score() == approx(100)
    assert chrf(REFERENCES, [REFERENCES]).score() == approx(100)
    assert ter(REFERENCES, [REFERENCES]).score() == 0
    assert bleu([""] * 5, [REFERENCES]).score() == 0
    assert not ter(REFERENCES, [REFERENCES]).higher_is_better


def test_gleu_by_hand() -> None:
    # a b c against a b d: unigrams 2 of 3, bigrams 1 of 2, trigrams 0 of 1: 3 of 6.
    assert sentence_gleu(list("abc"), list("abd")) == approx(3 / 6)
    # A repeated word counts as often as the reference has it; the longer side divides: 1 of 2 + 1.
    assert sentence_gleu(["a", "a"], ["a"]) == approx(1 / 3)
    assert sentence_gleu([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]) == 1.0
    assert sentence_gleu([], [1]) == 0.0
    assert sentence_gleu([], []) == 1.0


def test_gleu_is_symmetric() -> None:
    for hypothesis, reference in zip(HYPOTHESES, REFERENCES, strict=True):
        there = sentence_gleu(hypothesis.split(), reference.split())
        assert there == sentence_gleu(reference.split(), hypothesis.split())
        assert 0 <= there <= 1


def test_what_cannot_be_scored_is_refused() -> None:
    with raises(DataError, match="5 translations stand against 2 lines of reference 1"):
        bleu(HYPOTHESES, [REFERENCES[:2]])
    with raises(DataError, match="no sentence"):
        chrf([], [[]])
    with raises(DataError, match="no reference"):
        ter(HYPOTHESES, [])
    with raises(ConfigError, match="did you mean"):
        bleu(HYPOTHESES, [REFERENCES], tokenize="13b")


def test_compounds_are_split_as_the_paper_scored() -> None:
    line = "A rich-text-format file - well-made, 3-4."
    assert split_compounds(line) == (
        "A rich ##AT##-##AT## text ##AT##-##AT## format file - well ##AT##-##AT## made , 3 - 4 ."
    )
    split = [split_compounds(text) for text in HYPOTHESES]
    expected = sacrebleu.BLEU(tokenize="none").corpus_score(split, [[split_compounds(text) for text in REFERENCES]])
    mine = bleu(HYPOTHESES, [REFERENCES], tokenize="13a-compounds")
    assert mine.score() == approx(expected.score)
    assert "tok:13a-compounds" in mine.signature
    # A compound that is right counts as several words that are.
    some, right = ["a well-made bed stood there ."], [["the well-made bed stands here ."]]
    assert bleu(some, right, tokenize="13a-compounds").score() > bleu(some, right).score()
