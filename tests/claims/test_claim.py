"""Claims: bands that can be missed, outcomes that tell, a table that forgets nothing; and the quick ones are run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from qkv import registry
from qkv.claims.bench import Bench
from qkv.claims.claim import Check, Claim, claims, reproduce
from qkv.claims.table import drawn, keep
from qkv.claims.transformer_positions import offset_error
from qkv.cli.main import main
from qkv.errors import ConfigError
from qkv.registry import names


@pytest.mark.parametrize(
    ("check", "met", "band"),
    [
        (Check.near("x", 1.0, 1.02, 0.03), True, "0.99 to 1.05"),
        (Check.near("x", 1.06, 1.02, 0.03), False, "0.99 to 1.05"),
        (Check("x", 0.5, low=0.5), True, "at least 0.5"),
        (Check("x", 0.49, low=0.5), False, "at least 0.5"),
        (Check("x", 0.51, high=0.5), False, "at most 0.5"),
        (Check("x", float("nan"), high=0.5), False, "at most 0.5"),
        (Check("x", 3.0, paper="5"), None, "stated"),
    ],
)
def test_a_band_is_met_or_missed(check: Check, met: bool | None, band: str) -> None:
    assert check.met is met
    assert check.band == band


def test_each_claim_says_what_it_is() -> None:
    for name, claim in claims().items():
        family, _, said = name.partition("/")
        assert family and said, name
        assert claim.paper and claim.statement and claim.minutes >= 0


@pytest.mark.parametrize("name", ["transformer/parameters", "transformer/cost"])
def test_what_is_exact_is_as_expected(name: str, tmp_path: Path) -> None:
    outcome = reproduce(name, Bench(tmp_path))
    assert outcome.met
    assert len([check for check in outcome.checks if check.met is not None]) >= 4


def test_sinusoids_turn_by_an_offset() -> None:
    assert offset_error() < 1e-4
    assert offset_error(offset=3) < 1e-4


def wrong(bench: Bench) -> Iterator[Check]:
    yield Check("right", 1.0, low=0.5)
    yield Check("wrong", 0.1, low=0.5, paper="0.9")


claim = Claim("A paper", "something is so", 0.0, wrong)


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> str:
    """A claim that lies outside its band."""
    monkeypatch.setitem(registry.TABLE, "claim", dict(registry.TABLE["claim"]))
    registry.register("claim", "made/up", f"{__name__}:claim")
    return "made/up"


def test_a_miss_is_told_by_the_exit_code(missing: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["reproduce", missing, "--work", str(tmp_path), "--table", str(tmp_path / "claims.md")]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert "MISSED  wrong: 0.1, expected at least 0.5  (paper: 0.9)" in out
    assert "OUTSIDE ITS BAND" in out
    table = (tmp_path / "claims.md").read_text()
    assert "| `made/up` | something is so |" in table
    assert "**outside its band**" in table
    assert "| wrong | 0.1 | at least 0.5 | 0.9 | **missed** |" in table


def test_the_table_has_a_row_for_what_was_not_run(tmp_path: Path) -> None:
    outcome = reproduce("transformer/parameters", Bench(tmp_path))
    keep(tmp_path / "claims.md", [outcome])
    keep(tmp_path / "claims.md", [])
    table = (tmp_path / "claims.md").read_text()
    for name in names("claim"):
        assert f"| `{name}` |" in table
    assert table.count("not run yet") == len(names("claim")) - 1
    assert drawn({}).count("not run yet") == len(names("claim"))


def test_claims_are_listed_and_chosen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["reproduce", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[0] != " "] == names("claim")
    assert main(["reproduce", "--list", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["claims"]] == names("claim")
    assert main(["reproduce", "transformer/parameters", "--json", "--work", str(tmp_path)]) == 0
    (found,) = json.loads(capsys.readouterr().out)["claims"]
    assert found["met"] is True
    assert found["checks"][0]["band"] == "63 to 63.1"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["transformer/parameter"],
            'no claim is called "transformer/parameter"; did you mean "transformer/parameters"?',
        ),
        (["transformer/positions", "--max-minutes", "1"], "no claim takes 1 minutes or less"),
        (["--max-minuets", "1"], 'did you mean "--max-minutes"'),
    ],
)
def test_mistakes(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_bench_makes_a_file_once_and_says_which_data_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, made = Bench(tmp_path), []

    def write(path: Path) -> None:
        made.append(path)
        path.write_text("x")

    assert bench.file("a.txt", write) == bench.file("a.txt", write)
    assert len(made) == 1
    monkeypatch.setenv("QKV_DATA", str(tmp_path))
    (tmp_path / "multi30k").mkdir()
    assert bench.data("multi30k") == tmp_path / "multi30k"
    with pytest.raises(ConfigError, match="set QKV_DATA so that QKV_DATA/tatoeba is its folder"):
        bench.data("tatoeba")


def test_a_training_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from qkv.claims.transformer_label_smoothing import tree
    from qkv.data.synthetic import reversals, write_pairs

    bench = Bench(tmp_path)
    pairs = reversals(60, vocabulary=5, shortest=1, longest=3, seed=1)
    files = [str(bench.file(name, lambda path: write_pairs(path, pairs))) for name in ("train.tsv", "dev.tsv")]
    small = tree(files, 0.1)
    small["model"] = {**small["model"], "width": 16, "mixer": {"heads": 2}, "feedforward": {"hidden": 16}}
    small["train"] = {**small["train"], "max_steps": 2}
    first = bench.train("tiny", small)
    assert 0 < first.nll() < 20
    assert 0 <= first.right(pairs[:5]) <= 1
    monkeypatch.setattr("qkv.train.run.train", None)
    assert bench.train("tiny", small).folder == first.folder
    small["objective"] = {"smoothing": 0.2}
    with pytest.raises(TypeError):
        bench.train("tiny", small)


def test_reversals_are_backwards() -> None:
    from qkv.data.synthetic import reversals, words

    pairs = reversals(50, vocabulary=30, shortest=2, longest=4, seed=1)
    assert pairs == reversals(50, vocabulary=30, shortest=2, longest=4, seed=1)
    for source, target in pairs:
        assert source.split()[::-1] == target.split()
        assert 2 <= len(source.split()) <= 4
    assert len(set(words(60))) == 60
