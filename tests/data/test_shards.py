"""What goes into shards comes out by number, whatever the shard; damage is found and named."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.data.shards import Shards, Side, Writer
from qkv.errors import DataError

ROWS = st.lists(st.lists(st.integers(0, 65535), max_size=6), min_size=1, max_size=30)


def write(
    folder: Path,
    rows: list[list[int]],
    chunk: int = 3,
    shard_tokens: int = 8,
    *,
    text: bool = False,
    vocabulary: int = 9,
) -> Shards:
    side = Side.of(vocabulary, 256, text)
    writer = Writer(folder, {"source": side, "target": side}, shard_tokens=shard_tokens)
    for first in range(0, len(rows), chunk):
        part = rows[first : first + chunk]
        texts = ["".join(chr(0xE0 + number) for number in row) for row in part]
        writer.add({"source": part, "target": [row[::-1] for row in part]}, {"source": texts, "target": texts})
    writer.close()
    return Shards(folder)


def rows_of(shards: Shards, side: str, samples: list[int]) -> list[list[int]]:
    flat, sizes = shards.ids(side, np.array(samples, dtype=np.int64))
    return [part.tolist() for part in np.split(flat, sizes.cumsum()[:-1])]


@given(ROWS, st.integers(1, 5), st.integers(1, 20), st.randoms(use_true_random=False))
def test_rows_come_back_by_number(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]], chunk: int, shard_tokens: int, random: object
) -> None:
    shards = write(tmp_path_factory.mktemp("shards"), rows, chunk, shard_tokens, vocabulary=65536)
    wanted = [random.randrange(len(rows)) for _ in range(10)]  # type: ignore[attr-defined]
    assert len(shards) == len(rows)
    assert rows_of(shards, "source", wanted) == [rows[sample] for sample in wanted]
    assert rows_of(shards, "target", wanted) == [rows[sample][::-1] for sample in wanted]
    assert shards.lengths["source"].tolist() == [len(row) + 1 for row in rows]


def test_shards_stay_within_their_size(tmp_path: Path) -> None:
    shards = write(tmp_path, [[5, 6, 7]] * 40, chunk=2, shard_tokens=12)
    assert shards.index.shards == [4] * 10
    assert (tmp_path / "00009.target.ids").stat().st_size == 24


def test_a_large_vocabulary_takes_wider_numbers(tmp_path: Path) -> None:
    assert Side.of(65_536, 100, False).ids == "<u2"
    shards = write(tmp_path, [[65_536, 1]], vocabulary=65_537)
    assert rows_of(shards, "source", [0]) == [[65_536, 1]]


def test_texts_are_kept_where_asked(tmp_path: Path) -> None:
    rows = [[number] * (number % 4) for number in range(20)]
    shards = write(tmp_path, rows, text=True)
    assert shards.texts("target", np.array([7, 0, 13, 7])) == ["ççç", "", "í", "ççç"]


def test_corpora_are_counted(tmp_path: Path) -> None:
    writer = Writer(tmp_path, {"target": Side.of(9, 10, False)})
    writer.add({"target": [[1], [2]]})
    writer.next_corpus()
    writer.next_corpus()
    writer.add({"target": [[3]]})
    assert writer.close().sizes == [2, 0, 1]
    assert rows_of(Shards(tmp_path), "target", [2, 0]) == [[3], [1]]


def test_nothing_asked_is_nothing_read(tmp_path: Path) -> None:
    flat, sizes = write(tmp_path, [[1]]).ids("source", np.array([], dtype=np.int64))
    assert (len(flat), len(sizes)) == (0, 0)


@pytest.mark.parametrize("name", ["00001.source.ids", "00000.target.offsets", "source.lengths", "00002.source.text"])
def test_a_file_of_another_size_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, [[1, 2, 3, 4]] * 9, text=True)
    with (tmp_path / name).open("ab") as file:
        file.write(b"\0")
    with pytest.raises(DataError, match=rf"{name} is damaged.*prepare it again"):
        Shards(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, [[1, 2, 3, 4]] * 9)
    (tmp_path / "00001.source.ids").unlink()
    with pytest.raises(DataError, match=r"00001.source.ids is missing"):
        Shards(tmp_path)


def test_a_flipped_bit_is_found_on_request(tmp_path: Path) -> None:
    write(tmp_path, [[1, 2, 3, 4]] * 9)
    path = tmp_path / "00001.source.ids"
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    assert len(Shards(tmp_path)) == 9
    with pytest.raises(DataError, match=r"00001.source.ids is damaged: its SHA-256"):
        Shards(tmp_path, verify=True)


def test_an_unfinished_folder_is_refused(tmp_path: Path) -> None:
    with Writer(tmp_path, {"target": Side.of(9, 10, False)}) as writer:
        writer.add({"target": [[1], [2]]})
    with pytest.raises(DataError, match=r"index.json is not there; give a folder that `qkv prepare` has made"):
        Shards(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "is of format 99, this version reads 1"),
        ({"samples": 3}, "contradicts itself"),
        ({"shards": [3, -1]}, "contradicts itself"),
        ({"shards": "2"}, "contradicts itself"),
        ({"sides": {"../x": {"ids": "<u2", "lengths": "<u2", "text": False}}}, "contradicts itself"),
        ({"sides": {"target": {"ids": "O", "lengths": "<u2", "text": False}}}, "contradicts itself"),
        ({"unknown": 1}, "contradicts itself"),
        ({"shards": [1, 1]}, "bytes, where .* belong"),
    ],
)
def test_an_index_that_lies_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    from qkv import folder

    write(tmp_path, [[1, 2], [3]])
    index = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "manifest.json").unlink()
    folder.write_json(tmp_path / "index.json", index | change)
    folder.write_manifest(tmp_path)
    with pytest.raises(DataError, match=message):
        Shards(tmp_path)
