"""Text in, text out: tokenizers and a search around a model; lines are sorted by length and put back in order.

Nothing is lost silently: a source longer than the model's limit is cut and says so, a blank line stays a blank line.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from qkv import config
from qkv.data.tokenizers.base import Specials, Tokenizer
from qkv.errors import ConfigError, DataError

if TYPE_CHECKING:
    import torch

    from qkv.decode.hypothesis import Hypothesis
    from qkv.decode.settings import SearchSettings
    from qkv.models.protocols import Steps

MAX_TOKENS = 4096  # source tokens of a batch, padding among them
CHUNK_LINES, CHUNK_CHARACTERS = 4096, 1 << 18


class Options(TypedDict, total=False):
    """What may be said of decoding; `qkv.decode.settings.SearchSettings` explains each."""

    num_beams: int | None
    num_return_sequences: int
    length_norm: str
    length_penalty: float
    early_stopping: bool
    max_new_tokens: int | None
    max_length_ratio: float
    max_length_offset: int
    min_new_tokens: int
    no_repeat_ngram_size: int
    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    seed: int


@dataclass(frozen=True)
class Translation:
    """One target of one source, and what is to be known of it."""

    text: str
    score: float  # the log-probability divided by the length normalisation: what the search ranks by
    log_probability: float
    tokens: int  # new ones, the end mark among them
    finished: bool = True  # ended by itself, not by the limit on its length
    truncated: bool = False  # its source was longer than the model takes, and was cut


BLANK = Translation("", 0.0, 0.0, 0)


@dataclass(frozen=True)
class Scored:
    """How likely a model finds a target that is given; the end mark counts as a token."""

    log_probability: float
    tokens: int
    truncated: bool = False

    @property
    def perplexity(self) -> float:
        from math import exp

        return exp(min(-self.log_probability / self.tokens, 700.0))


class Translator:
    """A model, or several as one, with its tokenizers and the way it decodes unless told otherwise."""

    def __init__(
        self,
        model: "Steps",
        source: Tokenizer,
        target: Tokenizer,
        /,
        *,
        decoding: "SearchSettings",
        longest_source: int,
        max_tokens: int = MAX_TOKENS,
        pretokenized: bool = False,
        device: "torch.device | str" = "cpu",
        precision: str = "fp32",
        name: str = "model",
    ) -> None:
        if max_tokens < 1:
            raise ConfigError(f"max_tokens {max_tokens} must be at least 1; {MAX_TOKENS} is the default")
        self.model, self.source, self.target = model, source, target
        self.decoding, self.longest_source, self.max_tokens = decoding, longest_source, max_tokens
        self.pretokenized, self.device, self.precision, self.name = pretokenized, device, precision, name

    @overload
    def translate(  # type: ignore[overload-overlap]  # a text is a sequence of texts too
        self, texts: str, *, prefix: str = "", **options: Unpack[Options]
    ) -> str: ...

    @overload
    def translate(
        self, texts: Sequence[str], *, prefix: str | Sequence[str] = "", **options: Unpack[Options]
    ) -> list[str]: ...

    def translate(
        self, texts: str | Sequence[str], *, prefix: str | Sequence[str] = "", **options: Unpack[Options]
    ) -> str | list[str]:
        """The best translation of a text, or of each; `candidates` gives several, with scores and warnings."""
        if options.get("num_return_sequences", 1) != 1:
            raise ConfigError(
                f"num_return_sequences is {options['num_return_sequences']}, but translate returns the best alone; "
                "call candidates(...) for several"
            )
        if isinstance(texts, str):
            return self.candidates([texts], prefix=prefix, **options)[0][0].text
        return [found[0].text for found in self.candidates(texts, prefix=prefix, **options)]

    def candidates(
        self, texts: Sequence[str], *, prefix: str | Sequence[str] = "", **options: Unpack[Options]
    ) -> list[list[Translation]]:
        """For each text its translations, best first: as many as `num_return_sequences`, one of a blank text."""
        return self._candidates(texts, self._prefixes(texts, prefix), self.settings(**options), 0)

    def translate_lines(self, lines: Iterable[str], **options: Unpack[Options]) -> Iterator[str]:
        """The best translation of each line, in order, in bounded memory; every line gives exactly one."""
        for found in self.candidates_lines(lines, **options):
            yield found[0].text

    def candidates_lines(
        self, lines: Iterable[str], *, chunk_lines: int | None = None, prefix: str = "", **options: Unpack[Options]
    ) -> Iterator[list[Translation]]:
        """As `candidates`, for a stream: lines are read in chunks and sorted by length within them."""
        settings, first = self.settings(**options), 0
        for chunk in chunks(lines, chunk_lines or CHUNK_LINES):
            yield from self._candidates(chunk, self._prefixes(chunk, prefix), settings, first)
            first += len(chunk)

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Scored]:
        """How likely the model finds each target, its source given."""
        from qkv.pipeline.scoring import log_probabilities

        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources):,} sources stand against {len(targets):,} targets; line n belongs to line n"
            )
        rows, cut = self._sources(sources)
        wanted = self.target.encode(targets)
        found = log_probabilities(self.model, rows, wanted, max_tokens=self.max_tokens, device=self.device)
        return [
            Scored(value, len(ids) + 1, place in cut)
            for place, (value, ids) in enumerate(zip(found, wanted, strict=True))
        ]

    @property
    def scores_targets(self) -> bool:
        """Whether `score` can be asked: not of an ensemble."""
        from qkv.models.protocols import Predicts

        return isinstance(self.model, Predicts)

    def settings(self, **options: Unpack[Options]) -> "SearchSettings":
        """How it decodes: its own defaults, and what is said now."""
        from qkv.decode.settings import SearchSettings

        own: dict[str, Any] = config.plain(self.decoding)
        wanted = str(options.get("num_return_sequences", 1))
        if "do_sample" in options or (wanted.isdecimal() and int(wanted) > (own["num_beams"] or 0)):
            # A beam of the model's own must not stand against what the user asks for.
            own["num_beams"] = None
        return config.section(SearchSettings, {**own, **options}, "decoding")

    def _candidates(
        self, texts: Sequence[str], prefixes: Sequence[Sequence[int]], settings: "SearchSettings", first: int
    ) -> list[list[Translation]]:
        """`first` is the number of the first text in its stream: numbers key the random draws of sampling."""
        found: list[list[Translation]] = [[BLANK] for _ in texts]
        full = [place for place, text in enumerate(texts) if text.strip()]
        rows, cut = self._sources([texts[place] for place in full])
        numbers = [first + place for place in full]
        for places, hypotheses in self._searched(rows, [prefixes[place] for place in full], numbers, settings):
            for place, best_first in zip(places, hypotheses, strict=True):
                found[full[place]] = self._read(best_first, place in cut)
        return found

    def _sources(self, texts: Sequence[str]) -> tuple[list[list[int]], set[int]]:
        """Ids of each source within the model's limit, and which of them had to be cut."""
        rows = self.source.encode(texts)
        room = self.longest_source - 1  # for the end mark
        cut = {place for place, ids in enumerate(rows) if len(ids) > room}
        return [ids[:room] for ids in rows], cut

    def _prefixes(self, texts: Sequence[str], prefix: str | Sequence[str]) -> list[list[int]]:
        each = [prefix] * len(texts) if isinstance(prefix, str) else list(prefix)
        if len(each) != len(texts):
            raise DataError(
                f"{len(each):,} prefixes stand against {len(texts):,} texts; give one for each, or one for all"
            )
        return self.target.encode(each)

    def _searched(
        self,
        rows: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        numbers: Sequence[int],
        settings: "SearchSettings",
    ) -> Iterator[tuple[list[int], "list[list[Hypothesis]]"]]:
        import torch

        from qkv.data.batch import Batch
        from qkv.data.collate import batches_of
        from qkv.decode.search import search

        for places, tokens in batches_of(rows, max_tokens=self.max_tokens):
            samples = torch.tensor([numbers[place] for place in places])
            found = search(
                self.model,
                Batch.of(samples, tokens, None, split="test").to(self.device),
                settings,
                bos=Specials.BOS,
                eos=Specials.EOS,
                pad=Specials.PAD,
                prefix=[prefixes[place] for place in places],
            )
            yield places.tolist(), found

    def _read(self, hypotheses: "Sequence[Hypothesis]", truncated: bool) -> list[Translation]:
        texts = self.target.decode([found.ids for found in hypotheses])
        return [
            Translation(text, h.score, h.log_probability, len(h.token_log_probabilities), h.finished, truncated)
            for text, h in zip(texts, hypotheses, strict=True)
        ]


def chunks(lines: Iterable[str], most: int = CHUNK_LINES, characters: int = CHUNK_CHARACTERS) -> Iterator[list[str]]:
    """Lines in lists of at most `most`, and of about `characters` at most."""
    chunk: list[str] = []
    size = 0
    for line in chain(lines):
        chunk.append(line)
        size += len(line)
        if len(chunk) >= most or size >= characters:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
