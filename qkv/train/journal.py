"""What a run says while it trains: lines on stderr for people, JSON lines in `log.jsonl` for programs, TensorBoard too.

Numbers that go to the log stay tensors until a line is due, so that no step waits for the device.
"""

import json
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from qkv import runtime
from qkv.errors import ConfigError, RunError
from qkv.folder import write_text, writing

LOG = "log.jsonl"


class Journal:
    """The log of one run, cut back to the step that it goes on from."""

    def __init__(self, folder: Path, step: int, /, *, every: float, tensorboard: bool, quiet: bool = False) -> None:
        self.path, self.every, self.quiet = folder / LOG, every, quiet
        self._board = _board(folder) if tensorboard else None
        kept = [line for line in self._lines() if line.get("step", 0) <= step]
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        with writing(self.path):
            self._file = self.path.open("a", encoding="utf-8")
        self._tokens = self._steps = self._padded = 0
        self._sums: dict[str, Tensor] = {}
        self._skipped: Tensor | float = 0.0
        self._last = time.monotonic()

    def step(self, losses: Mapping[str, Tensor], tokens: int, cells: int, skipped: Tensor | None = None) -> None:
        """Remembers a step until a line is due; one that was skipped (1.0) has no part in the mean losses."""
        for name, value in losses.items():
            value = value.detach() if skipped is None else torch.where(skipped > 0, 0.0, value.detach())
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        if skipped is not None:
            self._skipped = self._skipped + skipped
        self._steps += 1
        self._tokens += tokens
        self._padded += cells

    @property
    def due(self) -> bool:
        return self._steps > 0 and time.monotonic() - self._last >= self.every

    def report(
        self, step: int, epoch: int, share: float, rate: float, waited: float, done: float | None, elapsed: float
    ) -> None:
        """The mean losses, the speed and the time left since the last report."""
        now = time.monotonic()
        if not self._steps:
            return
        seconds = max(now - self._last, 1e-9)
        good = self._steps - int(self._skipped)
        means = {name: round(float(value) / good, 5) for name, value in self._sums.items()} if good else {}
        speed = self._tokens / seconds
        padding = 1 - self._tokens / max(1, self._padded)
        self.write(
            step=step,
            epoch=epoch,
            **means,
            rate=rate,
            tokens_per_second=round(speed, 1),
            padding=round(padding, 4),
            waited=round(waited, 4),
            elapsed=round(elapsed, 2),
            memory=runtime.peak_memory(),
        )
        left = "" if not done else f"  {_clock(elapsed * (1 - done) / done)} left"
        shown = "  ".join(f"{name} {value:.4f}" for name, value in means.items())
        self.say(f"step {step:,}  epoch {epoch + share:.2f}  {shown}  rate {rate:.2e}  {speed:,.0f} tokens/s{left}")
        self._tokens = self._steps = self._padded = 0
        self._sums, self._skipped, self._last = {}, 0.0, now
        if not all(map(isfinite, means.values())):
            raise RunError(f"{shown} at step {step:,}: the run has diverged; lower the learning rate and train again")

    def pause(self) -> float:
        """Starts time that is no training; give the result to `resume`."""
        return time.monotonic()

    def resume(self, paused: float) -> None:
        """The time since `pause` does not count for the speed."""
        self._last += time.monotonic() - paused

    def write(self, **values: Any) -> None:
        """One line of the log, and its numbers on the board; JSON has no word for what is not finite but null."""
        with writing(self.path):
            self._file.write(json.dumps(_finite(values), allow_nan=False) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, int | float) and name != "step":
                    self._board.add_scalar(name, value, values["step"])

    def say(self, text: str) -> None:
        """A line for people."""
        if not self.quiet:
            print(f"qkv: {text}", file=sys.stderr, flush=True)

    def close(self) -> None:
        with suppress(OSError):  # a full disk: `write` has told of it, and closing would try again
            self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lines(self) -> list[dict[str, Any]]:
        if not self.path.is_file():
            return []
        lines = []
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue  # the last line of a killed process may be cut
        return [line for line in lines if isinstance(line, dict)]


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not isfinite(value) else value


def _clock(seconds: float) -> str:
    minutes, hours = round(seconds / 60), seconds / 3600
    return f"{seconds:.0f} s" if seconds < 90 else f"{minutes} min" if hours < 2 else f"{hours:.1f} h"


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "train.tensorboard is true, but TensorBoard is not installed; "
            "pip install 'qkv[tensorboard]', or leave it out"
        ) from None
    return SummaryWriter(str(folder / "tensorboard"))
