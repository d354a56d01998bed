"""Faults in models, random numbers, config and registry."""

from tests.mutants.row import Mutant

RANDOM = "qkv/random.py"
CONFIG = "qkv/config.py"
TRANSFORMER = "qkv/models/transformer.py"
MODELS = "tests/conformance/test_models.py"
STEPS = "tests/conformance/test_model_states.py"

FOUNDATIONS = [
    Mutant(
        "noise ignores the sample",
        RANDOM,
        "keys = self.samples.to(torch.int64)",
        "keys = 0 * self.samples.to(torch.int64)",
        "tests/test_random.py",
    ),
    Mutant(
        "noise ignores half of the sample",
        RANDOM,
        "mixed_(row) ^ _to_int32(high & 0xFFFFFFFF)",
        "mixed_(row)",
        "tests/test_random.py",
    ),
    Mutant(
        "a seed reused at each step",
        RANDOM,
        "word(self.seed, self.step, place)",
        "word(self.seed, place)",
        "tests/test_random.py",
    ),
    Mutant(
        "noise ignores the place",
        RANDOM,
        "word(self.seed, self.step, place)",
        "word(self.seed, self.step)",
        "tests/test_random.py",
    ),
    Mutant("dropout scale missing", RANDOM, "1 / (1 - levels / LEVELS)", "1.0", "tests/test_random.py"),
    Mutant(
        "dropout's gradient not masked",
        RANDOM,
        "(gradient, keep, ctx.scale), None, None",
        "(gradient, keep | True, ctx.scale), None, None",
        "tests/test_random.py",
    ),
    Mutant(
        "positions key the heads",
        RANDOM,
        "if 0 < dimension == len(shape) - 2 and",
        "if 1 == dimension and",
        "tests/test_random.py",
    ),
    Mutant(
        "encoder made causal",
        TRANSFORMER,
        "layout = Layout(lengths=tokens.lengths, segments=tokens.segments)",
        "layout = Layout(causal=True, lengths=tokens.lengths, segments=tokens.segments)",
        "tests/models/test_transformer.py",
    ),
    Mutant(
        "decoder sees the future",
        TRANSFORMER,
        "layout = Layout(causal=True, lengths=given.lengths, segments=given.segments)",
        "layout = Layout(lengths=given.lengths, segments=given.segments)",
        MODELS,
        STEPS,
    ),
    Mutant(
        "tied table untied",
        TRANSFORMER,
        'source = target if tie == "all" else',
        'source = target if tie == "never" else',
        "tests/models/test_transformer.py",
    ),
    Mutant("the state does not move on", TRANSFORMER, "state.advance(ids.shape[1])", "state.advance(1)", STEPS),
    Mutant(
        "noise does not reach the decoder",
        TRANSFORMER,
        "Call(layout, memories, noise=noise, want",
        "Call(layout, memories, want",
        MODELS,
    ),
    Mutant(
        "a position inside has one head",
        TRANSFORMER,
        'part("mixer", mixer).options.get("heads", 1)',
        'mixer.options.get("heads", 1)',
        "tests/models/test_transformer.py",
    ),
    Mutant(
        "weights of another shape taken",
        "qkv/models/base.py",
        "if tensor.shape != tensors[name].shape:",
        "if False:",
        "tests/models/test_base.py",
    ),
    Mutant(
        "unknown keys accepted",
        CONFIG,
        "        if key not in known:",
        "        if key is None:",
        "tests/test_config.py",
    ),
    Mutant(
        "text read as numbers",
        CONFIG,
        "for candidate in [value] if raw is None else [value, raw]:",
        "for candidate in [value]:",
        "tests/test_config.py",
    ),
    Mutant("loose types", CONFIG, "strict=True)", "strict=False)", "tests/test_config.py"),
    Mutant(
        "old options survive a new name",
        CONFIG,
        'and value.get("name", below.get("name")) == below.get("name")',
        "and True",
        "tests/test_config.py",
    ),
    Mutant(
        "aliases read",
        CONFIG,
        "isinstance(token, AliasToken | AnchorToken | TagToken)",
        "isinstance(token, TagToken)",
        "tests/test_config.py",
    ),
    Mutant("depth unbounded", CONFIG, "if depth > DEEPEST:", "if depth > DEEPEST * 1000:", "tests/test_config.py"),
    Mutant(
        "a name taken twice",
        "qkv/registry.py",
        "if parts.get(name, target) != target:",
        "if False:",
        "tests/test_registry.py",
    ),
    Mutant(
        "every level may be dropped",
        RANDOM,
        "min(round(rate * LEVELS), LEVELS - 1)",
        "round(rate * LEVELS)",
        "tests/test_random.py",
    ),
    Mutant(
        "an unnamed place draws noise",
        RANDOM,
        'assert place >= 0, "name_places(model) was not called"',
        "pass",
        "tests/test_random.py",
    ),
]
