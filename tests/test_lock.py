"""One run, one folder."""

import errno
import os
import signal
from pathlib import Path

import pytest

from qkv.errors import RunError
from qkv.lock import FolderLock
from tests.torture import row_11
from tests.torture.faults import refusing


def test_the_second_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    run = tmp_path / "new" / "run"
    with FolderLock(run) as lock:
        assert (run / ".lock").read_text()
        with pytest.raises(RunError, match=rf"in use by another run \(process {os.getpid()} on .* since .*\); stop"):
            FolderLock(run).acquire()
    assert not lock.held
    assert (run / ".lock").read_text() == ""
    with FolderLock(run) as again:
        assert again.held


def test_an_acquired_lock_can_be_entered(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path).acquire()
    with lock as entered:
        assert entered is lock
    assert not lock.held
    lock.release()


def test_a_forked_worker_does_not_keep_the_folder(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path).acquire()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"1" if lock.held else b"0")
        signal.pause()
    try:
        assert os.read(reader, 1) == b"0"
        assert lock._handle is not None
        os.close(lock._handle)  # as a kill does: the handle goes, and nobody says that the lock goes
        lock._handle = None
        with FolderLock(tmp_path) as second:
            assert second.held
    finally:
        os.close(reader)
        os.close(writer)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_release_frees_the_folder_for_handles_that_are_shared(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path).acquire()
    assert lock._handle is not None
    shared = os.dup(lock._handle)
    lock.release()
    with FolderLock(tmp_path) as second:
        assert second.held
    os.close(shared)


def test_a_read_only_folder_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot write .*\.lock: .* read-only"), refusing(1, errno.EROFS):
        FolderLock(tmp_path).acquire()


def test_of_several_runs_one_gets_the_folder() -> None:
    result = row_11.run(3)
    assert result.trials == 3
    assert result.misses == []
