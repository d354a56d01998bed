"""Checkpoints of a run: `step-N/` holds tensors by group, `state.json`, `manifest.json` and, last of all, `COMMITTED`.

A save fills a hidden folder, syncs it, writes the commit marker (the manifest's SHA-256) and renames the folder into
place; only then are older ones removed. So at whatever moment the process dies, the previous checkpoints stand, and
what is half written is not under any name that is read. Which steps are pinned (the best one) is part of each
checkpoint's own state, so it can't fall out of step with it. The file `latest` is for people; nothing here reads it.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.errors import BundleError, ConfigError, RunError
from qkv.folder import (
    MANIFEST,
    clean,
    digest,
    make_folder,
    new_folder,
    read_json,
    read_manifest,
    remove_folder,
    verify,
    write_json,
    write_manifest,
    write_text,
)
from qkv.lock import FolderLock
from qkv.tensors import read_tensors, write_tensors

COMMITTED = "COMMITTED"
STATE = "state.json"
_STEP = re.compile(r"step-(0|[1-9]\d*)")
_DAMAGED = re.compile(r"step-(0|[1-9]\d*)\.damaged")
_GROUP = re.compile(r"[a-z][a-z0-9_-]*")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saved:
    """A checkpoint whose every byte has been verified; `damaged` says what newer ones were passed over and why."""

    step: int
    folder: Path
    state: dict[str, Any]
    tensors: Mapping[str, dict[str, Tensor]]
    damaged: tuple[str, ...] = ()


class Groups(Mapping[str, dict[str, Tensor]]):
    """A checkpoint's tensors by group, each read from the disk when asked for."""

    def __init__(self, folder: Path, names: list[str], /) -> None:
        self.folder, self.names = folder, names

    def __getitem__(self, name: str) -> dict[str, Tensor]:
        if name not in self.names:
            raise KeyError(name)
        return read_tensors(self.folder / f"{name}.safetensors")

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class Checkpoints:
    """The checkpoints under one folder. With the run's lock it saves and removes; without, it only reads."""

    def __init__(self, folder: Path, /, *, keep: int = 2, lock: FolderLock | None = None) -> None:
        if keep < 2:
            raise ConfigError(f"keep {keep} is below 2, and one damaged checkpoint would leave nothing; set 2 or more")
        self.folder, self.keep, self.lock = folder, keep, lock
        if self._may_write and folder.is_dir():
            for name in clean(folder):
                log.info("removed %s, left by a run that was killed", folder / name)

    # ------------------------------------------------------------------------------------------------------ saving

    def save(
        self,
        step: int,
        tensors: Mapping[str, Mapping[str, Tensor]],
        state: Mapping[str, Any],
        *,
        pin: str | None = None,
    ) -> Path:
        """Returns once the checkpoint is on the disk; `pin` moves that name to it and keeps it until it moves on."""
        with self.saving(step, state, pin=pin) as folder:
            for group, named in tensors.items():
                assert _GROUP.fullmatch(group), f"{group!r} is no name for a group of tensors"
                write_tensors(folder / f"{group}.safetensors", named)
        return self._place(step)

    @contextmanager
    def saving(self, step: int, state: Mapping[str, Any], *, pin: str | None = None) -> Iterator[Path]:
        """Yields the folder to write tensors into, in whatever pieces; commits when the block ends well."""
        assert self._may_write, f"saving into {self.folder} needs the lock of its run"
        assert step >= 0 and max(self.steps(), default=0) <= step, f"newer than {step}: forget_after({step}) first"
        _check_plain(state, "state")
        make_folder(self.folder)
        pins = self.pins() | ({pin: step} if pin else {})
        with new_folder(self._place(step), replace=True) as folder:
            yield folder
            groups = sorted(path.stem for path in folder.glob("*.safetensors"))
            envelope = {"groups": groups, "pins": pins, "state": state, "step": step}
            write_json(folder / STATE, envelope, finite=False)  # a run that met an infinity must still be saved
            write_manifest(folder, beside=[COMMITTED])
            write_text(folder / COMMITTED, digest(folder / MANIFEST) + "\n")
        self._tidy(step, set(pins.values()))

    def forget_after(self, step: int) -> None:
        """Removes what is newer than `step`, newest first: a run that goes back leaves that future."""
        assert self._may_write, f"removing from {self.folder} needs the lock of its run"
        for late in sorted(self._numbered(_STEP), reverse=True):
            if late > step:
                remove_folder(self._place(late))

    # ----------------------------------------------------------------------------------------------------- loading

    def steps(self) -> list[int]:
        """The steps that are committed and whole to the eye (names and sizes, no hashes), oldest first."""
        return [step for step in sorted(self._numbered(_STEP)) if self._fault(step, deep=False) is None]

    def pins(self) -> dict[str, int]:
        """The pinned steps by name that are still there, as the newest checkpoint knows them."""
        steps = self.steps()
        for step in reversed(steps):
            try:
                verify(self._place(step), only=[STATE])
                pins: dict[str, int] = read_json(self._place(step) / STATE)["pins"]
            except BundleError:
                continue
            return {name: pinned for name, pinned in pins.items() if pinned in steps}
        return {}

    def load(self, step: int | None = None) -> Saved | None:
        """The newest checkpoint that verifies to the last byte, or the one of `step`; None where there is none at all.

        Damaged ones are logged, listed in `damaged`, and set aside as `step-N.damaged` once a good one is found.
        """
        present = sorted(self._numbered(_STEP), reverse=True)
        if step is not None and step not in present:
            known = ", ".join(map(str, reversed(present))) or "none"
            raise BundleError(f"{self.folder} has no checkpoint of step {step}; there are: {known}")
        faults: dict[int, str] = {}
        for candidate in present if step is None else [step]:
            fault = self._fault(candidate)
            if fault is None:
                self._set_aside(list(faults))
                envelope = read_json(self._place(candidate) / STATE)
                tensors = Groups(self._place(candidate), envelope["groups"])
                return Saved(candidate, self._place(candidate), envelope["state"], tensors, tuple(faults.values()))
            log.warning("checkpoint of step %d is not usable: %s", candidate, fault)
            faults[candidate] = fault
        if faults:
            listed = "; ".join(faults.values())
            raise BundleError(
                f"no checkpoint in {self.folder} is usable; choose another folder to start anew: {listed}"
            )
        return None

    def read(self, step: int, group: str) -> dict[str, Tensor]:
        """One group of one checkpoint, for averaging; only that file is verified."""
        if step not in self._numbered(_STEP):
            raise BundleError(f"{self.folder} has no checkpoint of step {step}; there are: {self.steps()}")
        name = f"{group}.safetensors"
        if fault := self._fault(step, only=name):
            raise BundleError(fault)
        return read_tensors(self._place(step) / name)

    # ----------------------------------------------------------------------------------------------------- within

    @property
    def _may_write(self) -> bool:
        return self.lock is not None and self.lock.held

    def _place(self, step: int) -> Path:
        return self.folder / f"step-{step}"

    def _numbered(self, pattern: re.Pattern[str]) -> dict[int, Path]:
        """The folders that follow a pattern, by step."""
        paths = self.folder.iterdir() if self.folder.is_dir() else iter(())
        return {int(match[1]): path for path in paths if (match := pattern.fullmatch(path.name)) and path.is_dir()}

    def _fault(self, step: int, *, only: str | None = None, deep: bool = True) -> str | None:
        """What is wrong with a checkpoint, in a sentence that names the file, or None."""
        folder = self._place(step)
        marker = folder / COMMITTED
        try:
            try:
                committed = marker.read_bytes().decode("ascii", "replace")
            except OSError as error:
                return f"{marker} cannot be read ({error.strerror}): it was never finished or has lost its end"
            if not re.fullmatch(r"[0-9a-f]{64}\n", committed):
                return f"{marker} is damaged: it holds no SHA-256"
            read_manifest(folder)
            if digest(folder / MANIFEST) != committed.strip():
                return f"{marker} and {MANIFEST} do not belong together; one of them is damaged or from elsewhere"
            verify(folder, only=[only] if only else None, deep=deep)
            if deep and only is None and (said := read_json(folder / STATE)["step"]) != step:
                return f"{folder / STATE} is of step {said}, not {step}"
        except (BundleError, OSError) as error:
            return str(error)
        return None

    def _set_aside(self, steps: list[int]) -> None:
        """Out of the count of what is kept, but left for people to look at until newer ones have replaced it."""
        if not self._may_write:
            return
        aside = self._numbered(_DAMAGED)
        for step in steps:
            try:
                if step in aside:
                    remove_folder(aside[step])
                self._place(step).rename(self.folder / f"step-{step}.damaged")
            except (RunError, OSError) as error:
                log.warning("could not set the damaged checkpoint of step %d aside: %s", step, error)

    def _tidy(self, step: int, pinned: set[int]) -> None:
        """After a commit; whatever fails here costs disk space, never the checkpoint."""
        try:
            write_text(self.folder / "latest", f"step-{step}\n")
            newest = self.steps()[-self.keep :]
            for old, path in self._numbered(_STEP).items():
                if old < newest[0] and old not in pinned:
                    remove_folder(path)
            for old, path in self._numbered(_DAMAGED).items():
                if old < newest[0]:
                    remove_folder(path)
        except (RunError, OSError) as error:
            log.warning("checkpoint of step %d is safe, but older ones could not be tidied: %s", step, error)


def _check_plain(value: Any, where: str) -> None:
    """What JSON would change without a word (tuples, numbers as keys) is refused before it is saved."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            assert isinstance(key, str), f"{where} has the key {key!r}, and JSON knows only strings"
            _check_plain(inner, f"{where}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _check_plain(inner, f"{where}[{index}]")
    else:
        assert value is None or type(value) in (str, int, float, bool), f"{where} is {type(value).__name__}, not JSON"
