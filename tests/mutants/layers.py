"""Faults in the layers: attention and the other mixers, positions, blocks, first weights."""

from tests.mutants.row import Mutant

FUNCTIONAL = "qkv/nn/functional.py"
ATTENTION = "qkv/nn/mixers/attention.py"
RECURRENT = "qkv/nn/mixers/recurrent.py"
CONV = "qkv/nn/mixers/conv.py"
POSITIONS = "qkv/nn/positions.py"
MIXERS = "tests/conformance/test_mixers.py"
STATES = "tests/conformance/test_mixer_states.py"

NATIVE = "tests/test_native.py"

LAYERS = [
    Mutant(
        "kernel: keys of a row out of step",
        "qkv/csrc/attention.cpp",
        "head) * s.queries : nullptr",
        "head) : nullptr",
        NATIVE,
    ),
    Mutant(
        "kernel: a causal query sees the next",
        "qkv/csrc/attention.cpp",
        "? query + 1 : keys",
        "? query + 2 : keys",
        NATIVE,
    ),
    Mutant(
        "kernel: shared keys learn from one head",
        "qkv/csrc/attention.cpp",
        "bool add = head > group * share",
        "bool add = false",
        NATIVE,
    ),
    Mutant("kernel: gradient not scaled", "qkv/csrc/attention.cpp", "load(dqf + i) * scale", "load(dqf + i)", NATIVE),
    Mutant(
        "kernel: dropout of the odd channel",
        "qkv/csrc/dropout.h",
        "odd = (Ints)bits >> 16",
        "odd = (Ints)(bits << 16) >> 16",
        NATIVE,
    ),
    Mutant("kernel: padding softened", "qkv/csrc/loss.cpp", "if (!real[row])", "if (false)", NATIVE),
    Mutant(
        "kernel: rounding towards zero",
        "qkv/csrc/lanes.h",
        "Words near = w + 0x7fffu + ((w >> 16) & 1u)",
        "Words near = w",
        NATIVE,
    ),
    Mutant("scale dropped", FUNCTIONAL, "(q_bhtk * width**-0.5)", "(q_bhtk * 1.0)", "tests/nn/test_functional.py"),
    Mutant(
        "bias of the wrong sign",
        FUNCTIONAL,
        "scores = scores + bias",
        "scores = scores - bias",
        "tests/nn/test_functional.py",
    ),
    Mutant(
        "plain path forgets the mask",
        FUNCTIONAL,
        "scores.masked_fill(~visible, torch.finfo(scores.dtype).min)",
        "scores",
        MIXERS,
    ),
    Mutant(
        "fused path forgets the mask", FUNCTIONAL, "attn_mask=visible", "attn_mask=None", "tests/nn/test_functional.py"
    ),
    Mutant(
        "fused path causal where it is not alone",
        FUNCTIONAL,
        "if layout.only_causal and layout.offset",
        "if layout.causal and layout.offset",
        "tests/nn/test_functional.py",
    ),
    Mutant(
        "dropout off the attention weights",
        FUNCTIONAL,
        "used = dropped(weights, rate, noise, place)",
        "used = weights",
        "tests/nn/test_functional.py",
    ),
    Mutant(
        "keys rotated, queries not",
        ATTENTION,
        "self.position.rotate(q_bhtk, positions), self",
        "q_bhtk, self",
        "tests/nn/mixers/test_attention.py",
    ),
    Mutant(
        "values taken from the keys' memory", ATTENTION, "if memory.separate_values is not None:", "if False:", MIXERS
    ),
    Mutant("cross state forgets its lengths", ATTENTION, "Layout(lengths=call.state.lengths)", "Layout()", STATES),
    Mutant("maps shown unasked", ATTENTION, 'wanted = "maps" in call.want', "wanted = True", MIXERS),
    Mutant(
        "heads and widths confused",
        ATTENTION,
        "return x.unflatten(-1, (heads, -1)).transpose(1, 2)",
        "return x.unflatten(-1, (-1, heads)).movedim(-1, 1)",
        "tests/nn/mixers/test_attention.py",
    ),
    Mutant(
        "padding reversed to the front",
        RECURRENT,
        "torch.where(index < lengths[:, None], lengths[:, None] - 1 - index, index)",
        "index.flip(0).expand(len(lengths), -1)",
        MIXERS,
    ),
    Mutant(
        "the cell starts anew at each step",
        RECURRENT,
        'call.state.values = {"hidden": hidden[0], "cell": cell[0]}',
        'call.state.values["hidden"] = hidden[0]',
        STATES,
    ),
    Mutant(
        "convolution looks ahead",
        CONV,
        "F.pad(x_bdt, (self.reach, 0))",
        "F.pad(x_bdt, (self.reach - 1, 1)) if self.reach else x_bdt",
        MIXERS,
    ),
    Mutant("convolution feels padding", CONV, "x_bdt.masked_fill(~real[:, None], 0)", "x_bdt", MIXERS),
    Mutant(
        "a tail cut short",
        CONV,
        "x_bdt.shape[2] - self.reach :]",
        "max(0, x_bdt.shape[2] - self.reach - 1) : x_bdt.shape[2] - 1]",
        STATES,
    ),
    Mutant(
        "dilations all alike",
        CONV,
        "dilations[slot.layer % len(dilations)]",
        "dilations[0]",
        "tests/nn/mixers/test_conv.py",
    ),
    Mutant(
        "sine and cosine exchanged",
        POSITIONS,
        "[angles.sin(), angles.cos()]",
        "[angles.cos(), angles.sin()]",
        "tests/nn/test_positions.py",
    ),
    Mutant(
        "rotation of the wrong hand in one channel",
        POSITIONS,
        "even * sine + odd * cosine",
        "odd * cosine - even * sine",
        "tests/nn/test_positions.py",
    ),
    Mutant(
        "relative sides confused",
        POSITIONS,
        "half * (distance > 0)",
        "half * (distance < 0)",
        "tests/nn/test_positions.py",
    ),
    Mutant(
        "alibi of the wrong sign", POSITIONS, "return -self.slopes", "return self.slopes", "tests/nn/test_positions.py"
    ),
    Mutant(
        "pre and post norm exchanged",
        "qkv/nn/blocks.py",
        'if self.order == "pre":',
        'if self.order != "pre":',
        "tests/nn/test_blocks.py",
    ),
    Mutant(
        "packing refused by nobody",
        "qkv/nn/blocks.py",
        "self.inner.check(call.layout)",
        "pass",
        "tests/nn/test_blocks.py",
    ),
    Mutant(
        "layer norm without its bias",
        "qkv/nn/norm.py",
        "return F.layer_norm(x, (self.width,), self.weight, self.bias, self.epsilon)",
        "return F.layer_norm(x, (self.width,), self.weight, None, self.epsilon)",
        "tests/nn/test_norm.py",
    ),
    Mutant(
        "embedding not scaled",
        "qkv/nn/embed.py",
        "self.table(ids) * self.scale",
        "self.table(ids)",
        "tests/nn/test_embed.py",
    ),
    Mutant(
        "every weight from one name",
        "qkv/nn/init.py",
        'generator_for(seed, f"{name}.{leaf}")',
        "generator_for(seed, leaf)",
        "tests/nn/test_init.py",
    ),
    Mutant(
        "rms statistics in the weights' precision",
        "qkv/nn/norm.py",
        "x.to(torch.promote_types(self.weight.dtype, torch.float32))",
        "x.to(self.weight.dtype)",
        "tests/nn/test_norm.py",
    ),
    Mutant(
        "a packed row too long for a learned table",
        POSITIONS,
        "if needed > self.longest and layout.segments is not None:",
        "if False:",
        "tests/nn/test_positions.py",
    ),
    Mutant(
        "a position measured against a memory",
        "qkv/nn/mixers/base.py",
        "slot.position is not None and slot.memory is not None)",
        "False)",
        "tests/conformance/test_mixer_precision.py",
    ),
]
