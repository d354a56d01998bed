"""What may be wrong with a pair of sentences, a rule a line: what it says, what it costs, and whether it is so.

A rule answers one of three things: nothing (the pair is well), a few words (what is wrong), or NOT_JUDGED.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from qkv.data.doctor import encoding, marks
from qkv.data.doctor.language import FEWEST_LETTERS, Languages, long_enough
from qkv.data.sources import Pair

NOT_JUDGED: Final = ""
Judged = str | None

SIDES = ("source", "target")
WORDS = re.compile(r"\w+")


@dataclass(frozen=True)
class Rule:
    """`about` ends the sentence "lines that ...". A rule that only `warns` is counted and shown, and never drops."""

    name: str
    about: str
    judge: Callable[[Sequence[Pair]], list[Judged]]  # many pairs at once: some rules are faster so
    warns: bool = False


@dataclass(frozen=True)
class Limits:
    """Where too long begins, and how unlike two lengths may be."""

    most_words: int = 200
    most_ratio: float = 3.0
    copy_words: int = 4


def key_of(text: str) -> str:
    """A text without case, punctuation and spacing: by it sentences are the same."""
    return " ".join(WORDS.findall(text.casefold())) or text.strip()


def rules(limits: Limits = Limits(), languages: Languages | None = None) -> Mapping[str, Rule]:
    """The rules that look at one pair alone, in the order of a report."""

    def empty(pair: Pair) -> Judged:
        blank = [side for side, text in zip(SIDES, pair, strict=True) if not text.strip()]
        return f"no {' and no '.join(blank)}" if blank else None

    def long(pair: Pair) -> Judged:
        most = max(len(text.split()) for text in pair)
        longest = max(map(len, pair))
        if most > limits.most_words:
            return f"{most:,} words"
        # Scripts without spaces are bounded by their characters.
        return f"{longest:,} characters" if longest > 10 * limits.most_words else None

    def ratio(pair: Pair) -> Judged:
        lengths = [len(text) for text in pair]
        # Ten characters on both sides, so that "Ja" may become "Of course".
        found = (max(lengths) + 10) / (min(lengths) + 10)
        return f"{lengths[0]:,} characters against {lengths[1]:,}" if found > limits.most_ratio else None

    def copied(pair: Pair) -> Judged:
        if pair.source.casefold().strip() != pair.target.casefold().strip():
            return None
        # Names and single words are right to stay as they are.
        return "the same on both sides" if len(pair.source.split()) >= limits.copy_words else NOT_JUDGED

    def language(pairs: Sequence[Pair]) -> list[Judged]:
        assert languages is not None
        said: list[Judged] = [NOT_JUDGED] * len(pairs)
        for side in (1, 0):
            if languages.sides[side] is None:
                continue
            long_ones = [i for i, pair in enumerate(pairs) if long_enough(pair[side])]
            found = languages.disagree([pairs[i][side] for i in long_ones], side)
            for i, other in zip(long_ones, found, strict=True):
                if other is not None:
                    said[i] = f"{SIDES[side]} is {other}"
                elif said[i] == NOT_JUDGED:
                    said[i] = None
        return said

    def either(check: Callable[[str], str | None]) -> Callable[[Pair], Judged]:
        return lambda pair: check(pair.source) or check(pair.target)

    def each(judge: Callable[[Pair], Judged]) -> Callable[[Sequence[Pair]], list[Judged]]:
        return lambda pairs: [judge(pair) for pair in pairs]

    made = [
        Rule("empty", "have nothing on one side", each(empty)),
        Rule("encoding", "were decoded wrongly once, or are not UTF-8", each(either(encoding.broken))),
        Rule("control", "hold characters that nobody sees", each(either(encoding.unseen))),
        Rule("long", f"have more than {limits.most_words:,} words on a side", each(long)),
        Rule("ratio", f"are {limits.most_ratio:g} times as long on one side as on the other", each(ratio)),
        Rule("copy", f"are the same on both sides ({limits.copy_words} words or more)", each(copied)),
        Rule("numbers", "hold a number that the other side does not", each(lambda pair: marks.numbers_disagree(*pair))),
        Rule(
            "placeholders",
            "lose or invent a placeholder, a tag or an address",
            each(lambda pair: marks.placeholders_disagree(*pair)),
        ),
    ]
    if languages is not None and any(languages.sides):
        named = " and ".join(name or "unknown" for name in languages.sides)
        made.append(
            Rule("language", f"are not in {named} (lines of {FEWEST_LETTERS} letters or more are judged)", language)
        )
    return {rule.name: rule for rule in made}
