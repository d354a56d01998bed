"""What is written is read; damage, foreign folders, open configs and giant sizes are refused by name."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv import folder as folders
from qkv.data.tokenizers.base import SPECIAL_TOKENS
from qkv.data.tokenizers.words import Words
from qkv.errors import BundleError
from qkv.models.base import weights
from qkv.pipeline import weights as weights_of
from qkv.pipeline.bundle import read_bundle
from qkv.tensors import write_tensors
from tests.pipeline.tiny import SOURCE, tiny_bundle

OTHER = Words((*SPECIAL_TOKENS, "one", "two", "three"))


def rewrite(path: Path, **changes: Any) -> None:
    """Changes config.json and makes the manifest agree, as an attacker or a careless hand would."""
    document = json.loads((path / "config.json").read_text())
    folders.write_json(path / "config.json", {**document, **changes})
    folders.write_manifest(path)


def model_of(path: Path, **changes: Any) -> dict[str, Any]:
    model = json.loads((path / "config.json").read_text())["model"]
    return {**model, **changes}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    kept = tiny_bundle(tmp_path / "m")
    bundle = read_bundle(tmp_path / "m")
    assert (bundle.decoding, bundle.longest_source) == ({"num_beams": 2, "max_new_tokens": 12}, 24)
    assert bundle.languages == {"source": "de", "target": "en"}
    assert bundle.source.fingerprint() == bundle.target.fingerprint() == SOURCE.fingerprint()
    read = weights(bundle.build(dtype=torch.float32))
    assert read.keys() == kept.keys()
    assert all(torch.equal(read[name], kept[name]) for name in kept)


def test_shared_weights_stay_shared_and_norms_stay_in_fp32(tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "m", tie="all")
    model = read_bundle(tmp_path / "m").build(dtype=torch.bfloat16)
    assert model.source.table.weight is model.target.table.weight
    kinds = {name: p.dtype for name, p in model.named_parameters()}
    assert kinds["source.table.weight"] == torch.bfloat16
    norms = {d for name, d in kinds.items() if ".norm." in name}
    assert norms == {torch.float32}, kinds
    assert not model.training


def test_two_tokenizers_in_folders_of_their_own(tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "m", target=OTHER, tie="target")
    assert {p.name for p in (tmp_path / "m" / "target").iterdir()} == {"tokenizer.json", "qkv_tokenizer.json"}
    bundle = read_bundle(tmp_path / "m")
    assert (bundle.source.size, bundle.target.size) == (SOURCE.size, OTHER.size)


def test_a_run_keeps_its_own_files_beside(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "checkpoints" / "step-1").mkdir(parents=True)
    (run / "checkpoints" / "step-1" / "x").write_text("big")
    (run / "log.jsonl").write_text("{}\n")
    tiny_bundle(run, seed=1)
    kept = tiny_bundle(run, seed=2)
    (run / "log.jsonl").write_text("more\n")
    (run / "notes.txt").write_text("written by hand, later")
    assert (run / "checkpoints" / "step-1" / "x").read_text() == "big"
    read = weights(read_bundle(run).build(dtype=torch.float32))
    assert torch.equal(read["source.table.weight"], kept["source.table.weight"])
    assert not [p.name for p in run.iterdir() if p.name.startswith(".")], "no litter"


def test_from_two_tokenizers_to_one_leaves_no_stale_one_in_use(tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "m", target=OTHER, tie="target")
    tiny_bundle(tmp_path / "m")
    assert read_bundle(tmp_path / "m").target.size == SOURCE.size


@pytest.mark.parametrize(
    "name", ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "README.md"]
)
@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_damage_is_found_and_named(tmp_path: Path, name: str, harm: str) -> None:
    tiny_bundle(tmp_path / "m")
    victim = tmp_path / "m" / name
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.unlink()
    if harm != "remove":
        victim.write_bytes(bytes(data) if harm == "flip" else bytes(data[:-1]))
    with pytest.raises(BundleError, match=name):
        read_bundle(tmp_path / "m")


def test_a_kill_between_two_renames_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_bundle(tmp_path / "m", seed=1)
    real, calls = os.replace, 0

    def killed(source: Path, target: Path) -> None:
        nonlocal calls
        if Path(target).parent == tmp_path / "m" and Path(source).parent.name == ".bundle":
            calls += 1
            if calls == 6:
                raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        tiny_bundle(tmp_path / "m", seed=2, decoding={"num_beams": 5})
    monkeypatch.undo()
    with pytest.raises(BundleError):
        read_bundle(tmp_path / "m")
    tiny_bundle(tmp_path / "m", seed=3)
    assert read_bundle(tmp_path / "m").decoding["num_beams"] == 2


def test_foreign_unfinished_and_missing_folders(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="is not there"):
        read_bundle(tmp_path / "nowhere")
    with pytest.raises(BundleError, match="holds no model"):
        read_bundle(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BundleError, match="reads its own alone"):
        read_bundle(tmp_path)
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with pytest.raises(BundleError, match="saved no model yet"):
        read_bundle(tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2, "qkv_version": "9.0"}, "written by qkv 9.0"),
        ({"format": None}, "no format number"),
        ({"auto_map": {"AutoModel": "evil.py"}}, '"auto_map" is unknown'),
        ({"model": {"name": "os.system"}}, "no model is called"),
        ({"model": "transformer\x00"}, "no model is called"),
        ({"vocabulary": {"source": 22}}, "not what qkv writes"),
        ({"vocabulary": {"source": 23, "target": 22}}, "says 23 source tokens"),
        ({"longest_source": -1}, "not what qkv writes"),
        ({"longest_source": 10**12}, "1000000000000"),
    ],
)
def test_config_is_closed_data(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    tiny_bundle(tmp_path / "m")
    rewrite(tmp_path / "m", **changes)
    with pytest.raises(BundleError, match=message):
        read_bundle(tmp_path / "m")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 4_000_000}, "more numbers than"),
        ({"encoder_layers": 4_000_000}, "more (tensors|numbers|layers) than"),
        ({"encoder_layers": 2}, "lacks encoder"),
        ({"decoder_layers": 1, "encoder_layers": 0}, "config.json does not know"),
        ({"feedforward": {"name": "relu", "hidden": 25}}, r"asks for \[25"),
        ({"width": 17}, "no model that can be built"),
        ({"width": 10**30}, "largest"),
    ],
)
def test_sizes_are_held_against_the_file_before_memory_is_taken(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    tiny_bundle(tmp_path / "m")
    rewrite(tmp_path / "m", model=model_of(tmp_path / "m", **changes))
    with pytest.raises(BundleError, match=message):
        read_bundle(tmp_path / "m").build(dtype=torch.float32)


def test_weights_of_another_model_are_refused_by_name(tmp_path: Path) -> None:
    kept = tiny_bundle(tmp_path / "m")
    write_tensors(tmp_path / "m" / "model.safetensors", {**kept, "extra.weight": torch.zeros(2)})
    folders.write_manifest(tmp_path / "m")
    with pytest.raises(BundleError, match=r"holds extra\.weight"):
        read_bundle(tmp_path / "m").build(dtype=torch.float32)


@pytest.mark.parametrize(
    "raw", [b"", b"\xff" * 8, b"\x10\x00\x00\x00\x00\x00\x00\x00{}", b"\xff\xff\xff\xff\xff\xff\xff\x7f{}"]
)
def test_hostile_weight_headers_are_refused(tmp_path: Path, raw: bytes) -> None:
    tiny_bundle(tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").write_bytes(raw)
    folders.write_manifest(tmp_path / "m")
    with pytest.raises(BundleError, match="sound safetensors"):
        read_bundle(tmp_path / "m").build(dtype=torch.float32)


def test_hostile_json_is_refused(tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "m")
    document = json.loads((tmp_path / "m" / "config.json").read_text())
    deep = json.dumps({**document, "model": 0}).replace('"model": 0', '"model": ' + "[" * 900 + "]" * 900).encode()
    for raw in (deep, b"[" * 100_000, b"[]", b" " * (2 << 20), b"\xff"):
        (tmp_path / "m" / "config.json").write_bytes(raw)
        folders.write_manifest(tmp_path / "m")
        with pytest.raises(BundleError, match=r"config\.json"):
            read_bundle(tmp_path / "m")


def test_the_writer_refuses_weights_that_are_not_the_models(tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "m")
    shutil.copytree(tmp_path / "m", tmp_path / "copy")
    with pytest.raises(BundleError, match="not a pair"):
        weights_of.compare({"a": (2, 3)}, {"a": (3, 2)}, Path("model.safetensors"))
    assert read_bundle(tmp_path / "copy").decoding["num_beams"] == 2, "a copy is as good"


def test_numbers_out_of_all_bounds() -> None:
    weights_of.check_bounds({"a": [1, {"b": True}], "c": 0.5, "d": None}, Path("config.json"))
    with pytest.raises(BundleError, match="largest"):
        weights_of.check_bounds({"a": [1, {"b": -(2**40)}]}, Path("config.json"))
