"""The examination: exact counts, lines by their numbers, the same examples in every run; and planted errors."""

from pathlib import Path

import pytest

from qkv.data.doctor.examine import BUCKETS, Findings, examine
from qkv.data.doctor.language import Languages
from qkv.data.doctor.report import as_html, as_json, as_text, buckets
from qkv.data.doctor.rules import Limits, key_of, rules
from qkv.data.sources import Pair, ParallelText
from tests.data.doctor.planted import KINDS, plant


def examined(corpus: ParallelText, **settings: object) -> tuple[Findings, list[bool]]:
    used = settings.pop("rules", rules())
    found, lines = examine([corpus], used, **settings)  # type: ignore[arg-type]
    return found, [line.keep for line in lines]


def tsv(folder: Path, pairs: list[Pair], name: str = "text.tsv") -> ParallelText:
    path = folder / name
    path.write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8", newline="\n")
    return ParallelText(path, bad_lines="skip")


def sentence(number: int, word: str) -> str:
    """A sentence of its own for each number, without digits."""
    letters = "".join("abcdefghij"[int(digit)] for digit in f"{number:05}")
    return f"{word} {letters} {word} {letters[::-1]} {word}."


def test_counts_lines_and_reasons(tmp_path: Path) -> None:
    path = tmp_path / "text.tsv"
    lines = [b"gut\tgood", b"", b"nur eins", b"b\xff\tbad", b"x\0y\tz", b"gut\tgood", b"Gut!\tGood.", b"\tnothing"]
    path.write_bytes(b"\n".join(lines) + b"\n")
    found, kept = examined(ParallelText(path, bad_lines="skip"))
    assert kept == [True, False, False, False, False, False, False, False]
    assert (found.lines, found.kept) == (8, 1)
    counts = {name: tally.found for name, tally in found.tallies.items() if tally.found}
    assert counts == {"empty": 2, "malformed": 1, "encoding": 1, "control": 1, "duplicate": 2}
    assert [e.line for e in found.tallies["duplicate"].examples] == [6, 7]
    assert found.tallies["encoding"].examples[0].why == "not UTF-8"
    assert sum(found.by_length) == 8


def test_a_text_s_key_forgets_case_punctuation_and_spacing() -> None:
    assert key_of("Ein  Hund!") == key_of("ein hund") != key_of("ein Hut")
    assert key_of("?!") == "?!"


def test_leaks_on_either_side(tmp_path: Path) -> None:
    pairs = [Pair("Ein Hund.", "A dog."), Pair("Eine Katze.", "A cat."), Pair("Ein Haus.", "A house.")]
    test = tsv(tmp_path, [Pair("ein hund", "The hound"), Pair("Die Katze", "a cat!")], "test.tsv")
    found, kept = examined(tsv(tmp_path, pairs), tests=[test])
    assert kept == [False, False, True]
    assert [e.why for e in found.tallies["leak"].examples] == ["source in the test set", "target in the test set"]
    assert "leak" not in examined(tsv(tmp_path, pairs))[0].tallies


def test_limits_are_the_asker_s(tmp_path: Path) -> None:
    pairs = [Pair("a b c d e f", "eins zwei"), Pair("x" * 50, "y"), Pair("Eins zwei drei", "eins zwei drei")]
    corpus = tsv(tmp_path, pairs)
    assert examined(corpus)[1] == [True, False, True]
    assert examined(corpus, rules=rules(Limits(most_words=5)))[1] == [False, False, True]
    assert examined(corpus, rules=rules(Limits(most_ratio=9.0, copy_words=3)))[1] == [True, True, False]
    assert examined(corpus, ignore=["ratio"])[1] == [True, True, True]


def test_examples_are_few_and_always_the_same(tmp_path: Path) -> None:
    corpus = tsv(tmp_path, [Pair("Hund", "dog")] * 500)
    first, second = (examined(corpus, examples=4)[0].tallies["duplicate"] for _ in range(2))
    assert first.found == 499
    assert len(first.examples) == 4
    assert first.examples == second.examples
    assert max(e.line for e in first.examples) > 100
    assert examined(corpus, examples=0)[0].tallies["duplicate"].examples == []


def test_planted_errors_are_found_and_little_else(tmp_path: Path) -> None:
    good = [Pair(f"Der alte Mann {sentence(i, 'geht')}", f"The old man {sentence(i, 'walks')}") for i in range(3000)]
    planted = plant(good, each=40)
    corpus, test = tsv(tmp_path, planted.pairs), tsv(tmp_path, planted.test, "test.tsv")
    used = {name: rule for name, rule in rules(languages=Languages(("de", "en"))).items() if name != "language"}
    found, kept = examined(corpus, rules=used, tests=[test], examples=10_000)
    for name in {*KINDS, "duplicate", "leak"} - {"language"}:
        spoken = {e.line - 1 for e in found.tallies[name].examples}
        assert len(planted.where[name] & spoken) >= 38, name
        assert len(planted.clean & spoken) <= 0.01 * len(planted.clean), name
    assert not any(kept[i] for i in planted.where["duplicate"])
    assert sum(kept[i] for i in planted.clean) >= 0.99 * len(planted.clean)


@pytest.fixture
def findings(tmp_path: Path) -> Findings:
    pairs = [Pair("Hallo {name}", "Hello"), Pair("<script>alert(1)</script>", "x"), Pair("gut\u202eso", "good")]
    return examined(tsv(tmp_path, pairs))[0]


def test_the_report_for_programs_holds_all_of_it(findings: Findings) -> None:
    made = as_json(findings)
    assert made["lines"] == 3
    assert made["rules"]["placeholders"]["found"] == 2
    assert made["rules"]["placeholders"]["examples"][0]["why"] == "{name} against nothing"
    assert list(made["lengths"]) == buckets()
    assert len(buckets()) == len(BUCKETS)


def test_the_report_for_a_terminal_shows_what_nobody_sees(findings: Findings) -> None:
    text = as_text(findings)
    assert "gut<U+202E>so" in text
    assert "\u202e" not in text
    assert "nothing of: empty" in text


def test_the_page_holds_no_line_as_markup(findings: Findings) -> None:
    made = as_html(findings, "<i>title</i>")
    assert "<script" not in made
    assert "&lt;script&gt;alert(1)" in made
    assert "<i>" not in made
    assert "http" not in made
    assert "prefers-color-scheme: dark" in made
