"""`qkv plan` as it is typed."""

import json
from pathlib import Path

import pytest

from qkv.cli.main import main
from tests.torture import trainee


def test_a_plan_for_people_and_one_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    machine = tmp_path / "server.yaml"
    machine.write_text("{name: server, bf16_gflops: 9000, fp32_gflops: 4000, memory_gb: 64}")
    recipe = trainee.write_recipe(tmp_path, max_steps=40)
    words = ["plan", str(recipe), "--quiet", "--machine", str(machine), "--save", "plan.json"]
    assert main(words) == 0
    out = capsys.readouterr().out
    heads = ["model", "memory", "a step", "speed", "an epoch", "the run", "disk"]
    assert [line[:10].strip() for line in out.splitlines() if line[:2] not in ("", "on")] == heads * 2
    assert "on server, unverified" in out
    assert "40 steps" in out
    saved = json.loads((tmp_path / "plan.json").read_text())
    assert saved["steps"] == saved["elsewhere"]["steps"] == 40
    assert saved["elsewhere"]["unverified"] is True


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere.yaml"], "nowhere.yaml"),
        (["a.yaml", "--config", "b.yaml"], "two recipes: a.yaml and --config b.yaml"),
        (["--data.train", "x.tsv"], "training has no end"),
        (["--machine", "nowhere.yaml", "--data.train", "x.tsv"], "nowhere.yaml"),
    ],
)
def test_mistakes(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == 1
