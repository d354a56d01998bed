"""Every shell command and block of Python that the README and the tutorial show is run, in order, as a reader would.

The corpus is tiny, and what trains is made small by a stand-in for `.venv/bin/qkv` that adds overrides; nothing else of
the commands is changed. `make` has its own targets' tests.
"""

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SMALL = """--train.max_steps 4 --train.validate_every 2 --train.max_tokens 256 --data.tokenizer.vocabulary 330
--model.width 16 --model.encoder_layers 1 --model.decoder_layers 1 --model.feedforward.hidden 16
--decode.max_new_tokens 4"""
STAND_IN = f"""#!{sys.executable}
import sys
from qkv.cli.main import main
words = sys.argv[1:]
small = words[0] in ("train", "plan") and "wmt14" not in " ".join(words)
prepares = words[0] == "prepare"
extra = {SMALL!r}.split() if small else ["--data.tokenizer.vocabulary", "330"] if prepares else []
sys.exit(main([*words, *extra]))
"""
GERMAN = ["Ein Hund läuft heute im Park.", "Eine Katze schläft.", "Zwei Kinder spielen im Garten."]
ENGLISH = ["A dog is running in the park today.", "A cat is sleeping.", "Two children play in the garden."]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder as the documents assume it: recipes, a command, corpora under the names that they use."""
    folder = tmp_path
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    command = folder / ".venv" / "bin" / "qkv"
    command.parent.mkdir(parents=True)
    command.write_text(STAND_IN, encoding="utf-8")
    command.chmod(0o755)
    for name, first in (("pairs", 0), ("more", 20), ("dev", 40), ("test", 60), ("corpus", 80)):
        pairs = [
            (f"{a} {i}", f"{b} {i}") for i in range(first, first + 20) for a, b in zip(GERMAN, ENGLISH, strict=True)
        ]
        (folder / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
        for side, lang in enumerate(("de", "en")):
            lines = "".join(pair[side] + "\n" for pair in pairs)
            (folder / f"{name}.{lang}").write_text(lines, encoding="utf-8")
            (folder / f"{name}.{lang}.gz").write_bytes(gzip.compress(lines.encode()))
    return folder


def blocks(document: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))


def ran(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("document", ["README.md", "docs/tutorial.md"])
def test_what_a_document_shows_runs(document: str, place: Path) -> None:
    found = blocks(document)
    assert len(found) >= 8
    for language, text in found:
        if language == "python":
            done = ran([sys.executable, "-c", text], place)
        else:
            lines = [line for line in text.splitlines() if not line.startswith("make ")]
            done = ran(["bash", "-euo", "pipefail", "-c", "\n".join(lines)], place)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        if document == "docs/tutorial.md" and "--out runs/mine" in text:
            shutil.copytree(place / "runs" / "mine", place / "runs" / "older", dirs_exist_ok=True)
    assert (place / "runs" / "mine" / "report.html").is_file()
