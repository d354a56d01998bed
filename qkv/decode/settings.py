"""What may be set of decoding, by the names users know; the defaults are of "Attention Is All You Need", 6.1."""

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from qkv.config import Count, Natural, NonNegative, Positive, Settings, resolve
from qkv.errors import ConfigError

Exponent = Annotated[float, Ge(-10), Le(10)]
PositiveShare = Annotated[float, Gt(0), Le(1)]
Norm = Literal["gnmt", "power", "average", "none"]

PAPER_BEAMS = 4


@dataclass(frozen=True, kw_only=True)
class SearchSettings(Settings):
    """How targets are searched or sampled.

    New tokens are those behind a forced prefix, EOS among them; they alone are scored and counted. A target has at most
    max_length_ratio * source length (EOS included) + max_length_offset tokens, and at most max_new_tokens new ones.
    """

    num_beams: Count | None = None  # 4 when searching, 1 when sampling; 1 searches greedily
    num_return_sequences: Count = 1
    length_norm: Norm = "gnmt"
    length_penalty: Exponent = 0.6  # the exponent of gnmt and power
    early_stopping: bool = False  # true: stop at the first num_beams finished ones, whatever could still come
    max_new_tokens: Count | None = None
    max_length_ratio: NonNegative = 1.0
    max_length_offset: Natural = 50
    min_new_tokens: Natural = 0  # before EOS
    no_repeat_ngram_size: Natural = 0  # 0: repeat at will
    do_sample: bool = False
    temperature: Positive = 1.0
    top_k: Natural = 0  # 0: all
    top_p: PositiveShare = 1.0
    seed: Natural = 0

    def __post_init__(self) -> None:
        # Settings written in Python pass the same bounds as those that come from a file.
        resolve(type(self), {name: getattr(self, name) for name in (f.name for f in fields(self))})
        if self.max_new_tokens is not None and self.min_new_tokens > self.max_new_tokens:
            raise ConfigError(
                f"min_new_tokens={self.min_new_tokens} is more than max_new_tokens={self.max_new_tokens}; "
                f"take at most {self.max_new_tokens}"
            )
        if self.do_sample:
            self._check_sampling()
        else:
            self._check_searching()

    @property
    def beams(self) -> int:
        """How many hypotheses of a sentence are alive at once."""
        if self.num_beams is not None:
            return self.num_beams
        return 1 if self.do_sample else max(PAPER_BEAMS, self.num_return_sequences)

    @property
    def draws(self) -> int:
        """How many times each sentence is decoded independently."""
        return self.num_return_sequences if self.do_sample else 1

    def check_vocabulary(self, vocabulary: int) -> None:
        """Refuses a beam that the vocabulary cannot fill."""
        if self.beams > vocabulary:
            raise ConfigError(
                f"num_beams={self.beams} is more than the vocabulary of {vocabulary} tokens; take at most {vocabulary}"
            )

    def _check_sampling(self) -> None:
        if self.beams > 1:
            raise ConfigError(
                f"num_beams={self.beams} with do_sample=true; sampling has no beam: leave num_beams out, "
                f"or ask for several samples with num_return_sequences={self.beams}"
            )

    def _check_searching(self) -> None:
        if self.num_return_sequences > self.beams:
            raise ConfigError(
                f"num_return_sequences={self.num_return_sequences} is more than num_beams={self.beams}; "
                f"raise num_beams to {self.num_return_sequences} or take do_sample=true"
            )
        for f in fields(self):
            if f.name in ("temperature", "top_k", "top_p") and getattr(self, f.name) != f.default:
                raise ConfigError(f"{f.name}={getattr(self, f.name)} has no effect on a search; add do_sample=true")
