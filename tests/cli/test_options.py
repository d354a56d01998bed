"""Flags and overrides: dotted values in both spellings and in order, and complaints that name the nearest flag."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.cli.options import Parser, run_parser, split_overrides
from qkv.errors import ConfigError

KEYS = st.from_regex(r"[a-z][a-z_0-9]{0,6}(\.[a-z_0-9]{1,6}){1,3}", fullmatch=True)
VALUES = st.text().filter(lambda value: not value.startswith("--"))


def train() -> Parser:
    parser = run_parser("train", "Train a model.", examples=["qkv train --config run.yaml"])
    parser.add_argument("--steps", type=int)
    return parser


def test_overrides_in_both_spellings_keep_their_order() -> None:
    argv = [
        "--config",
        "run.yaml",
        "--data.source",
        "de",
        "--steps",
        "3",
        "--data.source=fr",
        "--optim.decay.rate",
        "-1",
    ]
    options, overrides = train().read_run(argv)
    assert (options.config, options.steps, options.print_config) == ("run.yaml", 3, False)
    assert overrides == [("data.source", "de"), ("data.source", "fr"), ("optim.decay.rate", "-1")]


@given(pairs=st.lists(st.tuples(KEYS, VALUES, st.booleans())))
def test_any_value_comes_through(pairs: list[tuple[str, str, bool]]) -> None:
    argv = [word for key, value, joined in pairs for word in ([f"--{key}={value}"] if joined else [f"--{key}", value])]
    assert split_overrides(["first", *argv, "last"]) == (["first", "last"], [(key, value) for key, value, _ in pairs])


@pytest.mark.parametrize("argv", [["--train.resume"], ["--train.resume", "--steps", "3"]])
def test_a_switch_wants_its_value(argv: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"--train\.resume needs a value.*--train\.resume true"):
        split_overrides(argv)


def test_nothing_is_an_override_after_two_dashes() -> None:
    assert split_overrides(["--a.b", "1", "--", "--c.d", "2"]) == (["--", "--c.d", "2"], [("a.b", "1")])


def test_an_unknown_flag_gets_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r'train: there is no flag "--conifg"; did you mean "--config"\?'):
        train().read_run(["--conifg", "run.yaml"])


def test_flags_are_not_abbreviated() -> None:
    with pytest.raises(ConfigError, match=r'"--conf"; did you mean "--config"\?'):
        train().read_run(["--conf", "run.yaml"])


def test_a_config_that_stands_alone_is_understood() -> None:
    with pytest.raises(ConfigError, match=r"did you mean --config run\.yaml\?"):
        train().read_run(["run.yaml"])


def test_a_verb_without_a_config_says_nothing_of_dots() -> None:
    with pytest.raises(ConfigError) as caught:
        Parser("env", "Show.").read(["--wide"])
    assert "dots" not in str(caught.value)


def test_a_wrong_type_is_ours_to_say() -> None:
    with pytest.raises(ConfigError, match=r"train: argument --steps: invalid int value: 'many'"):
        train().read_run(["--steps", "many"])


def test_one_word_too_many() -> None:
    with pytest.raises(ConfigError, match='"Welt" is one word too many'):
        Parser("env", "Show.").read(["Welt"])


def test_help_groups_and_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        train().read_run(["--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert "the run:" in shown
    assert "examples:\n  qkv train --config run.yaml" in shown
