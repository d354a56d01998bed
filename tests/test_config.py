"""Closed configuration: what a constructor's signature says is what may be set, and a mistake names its remedy."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv import config
from qkv.config import Count, Part, Positive, Probability, Raw, Settings, Share, part, resolve, section
from qkv.errors import ConfigError
from qkv.nn.mixers.base import Mixer


@dataclass(frozen=True, kw_only=True)
class Loss(Settings):
    """A section with a part inside."""

    smoothing: Share = 0.1
    mixer: Part[Mixer] = Part("mixer", "attention")


def network(
    given: int,
    /,
    *,
    size: Count,
    rate: Probability = 0.1,
    lr: Positive = 1e-3,
    name: str = "base",
    note: str | None = None,
    order: Literal["pre", "post"] = "post",
    steps: tuple[Count, ...] = (1,),
    flag: bool = False,
    mixer: Part[Mixer] = Part("mixer", "attention", {"heads": 4}),
    other: Part[Mixer] | None = None,
    loss: Loss = Loss(),
) -> dict[str, Any]:
    return dict(locals())


network.presets = {"big": {"size": 99, "mixer": {"name": "attention", "heads": 16}}}  # type: ignore[attr-defined]


def settled(**options: Any) -> dict[str, Any]:
    return resolve(network, {"size": 3, **options})


def typed(*pairs: tuple[str, str]) -> dict[str, Any]:
    return resolve(network, config.overridden({"size": 3}, list(pairs)))


def test_every_default_is_written_out() -> None:
    out = settled()
    assert set(out) == set(config.settings_of(network))
    assert out["rate"] == 0.1 and out["mixer"].options["heads"] == 4 and out["mixer"].options["bias"] is True
    assert out["loss"].mixer.options["heads"] == 8, "parts inside a default section are filled in too"
    assert out["other"] is None


def test_what_must_be_given() -> None:
    with pytest.raises(ConfigError, match="size must be given"):
        resolve(network, {})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rat": 0.1}, 'the config has no "rat"; did you mean "rate"'),
        ({"mixer": {"head": 4}}, 'mixer has no "head"; did you mean "heads"'),
        ({"mixer": "atention"}, 'no mixer is called "atention"; did you mean "attention"'),
        ({"loss": {"smothing": 0.1}}, 'loss has no "smothing"; did you mean "smoothing"'),
        ({"loss": {"mixer": {"heads": "four"}}}, "loss.mixer.heads is 'four'"),
        ({"loss": 3}, "loss is 3; it wants settings: smoothing, mixer"),
        ({"mixer": 3}, "mixer is 3; it wants the name of a mixer: attention"),
        ({"other": {"heads": 3}}, "other needs a name; known: attention"),
        ({"size": "3"}, "size is '3'"),
        ({"size": 3.5}, "size is 3.5"),
        ({"size": True}, "size is True"),
        ({"size": 0}, "size is 0: input should be greater than 0"),
        ({"rate": 1}, "rate is 1: input should be less than 1"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"lr": -1e-3}, "lr is -0.001: input should be greater than 0"),
        ({"flag": 1}, "flag is 1"),
        ({"order": "both"}, "order is 'both': input should be 'pre' or 'post'"),
        ({"steps": [1, 0]}, r"steps is \[1, 0\]"),
        ({"name": None}, "name is None"),
        ({3: 4}, 'the config has no "3"'),
        ({"preset": "bigg"}, 'preset "bigg" is not known; did you mean "big"'),
    ],
    ids=str,
)
def test_a_mistake_names_value_and_remedy(options: dict[Any, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        resolve(network, {"size": 3, **options})


def test_what_is_near_enough_is_taken() -> None:
    out = settled(lr=1, steps=[2, 3], mixer="lstm", note=None, other={"name": "lstm"})
    assert out["lr"] == 1.0 and out["steps"] == (2, 3) and out["mixer"].name == "lstm"


def test_a_date_where_text_is_wanted_asks_for_quotes() -> None:
    with pytest.raises(ConfigError, match=r"name is .*put quotes around it"):
        settled(**config.parse("name: 2020-01-01", "x"))


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        ("name", "no", "no"),
        ("name", "8", "8"),
        ("name", "1e-3", "1e-3"),
        ("name", "null", "null"),
        ("name", "", ""),
        ("name", "2020-01-01", "2020-01-01"),
        ("name", "a: b: c", "a: b: c"),
        ("name", "[x", "[x"),
        ("name", "*.txt", "*.txt"),
        ("note", "null", None),
        ("note", "7", "7"),
        ("lr", "1e-4", 1e-4),
        ("lr", "2", 2.0),
        ("size", "8", 8),
        ("flag", "true", True),
        ("steps", "[1, 2]", (1, 2)),
        ("order", "pre", "pre"),
    ],
)
def test_what_is_typed_is_text_where_text_is_wanted_and_a_number_where_not(key: str, raw: str, value: Any) -> None:
    assert typed((key, raw))[key] == value
    assert not isinstance(typed((key, raw))[key], Raw)


@pytest.mark.parametrize(("key", "raw"), [("flag", "yes"), ("size", "8.0"), ("size", "eight"), ("steps", "[1, 2")])
def test_what_is_typed_wrongly(key: str, raw: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} is "):
        typed((key, raw))


def test_dotted_overrides_lie_on_defaults_presets_and_one_another() -> None:
    assert typed(("mixer.bias", "false"))["mixer"].options["heads"] == 4
    big = resolve(network, config.overridden({"preset": "big"}, [("mixer.bias", "false")]))
    assert big["size"] == 99 and big["mixer"].options["heads"] == 16 and big["mixer"].options["bias"] is False
    assert typed(("size", "4"), ("size", "5"))["size"] == 5
    assert typed(("loss.smoothing", "0.2"))["loss"].smoothing == 0.2
    assert typed(("loss.mixer.heads", "2"))["loss"].mixer.options["heads"] == 2
    assert typed(("other", "attention"), ("other.heads", "2"))["other"].options["heads"] == 2


def test_switching_a_name_forgets_the_old_ones_options() -> None:
    assert "heads" not in typed(("mixer.heads", "2"), ("mixer.name", "lstm"))["mixer"].options
    assert "heads" not in typed(("mixer", "lstm"))["mixer"].options
    tree = {"mixer": {"name": "attention", "heads": 2, "bias": False}}
    assert config.merged(tree, {"mixer": {"name": "lstm"}}) == {"mixer": {"name": "lstm"}}
    kept = config.merged(tree, {"mixer": {"name": "attention", "heads": 3}})
    assert kept == {"mixer": {"name": "attention", "heads": 3, "bias": False}}
    assert tree["mixer"]["heads"] == 2, "what lies below is not changed"


def test_sections_and_parts_round_trip() -> None:
    loss = section(Loss, {"smoothing": 0.3, "mixer": {"name": "lstm", "cells": 4}})
    assert section(Loss, config.plain(loss)) == loss
    chosen = part("mixer", {"name": "convolution", "dilations": [1, 2]})
    assert chosen.options["dilations"] == (1, 2) and part("mixer", config.plain(chosen)) == chosen
    assert part("mixer", chosen) == chosen and len({chosen, part("mixer", config.plain(chosen))}) == 1


def test_a_part_is_built_of_what_is_given_and_what_is_set() -> None:
    assert part("norm", {"name": "layer", "epsilon": 0.5}).build(7).weight.shape == (7,)


NUMBERS = st.booleans() | st.integers(-(1 << 40), 1 << 40) | st.floats(allow_nan=False)


@given(st.recursive(
    st.none() | NUMBERS | st.text("no1e-3.:x# \n"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abno", min_size=1), inner, max_size=3),
    max_leaves=6,
))  # fmt: skip
def test_what_is_dumped_reads_back(tree: Any) -> None:
    assert config.parse(config.dump({"key": tree}), "x") == {"key": tree}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("1e-3", 1e-3),
        ("0x1F", 31),
        ("1:30", "1:30"),
        ("010", 10),
        ("~", None),
    ],
)
def test_yaml_is_read_by_the_rules_of_1_2(text: str, value: Any) -> None:
    assert config.parse(f"lang: {text}", "x") == {"lang": value}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x 1\nb: *x", "line 1: tags, anchors and aliases"),
        ("a: !!python/object/apply:os.system ['true']", "tags, anchors"),
        ("a: !!str 1", "tags, anchors"),
        ("a: [1, 2", "is not YAML"),
        ("a: 1\na: 2", "is not YAML"),
        ("--- \na: 1\n---\nb: 2", "is not YAML"),
        ("[" * 1000, "nested more than 32 deep"),
        ("\n".join(" " * i + "a:" for i in range(60)), "nested more than 32 deep"),
    ],
    ids=range(8),
)
def test_yaml_that_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config.parse(text, "run.yaml")


def test_files_that_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    with pytest.raises(ConfigError, match="is not there"):
        config.read(path)
    path.write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="cannot be read as UTF-8"):
        config.read(path)
    path.write_text("- 1")
    with pytest.raises(ConfigError, match="holds list; a config is a mapping"):
        config.read(path)
    path.write_text("a: " + "x" * config.LARGEST_FILE)
    with pytest.raises(ConfigError, match="a config has at most 16,384"):
        config.read(path)
    path.write_text("lang: no\n")
    assert config.read(path) == {"lang": "no"}


def test_naming_the_same_part_once_more_keeps_its_options() -> None:
    written = {"model": {"mixer": {"name": "attention", "heads": 2}}}
    assert config.overridden(written, [("model.mixer", "attention")]) == written
    assert config.overridden(written, [("model.mixer", "lstm")])["model"]["mixer"] == "lstm"
