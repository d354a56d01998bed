"""Faults in what a layer is told and in what decoding remembers."""

from tests.mutants.row import Mutant

CALL = "qkv/nn/call.py"
STATE = "qkv/nn/state.py"
MIXERS = "tests/conformance/test_mixers.py"
STATES = "tests/conformance/test_mixer_states.py"
MODELS = "tests/conformance/test_models.py"
STEPS = "tests/conformance/test_model_states.py"

CALLS = [
    Mutant(
        "causal mask off by one",
        CALL,
        "seen = index <= torch.arange",
        "seen = index < 1 + 1 + torch.arange",
        "tests/nn/test_call.py",
    ),
    Mutant(
        "padding seen",
        CALL,
        "masks.append(index < self.lengths.view",
        "masks.append(index <= self.lengths.view",
        MIXERS,
    ),
    Mutant("packed documents seen", CALL, "(mine == theirs) & (theirs > 0)", "(theirs > 0)", MIXERS),
    Mutant(
        "prefix forgotten",
        CALL,
        "seen = seen | (index < self.prefix",
        "seen = seen & (index >= 0 * self.prefix",
        MIXERS,
    ),
    Mutant(
        "offset dropped from positions",
        CALL,
        "return index + (self.offset if isinstance",
        "return index + 0 * (self.offset if isinstance",
        STATES,
    ),
    Mutant(
        "positions do not restart in packed rows",
        CALL,
        "return index - torch.where(new, index, 0).cummax(1).values",
        "return index - 0 * torch.where(new, index, 0).cummax(1).values",
        MIXERS,
    ),
    Mutant(
        "a memory's lengths lost",
        CALL,
        "return replace(memory, causal=False",
        "return replace(memory, lengths=None, causal=False",
        MIXERS,
    ),
    Mutant(
        "a child gets its parent's wants",
        CALL,
        "want=self.want.at(name))",
        "want=self.want)",
        MODELS,
        "tests/nn/test_call.py",
    ),
    Mutant(
        "a cache not reordered",
        STATE,
        (
            "self.keys, self.values = self.keys.index_select(0, rows), self.values.index_select(0, rows)\n"
            "\n    def insert(self, other: State) -> None:\n        assert isinstance(other, KeyValues)"
        ),
        "pass\n\n    def insert(self, other: State) -> None:\n        assert isinstance(other, KeyValues)",
        STATES,
    ),
    Mutant(
        "recurrent vectors not reordered",
        STATE,
        "self.values = {name: t.index_select(0, rows) for name, t in self.values.items()}",
        "pass",
        STATES,
    ),
    Mutant(
        "cross keys of the wrong row",
        STATE,
        "        if group == 1:\n            self.select(rows)",
        "        if group == 0:\n            self.select(rows)",
        STATES,
    ),
    Mutant(
        "a memory's lengths not selected", STATE, "self.lengths = self.lengths.index_select(0, rows)", "pass", STATES
    ),
    Mutant(
        "insert drops lengths",
        STATE,
        "self._set(torch.cat([self.lengths, other.lengths]))",
        "self.lengths = torch.cat([self.lengths, other.lengths])",
        STATES,
    ),
    Mutant("rewind not masked", STATE, "self._set(torch.minimum(self.lengths, lengths))", "pass", STATES),
    Mutant("rewind runs ahead", STATE, "torch.minimum(self.lengths, lengths)", "lengths", STATES),
    Mutant(
        "ragged rows keep lengths on reorder",
        STATE,
        "        if not self.aligned:\n            self.lengths = self.lengths[rows]",
        "        pass",
        STATES,
    ),
    Mutant("a full buffer does not grow", STATE, "if missing > 0:", "if missing > 99:", STATES),
    Mutant(
        "ragged rows written at one offset",
        STATE,
        "index = offset[:, None] + torch",
        "index = 0 * offset[:, None] + longest + torch",
        STATES,
    ),
    Mutant(
        "rows that left still count as furthest",
        STATE,
        "self._set(self.lengths[rows])",
        "self.lengths = self.lengths[rows]",
        STATES,
    ),
]
