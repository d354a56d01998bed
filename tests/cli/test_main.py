"""The command's front door: help at once, mistakes in one sentence, exit codes as a shell expects them."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from qkv import __version__
from qkv.cli import main as front
from qkv.errors import ConfigError

HEAVY = ("torch", "numpy", "pydantic", "tokenizers", "argparse")


def command(*argv: str, code: str = "") -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", code, *argv] if code else [sys.executable, "-m", "qkv", *argv]
    return subprocess.run(line, capture_output=True, text=True)


def verb_that(monkeypatch: pytest.MonkeyPatch, action: object) -> None:
    monkeypatch.setattr(front, "import_module", lambda name: SimpleNamespace(run=action))


def test_help_imports_nothing_heavy() -> None:
    watch = "import sys; from qkv.cli.main import main; code = main(['--help']); print(code, sorted(sys.modules))"
    done = command(code=watch)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("0 ")
    assert not [name for name in HEAVY if f"'{name}'" in last]


@pytest.mark.parametrize("verb", sorted(front.VERBS))
def test_a_verb_s_help_needs_no_torch(verb: str) -> None:
    watch = f"import sys; from qkv.cli.main import main; main([{verb!r}, '--help']); print(sorted(sys.modules))"
    done = command(code=watch)
    assert done.returncode == 0, done.stderr
    assert "'torch'" not in done.stdout


def test_help_shows_every_verb_with_a_line() -> None:
    shown = command("--help")
    assert shown.returncode == 0
    for verb, line in front.VERBS.items():
        assert f"  {verb}" in shown.stdout and line in shown.stdout


def test_no_verb_shows_help_as_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and "start here:" in shown.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main(["--version"]) == 0
    assert capsys.readouterr().out == f"qkv {__version__}\n"


def test_a_verb_s_help_is_a_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main(["env", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: qkv env")


def test_an_unknown_verb_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main(["trian"]) == 2
    assert capsys.readouterr().err == 'qkv: there is no verb "trian"; did you mean "train"?  (qkv --help shows all)\n'


def test_the_rest_goes_to_the_verb_and_its_code_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def seven(argv: list[str]) -> int:
        seen.append(argv)
        return 7

    verb_that(monkeypatch, seven)
    assert front.main(["env", "--json", "x"]) == 7
    assert seen == [["--json", "x"]]


def test_a_user_s_mistake_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def mistaken(argv: list[str]) -> int:
        raise ConfigError("width 7 does not divide into 2 heads; try heads=1")

    verb_that(monkeypatch, mistaken)
    assert front.main(["env"]) == 2
    assert capsys.readouterr().err == "qkv: width 7 does not divide into 2 heads; try heads=1\n"


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(argv: list[str]) -> int:
        raise KeyboardInterrupt

    verb_that(monkeypatch, interrupted)
    assert front.main(["env"]) == 130
    assert capsys.readouterr().err == ""


def test_a_broken_invariant_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(argv: list[str]) -> int:
        raise AssertionError("ours")

    verb_that(monkeypatch, broken)
    with pytest.raises(AssertionError, match="ours"):
        front.main(["env"])


# argparse itself forgives a reader that left its help.
@pytest.mark.parametrize(("argv", "code"), [(["--help"], 141), (["env", "--help"], 0)])
def test_a_reader_that_leaves_is_no_fault(argv: list[str], code: int) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        done = subprocess.run([sys.executable, "-m", "qkv", *argv], stdout=nobody, stderr=subprocess.PIPE, text=True)
    assert done.returncode == code
    assert done.stderr == ""
