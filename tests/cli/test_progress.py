"""Progress is told now and then, with the rate and the time left."""

import io

import pytest

from qkv.cli import progress
from qkv.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_rate_and_time_left() -> None:
    told = Progress("lines", total=4000, stream=io.StringIO())
    assert told.line(1000, 10.0) == "1,000 of 4,000 lines, 100.0 a second, 30 s left"
    assert Progress("lines", stream=io.StringIO()).line(1000, 10.0) == "1,000 lines, 100.0 a second"
    assert told.line(0, 0.0) == "0 of 4,000 lines, 0.0 a second"


def test_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock)
    stream = io.StringIO()
    told = Progress("lines", total=10, stream=stream)
    told(1)
    assert stream.getvalue() == ""
    clock = 102.0
    told(2)
    clock = 103.0
    told(3)
    assert stream.getvalue() == "2 of 10 lines, 1.0 a second, 8 s left\n"
    told.end(10)
    assert stream.getvalue().splitlines()[-1].startswith("10 of 10 lines")


def test_what_is_quick_says_nothing_and_a_terminal_s_line_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock)
    quick = Terminal()
    Progress("lines", stream=quick).end(5)
    assert quick.getvalue() == ""
    stream = Terminal()
    told = Progress("lines", total=10, stream=stream)
    clock = 5.0
    told(9)
    clock = 10.0
    told(10)
    first, second = stream.getvalue().split("\r")[1:]
    assert len(second) >= len(first) and "\n" not in stream.getvalue()
    told.end(10)
    assert stream.getvalue().endswith("\n")
