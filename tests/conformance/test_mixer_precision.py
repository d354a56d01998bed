"""A mixer stored and read back is the same, in bf16 it is near; and what it cannot do it refuses."""

from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from qkv import registry
from qkv.config import part, plain, settings_of
from qkv.errors import BundleError, ConfigError
from qkv.models.base import load_weights, weights
from qkv.nn.call import Layout
from qkv.nn.mixers.base import Mixer, Slot
from qkv.nn.positions import Rotary
from tests.conformance.cases import LONG, ROWS, Case, begun, cases, drawn, fed, full, numbers, same
from tests.conformance.expected import MIXERS, TABLES, WIDTH

EVERY = pytest.mark.parametrize("case", cases(), ids=str)
SLOTS = {
    "causal": Slot(WIDTH, causal=True),
    "bidirectional": Slot(WIDTH),
    "cross": Slot(WIDTH, memory="source"),
    "positions": Slot(WIDTH, causal=True, position=Rotary(WIDTH, 1)),
}


def built(case: Case) -> Mixer:
    return case.build(causal=MIXERS[case.name].can.causal != "no")


@EVERY
def test_weights_survive_a_file(case: Case) -> None:
    mixer, x = built(case), numbers(ROWS, LONG, WIDTH)
    layout = Layout(causal=mixer.slot.causal)
    other = drawn(built(case), seed=7)
    assert not torch.equal(full(other, x, layout), full(mixer, x, layout))
    stored = load(save({name: t.contiguous() for name, t in weights(mixer).items()}))
    load_weights(other, stored)
    assert torch.equal(full(other, x, layout), full(mixer, x, layout))
    name = next(iter(stored))
    with pytest.raises(BundleError, match=name):
        load_weights(other, {k: t for k, t in stored.items() if k != name})
    with pytest.raises(BundleError, match="extra"):
        load_weights(other, {**stored, "extra": torch.ones(1)})
    with pytest.raises(BundleError, match=name):
        load_weights(other, {**stored, name: torch.ones(1, 2, 3)})


@EVERY
def test_bf16_is_near(case: Case) -> None:
    mixer = built(case).to(torch.bfloat16)
    layout = Layout(causal=mixer.slot.causal)
    x = numbers(ROWS, LONG, WIDTH).to(torch.bfloat16)
    y = full(mixer, x, layout)
    assert y.dtype == torch.bfloat16
    if mixer.slot.causal:
        assert fed(mixer, x, begun(mixer, ROWS)).dtype == torch.bfloat16
    exact = full(mixer.double(), x.double(), layout)
    assert (y.double() - exact).norm() < 0.02 * exact.norm()


@pytest.mark.parametrize("what", SLOTS)
@pytest.mark.parametrize("name", registry.names("mixer"))
def test_a_slot_it_cannot_fill_is_refused_by_name(name: str, what: str) -> None:
    can: Any = getattr(MIXERS[name].can, what)
    options = next(iter(MIXERS[name].variants.values()))
    chosen = part("mixer", {"name": name, **options})
    if can and can != "no":
        assert chosen.build(SLOTS[what]).slot is SLOTS[what]
    else:
        with pytest.raises(ConfigError, match=f"mixer {type_name(name)} cannot"):
            chosen.build(SLOTS[what])


@pytest.mark.parametrize("name", registry.names("mixer"))
def test_a_layout_it_cannot_see_is_refused_by_name(name: str) -> None:
    can, options = MIXERS[name].can, next(iter(MIXERS[name].variants.values()))
    mixer: Mixer = part("mixer", {"name": name, **options}).build(Slot(WIDTH, causal=can.causal != "no"))
    ones = torch.ones(1, 2, dtype=torch.long)
    for able, layout in ((can.packing, Layout(segments=ones)), (can.prefix, Layout(causal=True, prefix=ones[0, :1]))):
        if able:
            assert mixer.check(layout) is None
        else:
            with pytest.raises(ConfigError, match=f"mixer {type_name(name)} cannot"):
                mixer.check(layout)


def test_no_position_is_measured_against_a_memory() -> None:
    with pytest.raises(ConfigError, match="against a memory"):
        part("mixer", "attention").build(Slot(WIDTH, memory="source", position=Rotary(WIDTH, 1)))


def type_name(name: str) -> str:
    return str(registry.find("mixer", name).__name__).lower()


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in TABLES for name in registry.names(kind)])
def test_a_config_reads_back_as_itself(kind: str, name: str) -> None:
    resolved = part(kind, name)
    assert part(kind, plain(resolved)) == resolved
    assert hash(part(kind, plain(resolved))) == hash(resolved)
    assert set(resolved.options) == set(settings_of(registry.find(kind, name)))
    for option in resolved.options:
        with pytest.raises(ConfigError, match="did you mean"):
            part(kind, {"name": name, f"{option}x": 1})
    with pytest.raises(ConfigError, match="qqqqqq"):
        part(kind, {"name": name, "qqqqqq": 1})


@EVERY
def test_variants_read_back_as_themselves(case: Case) -> None:
    resolved = part("mixer", {"name": case.name, **case.options})
    assert part("mixer", plain(resolved)) == resolved
    same(full(built(case), numbers(1, 3, WIDTH), Layout()), full(built(case), numbers(1, 3, WIDTH), Layout()))
