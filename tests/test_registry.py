"""The one table: names to constructors, nothing else, none taken twice."""

import pytest

from qkv import registry
from qkv.errors import ConfigError
from qkv.nn.norm import LayerNorm


def test_a_name_finds_its_constructor() -> None:
    assert registry.find("norm", "layer") is LayerNorm
    assert registry.names("norm") == ["layer", "rms"]


def test_unknown_names_and_kinds_say_what_is_near() -> None:
    with pytest.raises(ConfigError, match='no mixer is called "atention"; did you mean "attention"'):
        registry.find("mixer", "atention")
    with pytest.raises(ConfigError, match='no kind of part is called "mixr"; did you mean "mixer"'):
        registry.find("mixr", "attention")
    with pytest.raises(ConfigError, match="known: layer, rms"):
        registry.find("norm", "zzz")


def test_a_name_is_never_taken_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "TABLE", {"norm": dict(registry.TABLE["norm"])})
    registry.register("norm", "mine", "qkv.nn.norm:LayerNorm")
    registry.register("norm", "mine", "qkv.nn.norm:LayerNorm")
    registry.register("shape", "round", "qkv.nn.norm:RMSNorm")
    assert registry.find("norm", "mine") is LayerNorm and registry.names("shape") == ["round"]
    with pytest.raises(ConfigError, match=r'norm "mine" is already qkv.nn.norm:LayerNorm'):
        registry.register("norm", "mine", "elsewhere:Norm")


def test_a_name_is_no_path_to_other_code() -> None:
    for name in ("os:system", "qkv.nn.norm:Norm", "../norm"):
        with pytest.raises(ConfigError):
            registry.find("norm", name)
