"""Plants every fault in a copy of the package, one at a time, and expects its tests to fail; a survivor fails the run.

First all the tests run on the copy as it is: only what passes there can be said to have caught anything.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.row import Mutant
from tests.mutants.table import MUTANTS

ROOT = Path(__file__).resolve().parent.parent.parent
FAILED = 1  # pytest's exit code when tests ran and some failed; a file that cannot be read or collected is another


def copied(folder: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("qkv", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)


def tested(folder: Path, tests: tuple[str, ...]) -> int:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=900).returncode


def imported_from(folder: Path) -> bool:
    """Whether the tests there are of the package there, and not of the one that is installed."""
    command = [sys.executable, "-c", "import qkv; print(qkv.__file__)"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip()).is_relative_to(folder)


def caught(folder: Path, mutant: Mutant) -> int:
    path = folder / mutant.file
    text = path.read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.file} holds {text.count(mutant.old)} times: {mutant.old}"
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        return tested(folder, mutant.tests)
    finally:
        path.write_text(text, encoding="utf-8")


def main(words: list[str]) -> int:
    chosen = [m for m in MUTANTS if all(word in f"{m.fault} {m.file}" for word in words)]
    if not chosen:
        print(f"no fault is called {' '.join(words)}; tests/mutants/table.py has them all")
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        copied(folder)
        assert imported_from(folder), "the copy is not what is imported"
        if tested(folder, tuple(sorted({test for mutant in chosen for test in mutant.tests}))):
            print("the tests fail without any fault; mend them first")
            return 2
        survivors = 0
        for mutant in chosen:
            started, code = time.perf_counter(), caught(folder, mutant)
            verdict = "caught" if code == FAILED else f"SURVIVED (exit code {code})"
            survivors += code != FAILED
            print(f"{verdict:<10} {time.perf_counter() - started:5.1f} s  {mutant.file:<30} {mutant.fault}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
