"""What a person gets wrong with `qkv train` and `qkv prepare`: one clear sentence, exit code 2, and nothing lost."""

import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from qkv.cli.main import main
from qkv.pipeline.bundle import read_bundle
from qkv.train.checkpoint import Checkpoints
from tests.torture import trainee

ABSURD = str(10**12)


class Run(NamedTuple):
    """A finished run, and what of it must survive every mistake."""

    folder: Path
    recipe: Path
    out: Path
    model: bytes


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("mistakes")
    recipe, out = trainee.write_recipe(folder, max_steps=2, ema=0.0, average=0), folder / "run"
    assert main(["train", "--config", str(recipe), "--out", str(out), "--quiet"]) == 0
    return Run(folder, recipe, out, (out / "model.safetensors").read_bytes())


def check_intact(run: Run) -> None:
    """The run is still there: its model as it was, its checkpoint sound."""
    read_bundle(run.out)
    assert (run.out / "model.safetensors").read_bytes() == run.model
    saved = Checkpoints(run.out / "checkpoints").load()
    assert saved is not None and saved.step == 2 and not saved.damaged


def complaint(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What the command says on stderr when it refuses; progress lines apart."""
    assert main(argv) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    said = [line for line in shown.err.splitlines() if ": training a" not in line and ": encoding" not in line]
    assert len(said) == 1, said
    assert said[0].startswith("qkv: ") and "Traceback" not in said[0]
    return said[0]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("data.train", "[{folder}/on.tsv, {folder}/two.tsv]", 'on.tsv: no such file; did you mean "one.tsv"?'),
        ("data.train", "[{folder}/away/one.tsv, {folder}/two.tsv]", "there is no folder"),
        ("data.train", "[{folder}, {folder}]", "must hold both sides and end in one of .tsv"),
        ("data.dev", "{folder}/nothing.tsv", "no such file"),
        ("data.tokenizer.vocabulary", "3", "vocabulary"),
        ("data.tokenizer", "bpee", 'no tokenizer is called "bpee"; did you mean "bpe"?'),
        ("data.max_length", ABSURD, "data.max_length is 1000000000000"),
        ("data.weights", "[1.0]", "data.weights has 1 numbers for 2 corpora"),
        ("model.widht", "16", 'model has no "widht"; did you mean "width"?'),
        ("model.width", "wide", "model.width is 'wide'"),
        ("model.width", "1000000000", "model.width is 1,000,000,000"),
        ("model.width", "4000000", "choose a smaller width, vocabulary or number of layers"),
        ("model.mixer.heads", "3", "width 16 does not divide into 3 heads"),
        ("model.feedforward.hidden", ABSURD, "model.feedforward.hidden is 1,000,000,000,000"),
        ("model.encoder_layers", ABSURD, "model.encoder_layers is 1,000,000,000,000"),
        ("train.max_tokens", ABSURD, "lower it or raise train.parts"),
        ("train.max_tokens", "2", "max_tokens is 2, but the longest sample has"),
        ("train.keep", "1", "keep 1 is below 2"),
        ("train.precision", "fp8", "train.precision is 'fp8'"),
        ("optim.beta_1", "1.5", "optim.beta_1 is 1.5"),
        ("schedule.warmup", "0", "schedule.warmup is 0"),
        ("decode.num_beams", "0", "decode.num_beams is 0"),
    ],
)
def test_a_wrong_value_is_named(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: str, words: str
) -> None:
    value = value.replace("{folder}", str(run.folder))
    argv = ["--config", str(run.recipe), f"--{key}", value]
    assert words in complaint(capsys, "train", *argv, "--out", str(tmp_path / "new"))
    assert not (tmp_path / "new" / "checkpoints").exists()
    complaint(capsys, "train", *argv, "--out", str(run.out))
    check_intact(run)


def test_a_million_layers_are_refused(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qkv.train.fit.MOST_TENSORS", 1000)  # the sooner, the same sentence
    argv = ["--config", str(run.recipe), "--model.encoder_layers", "1000000"]
    assert "give it fewer layers" in complaint(capsys, "train", *argv, "--out", str(tmp_path / "new"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no sentence pair to use (empty)"),
        (b"\n\n \t \n", "no sentence pair to use (3 read, 3 empty side)"),
        (b"a\tb\ncaf\xe9\tx\n", "line 2: not UTF-8"),
        (b"a\tb\nc\td\ne\0\tf\n", "line 3: holds a NUL character"),
        (b"a\tb\nc\n", "line 2: has no text in columns (0, 1)"),
        (b"a\tb\n" + b"x" * (2 << 20) + b"\ty\n", "line 2: longer than 1048576 bytes"),
    ],
)
@pytest.mark.parametrize("verb", ["train", "prepare"])
def test_a_corpus_that_cannot_be_used(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, words: str, verb: str
) -> None:
    path = tmp_path / "bad.tsv"
    path.write_bytes(content)
    argv = ["--config", str(run.recipe), "--data.train", str(path), "--data.weights", "null"]
    said = complaint(capsys, verb, *argv, *(["--out", str(tmp_path / "new")] if verb == "train" else []))
    assert words in said and str(path) in said


def test_misaligned_files_say_how_long_each_is(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.de").write_text("eins\nzwei\ndrei\n")
    (tmp_path / "x.en").write_text("one\ntwo\n")
    pair = ["--data.train", f"{tmp_path}/x.{{lang}}", "--data.source", "de", "--data.target", "en"]
    said = complaint(capsys, "prepare", "--config", str(run.recipe), *pair, "--data.weights", "null")
    assert "x.de has 3 lines" in said and "x.en has 2" in said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("data: [", "is not YAML"),
        ("data: {train: a.tsv}\ndata: {train: b.tsv}", "duplicate key"),
        ("- a\n- b", "holds list; a config is a mapping"),
        ("data: &x {train: a.tsv}", "line 1: tags, anchors and aliases are not read"),
        ("data: !!python/object:os.system {}", "tags, anchors and aliases are not read"),
        ("data: {train: 7}\ntrain: {max_steps: 1}", "data.train is 7"),
        ("data: {train: a.tsv}\ntrain: {max_steps: '8'}", "train.max_steps is '8'"),
        ("data: {train: a.tsv}\ntrain: 5", "train is 5; it wants settings"),
        ("data: {train: a.tsv}\n", "training has no end"),
    ],
)
def test_a_config_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, words: str) -> None:
    (tmp_path / "run.yaml").write_text(content)
    assert words in complaint(capsys, "train", "--config", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--config", "away.yaml", "--out", "x"], "away.yaml is not there"),
        (["--config", "RECIPE"], "--out is missing"),
        (["RECIPE", "--out", "x"], "did you mean --config"),
        (["--config", "RECIPE", "--otu", "x"], 'there is no flag "--otu"; did you mean "--out"?'),
        (["--config", "RECIPE", "--out", "x", "--train.seed"], "--train.seed needs a value"),
        (["--out", "x"], "data.train must be given"),
    ],
)
def test_a_line_typed_wrong(run: Run, capsys: pytest.CaptureFixture[str], argv: list[str], words: str) -> None:
    assert words in complaint(capsys, "train", *(word.replace("RECIPE", str(run.recipe)) for word in argv))


@pytest.mark.parametrize("place", ["{folder}/one.tsv", "{folder}/one.tsv/deeper", "/proc/qkv"])
def test_a_folder_that_cannot_be_written(run: Run, capsys: pytest.CaptureFixture[str], place: str) -> None:
    out = place.replace("{folder}", str(run.folder))
    text = (run.folder / "one.tsv").read_bytes()
    assert f"cannot write {out.removesuffix('/deeper')}" in complaint(
        capsys, "train", "--config", str(run.recipe), "--out", out
    )
    assert (run.folder / "one.tsv").read_bytes() == text


def typed(*argv: str, before: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    line = [sys.executable, "-m", "qkv", *argv]
    return subprocess.run(line, capture_output=True, text=True, preexec_fn=before)


def test_a_disk_that_is_full_loses_nothing(run: Run) -> None:
    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))

    argv = ["--config", str(run.recipe), "--out", str(run.out), "--quiet", "--train.max_steps", "4"]
    done = typed("train", *argv, before=small_files_only)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "cannot write" in done.stderr and "the file would pass this process's size limit" in done.stderr
    check_intact(run)


def test_as_it_is_typed(run: Run) -> None:
    argv = ["--config", str(run.recipe), "--out", str(run.out), "--optim.lerning_rate", "1e-3"]
    done = typed("train", *argv)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f'qkv: {run.recipe} + overrides: optim has no "lerning_rate"; known: beta_1, beta_2, epsilon  '
        "(qkv train --data.train FILE --print-config shows all settings)\n"
    )
    check_intact(run)
