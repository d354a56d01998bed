"""Scores as a user asks for them, from a model or from files; mistakes are one sentence."""

import gzip
import json
from pathlib import Path

import pytest
import sacrebleu

from qkv.cli.main import main
from qkv.pipeline.load import load
from tests.pipeline.tiny import tiny_bundle

SOURCES = ["ein hund läuft .", "", "mann", "zwei katze rot"]
REFERENCES = ["mann frau läuft .", "", "haus", "auf läuft auf"]
FAST = ["--precision", "fp32", "--resamples", "20", "--quiet"]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate")
    tiny_bundle(folder / "m")
    tiny_bundle(folder / "other", seed=3)
    with gzip.open(folder / "test.de.gz", "wb") as stream:
        stream.write("".join(f"{line}\n" for line in SOURCES).encode())
    (folder / "test.en").write_text("".join(f"{line}\n" for line in REFERENCES))
    (folder / "short.en").write_text("one\n")
    (folder / "empty.en").write_text("")
    (folder / "bad.en").write_bytes(b"gut\n\xff\n")
    return folder


def evaluated(there: Path, *flags: str) -> int:
    return main(["evaluate", *[flag.replace("@", f"{there}/") for flag in flags], *FAST])


def test_a_model_as_json(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--model", "@m", "--source", "@test.de.gz", "--reference", "@test.en", "--json", "--save", "@out.en"]
    assert evaluated(there, *flags) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    lines = load(there / "m", precision="fp32", device="cpu").translate(SOURCES)
    assert (there / "out.en").read_text() == "".join(f"{line}\n" for line in lines)
    expected = sacrebleu.corpus_bleu(lines, [REFERENCES], tokenize="none", force=True)
    assert found["scores"][0]["value"] == pytest.approx(expected.score)
    assert "tok:none" in found["scores"][0]["signature"], (
        "the model's text is tokenised, so the score does not do it again"
    )
    assert found["counts"]["blank"] == 1 and found["perplexity"]["tokens"] == 12
    assert shown.err == ""


def test_a_model_as_a_table_for_people(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluated(there, "--model", "@m", "--source", "@test.de.gz", "--reference", "@test.en") == 0
    shown = capsys.readouterr().out
    for part in (
        "m: 4 sentences",
        "95% interval",
        "BLEU",
        "chrF",
        "TER",
        "tok:none",
        "0-10 words",
        "perplexity",
        "a second",
    ):
        assert part in shown


def test_translations_that_are_there_already(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluated(there, "--hypothesis", "@test.en", "--reference", "@test.en", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scores"][0]["value"] == pytest.approx(100) and "tok:13a" in found["scores"][0]["signature"]
    assert found["perplexity"] is None and found["speed"] is None
    flags = ["--hypothesis", "@test.en", "--reference", "@test.en", "--reference", "@test.en", "--tokenize", "char"]
    assert evaluated(there, *flags) == 0
    shown = capsys.readouterr().out
    assert "nrefs:2" in shown and "tok:char" in shown


def test_against_a_model_and_against_a_file(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--source", "@test.de.gz", "--reference", "@test.en", "--json"]
    assert evaluated(there, "--model", "@m", "--against", "@other", *common) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["against"] == "other"
    assert [each["name"] for each in found["comparisons"]] == ["BLEU", "chrF", "TER"]
    assert evaluated(there, "--model", "@m", "--against", "@test.en", *common) == 0
    against_truth = json.loads(capsys.readouterr().out)["comparisons"]
    assert against_truth[1]["difference"] < 0 and against_truth[1]["wins"] == 0
    assert evaluated(there, "--model", "@m", "--against", "@test.en", *common[:-1]) == 0
    assert "paired bootstrap" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--reference", "@test.en"], "either --model FOLDER or --hypothesis FILE"),
        (["--model", "@m", "--hypothesis", "@test.en", "--reference", "@test.en"], "either --model FOLDER or"),
        (["--model", "@m", "--reference", "@test.en"], "needs --source FILE"),
        (["--model", "@m", "--source", "@test.de"], "--reference"),
        (["--model", "@m", "--source", "@gone.de", "--reference", "@test.en"], "gone.de: no such file"),
        (["--model", "@m", "--source", "@test.de.gz", "--reference", "@short.en"], "test.de.gz has 4 lines and "),
        (["--hypothesis", "@short.en", "--reference", "@test.en"], "test.en has 4"),
        (["--hypothesis", "@empty.en", "--reference", "@empty.en"], "empty.en: holds no line"),
        (["--hypothesis", "@bad.en", "--reference", "@test.en"], "bad.en, line 2, byte 1: not UTF-8"),
        (
            ["--hypothesis", "@test.en", "--reference", "@test.en", "--tokenize", "13b"],
            'tokenize is "13b"; did you mean "13a"',
        ),
        (["--hypothesis", "@test.en", "--reference", "@test.en", "--save", "x"], "--save writes what a model"),
        (["--hypothesis", "@test.en", "--reference", "@test.en", "--against", "@short.en"], "short.en has 1"),
        (["--hypothesis", "@test.en", "--reference", "@test.en", "--resamples", "0"], ""),
        (["--model", "@short.en", "--source", "@test.de.gz", "--reference", "@test.en"], "short.en"),
    ],
)
def test_mistakes_are_one_sentence(
    there: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    if "--resamples" in flags:
        code = main(["evaluate", *[flag.replace("@", f"{there}/") for flag in flags]])
        message = "--resamples is 0"
    else:
        code = evaluated(there, *flags)
    shown = capsys.readouterr()
    assert code == 2 and message in shown.err
    assert shown.err.count("\n") == 1 and shown.out == ""
