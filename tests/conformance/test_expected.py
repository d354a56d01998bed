"""Every registered part has a row that says what it must do, and declares exactly that."""

import pytest

from qkv import registry
from qkv.models import protocols
from tests.conformance.expected import MIXERS, MODELS, TABLES, without_a_row


def test_every_registered_part_has_a_row() -> None:
    assert not list(without_a_row())


def test_a_part_without_a_row_is_told_what_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.TABLE["mixer"], "novel", "somewhere:Novel")
    monkeypatch.delitem(registry.TABLE["norm"], "rms")
    missing, stale = without_a_row()
    assert 'mixer "novel" has no row in tests/conformance/expected.py' in missing
    assert 'norm "rms"' in stale and "not registered" in stale


@pytest.mark.parametrize("name", registry.names("mixer"))
def test_a_mixer_declares_what_is_expected(name: str) -> None:
    assert registry.find("mixer", name).can == MIXERS[name].can


@pytest.mark.parametrize("name", registry.names("model"))
def test_a_model_has_the_presets_that_are_expected(name: str) -> None:
    assert set(registry.find("model", name).presets) == MODELS[name].presets
    assert all(hasattr(protocols, protocol) for protocol in MODELS[name].protocols)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in TABLES for name in registry.names(kind)])
def test_a_part_says_what_kind_it_is(kind: str, name: str) -> None:
    found = registry.find(kind, name)
    assert getattr(found, "kind", kind) == kind
