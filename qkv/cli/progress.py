"""How far a command is, on stderr: a line now and then, with the rate, and the time left where the end is known."""

import sys
import time
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

EVERY = 2.0  # seconds


@runtime_checkable
class Stream(Protocol):
    """What is written to: stderr, or a test's stand-in."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


@dataclass
class Progress:
    """Says at most every two seconds how many of `total` are done; a terminal's line is written over."""

    unit: str
    total: int | None = None
    stream: Stream = field(default_factory=lambda: sys.stderr)
    began: float = field(default_factory=lambda: time.monotonic())
    last: float | None = None  # when something was said
    shown: int = 0  # the length of what stands on the terminal's line

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if now - (self.began if self.last is None else self.last) >= EVERY:
            self.last = now
            self._show(self.line(done, now - self.began))

    def end(self, done: int) -> None:
        """The last word, only where there was one before."""
        if self.last is not None:
            self._show(self.line(done, time.monotonic() - self.began))
            if self.stream.isatty():
                print(file=self.stream)

    def line(self, done: int, seconds: float) -> str:
        """`1,024 of 4,000 lines, 85.3 a second, 35 s left`."""
        rate = done / seconds if seconds > 0 else 0.0
        of = f" of {self.total:,}" if self.total is not None else ""
        left = f", {(self.total - done) / rate:,.0f} s left" if self.total is not None and rate else ""
        return f"{done:,}{of} {self.unit}, {rate:,.1f} a second{left}"

    def _show(self, text: str) -> None:
        if self.stream.isatty():
            print(f"\r{text:{self.shown}}", end="", file=self.stream, flush=True)
            self.shown = len(text)
        else:
            print(text, file=self.stream, flush=True)


def tell(text: str) -> None:
    """A line beside the output, at once."""
    print(f"qkv: {text}", file=sys.stderr, flush=True)
