"""The page of a run: made by training itself, of all that happened, without a foreign address or a line of script."""

import json
from pathlib import Path
from typing import Any

import pytest

from qkv.train import report
from qkv.train.run import train
from tests.torture import trainee


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with samples and a report."""
    folder = tmp_path_factory.mktemp("report")
    recipe = trainee.recipe(folder, max_steps=6, validate_every=3, samples=2, report=True, report_seconds=0.0)
    assert train(recipe, folder / "run", quiet=True).finished
    return folder / "run"


def log(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def test_training_leaves_it(run: Path) -> None:
    made = (run / "report.html").read_text(encoding="utf-8")
    for head in ("Training", "Scores by length", "Samples over time", "Translations", "Command and versions"):
        assert f"<h2>{head}</h2>" in made
    for foreign in ("http:", "https:", "<script", "<link", "@import"):
        assert foreign not in made
    assert "The plan beside" not in made
    assert report.drawn(run) == made


def test_samples_are_of_the_same_sentences_at_each_validation(run: Path) -> None:
    seen = [line["samples"] for line in log(run) if "samples" in line]
    assert len(seen) == 2
    assert [[row[0] for row in each] for each in seen] == [[row[0] for row in seen[0]]] * 2
    pairs = [line.split("\t") for line in (run.parent / "dev.tsv").read_text().splitlines()[:2]]
    assert [[row[0], row[2]] for row in seen[0]] == pairs


def test_scores_by_length_have_intervals_and_add_up(run: Path) -> None:
    measured = json.loads((run / "report.json").read_text())
    assert measured["sentences"] == sum(bucket["sentences"] for bucket in measured["by_length"]) == 12
    for bucket in measured["by_length"]:
        for low, _, high in bucket["scores"].values():
            assert low <= high
    assert "|version:" in measured["scores"]["BLEU"][1]


def test_attention_is_drawn_token_by_token(run: Path) -> None:
    import qkv

    seen = report.attention(qkv.load(run), "ab ba", "ba ab")
    assert seen is not None
    assert seen["source"][-1] == seen["target"][-1] == "</s>"
    (layer,) = seen["layers"]
    assert (len(layer), len(layer[0])) == (len(seen["target"]), len(seen["source"]))
    assert all(sum(row) == pytest.approx(1, abs=0.01) for row in layer)
    assert report.attention(qkv.load(run), "ab " * 40, "ab") is None


def test_the_plan_stands_beside_what_happened(run: Path) -> None:
    happened = {"steps": 600, "minutes": 10.0, "parameters": 100, "tokens_per_second": 50.0, "memory": {"peak": 2e9}}
    found = report.beside(
        happened,
        {"parameters": 100},
        [{"step": 60, "elapsed": 120.0, "tokens_per_second": 40.0, "memory": 1_000_000_000}],
    )
    assert found == {
        "parameters": (100, 100),
        "tokens a second": (50.0, 40.0),
        "steps a minute": (60.0, 30.0),
        "peak memory, GB": (2.0, 1.0),
    }


def test_what_the_guard_did_is_on_it(tmp_path: Path, run: Path) -> None:
    (tmp_path / "run.json").write_text((run / "run.json").read_text())
    (tmp_path / "log.jsonl").write_text('{"step": 7, "guard": "skipped", "reason": "<b>no number</b>"}\n{"cut')
    made = report.drawn(tmp_path)
    assert "What the guard did" in made
    assert "&lt;b&gt;no number" in made


def test_a_recipe_may_do_without(tmp_path: Path) -> None:
    assert train(trainee.recipe(tmp_path, max_steps=1), tmp_path / "run", quiet=True).finished
    assert not (tmp_path / "run" / "report.html").exists()
    assert not any(line.get("samples") for line in log(tmp_path / "run"))
