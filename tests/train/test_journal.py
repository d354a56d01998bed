"""What a run writes down: a JSON line a report, cut back to where a run goes on, and an end to a loss that is none."""

import json
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.errors import ConfigError, RunError
from qkv.train import journal as module
from qkv.train.journal import Journal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time, which passes when a test says so."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    yield now


def opened(folder: Path, step: int = 0, *, quiet: bool = False, tensorboard: bool = False) -> Journal:
    return Journal(folder, step, every=10.0, tensorboard=tensorboard, quiet=quiet)


def report(journal: Journal, step: int, done: float | None = None) -> None:
    journal.report(step, epoch=1, share=0.5, rate=0.01, waited=0.0, done=done, elapsed=60.0)


def lines(folder: Path) -> list[dict[str, Any]]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    text = (folder / "log.jsonl").read_text(encoding="utf-8")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def test_a_report_is_one_line_with_means_and_speed(
    tmp_path: Path, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path) as journal:
        for loss in (3.0, 1.0):
            journal.step({"loss": torch.tensor(loss), "nll": torch.tensor(loss / 2)}, tokens=100, cells=125)
        assert not journal.due
        clock[0] += 10.0
        assert journal.due
        report(journal, 2, done=0.25)
        assert not journal.due
        report(journal, 2)  # nothing new, nothing written
    (line,) = lines(tmp_path)
    assert line["step"] == 2 and line["epoch"] == 1
    assert (line["loss"], line["nll"]) == (2.0, 1.0)
    assert (line["tokens_per_second"], line["padding"], line["elapsed"]) == (20.0, 0.2, 60.0)
    shown = capsys.readouterr().err
    assert shown.startswith("qkv: step 2  epoch 1.50  loss 2.0000  nll 1.0000  rate 1.00e-02  20 tokens/s  3 min left")
    assert shown.count("\n") == 1


def test_a_pause_does_not_count_for_the_speed(tmp_path: Path, clock: list[float]) -> None:
    with opened(tmp_path, quiet=True) as journal:
        paused = journal.pause()
        clock[0] += 1000.0
        journal.resume(paused)
        journal.step({"loss": torch.tensor(1.0)}, tokens=50, cells=50)
        clock[0] += 5.0
        report(journal, 1)
    assert lines(tmp_path)[0]["tokens_per_second"] == 10.0


def test_the_log_is_cut_back_to_where_the_run_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path, quiet=True) as journal:
        for step in (1, 2, 3, 4):
            journal.write(step=step, loss=1.0)
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write('{"step": 5, "lo')  # a killed process
    with opened(tmp_path, 2, quiet=True) as journal:
        journal.write(step=3, loss=9.0)
    assert [(line["step"], line["loss"]) for line in lines(tmp_path)] == [(1, 1.0), (2, 1.0), (3, 9.0)]


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path, value: float) -> None:
    with opened(tmp_path, quiet=True) as journal:
        journal.step({"loss": torch.tensor(value), "nll": torch.tensor(1.0)}, tokens=1, cells=1)
        with pytest.raises(RunError, match=rf"loss {value}.* at step 7: the run has diverged; lower the learning rate"):
            report(journal, 7)
    (line,) = lines(tmp_path)
    assert line["loss"] is None and line["nll"] == 1.0


def test_quiet_says_nothing_and_logs_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(tmp_path, quiet=True) as journal:
        journal.say("a word")
        journal.write(step=1, dev={"nll": nan})
    assert capsys.readouterr().err == ""
    assert lines(tmp_path) == [{"step": 1, "dev": {"nll": None}}]


def test_a_full_disk_is_one_sentence_and_closing_is_silent(tmp_path: Path) -> None:
    journal = opened(tmp_path, quiet=True)
    with open("/dev/full", "w", encoding="utf-8") as full:
        journal._file, kept = full, journal._file
        with pytest.raises(RunError, match=r"cannot write .*log\.jsonl: no space left"):
            journal.write(step=1)
        journal.close()
        kept.close()


def test_tensorboard_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install 'qkv\[tensorboard\]'"):
        opened(tmp_path, tensorboard=True)


@pytest.mark.parametrize(("seconds", "shown"), [(5.0, "5 s"), (89.0, "89 s"), (600.0, "10 min"), (9000.0, "2.5 h")])
def test_the_time_left_is_readable(seconds: float, shown: str) -> None:
    assert module._clock(seconds) == shown
