"""Runs every shell command and block of Python that a document shows, in order, as its reader would.

    python -m tests.integration.documents [--max-minutes N]        whole: what trains, trains to its end

In `make test` a stand-in for `.venv/bin/qkv` makes what trains small by overrides, on a corpus of a few lines; nothing
else of the commands is changed. Whole, in `make claims`, the commands are the document's own, on Multi30k's raw
sentences where they lie (QKV_DATA), else on made-up ones. `make` has its own targets' tests.
"""

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from qkv import runtime

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# By document: the minutes that its trainings take, as recipes/translate.yaml bounds them.
DOCUMENTS = {"README.md": 185.0, "docs/tutorial.md": 95.0}
SMALL = """--train.max_steps 4 --train.validate_every 2 --train.max_tokens 256 --data.tokenizer.vocabulary 330
--model.width 16 --model.encoder_layers 1 --model.decoder_layers 1 --model.feedforward.hidden 16
--decode.max_new_tokens 4"""
STAND_IN = f"""#!{sys.executable}
import sys
from qkv.cli.main import main
words = sys.argv[1:]
small = words[0] in ("train", "plan", "bench") and "wmt14" not in " ".join(words)
prepares = words[0] == "prepare"
extra = {SMALL!r}.split() if small else ["--data.tokenizer.vocabulary", "330"] if prepares else []
sys.exit(main([*words, *extra]))
"""
GERMAN = ["Ein Hund läuft heute im Park.", "Eine Katze schläft.", "Zwei Kinder spielen im Garten."]
ENGLISH = ["A dog is running in the park today.", "A cat is sleeping.", "Two children play in the garden."]
FILES = ("pairs", "more", "dev", "test", "corpus")

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Ran:
    """A block, and what came of it."""

    text: str
    code: int
    output: str
    errors: str

    @property
    def good(self) -> bool:
        return self.code == 0 and "Traceback" not in self.errors


def blocks(document: str) -> list[tuple[str, str]]:
    """Language and text of each block that can be run."""
    return BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))


def furnish(folder: Path, corpora: dict[str, Pairs], *, small: bool) -> None:
    """A folder as the documents assume it: recipes, a command, corpora under the names that they use."""
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    command = folder / ".venv" / "bin" / "qkv"
    command.parent.mkdir(parents=True)
    whole = f"#!{sys.executable}\nimport sys\nfrom qkv.cli.main import main\nsys.exit(main())\n"
    command.write_text(STAND_IN if small else whole, encoding="utf-8")
    command.chmod(0o755)
    for name, pairs in corpora.items():
        (folder / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
        for side, lang in enumerate(("de", "en")):
            lines = "".join(pair[side] + "\n" for pair in pairs)
            (folder / f"{name}.{lang}").write_text(lines, encoding="utf-8")
            (folder / f"{name}.{lang}.gz").write_bytes(gzip.compress(lines.encode()))


def few() -> dict[str, Pairs]:
    """Sixty pairs a file."""
    return _made_up(dict.fromkeys(FILES, 20))


def many() -> dict[str, Pairs]:
    """Enough to train on, as whole sentences in two languages."""
    base = runtime.data_folder()
    if base is None or not (base / "multi30k").is_dir():
        return _made_up({"pairs": 2000, "more": 500, "dev": 200, "test": 200, "corpus": 500})

    def read(split: str) -> Pairs:
        sides = []
        for lang in ("de", "en"):
            with gzip.open(base / "multi30k" / f"raw.{split}.{lang}.gz", "rt", encoding="utf-8") as file:
                sides.append(file.read().splitlines())
        return list(zip(*sides, strict=True))

    train = read("train")
    return {
        "pairs": train,
        "more": train[:5000],
        "dev": read("val"),
        "test": read("test_2016_flickr"),
        "corpus": train[:5000],
    }


def _made_up(counts: dict[str, int]) -> dict[str, Pairs]:
    number, found = count(), {}
    for name, numbers in counts.items():
        found[name] = [
            (f"{a} {i}", f"{b} {i}") for i in islice(number, numbers) for a, b in zip(GERMAN, ENGLISH, strict=True)
        ]
    return found


def run(document: str, folder: Path, *, threads: int = 1) -> Iterator[Ran]:
    """Each block in its turn, in a furnished folder; what follows a failure is not run."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": str(threads)}
    for language, text in blocks(document):
        if language == "python":
            command = [sys.executable, "-c", text]
        else:
            lines = [line for line in text.splitlines() if not line.startswith("make ")]
            command = ["bash", "-euo", "pipefail", "-c", "\n".join(lines)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        ran = Ran(text, done.returncode, done.stdout, done.stderr)
        yield ran
        if not ran.good:
            return
        if document == "docs/tutorial.md" and "--out runs/mine" in text:  # which it compares with an older model
            shutil.copytree(folder / "runs" / "mine", folder / "runs" / "older", dirs_exist_ok=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-minutes", type=float, help="leave out documents whose trainings take longer")
    flags = parser.parse_args(argv)
    failed = False
    for document, minutes in DOCUMENTS.items():
        if flags.max_minutes is not None and minutes > flags.max_minutes:
            print(f"{document}: left out, its trainings take {minutes:g} minutes")
            continue
        with tempfile.TemporaryDirectory() as name:
            furnish(Path(name), many(), small=False)
            began = time.monotonic()
            for ran in run(document, Path(name), threads=runtime.threads()):
                spent = (time.monotonic() - began) / 60
                print(f"{document}  {spent:6.1f} min  {'ok' if ran.good else 'FAILED'}  {ran.text.splitlines()[0]}")
                if not ran.good:
                    failed = True
                    print(f"{ran.text}\n{ran.output}\n{ran.errors}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
