"""Lines of a text file, plain or gzip, in bounded memory: cut at line feeds and nowhere else.

`str.splitlines` and text-mode files also cut at U+2028, U+0085 or a lone carriage return, which misaligns parallel
files; here line n is line n for every tool.
"""

import gzip
import io
import stat
import zlib
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import NoReturn, Protocol, cast, runtime_checkable

from qkv.errors import DataError

MAX_LINE_BYTES = 1 << 20
CHUNK = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF8_MARK = b"\xef\xbb\xbf"


@runtime_checkable
class Readable(Protocol):
    """A binary stream, `sys.stdin.buffer` for one."""

    def readline(self, size: int = -1, /) -> bytes: ...


def lines(text: Path | Readable, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[str]:
    """Every line of a file or binary stream, blank ones too; a line that cannot be read is refused, never dropped."""
    if isinstance(text, Path):
        with opened(text) as file:
            yield from _decoded(file, str(text), max_line_bytes)
    else:
        yield from _decoded(text, "standard input", max_line_bytes)


def _decoded(file: Readable, name: str, limit: int) -> Iterator[str]:
    for number, line in enumerate(bounded(file, name, limit), start=1):
        if line is None:
            raise DataError(f"{name}, line {number}: above {limit} bytes; break it into shorter lines")
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            at = f"byte {error.start + 1}"
            raise DataError(f"{name}, line {number}, {at}: not UTF-8; convert the text to UTF-8") from None


def bounded(file: Readable, name: str, limit: int) -> Iterator[bytes | None]:
    """Each line without its end; None stands for one above `limit` bytes, which is passed over in pieces."""
    first = True
    while line := _read(file, name, limit + 2):
        if first:
            line = line.removeprefix(UTF8_MARK)
            first = False
        complete = line.endswith(b"\n")
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        if complete or len(line) < limit + 2:
            yield content if len(content) <= limit else None
            continue
        while (piece := _read(file, name, CHUNK)) and not piece.endswith(b"\n"):
            pass
        yield None


def _read(file: Readable, name: str, size: int) -> bytes:
    try:
        return file.readline(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name}: damaged gzip ({error}); fetch or compress it again") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error}); check the disk") from None


def opened(path: Path, *, raw: bool = False) -> io.BufferedReader:
    """The file's bytes, unpacked where its name ends in .gz (unless `raw`)."""
    try:
        if path.is_dir():
            raise DataError(f"{path}: a folder, not a file; name a file inside it")
        file = open(path, "rb")  # noqa: SIM115, the caller closes it
    except FileNotFoundError:
        _missing(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be opened ({why}); check its name and permissions") from None
    if raw:
        return file
    start = file.peek(2)[:2]
    if path.suffix == ".gz":
        return _Unpacked(file)
    if start in UTF16_MARKS:
        file.close()
        raise DataError(f"{path}: UTF-16, not UTF-8; convert it (iconv -f UTF-16 -t UTF-8)")
    if start == GZIP_MAGIC:
        file.close()
        raise DataError(f"{path}: gzip under a name without .gz; rename it to {path.name}.gz")
    return file


class _Unpacked(io.BufferedReader):
    """A gzip stream that closes the file beneath it: `GzipFile` leaves a file it was handed open."""

    def __init__(self, packed: io.BufferedReader) -> None:
        super().__init__(cast(io.RawIOBase, gzip.GzipFile(fileobj=packed, mode="rb")), CHUNK)
        self._packed = packed

    def close(self) -> None:
        super().close()
        self._packed.close()


def require_regular(path: Path) -> None:
    """A corpus is read several times, so a pipe or a device will not do."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        _missing(path)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be opened ({why}); check its name and permissions") from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(f"{path}: a pipe or device can be read only once; write it to a file first")


def _missing(path: Path) -> NoReturn:
    """Names the nearest file in the folder, or the nearest folder that exists."""
    folder = path.parent
    if not folder.is_dir():
        existing = next(parent for parent in folder.parents if parent.is_dir())
        raise DataError(f"{path}: no such file; there is no folder {folder}, the path exists up to {existing}")
    names = [entry.name for entry in islice(folder.iterdir(), 10_000)]
    close = get_close_matches(path.name, names, n=1)
    hint = f'did you mean "{close[0]}"?' if close else f"{folder.absolute()} has none of that name or near it"
    raise DataError(f"{path}: no such file; {hint}")
