"""From folders to a translator: precision, ensembles, and what does not fit together."""

from pathlib import Path

import pytest
import torch

import qkv
from qkv.data.tokenizers.base import SPECIAL_TOKENS
from qkv.data.tokenizers.words import Words
from qkv.errors import BundleError, ConfigError
from qkv.pipeline.load import load
from tests.pipeline.tiny import tiny_bundle

TEXTS = ["ein hund läuft .", "", "zwei katze rot"]


def test_a_path_is_all_it_takes(tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "m")
    translator = qkv.load(tmp_path / "m")
    assert len(translator.translate(TEXTS)) == 3
    assert translator.name == "m" and translator.pretokenized


def test_precision_is_the_machines_or_the_users(tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "m")
    low = load(tmp_path / "m", precision="bf16", device="cpu")
    assert low.model.source.table.weight.dtype == torch.bfloat16
    assert len(low.translate(TEXTS)) == 3
    with pytest.raises(ConfigError, match='did you mean "bf16"'):
        load(tmp_path / "m", precision="bf17")


def test_an_ensemble_of_one_model_twice_says_what_it_says_alone(tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "a", seed=1)
    tiny_bundle(tmp_path / "b", seed=2, longest_source=9)
    alone = load(tmp_path / "a", precision="fp32", device="cpu")
    twice = load(tmp_path / "a", tmp_path / "a", precision="fp32", device="cpu")
    both = load(tmp_path / "a", tmp_path / "b", precision="fp32", device="cpu")
    assert twice.translate(TEXTS) == alone.translate(TEXTS)
    assert both.candidates(TEXTS) != alone.candidates(TEXTS)
    assert both.longest_source == 9 and both.name == "a + b"
    assert not both.scores_targets
    with pytest.raises(ConfigError, match="cannot score"):
        both.score(["ein"], ["hund"])


def test_an_ensemble_wants_one_vocabulary(tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "a")
    other = Words((*SPECIAL_TOKENS, "one", "two"))
    tiny_bundle(tmp_path / "b", source=other, target=other)
    with pytest.raises(BundleError, match="another source tokenizer"):
        load(tmp_path / "a", tmp_path / "b")


def test_unknown_decoding_is_refused_with_the_files_name(tmp_path: Path) -> None:
    tiny_bundle(tmp_path / "m", decoding={"num_beems": 2})
    with pytest.raises(BundleError, match=r'generation_config\.json.*did you mean "num_beams"'):
        load(tmp_path / "m")
