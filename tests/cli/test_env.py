"""`qkv env` tells the truth about this process, as text and as JSON."""

import json
import platform

import pytest
import torch

from qkv import runtime
from qkv.cli import env


def test_json_holds_the_facts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QKV_DATA", raising=False)
    assert env.run(["--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["python"] == platform.python_version()
    assert shown["libraries"]["torch"] == torch.__version__
    assert shown["precision"] == runtime.pick_precision(runtime.this_machine())
    assert shown["threads"] == 1
    assert shown["device"] == str(runtime.device())
    assert shown["qkv_data"] is None


def test_text_has_one_fact_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert env.run([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(env.facts())


def test_values_are_shown_as_words() -> None:
    found: dict[str, object] = {"a": [], "long": {"b": None, "c": True}, "d": [{"name": "x"}, False]}
    assert env.as_text(found) == "a     none\nlong  b none, c yes\nd     name x, no"


def test_a_library_that_is_not_there_is_none() -> None:
    assert env.installed("a-library-that-nobody-made") is None
