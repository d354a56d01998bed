"""Tensors come back as they were, tied ones tied; damaged files are a sentence."""

from pathlib import Path

import pytest
import torch

from qkv.errors import BundleError, RunError
from qkv.tensors import read_tensors, write_tensors


def test_tensors_of_every_kind_come_back(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "plain": base,
        "turned": base.t(),
        "row": base[1],
        "narrow": torch.ones(3, dtype=torch.bfloat16),
        "flags": torch.tensor([True, False]),
        "random": torch.arange(5, dtype=torch.uint8),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(7),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    write_tensors(tmp_path / "a.safetensors", tensors, metadata={"step": "3"})
    back = read_tensors(tmp_path / "a.safetensors")
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(back[name], tensor), name
        assert back[name].dtype == tensor.dtype
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_tied_names_are_stored_once_and_tied_again(tmp_path: Path) -> None:
    weight = torch.randn(64, 64)
    write_tensors(tmp_path / "tied", {"embed": weight, "output": weight, "source é": weight})
    write_tensors(tmp_path / "single", {"embed": weight})
    assert (tmp_path / "tied").stat().st_size - (tmp_path / "single").stat().st_size < 200
    back = read_tensors(tmp_path / "tied")
    assert back["embed"] is back["output"] is back["source é"]
    assert torch.equal(back["embed"], weight)


def test_the_same_tensors_are_the_same_bytes(tmp_path: Path) -> None:
    metadata = {str(number): "x" * number for number in range(20)}
    written = []
    for number in range(5):
        write_tensors(tmp_path / str(number), {"a": torch.ones(3)}, metadata=dict(sorted(metadata.items())))
        written.append((tmp_path / str(number)).read_bytes())
        metadata = dict(reversed(metadata.items()))
    assert len(set(written)) == 1


def test_what_was_read_does_not_depend_on_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_tensors(path, {"a": torch.arange(5000.0)})
    back = read_tensors(path)
    path.write_bytes(bytes(path.stat().st_size))
    assert torch.equal(back["a"], torch.arange(5000.0))


@pytest.mark.parametrize(
    "raw", [b"", b"12345678", b"\xff" * 8 + b"{}", b"\x02" + bytes(7) + b"{}x", b"\x80\x02}q\x00."]
)
def test_a_damaged_file_is_a_sentence(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "bad").write_bytes(raw)
    with pytest.raises(BundleError, match="bad is not a sound safetensors file"):
        read_tensors(tmp_path / "bad")


def test_a_hostile_alias_is_a_sentence(tmp_path: Path) -> None:
    for aliases in ('{"b": "c"}', "[1]", "{", '{"b": {}}'):
        write_tensors(tmp_path / "bad", {"a": torch.ones(1)}, metadata={"aliases": aliases})
        with pytest.raises(BundleError, match="not a sound"):
            read_tensors(tmp_path / "bad")
    with pytest.raises(BundleError, match="missing"):
        read_tensors(tmp_path / "none")


def test_a_full_disk_inside_the_library_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.torch

    def full(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(RunError, match="no space left"):
        write_tensors(tmp_path / "a", {"a": torch.ones(1)})
    assert list(tmp_path.iterdir()) == []
