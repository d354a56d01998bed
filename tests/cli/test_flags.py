"""The verbs and their flags are frozen: a change shows up as a change of tests/cli/flags/VERB.txt.

`UPDATE_SNAPSHOTS=1` writes the files anew, for the author of a flag to commit with it.
"""

import os
import re
from importlib import import_module
from pathlib import Path

import pytest

from qkv.cli.main import VERBS
from tests.cli.usage import help_of, usage_of

CLI = Path(__file__).resolve().parents[2] / "qkv" / "cli"
SNAPSHOTS = Path(__file__).parent / "flags"
PLANNED = """prepare train translate generate encode evaluate explain compress convert verify plan doctor serve
reproduce bench env"""


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_flags_are_frozen(verb: str) -> None:
    snapshot = SNAPSHOTS / f"{verb}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS") == "1":
        snapshot.write_text(usage_of(verb), encoding="utf-8")
    assert usage_of(verb) == snapshot.read_text(encoding="utf-8")


def test_verbs_are_frozen() -> None:
    order = PLANNED.split()
    assert set(VERBS) <= set(order)
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == set(VERBS)
    assert list(VERBS) == sorted(VERBS, key=order.index)


def test_every_file_of_the_room_is_a_verb_or_serves_them() -> None:
    files = {path.stem for path in CLI.glob("*.py")} - {"__init__", "main", "options"}
    with_run = {name for name in files if hasattr(import_module(f"qkv.cli.{name}"), "run")}
    assert with_run == set(VERBS)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_shows_an_example(verb: str) -> None:
    assert re.search(rf"examples:\n  .*\bqkv {verb}\b", help_of(verb))
