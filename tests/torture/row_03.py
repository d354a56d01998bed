"""Row 3: disk full, input/output error, read-only folder; the old checkpoint stays, the message is clear, no litter.

Two parts: every single call of a save refused in turn, in this process; and a real process on real file systems that
are full or read-only (a small tmpfs, which only root may mount).
"""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qkv.errors import RunError
from qkv.lock import FolderLock
from qkv.train.checkpoint import Checkpoints
from tests.torture.faults import REMOVALS, refusing
from tests.torture.row import Result, hidden
from tests.torture.saver import is_whole, tensors_of

TITLE = "disk full, I/O error, read-only folder"
TARGET = "old checkpoint intact, clear message, non-zero exit, no litter"
COUNT = 1000  # more than there are calls in a save: every one of them is refused
CODES = {errno.ENOSPC: "no space left", errno.EIO: "input/output error", errno.EROFS: "read-only"}


def run(count: int = COUNT, seed: int = 0) -> Result:
    result = Result()
    for code, words in CODES.items():
        refuse_each_call(result, code, words, range(1, count + 1))
    result.notes.append(f"{result.trials} calls refused")
    full_disks(result)
    return result


def refuse_each_call(result: Result, code: int, words: str, places: range) -> None:
    """A save whose k-th call fails, for each k until a save gets through untouched."""
    for place in places:
        with tempfile.TemporaryDirectory(prefix="torture-") as name, FolderLock(Path(name)) as lock:
            folder = Path(name, "checkpoints")
            checkpoints = Checkpoints(folder, lock=lock)
            for step in (1, 2, 3):
                checkpoints.save(step, tensors_of(step, 50), {"position": step})
            message = ""
            with refusing(place, code) as calls:
                try:
                    checkpoints.save(4, tensors_of(4, 50), {"position": 4})
                except RunError as error:
                    message = str(error)
            if len(calls.names) < place:
                return
            result.trials += 1
            where = f"call {place} ({calls.names[place - 1]}) refused with {errno.errorcode[code]}"
            saved = Checkpoints(folder).load()
            result.expect(saved is not None and is_whole(saved), f"{where}: nothing sound to load")
            if message:
                result.expect(words in message and name in message, f"{where}: unclear message {message!r}")
                steps = Checkpoints(folder).steps()
                result.expect({2, 3} <= set(steps), f"{where}: only steps {steps} are left")
            else:
                result.expect(saved is not None and saved.step == 4, f"{where}: the save said it was done and is not")
            # A refused removal leaves what it was to remove: that is for the next opening to take.
            if message and calls.names[place - 1] not in REMOVALS:
                result.expect(not hidden(folder), f"{where}: litter {hidden(folder)}")
            Checkpoints(folder, lock=lock)
            result.expect(not hidden(folder), f"{where}: litter after opening {hidden(folder)}")


def full_disks(result: Result) -> None:
    """A run of 1 MB a save on a file system of 6 MB, filled to several levels; then one mounted read-only."""
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        limited = _saver(Path(name, "run"), "--limit", "300000")
        _judge(result, "file size limit", limited, Path(name, "run"), "size limit", expected_step=None)
        if os.geteuid() != 0 or not sys.platform.startswith("linux"):
            result.notes.append("real full disks left out: only root may mount one")
            return
        for free_kb in (0, 4, 100, 400, 700, 1000):
            with _small_disk(Path(name, "disk")) as disk:
                _saver(disk / "run", "--steps", "3")
                room = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
                (disk / "ballast").write_bytes(bytes(max(room - free_kb * 1000, 0)))
                ended = _saver(disk / "run", "--steps", "50")
                _judge(result, f"{free_kb} kB left", ended, disk / "run", "no space left", expected_step=3)
        with _small_disk(Path(name, "disk")) as disk:
            _saver(disk / "run", "--steps", "3")
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            _judge(
                result, "read-only", _saver(disk / "run", "--steps", "1"), disk / "run", "read-only", expected_step=3
            )


def _judge(
    result: Result,
    what: str,
    ended: "subprocess.CompletedProcess[str]",
    run_folder: Path,
    words: str,
    expected_step: int | None,
) -> None:
    result.trials += 1
    saved = Checkpoints(run_folder / "checkpoints").load()
    result.expect((saved.step if saved else None) == expected_step, f"{what}: step {saved and saved.step} is left")
    result.expect(saved is None or is_whole(saved), f"{what}: the old checkpoint is not intact")
    result.expect(ended.returncode == 2, f"{what}: exit code {ended.returncode}")
    said = ended.stderr.strip()
    result.expect(words in said and "\n" not in said, f"{what}: unclear message {said!r}")
    result.expect(not hidden(run_folder), f"{what}: litter {hidden(run_folder)}")


def _saver(run_folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.torture.saver", "--out", str(run_folder), "--megabytes", "1", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@contextmanager
def _small_disk(place: Path) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        with suppress(subprocess.CalledProcessError):
            subprocess.run(["umount", str(place)], check=True)
