"""A folder that survives anything: files and folders appear whole or not at all, and a manifest tells damage from data.

What is being written stands in a hidden sibling, `.NAME.TOKEN.partial`, that its writer keeps locked; it is synced
to the disk and then renamed into place. A hidden sibling that nobody holds was left by a killed process, and `clean`
takes it. Hidden names are no part of a folder's content. No tensor library is imported, so every command can afford it.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from qkv.errors import BundleError, RunError

MANIFEST = "manifest.json"
JSON_LIMIT = 64 * 2**20
_LEFTOVER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.(?P<kind>partial|replaced|removed)")


class Entry(NamedTuple):
    """What the manifest knows of one file."""

    size: int
    sha256: str


# ---------------------------------------------------------------------------------------------- what can go wrong


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns the operating system's refusals into one sentence about `path`."""
    try:
        yield
    except OSError as error:
        raise RunError(_sentence(error, path)) from error


def _sentence(error: OSError, path: Path) -> str:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            cause = f"no space left, {_free(path)} free"
            remedy = "make room or choose a folder on another disk"
        case errno.EFBIG:
            cause, remedy = "the file would pass this process's size limit", "raise `ulimit -f` or choose another disk"
        case errno.EROFS:
            cause, remedy = "its file system is read-only", "mount it writable or choose another folder"
        case errno.EACCES | errno.EPERM:
            cause, remedy = (
                f"user {os.geteuid()} may not write there",
                "change its permissions or choose another folder",
            )
        case errno.EIO:
            cause, remedy = (
                "the disk reports an input/output error",
                "check the disk, or choose a folder on another one",
            )
        case _:
            cause, remedy = (error.strerror or str(error)).lower(), "choose another folder"
    return f"cannot write {path}: {cause}; {remedy}"


def _free(path: Path) -> str:
    for folder in path.absolute().parents:
        with suppress(OSError):
            return f"{shutil.disk_usage(folder).free / 1e6:.1f} MB"
    return "an unknown amount"


# -------------------------------------------------------------------------------------------- whole or not at all


def sync(path: Path) -> None:
    """Returns when a file's bytes, or a folder's list of names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Like `mkdir -p`, and on the disk when it returns."""
    with writing(path):
        for folder in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
            folder.mkdir(exist_ok=True)
            sync(folder.parent)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yields a draft to write; `path` becomes it when the block ends well and is left as it was when it does not."""
    with writing(path), _partial(path) as scratch:
        draft = scratch / path.name
        yield draft
        _settle(scratch)
        os.replace(draft, path)
        sync(path.parent)


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yields a folder to fill; it becomes `path` when the block ends well. One that is there is kept until then."""
    if not replace and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunError(f"{path} is there already and is not empty; choose another folder or remove it")
    with writing(path), _partial(path) as scratch:
        yield scratch
        _settle(scratch)
        if path.exists():
            _exchange(scratch, path)
        else:
            os.rename(scratch, path)
            sync(path.parent)


def remove_folder(path: Path) -> None:
    """Gone in one step: no reader ever sees it half empty."""
    with writing(path):
        doomed = _sibling(path, "removed")
        os.rename(path, doomed)
        sync(path.parent)
        shutil.rmtree(doomed)


def clean(folder: Path) -> list[str]:
    """Removes what killed writers left in `folder`, puts back what they were replacing, and names both."""
    found = []
    with writing(folder):
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            match = _LEFTOVER.fullmatch(path.name)
            handle = _hold(path) if match and path.is_dir() and not path.is_symlink() else None
            if match is None or handle is None:
                continue
            try:
                target = folder / match["name"]
                if match["kind"] == "replaced" and not target.exists():
                    os.rename(path, target)
                else:
                    shutil.rmtree(path)
            finally:
                os.close(handle)
            found.append(path.name)
    return found


@contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """A hidden folder beside `path`, locked while in use, gone afterwards whatever happens."""
    make_folder(path.parent)
    scratch, handle = _claim(path)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        os.close(handle)


def _sibling(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{kind}")


def _claim(path: Path) -> tuple[Path, int]:
    while True:
        scratch = _sibling(path, "partial")
        os.mkdir(scratch)
        try:
            handle = _hold(scratch)
        except OSError:
            with suppress(OSError):
                os.rmdir(scratch)
            raise
        if handle is not None:
            if scratch.exists():
                return scratch, handle
            os.close(handle)  # a cleaner was quicker than our lock


def _hold(folder: Path) -> int | None:
    """An open, locked handle on the folder, or None where another process holds it or it is gone."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:
        os.close(handle)
        raise
    return handle


def _settle(scratch: Path) -> None:
    """Syncs everything under `scratch`, files before the folders that name them, with the rights the umask gives."""
    for leftover in [path for path in scratch.rglob(".*.partial") if _LEFTOVER.fullmatch(path.name)]:
        shutil.rmtree(leftover)  # the draft of a file whose own removal was refused
    mode = scratch.stat().st_mode & 0o666  # some libraries write through private files of their own
    for folder, _, names in os.walk(scratch, topdown=False):
        for name in names:
            os.chmod(os.path.join(folder, name), mode)
            sync(Path(folder, name))
        sync(Path(folder))


def _exchange(scratch: Path, path: Path) -> None:
    """Between the two renames `path` is away; a kill there is mended by `clean`, which puts the old one back."""
    old, handle = _sibling(path, "replaced"), _hold(path)
    try:
        os.rename(path, old)
        try:
            os.rename(scratch, path)
        except BaseException:
            os.rename(old, path)
            raise
        sync(path.parent)
        with suppress(RunError):  # the new one is in place; what is left of the old one waits for `clean`
            remove_folder(old)
    finally:
        if handle is not None:
            os.close(handle)


# ----------------------------------------------------------------------------------------------------------- JSON


def canonical(value: Any, *, finite: bool = True) -> str:
    """The one JSON text of a value: sorted keys, a newline at the end; infinities only where `finite` is off."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=not finite) + "\n"


def write_text(path: Path, text: str) -> None:
    """Replaces a file by UTF-8 text, whole or not at all."""
    with new_file(path) as draft:
        draft.write_bytes(text.encode("utf-8"))


def write_json(path: Path, value: Any, *, finite: bool = True) -> None:
    """Replaces a file by the canonical JSON of a value."""
    write_text(path, canonical(value, finite=finite))


def read_json(path: Path, *, limit: int = JSON_LIMIT) -> Any:
    """Reads JSON of bounded size; whatever is wrong with it is one BundleError."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise BundleError(f"{path} is larger than {limit} bytes, the limit for JSON here; it is not a file of ours")
        return json.loads(raw.decode("utf-8"))
    except FileNotFoundError:
        raise BundleError(f"{path} is missing; restore it from a copy") from None
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}; restore it from a copy") from error
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path} is not JSON ({error}); restore it from a copy") from error


# ------------------------------------------------------------------------------------------------------- manifest


def digest(path: Path) -> str:
    """SHA-256 of a file, read in small pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_manifest(folder: Path, *, beside: Collection[str] = ()) -> None:
    """Lists every file with size and SHA-256, but not what the names in `beside` (at the top) hold."""
    with writing(folder / MANIFEST):
        files = {
            name: {"size": (folder / name).stat().st_size, "sha256": digest(folder / name)}
            for name in _listing(folder, beside)
        }
    body = {"beside": sorted(beside), "files": files, "version": 1}
    write_json(folder / MANIFEST, body | {"sha256": _seal(body)})


def read_manifest(folder: Path) -> dict[str, Entry]:
    """What the folder should hold, by name, from a manifest that is itself as it was written."""
    return _read_manifest(folder)[0]


def verify(folder: Path, *, only: Collection[str] | None = None, deep: bool = True) -> None:
    """Raises a BundleError that names the first file at fault: missing, unlisted, of another size or hash.

    `only` looks at some files; `deep=False` compares no hashes.
    """
    files, beside = _read_manifest(folder)
    present = set(_listing(folder, beside))
    for name in sorted(files if only is None else only):
        if name not in files:
            raise BundleError(f"{folder / name} is not listed in {MANIFEST}; listed: {', '.join(sorted(files))}")
        if name not in present:
            raise BundleError(f"{folder / name} is missing, though {MANIFEST} lists it; restore it from a copy")
    if only is None and (unlisted := sorted(present - set(files))):
        raise BundleError(f"{folder / unlisted[0]} is not listed in {MANIFEST}; move it elsewhere")
    chosen = {name: files[name] for name in sorted(files if only is None else only)}
    try:
        for name, entry in chosen.items():
            if (size := (folder / name).stat().st_size) != entry.size:
                raise BundleError(
                    f"{folder / name} is damaged: {size} bytes where {MANIFEST} says {entry.size}; "
                    "restore it from a copy"
                )
        for name, entry in chosen.items() if deep else ():
            if digest(folder / name) != entry.sha256:
                raise BundleError(
                    f"{folder / name} is damaged: its SHA-256 is not the one in {MANIFEST}; restore it from a copy"
                )
    except OSError as error:
        raise BundleError(f"{folder / name} cannot be read: {error.strerror}; restore it from a copy") from error


def _seal(body: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(body).encode()).hexdigest()


def _read_manifest(folder: Path) -> tuple[dict[str, Entry], list[str]]:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise BundleError(f"{folder} is not a folder; give the path of a model or a run")
    document = read_json(path)
    try:
        body = {key: value for key, value in document.items() if key != "sha256"}
        if body["version"] != 1:
            raise BundleError(f"{path} has version {body['version']!r}, this qkv reads 1; use a newer qkv")
        # A flipped blank parses to the same value, so the bytes are compared, not only the seal.
        if document["sha256"] != _seal(body) or canonical(document).encode() != path.read_bytes():
            raise BundleError(f"{path} is damaged: it does not bear its own SHA-256; restore it from a copy")
        files = {name: Entry(int(entry["size"]), str(entry["sha256"])) for name, entry in body["files"].items()}
        return files, [str(name) for name in body["beside"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BundleError(f"{path} is damaged: not a manifest; restore it from a copy") from error


def _listing(folder: Path, beside: Collection[str]) -> list[str]:
    """The names of all files, as relative paths with slashes, sorted; hidden ones and the manifest apart."""
    found = []
    for top, folders, names in os.walk(folder):
        at_top = Path(top) == folder
        skipped = {MANIFEST, *beside} if at_top else set()
        folders[:] = [name for name in folders if not name.startswith(".") and name not in skipped]
        for name in [*names, *(name for name in folders if os.path.islink(os.path.join(top, name)))]:
            if name.startswith(".") or name in skipped:
                continue
            path = Path(top, name)
            # A named pipe would hang the reader, a linked folder would hide what is under it.
            if not path.exists() or not stat.S_ISREG(path.stat().st_mode):
                raise BundleError(
                    f"{path} is neither a file nor a folder; remove it or replace it by what it points to"
                )
            found.append(path.relative_to(folder).as_posix())
    return sorted(found)
