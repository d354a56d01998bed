"""The operating system's refusals, injected: the k-th call that touches the disk fails, or is the process's last."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

CALLS = ("mkdir", "open", "rename", "replace", "fsync", "chmod", "unlink", "rmdir", "ftruncate", "pwrite")
REMOVALS = ("unlink", "rmdir")


class Calls:
    """Counts the calls that touch the disk, remembers their names and does something just before the k-th."""

    def __init__(self, at: int, action: Callable[[], None]) -> None:
        self.at, self.action, self.names = at, action, list[str]()

    def before(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.names.append(name)
            if len(self.names) == self.at:
                self.action()
            return call(*arguments, **options)

        return counted


@contextmanager
def disturbed(at: int, action: Callable[[], None]) -> Iterator[Calls]:
    """Within the block the calls of `os`, the tensor library's writer and `Path.write_bytes` are counted."""
    import safetensors.torch

    calls = Calls(at, action)
    with ExitStack() as stack:
        for name in CALLS:
            stack.enter_context(patch.object(os, name, calls.before(name, getattr(os, name))))
        write_bytes = Path.write_bytes
        counted = calls.before("write_bytes", write_bytes)
        stack.enter_context(patch.object(Path, "write_bytes", lambda path, data: counted(path, data)))
        save_file = calls.before("save_file", safetensors.torch.save_file)
        stack.enter_context(patch.object(safetensors.torch, "save_file", save_file))
        yield calls


def refusing(at: int, code: int) -> Any:
    """The k-th call fails with this error number."""

    def refuse() -> None:
        raise OSError(code, os.strerror(code))

    return disturbed(at, refuse)


def killed_at(at: int, work: Callable[[], None]) -> bool:
    """Runs `work` in a fork that dies, cleaning nothing up, just before its k-th call; False if it got through."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.fsync = lambda fd: None  # a kill loses nothing that the kernel has: no need to wait for the disk
            with disturbed(at, lambda: os._exit(137)):
                work()
            status = 0
        finally:
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 137), f"the work itself failed with exit code {code}"
    return code == 137
