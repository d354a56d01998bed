"""One run, one folder: a lock that ends with its process, however that ends.

The kernel holds it (`flock`), so a kill leaves nothing to clear away; the file `.lock` stays and only says who.
"""

import fcntl
import os
import socket
import time
import weakref
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from qkv.errors import RunError
from qkv.folder import make_folder, writing


class FolderLock:
    """`with FolderLock(run):` holds the folder or raises a RunError that names who does."""

    def __init__(self, folder: Path, /) -> None:
        self.folder = folder
        self._handle: int | None = None

    @property
    def held(self) -> bool:
        return self._handle is not None

    def acquire(self) -> "FolderLock":
        assert self._handle is None, f"{self.folder} is locked by this very object"
        make_folder(self.folder)
        path = self.folder / ".lock"
        with writing(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.1)  # a holder of this very moment has yet to write its name
                who = os.pread(handle, 200, 0).decode("utf-8", "replace").strip() or "who left no name"
                os.close(handle)
                raise RunError(
                    f"{self.folder} is in use by another run ({who}); stop that run or choose another folder"
                ) from None
            except OSError:
                os.close(handle)
                raise
        self._handle = handle
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        with suppress(OSError):  # on a full disk the lock holds all the same
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()} since {since}\n".encode(), 0)
        # A forked worker shares the lock and could outlive us with it.
        mine = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _drop(mine()))
        return self

    def release(self) -> None:
        if self._handle is not None:
            with suppress(OSError):
                os.ftruncate(self._handle, 0)
                fcntl.flock(self._handle, fcntl.LOCK_UN)  # for whoever shares the handle too
        _drop(self)

    def __enter__(self) -> "FolderLock":
        return self if self.held else self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _drop(lock: FolderLock | None) -> None:
    if lock is not None and lock._handle is not None:
        os.close(lock._handle)
        lock._handle = None
