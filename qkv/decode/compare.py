"""Search against the reference: token for token, wherever the reference's own decisions were no toss-ups."""

from dataclasses import dataclass

from qkv.data.batch import Batch
from qkv.decode.hypothesis import Hypothesis, Marks
from qkv.decode.reference import reference
from qkv.decode.search import search
from qkv.decode.settings import SearchSettings
from qkv.decode.task import Prefixes, Task
from qkv.models.protocols import Steps

LARGEST_ROUNDING = 1e-4


@dataclass(frozen=True)
class Agreement:
    """How many sentences came out alike; of the others, how many must have, and how many hung on rounding."""

    equal: int
    different: int
    within_margin: int


def compare(
    model: Steps,
    batch: Batch,
    settings: SearchSettings,
    *,
    bos: int,
    eos: int,
    pad: int,
    prefix: Prefixes | None = None,
    margin: float = LARGEST_ROUNDING,
) -> Agreement:
    """Every hypothesis counts: its tokens, its place, whether it ended, and its score to within the margin."""
    found = search(model, batch, settings, bos=bos, eos=eos, pad=pad, prefix=prefix)
    equal = different = 0
    task = Task(model, settings, Marks(bos, eos, pad))
    for mine, (theirs, lead) in zip(found, reference(task, batch, prefix), strict=True):
        if _alike(mine, theirs, margin):
            equal += 1
        elif lead > margin:
            different += 1
    return Agreement(equal, different, len(found) - equal - different)


def _alike(mine: list[Hypothesis], theirs: list[Hypothesis], margin: float) -> bool:
    return [(h.ids, h.finished) for h in mine] == [(h.ids, h.finished) for h in theirs] and all(
        abs(a.score - b.score) <= margin for a, b in zip(mine, theirs, strict=True)
    )
