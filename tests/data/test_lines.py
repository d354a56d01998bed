"""Lines are cut at line feeds alone, held in bounded memory, and refused with a sentence where they cannot be read."""

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.data import lines as module
from qkv.data.lines import bounded, lines, opened
from qkv.errors import DataError

HOSTILE = "a\u2028b\x85c\x0bd\x0ce\x1cf\rg"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\n\nb\n", ["a", "", "", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\r\n\r\n", ["a", "b\r", ""]),
        (HOSTILE.encode() + b"\nz\n", [HOSTILE, "z"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    ],
)
def test_lines_end_at_line_feeds_alone(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    plain, packed = tmp_path / "text", tmp_path / "text.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    assert list(lines(plain)) == list(lines(packed)) == list(lines(io.BytesIO(content))) == expected


@given(st.binary(max_size=60), st.integers(1, 12))
def test_the_limit_cuts_no_line_short(content: bytes, limit: int) -> None:
    whole = content.replace(b"\xef", b"e").split(b"\n")
    whole = whole if whole[-1] else whole[:-1]
    expected = [line if len(line) <= limit else None for line in (line.removesuffix(b"\r") for line in whole)]
    assert list(bounded(io.BytesIO(content.replace(b"\xef", b"e")), "text", limit)) == expected


def test_a_long_line_is_read_in_pieces() -> None:
    class Watched(io.BytesIO):
        largest = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            Watched.largest = max(Watched.largest, len(line))
            return line

    text = Watched(b"x" * 3_000_000 + b"\nafter\n")
    assert list(bounded(text, "text", 1000)) == [None, b"after"]
    assert Watched.largest == module.CHUNK


def test_a_line_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"good\nb\xffd\n")
    with pytest.raises(DataError, match=r"text, line 2, byte 2: not UTF-8"):
        list(lines(path))
    with pytest.raises(DataError, match=r"standard input, line 1: above 3 bytes"):
        list(lines(io.BytesIO(b"four"), max_line_bytes=3))


@pytest.mark.parametrize("spoil", [lambda b: b[:-9], lambda b: b[:20] + b"\xff\xff" + b[22:], lambda b: b"no" + b])
def test_damaged_gzip_is_told_apart_from_bad_text(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(spoil(gzip.compress(b"".join(b"line %d\n" % number for number in range(999)))))
    with pytest.raises(DataError, match=r"text\.gz: damaged gzip .* compress it again"):
        list(lines(path))


def test_what_is_not_a_readable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.en").write_bytes(b"a\n")
    (tmp_path / "wide").write_bytes("a\n".encode("utf-16"))
    (tmp_path / "packed").write_bytes(gzip.compress(b"a\n"))
    with pytest.raises(DataError, match=r'trian\.en: no such file; did you mean "train\.en"'):
        opened(tmp_path / "trian.en")
    with pytest.raises(DataError, match=rf"no folder {tmp_path}/no/where, the path exists up to {tmp_path}$"):
        opened(tmp_path / "no" / "where" / "file")
    with pytest.raises(DataError, match="a folder, not a file"):
        opened(tmp_path)
    with pytest.raises(DataError, match="UTF-16, not UTF-8"):
        opened(tmp_path / "wide")
    with pytest.raises(DataError, match=r"rename it to packed\.gz"):
        opened(tmp_path / "packed")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module, "open", denied, raising=False)
    with pytest.raises(DataError, match=r"cannot be opened .Permission denied.; check"):
        opened(tmp_path / "train.en")
