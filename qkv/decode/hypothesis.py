"""What decoding is told of ids, and what it says: the marks of a vocabulary, and one target with its score."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Marks:
    """The ids that frame a target. BOS and PAD are never written, unless one of them is EOS too."""

    bos: int
    eos: int
    pad: int

    @property
    def unwritable(self) -> tuple[int, ...]:
        return tuple(sorted({self.bos, self.pad} - {self.eos}))


@dataclass(frozen=True)
class Hypothesis:
    """One target of one source."""

    ids: tuple[int, ...]  # without BOS and EOS, the forced prefix first
    score: float  # the log-probability divided by the length normalisation
    log_probability: float  # of the new tokens, EOS among them
    token_log_probabilities: tuple[float, ...]  # one for each new token, EOS last where there is one
    finished: bool  # ended by EOS; else cut: at its limit, or where nothing more was allowed
    forced: int = 0  # how many ids were given
