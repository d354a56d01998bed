"""A run's config: strict, overridden in order, printed and read back the same; what may differ when a run goes on."""

from pathlib import Path
from typing import Any

import pytest

from qkv import config
from qkv.errors import ConfigError
from qkv.train.recipe import Recipe, differences, recipe

ROOT = Path(__file__).resolve().parents[2]
LEAST = [("data.train", "pairs.tsv"), ("train.max_steps", "10")]


def changed(*overrides: tuple[str, str]) -> list[str]:
    """What differs between the least recipe and one with overrides."""
    return differences(config.plain(recipe(None, LEAST)), config.plain(recipe(None, [*LEAST, *overrides])))


def test_the_least_recipe_is_the_paper_s_base_model() -> None:
    found = recipe(None, LEAST)
    assert (found.model.name, found.model.options["width"], found.model.options["dropout"]) == ("transformer", 512, 0.1)
    assert (found.objective.options, found.schedule.options) == ({"smoothing": 0.1}, {"factor": 1.0, "warmup": 4000})
    assert found.optim.options == {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9}
    assert found.data.options["train"] == "pairs.tsv"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("optim.lerning_rate", "1", 'optim has no "lerning_rate"'),
        ("train.max_stpes", "1", 'train has no "max_stpes"; did you mean "max_steps"?'),
        ("trian.max_steps", "1", 'the config has no "trian"; did you mean "train"?'),
        ("schedule", "cosin", 'no schedule is called "cosin"; did you mean "cosine"?'),
        ("train.max_steps", "many", "train.max_steps is 'many'"),
        ("train.max_steps", "0", "train.max_steps is 0: input should be greater than 0"),
        ("train.ema", "1.0", "train.ema is 1.0: input should be less than 1"),
        ("train.tensorboard", "no", "train.tensorboard is 'no'"),
        ("objective.smoothing", "-0.1", "objective.smoothing is -0.1"),
        ("train.precision", "fp16", "train.precision is 'fp16': input should be 'auto', 'bf16' or 'fp32'"),
        ("data.max_length", "10000000", "less than or equal to 1048576"),
    ],
)
def test_mistakes_are_named(key: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        recipe(None, [*LEAST, (key, value)])
    assert words in str(caught.value)
    assert str(caught.value).endswith("(qkv train --data.train FILE --print-config shows all settings)")


def test_a_mistake_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("data: {train: a.tsv}\ntrain: {max_steps: 3, x: 1}\n")
    with pytest.raises(ConfigError, match=rf'^{path}: train has no "x"'):
        recipe(path, [])
    with pytest.raises(ConfigError, match=rf'^{path} \+ overrides: train has no "x"'):
        recipe(path, LEAST)
    with pytest.raises(ConfigError, match=r"^data\.train must be given"):
        recipe(None, [])


def test_overrides_are_laid_on_the_file_in_order(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("data: {train: a.tsv, source: no}\ntrain: {max_steps: 3, seed: 8}\nschedule: cosine\n")
    found = recipe(path, [("train.max_steps", "4"), ("train.max_steps", "5"), ("model.mixer.heads", "4")])
    assert (found.train.max_steps, found.train.seed) == (5, 8)
    assert found.model.options["mixer"].options["heads"] == 4
    assert found.data.options["source"] == "no", "YAML 1.2: no is Norwegian"


def test_what_is_printed_is_read_back_the_same(tmp_path: Path) -> None:
    overrides = [("data.weights", "[1.5]"), ("optim", "adamw"), ("model.preset", "tiny"), ("train.ema", "0.999")]
    first = recipe(None, [*LEAST, *overrides])
    path = tmp_path / "printed.yaml"
    path.write_text(config.dump(first), encoding="utf-8")
    second = recipe(path, [])
    assert config.plain(second) == config.plain(first)
    assert config.dump(second) == config.dump(first)


def test_training_must_end_and_preparing_need_not() -> None:
    found = recipe(None, LEAST[:1])
    with pytest.raises(ConfigError, match=r"set one of train\.max_steps, train\.max_epochs, train\.max_minutes"):
        found.check_end()
    for name in ("max_steps", "max_epochs", "max_minutes"):
        recipe(None, [*LEAST[:1], (f"train.{name}", "1")]).check_end()


@pytest.mark.parametrize(
    "name", ["train.max_steps", "train.patience", "train.keep", "train.report_seconds", "data.folder", "data.cache"]
)
def test_what_touches_no_step_may_change(name: str) -> None:
    assert changed((name, "7")) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("train.max_tokens", "7"), ("train.parts", "2"), ("data.train", "b.tsv"), ("model.mixer.heads", "4")],
)
def test_what_touches_a_step_may_not(name: str, value: str) -> None:
    assert changed((name, value)) == [name]
    assert changed(("train.seed", "2"), (name, value)) == sorted([name, "train.seed"])


def test_another_part_is_named_with_its_options() -> None:
    assert changed(("schedule", "constant")) == ["schedule.factor", "schedule.name", "schedule.peak", "schedule.warmup"]


@pytest.mark.parametrize(("steps", "expected"), [([], ["train.max_steps"]), ([("schedule.steps", "50")], [])])
def test_the_end_may_not_move_where_the_rate_follows_it(steps: list[tuple[str, str]], expected: list[str]) -> None:
    cosine: list[tuple[str, str]] = [*LEAST, ("schedule", "cosine"), *steps]
    old, new = recipe(None, cosine), recipe(None, [*cosine, ("train.max_steps", "99")])
    assert differences(config.plain(old), config.plain(new)) == expected


def test_a_tree_that_is_none_differs_in_all() -> None:
    assert differences(None, config.plain(recipe(None, LEAST))) == ["all of it"]


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_of_the_house_is_valid(path: Path) -> None:
    needed: list[tuple[str, str]] = [] if "train:" in _data(path) else [LEAST[0]]
    found: Any = recipe(path, needed)
    assert isinstance(found, Recipe)
    found.check_end()


def _data(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("data:")[2].partition("model:")[0]
