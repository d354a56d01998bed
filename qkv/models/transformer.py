"""The Transformer of 2017 ("Attention Is All You Need", section 3): an encoder and a decoder, nothing recurrent.

    source ids -> embed -> [ self - feedforward ] x N ----------------- memory "source"
                                                                              |
    target ids -> embed -> [ self (causal) - cross - feedforward ] x M -> hidden -> softmax

Letters: B rows, T target positions, S source positions, R rows in decoding, D width, V vocabulary.
"""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.config import Count, Natural, Part, Probability, part
from qkv.data.batch import Batch, Tokens
from qkv.errors import ConfigError
from qkv.models.base import Model, Sizes
from qkv.nn.blocks import Block, Order, Residual, Stack
from qkv.nn.call import Call, Extras, Layout, Memories, Memory, Want
from qkv.nn.embed import Embed
from qkv.nn.feedforward import FeedForward
from qkv.nn.mixers.base import Mixer, Slot
from qkv.nn.norm import Norm
from qkv.nn.positions import Position
from qkv.nn.state import Decoding
from qkv.random import Noise


class EncoderDecoder(Model):
    """Encodes, predicts and steps (qkv.models.protocols)."""

    def __init__(
        self,
        source: Embed,
        target: Embed,
        encoder: Stack,
        decoder: Stack,
        output: nn.Linear | None,
        /,
    ) -> None:
        super().__init__()
        self.source, self.target, self.encoder, self.decoder = source, target, encoder, decoder
        self.output = output  # None: the target's table is the projection
        self.vocabulary = target.table.num_embeddings

    def encode(self, batch: Batch, noise: Noise | None = None, want: Want = Want()) -> tuple[Memories, Extras]:
        """The memory "source"."""
        assert batch.source is not None
        tokens = batch.source
        layout = Layout(lengths=tokens.lengths, segments=tokens.segments)
        x = self.source(tokens.ids, layout, noise)
        x, extras = self.encoder(x, Call(layout, noise=noise, want=want.at("encoder")))
        return {"source": Memory(x, layout)}, extras.under("encoder")

    def hidden(
        self, batch: Batch, noise: Noise | None = None, want: Want = Want()
    ) -> tuple[Float[Tensor, "B T D"], Extras]:
        """The decoder's vectors that predict target.ids[:, 1:]."""
        memories, extras = self.encode(batch, noise, want)
        assert batch.target is not None
        given = _all_but_last(batch.target)
        layout = Layout(causal=True, lengths=given.lengths, segments=given.segments)
        x = self.target(given.ids, layout, noise)
        x, more = self.decoder(x, Call(layout, memories, noise=noise, want=want.at("decoder")))
        return x, extras | more.under("decoder")

    def projection(self) -> tuple[Float[Tensor, "V D"], Float[Tensor, "V"] | None]:
        """What turns hidden vectors into logits."""
        return (self.target.table.weight, None) if self.output is None else (self.output.weight, self.output.bias)

    @torch.no_grad()
    def start(self, batch: Batch, capacity: int) -> Decoding:
        memories, _ = self.encode(batch)
        lengths = torch.zeros(batch.rows, dtype=torch.long, device=batch.samples.device)
        return Decoding(self.decoder.begin(memories, batch.rows, capacity), lengths)

    @torch.no_grad()
    def extend(
        self, ids: Int[Tensor, "R k"], state: Decoding, want: Want = Want()
    ) -> tuple[Float[Tensor, "R k D"], Extras]:
        layout = Layout(causal=True, offset=state.offset, furthest=state.longest)
        x = self.target(ids, layout, None)
        x, extras = self.decoder(x, Call(layout, state=state, want=want.at("decoder")))
        state.advance(ids.shape[1])
        return x, extras.under("decoder")

    @torch.no_grad()
    def scores(
        self, hidden: Float[Tensor, "*rows D"], subset: Int[Tensor, "W"] | None = None
    ) -> Float[Tensor, "*rows V"]:
        weight, bias = self.projection()
        if subset is not None:
            weight, bias = weight[subset], None if bias is None else bias[subset]
        return torch.log_softmax(
            F.linear(hidden, weight, bias), dim=-1, dtype=torch.promote_types(hidden.dtype, torch.float32)
        )


def _all_but_last(tokens: Tokens) -> Tokens:
    segments = None if tokens.segments is None else tokens.segments[:, :-1]
    return Tokens(tokens.ids[:, :-1], tokens.lengths - 1, segments)


def transformer(
    sizes: Sizes,
    /,
    *,
    width: Count = 512,
    encoder_layers: Natural = 6,
    decoder_layers: Count = 6,
    mixer: Part[Mixer] = Part("mixer", "attention"),
    decoder_mixer: Part[Mixer] | None = None,
    cross: Part[Mixer] | None = None,
    feedforward: Part[FeedForward] = Part("feedforward", "relu"),
    position: Part[Position] = Part("position", "sinusoidal"),
    norm: Part[Norm] = Part("norm", "layer"),
    order: Order = "post",
    final_norm: bool | None = None,
    tie: Literal["all", "target", "none"] = "all",
    scaled: bool = True,
    output_bias: bool = False,
    dropout: Probability = 0.1,
) -> EncoderDecoder:
    """`mixer` serves the encoder, and the decoder and its look at the source too unless they name their own.

    `tie` shares the table of the source, the target and the softmax (all), of the last two (target), or nothing;
    `final_norm` follows from the order unless it is set: pre-norm stacks end in one.
    """
    if tie == "all" and sizes.source != sizes.target:
        raise ConfigError(
            f"tie: all shares one table, but the source has {sizes.source:,} tokens and the target {sizes.target:,}; "
            "use a joint tokenizer, or tie: target"
        )
    if tie != "none" and output_bias:
        raise ConfigError(f"output_bias is true with tie: {tie}; a shared table has no bias, use tie: none")

    def stack(layers: int, causal: bool, own: Part[Mixer], looking: Part[Mixer] | None) -> Stack:
        blocks = []
        for index in range(layers):
            inner: dict[str, Mixer | FeedForward] = {
                "self": own.build(Slot(width, causal, index, position=_within(position, width, own)))
            }
            if looking is not None:
                inner["cross"] = looking.build(Slot(width, causal, index, memory="source"))
            inner["feedforward"] = feedforward.build(width)
            blocks.append(
                Block({name: Residual(layer, norm.build(width), dropout, order) for name, layer in inner.items()})
            )
        return Stack(blocks, norm.build(width) if (order == "pre" if final_norm is None else final_norm) else None)

    def embed(table: nn.Embedding) -> Embed:
        added: Position = position.build(width, 1)
        return Embed(table, added if added.acts == "embedding" else None, dropout, scaled)

    target = nn.Embedding(sizes.target, width)
    source = target if tie == "all" else nn.Embedding(sizes.source, width)
    return EncoderDecoder(
        embed(source),
        embed(target),
        stack(encoder_layers, False, mixer, None),
        stack(decoder_layers, True, decoder_mixer or mixer, cross or mixer),
        nn.Linear(width, sizes.target, bias=output_bias) if tie == "none" else None,
    )


def _within(position: Part[Position], width: int, mixer: Part[Mixer]) -> Position | None:
    """A position for inside a mixer, of its own in every layer, where the position acts there."""
    heads = part("mixer", mixer).options.get("heads", 1)  # with its defaults, also where no config filled them in
    built = position.build(width, int(heads))
    return built if built.acts in ("rotation", "bias") else None


_LEAN = {"name": "attention", "bias": False}
transformer.presets = {  # type: ignore[attr-defined]
    "base": {"mixer": _LEAN},
    "big": {
        "width": 1024,
        "mixer": {**_LEAN, "heads": 16},
        "feedforward": {"name": "relu", "hidden": 4096},
        "dropout": 0.3,
    },
    "tiny": {
        "width": 128,
        "encoder_layers": 4,
        "decoder_layers": 4,
        "mixer": {"name": "attention", "heads": 4},
        "feedforward": {"name": "relu", "hidden": 256},
        "dropout": 0.3,
    },
}
