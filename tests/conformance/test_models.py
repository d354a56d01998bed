"""What every registered model holds to on whole rows: what it may see, noise, files, precision."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from qkv import registry
from qkv.config import part, plain
from qkv.data.batch import Batch, Tokens
from qkv.errors import ConfigError
from qkv.models import protocols
from qkv.models.base import Sizes, load_weights, outline, parameters, weights
from qkv.nn.norm import Norm
from qkv.random import Noise
from tests.conformance.cases import same
from tests.conformance.expected import MODELS
from tests.conformance.networks import (
    SOURCE,
    TARGET,
    VOCABULARY,
    Network,
    batch,
    networks,
    predicted,
    row_of,
    tokens,
)


def every(protocol: str) -> Any:
    return pytest.mark.parametrize("network", networks(protocol), ids=str)


@pytest.mark.parametrize("network", [Network(name, v) for name, row in MODELS.items() for v in row.variants], ids=str)
def test_it_answers_the_protocols_it_should(network: Network) -> None:
    model = network.build()
    for protocol in MODELS[network.name].protocols:
        assert isinstance(model, getattr(protocols, protocol))
    assert model.kind == "model"


@every("Predicts")
def test_shapes_and_gradients_reach_every_parameter(network: Network) -> None:
    model, given = network.build(), batch()
    hidden = predicted(model, given)
    weight, bias = model.projection()
    assert weight.shape == (VOCABULARY, hidden.shape[-1]) and model.vocabulary == VOCABULARY
    assert hidden.shape[:2] == (3, max(TARGET) - 1)
    logits = torch.nn.functional.linear(hidden, weight, bias)
    assert given.target is not None
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), given.target.ids[:, 1:].flatten()).backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert not idle


@every("Predicts")
def test_the_future_is_not_seen(network: Network) -> None:
    model, given = network.build(), batch()
    before = predicted(model, given)
    assert given.target is not None
    for place in range(1, max(TARGET) - 1):
        ids = given.target.ids.clone()
        ids[:, place] = (ids[:, place] + 7) % VOCABULARY
        after = predicted(model, replace(given, target=Tokens(ids, given.target.lengths)))
        assert torch.equal(after[:, :place], before[:, :place])
        assert (after[:, place] - before[:, place]).abs().amax(-1).min() > 1e-6


@every("Predicts")
def test_padding_of_source_and_target_changes_nothing(network: Network) -> None:
    model, given = network.build(), batch()
    wide, total = predicted(model, batch(wider=3)), 0.0
    for row, length in enumerate(TARGET):
        alone = predicted(model, row_of(given, row))
        same(wide[row, : length - 1], alone[0])
        total = total + alone.square().sum()
    model.zero_grad()
    total.backward()
    apart = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    real = torch.arange(wide.shape[1]) < torch.tensor(TARGET)[:, None] - 1
    wide[real].square().sum().backward()
    for name, gradient in apart.items():
        same(model.get_parameter(name).grad, gradient)


@every("Predicts")
def test_packed_pairs_equal_each_alone(network: Network) -> None:
    model, given = network.build(), batch()
    rows = [row_of(given, row) for row in range(3)]

    def packed(side: str) -> Tokens:
        parts = [getattr(row, side).ids[0] for row in rows]
        numbered = [torch.full_like(ids, i + 1) for i, ids in enumerate(parts)]
        pad = torch.zeros(2, dtype=torch.long)
        ids, segments = torch.cat([*parts, pad])[None], torch.cat([*numbered, pad])[None]
        return Tokens(ids, torch.tensor([ids.shape[1] - 2]), segments)

    whole = Batch.of(torch.tensor([5]), packed("source"), packed("target"))
    if network.lacks("packing"):
        with pytest.raises(ConfigError, match="cannot keep packed documents apart"):
            predicted(model, whole)
        return
    hidden, start = predicted(model, whole)[0], 0
    for row, length in zip(rows, TARGET, strict=True):
        same(hidden[start : start + length - 1], predicted(model, row)[0])
        start += length


@every("Predicts")
def test_noise_is_keyed_by_sample_and_not_by_where_the_row_stands(network: Network) -> None:
    model, given = network.build(dropout=0.3), batch()

    def noisy(some: Batch, seed: int = 3, step: int = 9) -> torch.Tensor:
        return predicted(model, some, Noise(seed, step, some.samples))

    whole = noisy(given)
    for row, length in enumerate(TARGET):
        for other in (noisy(row_of(given, row)), noisy(batch(wider=4))[row : row + 1]):
            same(whole[row, : length - 1], other[0, : length - 1])
    assert torch.equal(whole, noisy(given))
    assert not torch.allclose(whole, predicted(model, given))
    assert not torch.allclose(whole, noisy(given, seed=4)) and not torch.allclose(whole, noisy(given, step=10))
    other = replace(given, samples=given.samples + 1)
    assert not torch.allclose(whole, noisy(other))


@every("Predicts")
def test_dropout_reaches_every_place(network: Network) -> None:
    """Each dropout of the model, alone, changes what comes out, and is unlike the others."""
    model, given = network.build(dropout=0.5), batch()
    noise, clean = Noise(1, 2, given.samples), predicted(model, given)
    places = [m for m in model.modules() if type(m).__name__ == "Dropout" and m.rate > 0]
    assert len({m.place for m in places}) == len(places) > 4
    for alone in places:
        for module in places:
            module.rate = 0.5 if module is alone else 0.0
        assert not torch.allclose(predicted(model, given, noise), clean)


@every("Predicts")
def test_weights_survive_a_file(network: Network) -> None:
    model, other, given = network.build(), network.build(seed=2), batch()
    assert not torch.allclose(predicted(other, given), predicted(model, given))
    stored = weights(model)
    assert sum(t.numel() for t in stored.values()) == parameters(model)
    load_weights(other, load(save({name: t.contiguous() for name, t in stored.items()})))
    assert torch.equal(predicted(other, given), predicted(model, given))


@every("Predicts")
def test_bf16_is_near_also_with_norms_in_fp32(network: Network) -> None:
    model, given = network.build().to(torch.bfloat16), batch()
    exact = predicted(network.build().to(torch.bfloat16).double(), given)
    for mixed in (False, True):
        if mixed:
            for module in model.modules():
                if isinstance(module, Norm):
                    module.float()
        hidden = predicted(model, given)
        assert hidden.dtype == torch.bfloat16
        assert (hidden.double() - exact).norm() < 0.06 * exact.norm()


@every("Encodes")
def test_the_memory_is_told_its_padding(network: Network) -> None:
    model, given = network.build(), batch()
    memories, _ = model.encode(given)
    memory = memories["source"]
    assert memory.keys.shape[:2] == (3, max(SOURCE))
    assert memory.layout.lengths.tolist() == SOURCE and not memory.layout.causal
    alone = model.encode(replace(given, target=None))[0]["source"].keys
    assert torch.equal(alone, memory.keys)


@pytest.mark.parametrize("network", [Network(name, v) for name, row in MODELS.items() for v in row.variants], ids=str)
def test_a_variant_reads_back_as_itself(network: Network) -> None:
    resolved = part("model", {"name": network.name, **MODELS[network.name].variants[network.variant]})
    again = part("model", plain(resolved))
    assert again == resolved
    names = [{k: t.shape for k, t in weights(outline(p, Sizes(9, 9))).items()} for p in (resolved, again)]
    assert names[0] == names[1]


@pytest.mark.parametrize(("name", "preset"), [(name, p) for name, row in MODELS.items() for p in sorted(row.presets)])
def test_a_preset_builds(name: str, preset: str) -> None:
    resolved = part("model", {"name": name, "preset": preset})
    assert part("model", plain(resolved)) == resolved and "preset" not in plain(resolved)
    with torch.device("meta"):
        assert parameters(outline(resolved, Sizes(1000, 1000))) > 1000


@pytest.mark.parametrize("name", registry.names("model"))
def test_an_unknown_preset_names_the_nearest(name: str) -> None:
    known = sorted(MODELS[name].presets)[0]
    with pytest.raises(ConfigError, match=f'did you mean "{known}"'):
        part("model", {"name": name, "preset": known + "e"})


def test_the_junk_of_these_tests_is_junk() -> None:
    """The batches pad with tokens that mean something, so that who looks is found out."""
    assert (tokens([4, 1], 3, 6).ids > 0).all()
