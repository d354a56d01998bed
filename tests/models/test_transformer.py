"""The Transformer of 2017: its sizes as printed, torch's own as the same function, its maps, its refusals."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv.config import part
from qkv.data.batch import Batch, Tokens
from qkv.errors import ConfigError
from qkv.models.base import Sizes, build, outline, parameters
from qkv.models.transformer import transformer
from qkv.nn.call import Layout, Want
from tests.conformance.networks import batch, predicted

LEAN = {"name": "attention", "bias": False}


def chosen(**options: Any) -> Any:
    return part("model", {"name": "transformer", **options})


def count(vocabulary: int, **options: Any) -> int:
    with torch.device("meta"):
        return parameters(outline(chosen(**options), Sizes(vocabulary, vocabulary)))


def test_counts_of_the_paper() -> None:
    """The embedding, and a layer's maps, biases and norms, added up by hand."""
    encoder = 4 * 512**2 + 2 * 512 * 2048 + 2048 + 512 + 4 * 512
    decoder = encoder + 4 * 512**2 + 2 * 512
    assert count(37_000, preset="base") == 37_000 * 512 + 6 * (encoder + decoder) == 63_045_632
    assert count(37_000) - count(37_000, preset="base") == 18 * 4 * 512
    assert round(count(37_000) / 1e6, 2) == 63.08
    assert round(count(37_000, preset="big") / 1e6, 1) == 214.2
    assert count(9_716, preset="tiny") == 2_568_704
    assert count(10_000, preset="base", tie="none") - count(10_000, preset="base") == 2 * 10_000 * 512
    assert count(10_000, preset="base", tie="target") - count(10_000, preset="base") == 10_000 * 512


@pytest.mark.parametrize(
    ("millions", "options"),
    [
        (65.0, {}),
        (57.9, {"mixer": {**LEAN, "key_width": 16}}),
        (60.3, {"mixer": {**LEAN, "key_width": 32}}),
        (35.6, {"encoder_layers": 2, "decoder_layers": 2}),
        (50.3, {"encoder_layers": 4, "decoder_layers": 4}),
        (79.7, {"encoder_layers": 8, "decoder_layers": 8}),
        (27.8, {"width": 256}),
        (167.7, {"width": 1024}),
        (52.4, {"feedforward": {"hidden": 1024}}),
        (90.2, {"feedforward": {"hidden": 4096}}),
        (218.1, {"preset": "big"}),
    ],
    ids=str,
)
def test_counts_of_table_3(millions: float, options: dict[str, Any]) -> None:
    assert round(count(40_800, **{"preset": "base", **options}) / 1e6, 1) == millions


def torch_twin(model: Any, order: str) -> tuple[nn.TransformerEncoder, nn.TransformerDecoder]:
    """PyTorch's layers with the weights of ours."""
    kwargs: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "norm_first": order == "pre", "dtype": torch.float64}
    layer, other = (nn.TransformerEncoderLayer(8, 2, 12, **kwargs), nn.TransformerDecoderLayer(8, 2, 12, **kwargs))
    encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8, dtype=torch.float64), enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(other, 2, nn.LayerNorm(8, dtype=torch.float64))
    for ours, theirs in ((model.encoder, encoder), (model.decoder, decoder)):
        theirs.norm.load_state_dict(ours.last.state_dict())
        for block, twin in zip(ours.blocks, theirs.layers, strict=True):
            copy_block(block.sublayers, twin)
    return encoder, decoder


@torch.no_grad()
def copy_block(ours: Any, theirs: Any) -> None:
    for index, (name, residual) in enumerate(ours.items(), 1):
        getattr(theirs, f"norm{index}").load_state_dict(residual.norm.state_dict())
        inner = residual.inner
        if name == "feedforward":
            theirs.linear1.load_state_dict(inner.inward.state_dict())
            theirs.linear2.load_state_dict(inner.outward.state_dict())
            continue
        attention = theirs.self_attn if name == "self" else theirs.multihead_attn
        parts = [inner.inward] if name == "self" else [inner.query, inner.shown]
        attention.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        attention.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
        attention.out_proj.load_state_dict(inner.outward.state_dict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("order", ["post", "pre"])
def test_it_equals_torch(order: str, dtype: torch.dtype) -> None:
    options = {"width": 8, "encoder_layers": 2, "decoder_layers": 2, "mixer": {"name": "attention", "heads": 2}}
    given = chosen(**options, feedforward={"hidden": 12}, order=order, final_norm=True)
    model: Any = build(given, Sizes(20, 20), 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model = model.double()
    encoder, decoder = (module.to(dtype) for module in torch_twin(model, order))
    model, pairs = model.to(dtype), batch()
    source, target = pairs.source, pairs.target
    assert source is not None and target is not None
    hidden = predicted(model, pairs)
    unseen = torch.arange(source.ids.shape[1]) >= source.lengths[:, None]
    x = model.source(source.ids, Layout(), None).detach()
    y = model.target(target.ids[:, :-1], Layout(), None).detach()
    memory = encoder(x, src_key_padding_mask=unseen)
    future = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
    expected = decoder(y, memory, tgt_mask=future, memory_key_padding_mask=unseen)
    real = torch.arange(y.shape[1]) < target.lengths[:, None] - 1
    close = {"rtol": 1e-4, "atol": 2e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-10}
    torch.testing.assert_close(hidden[real], expected[real], **close)
    weight = torch.randn(hidden[real].shape, dtype=dtype)
    hidden[real].backward(weight)
    expected[real].backward(weight)
    compare_gradients(model, encoder, decoder, close)


def compare_gradients(model: Any, encoder: Any, decoder: Any, close: dict[str, float]) -> None:
    for ours, theirs in ((model.encoder, encoder), (model.decoder, decoder)):
        for block, twin in zip(ours.blocks, theirs.layers, strict=True):
            own, linear = block.sublayers["self"].inner, block.sublayers["feedforward"].inner
            pairs: list[tuple[Tensor, Tensor]] = [
                (own.inward.weight, twin.self_attn.in_proj_weight),
                (own.outward.bias, twin.self_attn.out_proj.bias),
                (linear.inward.weight, twin.linear1.weight),
                (linear.outward.weight, twin.linear2.weight),
            ]
            if "cross" in block.sublayers:
                cross = block.sublayers["cross"].inner
                pairs.append((torch.cat([cross.query.weight.grad, cross.shown.weight.grad]), twin.multihead_attn))
            for mine, other in pairs:
                if isinstance(other, nn.MultiheadAttention):
                    torch.testing.assert_close(mine, other.in_proj_weight.grad, **close)
                else:
                    torch.testing.assert_close(mine.grad, other.grad, **close)


def tiny(**options: Any) -> Any:
    layers = {"width": 8, "encoder_layers": 2, "decoder_layers": 3, "mixer": {"name": "attention", "heads": 2}}
    return build(chosen(**{**layers, "feedforward": {"hidden": 12}, **options}), Sizes(20, 20), 1)


def test_maps_of_any_layer_on_request() -> None:
    model, pairs = tiny(), batch()
    plain, nothing = model.hidden(pairs)
    assert not nothing.maps
    y, extras = model.hidden(pairs, want=Want.of("decoder.*.cross.maps", "encoder.1.self.maps"))
    assert set(extras.maps) == {f"decoder.{i}.cross.maps" for i in range(3)} | {"encoder.1.self.maps"}
    assert extras.maps["decoder.2.cross.maps"].shape == (3, 2, 5, 6)
    unseen = torch.arange(6) >= torch.tensor([6, 2, 4])[:, None]
    assert not extras.maps["decoder.0.cross.maps"].masked_select(unseen[:, None, None]).any()
    torch.testing.assert_close(y, plain)
    state = model.start(pairs, 4)
    _, stepped = model.extend(torch.ones(3, 1, dtype=torch.long), state, Want.of("decoder.1.*.maps"))
    assert set(stepped.maps) == {"decoder.1.self.maps", "decoder.1.cross.maps"}


def test_ties_share_what_they_say() -> None:
    model = tiny(tie="all")
    assert model.source.table is model.target.table and model.projection()[0] is model.target.table.weight
    model = tiny(tie="target")
    assert model.source.table is not model.target.table and model.projection()[0] is model.target.table.weight
    model = tiny(tie="none", output_bias=True)
    weight, bias = model.projection()
    assert weight is model.output.weight and bias is model.output.bias


def test_depths_and_orders() -> None:
    model = tiny(encoder_layers=0, decoder_layers=1)
    assert len(model.encoder.blocks) == 0 and len(model.decoder.blocks) == 1
    assert tiny(order="pre").decoder.last is not None and tiny().decoder.last is None
    assert tiny(order="pre", final_norm=False).encoder.last is None


def test_a_position_inside_has_a_table_for_every_head_also_by_default() -> None:
    direct: Any = transformer(
        Sizes(9, 9), encoder_layers=1, decoder_layers=1, width=16, position=part("position", "relative")
    )
    assert direct.encoder.blocks[0].sublayers["self"].inner.position.table.weight.shape == (32, 8)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="tie: all shares one table"):
        build(chosen(), Sizes(20, 21), 1)
    with pytest.raises(ConfigError, match="output_bias is true with tie: target"):
        tiny(tie="target", output_bias=True)
    with pytest.raises(ConfigError, match="mixer lstm cannot look at a memory"):
        tiny(mixer="lstm")
    with pytest.raises(ConfigError, match="mixer lstm cannot take positions"):
        tiny(mixer="lstm", cross="attention", position="rotary")


def test_a_target_of_one_token_has_nothing_to_predict_from_but_its_start() -> None:
    one = Tokens(torch.tensor([[2, 3]]), torch.tensor([2]))
    hidden = predicted(tiny(), Batch.of(torch.tensor([0]), one, one))
    assert hidden.shape == (1, 1, 8)
