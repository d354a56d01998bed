"""What is to be decoded: a model, settings and marks; the prefix and the limit of each sentence; what becomes of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor

from qkv.data.batch import Batch
from qkv.decode.hypothesis import Hypothesis, Marks
from qkv.decode.penalties import best_reachable, divisor
from qkv.decode.settings import SearchSettings
from qkv.errors import ConfigError, DataError
from qkv.models.protocols import Steps

Prefixes = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Task:
    """What all sentences have in common."""

    model: Steps
    settings: SearchSettings
    marks: Marks

    def __post_init__(self) -> None:
        self.settings.check_vocabulary(self.model.vocabulary)
        for name in ("bos", "eos", "pad"):
            if not 0 <= getattr(self.marks, name) < self.model.vocabulary:
                raise ConfigError(
                    f"{name}={getattr(self.marks, name)} is not in the model's vocabulary of {self.model.vocabulary}; "
                    "are tokenizer and model of one bundle?"
                )

    def score(self, log_probability: float, tokens: int) -> float:
        return log_probability / divisor(self.settings.length_norm, self.settings.length_penalty, tokens)

    def bound(self, log_probability: float, tokens: int, limit: int) -> float:
        return best_reachable(self.settings.length_norm, self.settings.length_penalty, log_probability, tokens, limit)


@dataclass
class Sentence:
    """What the host knows of a sentence that is being decoded."""

    number: int  # its place among all that were handed in
    draw: int
    prefix: tuple[int, ...]
    limit: int  # tokens at most, the prefix among them
    birth: int  # the clock at which it would have had no token
    done: bool = False
    ended: int = 0  # how many hypotheses have reached EOS
    kept: list[Hypothesis] = field(default_factory=list)  # the best of them, best first

    @property
    def due(self) -> int:
        """The clock at which it has all the tokens it may have."""
        return self.birth + self.limit

    @property
    def forced_until(self) -> int:
        """The clock at which its prefix is written."""
        return self.birth + len(self.prefix)


@dataclass(frozen=True)
class Completion:
    """A hypothesis that goes no further: a lane's past, and a last token unless nothing more was allowed."""

    sentence: int
    lane: int
    log_probability: float
    last: tuple[int, float] | None  # the token, perhaps EOS, and its log-probability


@dataclass(frozen=True)
class Outcome:
    """What became of one draw of a sentence."""

    number: int
    draw: int
    hypotheses: list[Hypothesis]


def prefixes_of(given: Prefixes | None, rows: int, task: Task) -> list[tuple[int, ...]]:
    """The forced prefix of each row; none unless given."""
    if given is None:
        return [()] * rows
    if len(given) != rows:
        raise DataError(f"{len(given)} prefixes for {rows} sentences; give one for each, an empty one to force nothing")
    for i in (i for prefix in given for i in prefix):
        if not 0 <= i < task.model.vocabulary or i == task.marks.eos:
            raise DataError(
                f"a prefix holds the id {i}; it may hold any of the {task.model.vocabulary} of the vocabulary but EOS"
            )
    return [tuple(prefix) for prefix in given]


def limits_of(batch: Batch, prefixes: Prefixes, settings: SearchSettings) -> list[int]:
    """How many tokens each target may have, its prefix among them: at least one new one."""
    if batch.source is None and settings.max_new_tokens is None:
        raise ConfigError(
            "max_new_tokens is not set, and without a source nothing else limits a text; set it, to 256 say"
        )
    limits = []
    lengths = [None] * batch.rows if batch.source is None else batch.source.lengths.tolist()
    for length, prefix in zip(lengths, prefixes, strict=True):
        most = [] if settings.max_new_tokens is None else [len(prefix) + settings.max_new_tokens]
        if length is not None:
            most.append(floor(settings.max_length_ratio * length) + settings.max_length_offset)
        limits.append(max(min(most), len(prefix) + 1))
    return limits
