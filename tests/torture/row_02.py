"""Row 2: flip, zero, truncate, swap or delete in the files of checkpoints and bundles; each is found and named."""

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from qkv.errors import BundleError
from qkv.folder import verify, write_json, write_manifest
from qkv.lock import FolderLock
from qkv.tensors import write_tensors
from qkv.train.checkpoint import Checkpoints
from tests.torture.row import Result
from tests.torture.saver import is_whole, tensors_of

TITLE = "flip, zero, truncate, swap, delete in checkpoints and bundles"
TARGET = "all found, the file named, the previous good step loaded, none silent"
COUNT = 500


def flip(path: Path, other: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def zero(path: Path, other: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    start = chance.choice([index for index, byte in enumerate(data[:4096]) if byte])
    stop = chance.randint(start + 1, len(data))
    path.write_bytes(data[:start] + bytes(stop - start) + data[stop:])


def truncate(path: Path, other: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])


def swap(path: Path, other: Path, chance: random.Random) -> None:
    mine, theirs = path.read_bytes(), other.read_bytes()
    assert mine != theirs, f"{path.name} and {other.name} are alike: swapping them damages nothing"
    path.write_bytes(theirs)
    other.write_bytes(mine)


def delete(path: Path, other: Path, chance: random.Random) -> None:
    path.unlink()


DAMAGES: tuple[Callable[[Path, Path, random.Random], None], ...] = (flip, zero, truncate, swap, delete)


def run(count: int = COUNT, seed: int = 0) -> Result:
    """Every damage in turn, on a file drawn anew: half of them in checkpoints, half in a bundle."""
    result, chance = Result(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        pristine = Path(name, "pristine")
        _build(pristine)
        for trial in range(count):
            damage, subject = DAMAGES[trial % 5], (_checkpoint, _bundle)[trial // 5 % 2]
            work = Path(name, "work")
            shutil.copytree(pristine, work)
            result.trials += 1
            subject(result, work, damage, chance)
            shutil.rmtree(work)
    return result


def _build(root: Path) -> None:
    with FolderLock(root) as lock:
        checkpoints = Checkpoints(root / "checkpoints", keep=3, lock=lock)
        for step in (1, 2, 3):
            checkpoints.save(step, tensors_of(step, 500), {"position": step})
    bundle = root / "bundle"
    weights = {"embed": torch.arange(500.0), "bias": torch.ones(7)}
    write_tensors(bundle / "model.safetensors", weights)
    for place, value in (("config.json", {"model_type": "transformer"}), ("generation_config.json", {"num_beams": 4})):
        write_json(bundle / place, value)
    for role in ("source", "target"):
        write_json(bundle / role / "tokenizer.json", {"model": {"vocab": {role: 0}}})
    write_manifest(bundle)


def _checkpoint(result: Result, root: Path, damage: Callable[..., None], chance: random.Random) -> None:
    """Damage in the newest step; a swap is with another file of it, or with the same file one step before."""
    folder = root / "checkpoints"
    path = chance.choice(sorted((folder / "step-3").iterdir()))
    neighbours = [other for other in sorted(path.parent.iterdir()) if other != path]
    older = folder / "step-2" / path.name
    other = older if chance.random() < 0.5 else chance.choice(neighbours)
    expected = 1 if damage is swap and other is older else 2
    damage(path, other, chance)
    what = f"{damage.__name__} of {path.name}" + (f" with {other.parent.name}/{other.name}" if damage is swap else "")
    try:
        saved = Checkpoints(folder, keep=3).load()
    except BundleError as error:
        result.expect(False, f"{what}: nothing loads: {error}")
        return
    result.expect(saved is not None and saved.step == expected, f"{what}: step {saved and saved.step} loads")
    result.expect(saved is not None and is_whole(saved), f"{what}: wrong content")
    named = saved.damaged[0] if saved and saved.damaged else ""
    names = {path.name} | ({other.name} if damage is swap else set())
    result.expect(any(name in named for name in names) and "step-3" in named, f"{what}: not named in {named!r}")


def _bundle(result: Result, root: Path, damage: Callable[..., None], chance: random.Random) -> None:
    files = sorted(path for path in (root / "bundle").rglob("*") if path.is_file())
    path, other = chance.sample(files, 2)
    damage(path, other, chance)
    what = f"{damage.__name__} of bundle's {path.name}" + (f" with {other.name}" if damage is swap else "")
    try:
        verify(root / "bundle")
    except BundleError as error:
        names = [path] if damage is not swap else [path, other]
        result.expect(any(str(place) in str(error) for place in names), f"{what}: not named in {str(error)!r}")
    else:
        result.expect(False, f"{what}: silent")
