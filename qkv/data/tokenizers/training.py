"""Learning BPE merges (Sennrich et al. 2016, 3.2): again and again the most frequent pair of symbols becomes one.

The counting is the library's; the ids are laid out here: special tokens, the 256 bytes, the alphabet in the order of
its code points, then what the merges make, in their order.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Regex, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Library

from qkv.data.tokenizers.base import SPECIAL_TOKENS
from qkv.data.tokenizers.spelling import BYTE_TOKENS, MARK, Spelling
from qkv.errors import ConfigError, DataError

LONGEST_TOKEN = 64  # characters; a line repeated a thousand times would become one token otherwise

Merges = list[tuple[str, str]]


@dataclass(frozen=True)
class Goal:
    """How far to learn: to a size in all, or to a number of merges where one is given."""

    vocabulary: int
    merges: int | None
    coverage: float
    minimum: int

    def __post_init__(self) -> None:
        if self.merges is not None and self.merges < 0:
            raise ConfigError(f"merges {self.merges} must be at least 0; leave it out to go by vocabulary instead")
        if not 0 < self.coverage <= 1:
            raise ConfigError(f"coverage {self.coverage} must be above 0 and at most 1; 0.9995 suits large alphabets")
        if self.minimum < 1:
            raise ConfigError(f"minimum {self.minimum} must be at least 1; 2 leaves out pairs that were seen once")


def learned(texts: Sequence[str], spelling: Spelling, goal: Goal) -> tuple[tuple[str, ...], Merges]:
    """All tokens in the order of their ids, and the merges in the order of their rank."""
    fixed = spelling.fixed_tokens(SPECIAL_TOKENS)
    if goal.merges is None and goal.vocabulary <= len(fixed):
        bytes_too = " and 256 bytes" if spelling.byte_fallback else ""
        raise ConfigError(
            f"vocabulary {goal.vocabulary} has no room beside {len(SPECIAL_TOKENS)} special tokens{bytes_too}; "
            f"take more than {len(fixed)} and the alphabet, 8000 for instance"
        )
    rare = _rare(texts, spelling, goal.coverage) if goal.coverage < 1 else []
    if goal.merges is None:
        room = goal.vocabulary - len(fixed)
    else:
        room = len(_trained(texts, spelling, rare, 0, goal.minimum)[0]) + goal.merges
    alphabet, merges = _trained(texts, spelling, rare, room, goal.minimum)
    if not alphabet:
        raise DataError("the text to train a tokenizer on is empty; name a corpus that holds text")
    if goal.merges is None and len(alphabet) > room:
        kinds = "lower coverage to 0.9995" if goal.coverage == 1 else f"lower coverage, {goal.coverage} now"
        raise ConfigError(
            f"vocabulary {goal.vocabulary} is too small: the text has {len(alphabet)} different characters; "
            f"take {len(fixed) + len(alphabet)} at the least, or {kinds}"
        )
    merges = _unreserved(merges)[: goal.merges]
    made = dict.fromkeys(left + right for left, right in merges)
    return (*fixed, *alphabet, *made), merges


def _trained(
    texts: Sequence[str], spelling: Spelling, rare: Sequence[str], room: int, minimum: int
) -> tuple[list[str], Merges]:
    """The alphabet, and merges until both fill the room; no merges where the alphabet alone does."""
    library = Library(models.BPE())
    library.normalizer = spelling.normalizer()
    library.pre_tokenizer = spelling.pre_tokenizer()
    if rare:
        holes = Regex("[" + "".join(rf"\x{{{ord(character):x}}}" for character in rare) + "]")
        cut = pre_tokenizers.Split(holes, "removed")
        library.pre_tokenizer = pre_tokenizers.Sequence([spelling.pre_tokenizer(), cut])
    trainer = trainers.BpeTrainer(
        vocab_size=len(SPECIAL_TOKENS) + room,
        min_frequency=minimum,
        show_progress=False,
        special_tokens=list(SPECIAL_TOKENS),
        max_token_length=LONGEST_TOKEN,
    )
    library.train_from_iterator(texts, trainer, length=len(texts))
    model = json.loads(library.to_str())["model"]
    return sorted(token for token in model["vocab"] if len(token) == 1), [
        (left, right) for left, right in model["merges"]
    ]


def _rare(texts: Sequence[str], spelling: Spelling, coverage: float) -> list[str]:
    """The rarest characters that together make up at most the uncovered share of the text."""
    normalizer, counts = spelling.normalizer(), Counter[str]()
    for text in texts:
        counts.update(normalizer.normalize_str(text))
    left = (1 - coverage) * counts.total()
    rare: list[str] = []
    for character, count in sorted(counts.items(), key=lambda entry: (entry[1], entry[0])):
        left -= count
        if left < 0:
            break
        if character != MARK:
            rare.append(character)
    return rare


def _unreserved(merges: Merges) -> Merges:
    """The merges without those that spell a special token or a byte token, and without what is built on them."""
    lost = {*SPECIAL_TOKENS, *BYTE_TOKENS}
    kept: Merges = []
    made: set[str] = set()
    for left, right in merges:
        if left + right in lost or not all(len(part) == 1 or part in made for part in (left, right)):
            continue
        kept.append((left, right))
        made.add(left + right)
    return kept
