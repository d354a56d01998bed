"""What a row of the torture run hands back, and the small things that rows share."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Result:
    """How many trials were made, and a sentence for each that missed."""

    trials: int = 0
    misses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def expect(self, holds: bool, miss: str) -> None:
        """One trial, or one more condition of it: a miss is written down and the run goes on."""
        if not holds:
            self.misses.append(miss)

    @property
    def passed(self) -> bool:
        return self.trials > 0 and not self.misses


@contextmanager
def process(arguments: list[str]) -> Iterator["subprocess.Popen[str]"]:
    """A child of our own Python that does not outlive the block."""
    child = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate()


def hidden(folder: Path) -> list[str]:
    """Names under `folder` that begin with a dot, the lock apart: what a tidy writer never leaves."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*") if path.name != ".lock")
