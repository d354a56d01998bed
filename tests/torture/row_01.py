"""Row 1: `kill -9` of `qkv train` at random moments, a third of them between a save's first byte and its commit."""

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import Popen

from qkv.lock import FolderLock
from qkv.train.checkpoint import Checkpoints, Saved
from tests.torture.faults import killed_at
from tests.torture.row import Result, hidden, process
from tests.torture.saver import is_whole, tensors_of
from tests.torture.trainee import Lockstep, recipe, trainer_of, write_recipe

TITLE = "kill -9 at random moments of a run, a third within a save"
TARGET = "all resume from a verified checkpoint, at most one save lost, no manual step"
COUNT = 200
PATIENCE = 120.0  # seconds until a run that saves nothing new counts as hung

SAVER = ["-m", "tests.torture.saver", "--out"]


def run(count: int = COUNT, seed: int = 0) -> Result:
    """Kills of two trainings side by side at random moments, then one before each single call of a save."""
    result = Result()
    with ThreadPoolExecutor(2) as pool:
        halves = pool.map(kill_training, [-(-count // 2), count // 2], [2 * seed, 2 * seed + 1])
    for half in halves:
        result.trials += half.trials
        result.misses += half.misses
        result.notes += half.notes
    at_random = result.trials
    for step in (3, 4):
        kill_at_each_call(result, step, range(1, 1000))
    result.notes.append(f"{at_random} of the kills at random, the others before each single call of a save")
    return result


def kill_training(count: int, seed: int = 0) -> Result:
    """The real `qkv train`, saving after every step; each checkpoint must be that of a run that nobody kills."""
    endless = {"save_every": 1, "max_steps": 10**9, "validate_every": 7}
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        file = write_recipe(Path(name), **endless)
        command = ["-m", "qkv", "train", "--config", str(file), "--quiet", "--out"]
        with trainer_of(recipe(Path(name), **endless), Path(name, "beside")) as beside:
            return kill_at_random(count, seed, command=command, sound=Lockstep(beside))


def kill_at_random(
    count: int,
    seed: int = 0,
    *,
    command: list[str] | None = None,
    sound: Callable[[Saved], bool] = is_whole,
) -> Result:
    """Starts `command FOLDER` again and again, kills it, and reads the folder after each kill.

    Another run is put to the test by its own command line and its own `sound`, nothing else.
    """
    result, chance, inside = Result(), random.Random(seed), 0
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        run_folder = Path(name, "run")
        checkpoints = run_folder / "checkpoints"
        newest = 0
        while result.trials < count or inside * 3 < count:
            if result.misses or result.trials > 3 * count:
                break
            aim_inside = inside * 3 <= result.trials
            with process([*(command or SAVER), str(run_folder)]) as child:
                took = _wait_for_save(child, checkpoints, newest)
                if took is None:
                    result.trials += 1
                    result.expect(False, f"kill {result.trials}: the run did not go on by itself: {_last_words(child)}")
                    break
                if aim_inside:
                    _wait_for_partial(checkpoints)
                    time.sleep(chance.random() * took)
                else:
                    time.sleep(chance.random() * 3 * took)
                child.send_signal(signal.SIGKILL)
                child.wait()
            result.trials += 1
            inside += bool(_partial(checkpoints))
            newest = _judge(result, checkpoints, newest, sound)
    result.notes.append(f"{inside} of {result.trials} within a save")
    result.expect(inside * 3 >= count, f"only {inside} kills fell within a save")
    return result


def kill_at_each_call(result: Result, step: int, places: range) -> None:
    """A save that dies just before its k-th call on the disk, until one gets through; steps 1 to 3 are there before."""
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        pristine, work = Path(name, "pristine"), Path(name, "work")
        with FolderLock(pristine) as lock:
            checkpoints = Checkpoints(pristine / "checkpoints", lock=lock)
            for before in (1, 2, 3):
                checkpoints.save(before, tensors_of(before, 20), {"position": before})
        new = tensors_of(step, 20)

        def save() -> None:
            with FolderLock(work) as lock:
                Checkpoints(work / "checkpoints", lock=lock).save(step, new, {"position": step}, pin="best")

        committed = False
        for place in places:
            shutil.copytree(pristine, work)
            if not killed_at(place, save):
                result.expect(committed, "no call of a save comes after its commit")
                return
            result.trials += 1
            where = f"save of step {step} killed at call {place}"
            reader = Checkpoints(work / "checkpoints").load()
            result.expect(reader is not None and is_whole(reader), f"{where}: a reader finds nothing sound")
            with FolderLock(work) as lock:
                opened = Checkpoints(work / "checkpoints", lock=lock)
                saved = opened.load()
                result.expect(saved is not None and saved.step >= 3 and is_whole(saved), f"{where}: steps were lost")
                result.expect(saved is None or not saved.damaged, f"{where}: damage")
                result.expect(opened.pins() == {"best": step} or not committed, f"{where}: committed, then not")
                committed = opened.pins() == {"best": step}
            result.expect(not hidden(work), f"{where}: litter {hidden(work)}")
            shutil.rmtree(work)
        result.expect(False, f"save of step {step}: never came to its end")


def _judge(result: Result, checkpoints: Path, before: int, sound: Callable[[Saved], bool]) -> int:
    """The newest step under a final name must be the one that loads: nothing that was committed is lost."""
    visible = max(_steps(checkpoints), default=0)
    saved = Checkpoints(checkpoints).load()
    where = f"kill {result.trials}"
    if saved is None:
        result.expect(False, f"{where}: no checkpoint left")
        return before
    result.expect(saved.step == visible, f"{where}: step {saved.step} loads where {visible} was committed")
    result.expect(saved.step >= before, f"{where}: back from step {before} to {saved.step}")
    result.expect(not saved.damaged, f"{where}: damage {saved.damaged}")
    result.expect(sound(saved), f"{where}: step {saved.step} is not what was saved")
    return saved.step


def _steps(checkpoints: Path) -> list[int]:
    names = os.listdir(checkpoints) if checkpoints.is_dir() else []
    return [int(name.removeprefix("step-")) for name in names if name.startswith("step-") and name[5:].isdigit()]


def _partial(checkpoints: Path) -> list[str]:
    """Folders of saves that have begun and are not committed."""
    names = os.listdir(checkpoints) if checkpoints.is_dir() else []
    return [name for name in names if name.startswith(".step-") and name.endswith(".partial")]


def _wait_for_save(child: "Popen[str]", checkpoints: Path, before: int) -> float | None:
    """Seconds between the first two saves that are newer than `before`, or None where the run ends or hangs."""
    deadline, first = time.monotonic() + PATIENCE, 0.0
    while child.poll() is None and time.monotonic() < deadline:
        newest = max(_steps(checkpoints), default=0)
        if newest > before and not first:
            first, before = time.monotonic(), newest
        elif newest > before:
            return time.monotonic() - first
        time.sleep(0.001)
    return None


def _wait_for_partial(checkpoints: Path) -> None:
    """Until the next save writes its first byte."""
    deadline, stale = time.monotonic() + PATIENCE, set(_partial(checkpoints))
    while not set(_partial(checkpoints)) - stale and time.monotonic() < deadline:
        time.sleep(0.0002)


def _last_words(child: "Popen[str]") -> str:
    if child.poll() is None:
        return "it hangs"
    return f"exit {child.returncode}, {(child.stderr.read() if child.stderr else '').strip()[-300:]}"
