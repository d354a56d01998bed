"""`qkv doctor` as it is typed: reports in three forms, a filtered copy, and mistakes in one sentence."""

import gzip
import json
from pathlib import Path

import pytest

from qkv.cli.main import main

LINES = ["Ein Hund.\tA dog.", "Hallo {name}\tHello", "\tnothing", "Ein Hund!\ta dog", "Eine Katze.\tA cat."]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def test_it_says_what_it_found(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(pairs), "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "5 lines, unknown to unknown; 2 without a finding, 3 with" in out
    assert "pairs.tsv, line 2: {name} against nothing: Hallo {name} | Hello" in out


def test_json_alone_on_standard_output(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(pairs), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {name: rule["found"] for name, rule in found["rules"].items() if rule["found"]} == {
        "empty": 1,
        "placeholders": 1,
        "duplicate": 1,
    }


@pytest.mark.parametrize("name", ["clean.tsv", "clean.tsv.gz"])
def test_filtering_is_asked_for_and_told(pairs: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    before, out = pairs.read_bytes(), pairs.with_name(name)
    assert main(["doctor", str(pairs), "--quiet", "--write", str(out), "--ignore", "placeholders"]) == 0
    assert f"wrote 3 lines to {out} and left out 2" in capsys.readouterr().out
    raw = out.read_bytes()
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    assert text.splitlines() == [LINES[0], LINES[1], LINES[4]]
    assert pairs.read_bytes() == before


def test_reports_as_files(pairs: Path, tmp_path: Path) -> None:
    page, found = tmp_path / "doctor.html", tmp_path / "doctor.json"
    assert main(["doctor", str(pairs), "--quiet", "--html", str(page), "--json", str(found)]) == 0
    assert "<h1>The doctor on pairs.tsv</h1>" in page.read_text(encoding="utf-8")
    assert json.loads(found.read_text(encoding="utf-8"))["lines"] == 5


def test_two_files_and_a_test_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.de").write_text("Ein Hund.\nEine Katze.\n")
    (tmp_path / "t.en").write_text("A dog.\nA cat.\n")
    (tmp_path / "test.tsv").write_text("eine katze\tsomething\n")
    words = ["doctor", str(tmp_path / "t.{lang}"), "--source", "de", "--target", "en", "--quiet"]
    assert main([*words, "--test", str(tmp_path / "test.tsv")]) == 0
    assert "source in the test set" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere.tsv"], "no such file"),
        (["{pairs}", "--ignore", "ration"], 'there is no rule "ration" to ignore; did you mean "ratio"?'),
        (["{pairs}", "--write", "{pairs}"], "would write over what is read"),
        (["{pairs}", "--write", "out.txt"], "must end in .tsv or .tsv.gz"),
        (["{pairs}", "--most-ratio", "0.5"], "--most-ratio is 0.5; it must be at least 1"),
        (["{pairs}", "--source", "german"], 'language "german" is not one'),
        (["text.{lang}"], "say which: --source de --target en"),
        (["{pairs}", "--wirte", "x.tsv"], 'did you mean "--write"?'),
    ],
)
def test_mistakes(pairs: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    assert main(["doctor", *(word.replace("{pairs}", str(pairs)) for word in words)]) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.err.count("\n") == 1
    assert not told.out
