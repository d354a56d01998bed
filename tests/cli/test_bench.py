"""`qkv bench` as it is typed."""

import json
from pathlib import Path

import pytest

from qkv.cli.main import main
from tests.torture import trainee


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return trainee.write_recipe(tmp_path, max_steps=40)


def test_speed_and_profile_for_people(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "train", "--config", str(recipe), "--steps", "2", "--quiet", "--profile"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line[:10].strip() for line in out[:4]] == ["speed", "a step", "work", "memory"]
    assert any(line.strip().startswith("matrix") for line in out[5:])
    assert not (recipe.parent / "runs").exists(), "nothing is kept"


def test_speed_for_programs(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "train", "--config", str(recipe), "--steps", "2", "--quiet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["steps"] == 2 and found["tokens_per_second"] > 0 and "profile" not in found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["translate"], "invalid choice: 'translate'"),
        (["train", "--steps", "0"], "--steps is 0; at least 1"),
        (["train", "--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_mistakes(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert sentence in capsys.readouterr().err
