"""Parallel text in each of its forms: the same pairs, exact counts, and a sentence for each way it can be wrong."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from qkv.data.sources import COUNTED, Pair, ParallelText, corpus
from qkv.errors import ConfigError, DataError

PAIRS = [Pair("ein Hund", "a dog"), Pair("zwei\u2028Hunde ", "two dogs"), Pair("drei", "three\x85")]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def rows(texts: list[str]) -> bytes:
    return "".join(text + "\n" for text in texts).encode()


def two(folder: Path, source: bytes, target: bytes, **settings: Any) -> ParallelText:
    return ParallelText(write(folder / "text.de", source), write(folder / "text.en", target), **settings)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_every_form_gives_the_same_pairs(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / f"a.de{suffix}", rows([pair.source for pair in PAIRS]))
    write(tmp_path / f"a.en{suffix}", rows([pair.target for pair in PAIRS]))
    write(tmp_path / f"b.tsv{suffix}", rows([f"{pair.target}\t{pair.source}\tnote" for pair in PAIRS]))
    objects = [json.dumps({"en": pair.target, "id": 1, "de": pair.source}) for pair in PAIRS]
    write(tmp_path / f"c.jsonl{suffix}", rows(objects))
    for pattern in ("{folder}/a.{lang}", "{folder}/b.tsv", "{folder}/c.jsonl"):
        text = corpus(pattern + suffix, folder=str(tmp_path), source="de", target="en", columns=(1, 0))
        assert list(text) == list(text) == PAIRS
        assert text.counts == dict.fromkeys(COUNTED, 0) | {"read": 3, "kept": 3}


def test_every_drop_is_counted_once(tmp_path: Path) -> None:
    source = b"one\nb\xffd\nn\0l\n" + b"x" * 99 + b"\n\n \t\nfine\nlast"
    target = b"eins\nok\nok\nok\nok\nok\nbad\xff\nzuletzt\n"
    text = two(tmp_path, source, target, bad_lines="skip", max_line_bytes=20)
    assert list(text) == [("one", "eins"), ("last", "zuletzt")]
    expected = {"read": 8, "kept": 2, "bad_utf8": 2, "nul": 1, "too_long": 1, "empty_side": 2}
    assert text.counts == dict.fromkeys(COUNTED, 0) | expected


def test_json_lines_that_are_no_pair_are_counted(tmp_path: Path) -> None:
    good = '{"source": "a", "target": "b"}'
    bad = ["[]", "{", '{"source": 1, "target": "b"}', "[" * 5000, '{"source": 1' + "0" * 5000 + "}"]
    missing = ['{"source": "a"}', '{"source": "a", "target": null}']
    other = ['{"source": "\\ud800", "target": "b"}', '{"source": "\\u0000", "target": "b"}', ""]
    path = write(tmp_path / "a.jsonl", rows([good, *bad, *missing, *other]))
    text = ParallelText(path, bad_lines="skip")
    assert list(text) == [("a", "b")]
    expected = {"read": 11, "kept": 1, "bad_json": 5, "missing_column": 2, "bad_utf8": 1, "nul": 1, "empty_side": 1}
    assert text.counts == dict.fromkeys(COUNTED, 0) | expected


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.tsv", b"a\tb\nc\xff\td\n", r"a\.tsv, line 2: not UTF-8; .* data\.bad_lines: skip"),
        ("a.tsv", b"a\tb\nc\0\td\n", r"a\.tsv, line 2: holds a NUL"),
        ("a.tsv", b"a\tb\n" + b"c" * 60 + b"\td\n", r"a\.tsv, line 2: longer than 50 bytes"),
        ("a.tsv", b"a\tb\n\nc d\n", r"a\.tsv, line 3: has no text in columns \(0, 1\)"),
        ("a.jsonl", b'{"source": "a"}\n', r"a\.jsonl, line 1: has no text in keys \('source', 'target'\)"),
        ("a.jsonl", b"words\n", r"a\.jsonl, line 1: is not a JSON object"),
        ("a.tsv", b"", r"a\.tsv: no sentence pair to use \(empty\)"),
        ("a.tsv", b"\n\t\n", r"no sentence pair to use \(2 read, 2 empty side\)"),
    ],
)
def test_refusals_name_file_line_and_remedy(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        list(ParallelText(write(tmp_path / name, content), max_line_bytes=50))


def test_the_side_at_fault_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"text\.en, line 2: not UTF-8"):
        list(two(tmp_path, b"a\nb\n", b"a\n\xff\n"))
    with pytest.raises(DataError, match=r"text\.en, line 1: holds a NUL"):
        list(two(tmp_path, b"a\n", b"\0b\n"))


@pytest.mark.parametrize(("source", "target", "counts"), [(2, 5, "2 .* 5"), (4, 1, "4 .* 1"), (0, 3, "0 .* 3")])
def test_misaligned_files_are_refused_with_both_counts(tmp_path: Path, source: int, target: int, counts: str) -> None:
    text = two(tmp_path, b"a\n" * source, b"b\n" * target)
    numbers = counts.replace(".*", r"lines and \S*text\.en has")
    with pytest.raises(DataError, match=rf"text\.de has {numbers}"):
        list(text)


def test_missing_files_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.de", b"a\n")
    with pytest.raises(DataError, match=r'train\.en: no such file; did you mean "train\.de"'):
        list(corpus("{folder}/train.{lang}", folder=str(tmp_path), source="de", target="en"))
    (tmp_path / "folder.tsv").mkdir()
    with pytest.raises(DataError, match="a folder, not a file"):
        list(ParallelText(tmp_path / "folder.tsv"))
    os.mkfifo(tmp_path / "pipe.tsv")
    with pytest.raises(DataError, match="can be read only once"):
        list(ParallelText(tmp_path / "pipe.tsv"))


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    for settings in ({"weight": 0.0}, {"weight": float("nan")}, {"columns": (1, 1)}, {"columns": (-1, 0)}):
        with pytest.raises(ConfigError):
            ParallelText(path, **settings)
    with pytest.raises(ConfigError, match="two languages"):
        corpus("a.{lang}", folder="", source="de", target="de")
    with pytest.raises(DataError, match=r"a\.csv: .*\.tsv, \.tsv\.gz, \.jsonl, \.jsonl\.gz"):
        corpus("{folder}/a.csv", folder=str(tmp_path), source="de", target="en")
    with pytest.raises(DataError, match=r"take .lang. out"):
        corpus("a.{lang}.tsv", folder="", source="de", target="en")


def test_the_fingerprint_follows_content_and_reading_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    text = two(tmp_path, b"a\n", b"b\n")
    first = text.fingerprint()
    assert two(tmp_path / "elsewhere", b"a\n", b"b\n", weight=2.0).fingerprint() == first
    assert two(tmp_path, b"a\n", b"b\n", bad_lines="skip").fingerprint() != first
    assert ParallelText(tmp_path / "text.en", tmp_path / "text.de").fingerprint() != first
    assert two(tmp_path, b"a\n", b"c\n").fingerprint() != first
    table = write(tmp_path / "a.tsv", b"a\tb\n")
    assert ParallelText(table).fingerprint() != ParallelText(table, columns=(1, 0)).fingerprint()
    assert ParallelText(table).fingerprint() == ParallelText(table, keys=("x", "y")).fingerprint()
