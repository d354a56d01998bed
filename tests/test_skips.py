"""A skip that tests/skips.py does not list fails the session; a listed one does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import ALLOWED

ROOT = Path(__file__).resolve().parent.parent

CONFTEST = """
from tests import skips
from tests.skips import *
skips.ALLOWED["*test_inner.py::test_listed"] = "for this test"
"""

INNER = """
import pytest
def test_passes(): pass
def test_{name}(): pytest.{how}("no reason at all")
"""


def run_inner(folder: Path, name: str, how: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_inner.py").write_text(INNER.format(name=name, how=how))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", *options]
    return subprocess.run(
        [*command, "test_inner.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("how", ["skip", "xfail"])
def test_an_unlisted_skip_fails_the_session(tmp_path: Path, how: str) -> None:
    done = run_inner(tmp_path, "other", how)
    assert done.returncode == 1, done.stdout
    assert "NOT LISTED in tests/skips.py: test_inner.py::test_other" in done.stdout


def test_it_does_so_from_a_worker_too(tmp_path: Path) -> None:
    assert run_inner(tmp_path, "other", "skip", "-n", "1").returncode == 1


def test_a_listed_skip_passes(tmp_path: Path) -> None:
    done = run_inner(tmp_path, "listed", "skip")
    assert done.returncode == 0, done.stdout
    assert "NOT LISTED" not in done.stdout


def test_every_entry_names_a_test_file_and_a_reason() -> None:
    for pattern, reason in ALLOWED.items():
        assert (ROOT / pattern.split("::")[0]).is_file(), pattern
        assert len(reason.split()) >= 3, pattern
