"""One line out for each line in, as a user types it; mistakes are one sentence."""

import gzip
import io
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from qkv.cli import translate
from qkv.cli.main import main
from qkv.pipeline.load import load
from tests.pipeline.tiny import tiny_bundle

TEXT = "ein hund läuft .\n\nzwei katze\n   \nmann\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "m"
    tiny_bundle(folder)
    return folder


def feed(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text), isatty=lambda: False))


def translated(model: Path, *flags: str) -> int:
    return main(["translate", "--model", str(model), "--precision", "fp32", *flags])


def test_one_line_out_for_each_line_in(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    feed(monkeypatch, TEXT.encode())
    assert translated(model) == 0
    shown = capsys.readouterr()
    expected = load(model, precision="fp32", device="cpu").translate(TEXT.splitlines())
    assert shown.out == "".join(f"{line}\n" for line in expected)
    assert shown.out.count("\n") == 5 and shown.out.split("\n")[1] == ""
    assert "hund" not in shown.err


def test_a_last_line_without_an_end_and_no_line_at_all(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    feed(monkeypatch, b"mann\r\nfrau")
    assert translated(model) == 0
    assert capsys.readouterr().out.count("\n") == 2
    feed(monkeypatch, b"")
    assert translated(model) == 0
    assert capsys.readouterr().out == ""


def test_files_in_and_out(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with gzip.open(tmp_path / "in.gz", "wb") as stream:
        stream.write(TEXT.encode())
    assert translated(model, "--input", str(tmp_path / "in.gz"), "--output", str(tmp_path / "out")) == 0
    assert capsys.readouterr().out == ""
    assert len((tmp_path / "out").read_text().splitlines()) == 5
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_pipe_as_input_is_read_once(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"mann\nfrau\n"))
    writer.start()
    assert translated(model, "--input", str(tmp_path / "pipe")) == 0
    writer.join()
    assert capsys.readouterr().out.count("\n") == 2


def test_n_best_and_scores(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    feed(monkeypatch, b"ein hund\n\nmann\n")
    assert translated(model, "--n-best", "3") == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "1", "2", "3", "3", "3"]
    assert [float(row[1]) for row in rows[:3]] == sorted((float(row[1]) for row in rows[:3]), reverse=True)
    feed(monkeypatch, b"ein hund\n")
    assert translated(model, "--scores", "--num-beams", "4") == 0
    score, text = capsys.readouterr().out.rstrip("\n").split("\t")
    assert float(score) < 0
    feed(monkeypatch, b"ein hund\n")
    assert translated(model, "--num-beams", "4") == 0
    assert capsys.readouterr().out == f"{text}\n"


def test_flags_of_decoding_reach_the_search(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    feed(monkeypatch, b"ein hund\n")
    assert translated(model, "--max-new-tokens", "2", "--min-new-tokens", "2", "--prefix", "rot") == 0
    words = capsys.readouterr().out.split()
    assert words[0] == "rot" and len(words) in (2, 3)
    outputs = set()
    for seed in ("1", "2", "3"):
        feed(monkeypatch, b"ein hund\n")
        assert translated(model, "--do-sample", "--seed", seed) == 0
        outputs.add(capsys.readouterr().out)
    assert len(outputs) > 1


def test_what_was_cut_is_said(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    long = b"mann " * 60
    feed(monkeypatch, b"\n".join([b"mann", *[long] * 7]))
    assert translated(model, "--max-new-tokens", "1", "--min-new-tokens", "1") == 0
    shown = capsys.readouterr()
    assert "line 2, 3, 4, 5, 6 and 2 more: longer than the model's 24 tokens" in shown.err
    assert shown.out.count("\n") == 8
    feed(monkeypatch, long)
    assert translated(model, "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_a_line_stays_one_line_whatever_the_model_writes() -> None:
    from qkv.pipeline.translator import Translation

    found = [Translation("a\nb\r\nc\u2028d\te", -1.0, -2.0, 3)]
    plain = translate.parser().read(["--model", "m"])
    assert list(translate._written(1, found, plain)) == ["a b c d\te\n"]
    scored = translate.parser().read(["--model", "m", "--scores"])
    assert list(translate._written(1, found, scored)) == ["-1.0000\ta b c d e\n"]


@pytest.mark.parametrize(
    ("flags", "text", "message"),
    [
        ([], b"gut\n\xff\n", "standard input, line 2, byte 1: not UTF-8"),
        (["--input", "nowhere.de"], b"", "nowhere.de: no such file"),
        (["--num-beams", "0"], b"x\n", "num_beams is 0"),
        (["--num-beams", "many"], b"x\n", "num_beams is 'many'"),
        (["--n-best", "5", "--num-beams", "2"], b"x\n", "num_return_sequences=5"),
        (["--num-beem", "2"], b"", "did you mean"),
        (["--precision", "fp8"], b"", "invalid choice"),
    ],
)
def test_mistakes_are_one_sentence(
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    text: bytes,
    message: str,
) -> None:
    feed(monkeypatch, text)
    assert translated(model, *flags) == 2
    shown = capsys.readouterr().err
    assert message in shown and shown.count("\n") == 1


def test_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["translate", "--model", str(tmp_path / "gone")]) == 2
    assert "is not there" in capsys.readouterr().err
    assert main(["translate"]) == 2
    assert "--model" in capsys.readouterr().err


def test_a_failure_leaves_no_output_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    feed(monkeypatch, b"gut\n\xff\n")
    assert translated(model, "--output", str(tmp_path / "out")) == 2
    assert list(tmp_path.iterdir()) == []
    assert "not UTF-8" in capsys.readouterr().err


def test_an_ensemble(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    feed(monkeypatch, TEXT.encode())
    assert translated(model, "--model", str(model)) == 0
    twice = capsys.readouterr().out
    feed(monkeypatch, TEXT.encode())
    assert translated(model) == 0
    assert twice == capsys.readouterr().out
