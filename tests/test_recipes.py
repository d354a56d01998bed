"""Every recipe loads, says what it costs and names its own command; the paper's own count as the paper does."""

from pathlib import Path

import pytest

from qkv.cli.main import main
from qkv.train.outlook import outlook
from qkv.train.recipe import recipe

ROOT = Path(__file__).parents[1]
RECIPES = sorted((ROOT / "recipes").rglob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_it_loads_and_its_header_names_its_command(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = str(path.relative_to(ROOT))
    header = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    assert any(f"qkv train --config {name}" in line for line in header)
    assert main(["train", "--config", str(path), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f"{outlook(recipe(path, [])).parameters:,} parameters" in said


@pytest.mark.parametrize(
    ("name", "parameters", "steps", "average", "dropout"),
    [
        ("wmt14-en-de-base", 63_045_632, 100_000, 5, 0.1),
        ("wmt14-en-de-big", 214_171_648, 300_000, 20, 0.3),
        ("wmt14-en-fr-base", 60_485_632, 100_000, 5, 0.1),
        ("wmt14-en-fr-big", 209_051_648, 300_000, 20, 0.1),
    ],
)
def test_the_papers_recipes(name: str, parameters: int, steps: int, average: int, dropout: float) -> None:
    made = recipe(ROOT / "recipes/transformer" / f"{name}.yaml", [])
    found = outlook(made)
    assert found.parameters == parameters and found.limits == {"max_steps": steps}
    assert found.peak_rate == pytest.approx(6.988e-4 if "base" in name else 4.941e-4, rel=1e-3)
    assert (made.train.average, made.model.options["dropout"]) == (average, dropout)
    assert (made.decode.beams, made.decode.length_norm, made.decode.length_penalty) == (4, "gnmt", 0.6)
    assert made.objective.options["smoothing"] == 0.1
