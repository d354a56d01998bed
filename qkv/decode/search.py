"""Search over any model that answers `Steps`: a batch in, the best targets of each of its sentences out.

`stream` is the whole of it: blocks of waiting sentences come in while rows are free, and a block takes steps until all
its sentences are done. `search` hands it one batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from qkv.data.batch import Batch
from qkv.decode.beam import Beam
from qkv.decode.block import Block
from qkv.decode.hypothesis import Hypothesis, Marks
from qkv.decode.settings import SearchSettings
from qkv.decode.single import Single
from qkv.decode.task import Prefixes, Task
from qkv.errors import DataError
from qkv.models.protocols import Steps


@dataclass(frozen=True)
class Waiting:
    """Sentences that are to be decoded, and what their targets must begin with."""

    batch: Batch
    prefix: Prefixes | None = None


def search(
    model: Steps,
    batch: Batch,
    settings: SearchSettings,
    *,
    bos: int,
    eos: int,
    pad: int,
    prefix: Prefixes | None = None,
) -> list[list[Hypothesis]]:
    """For each row its hypotheses: the best first, or independent samples in the order they are drawn."""
    rows = max(1, batch.rows) * settings.beams * settings.draws
    return list(stream(model, [Waiting(batch, prefix)], settings, rows=rows, bos=bos, eos=eos, pad=pad))


def stream(
    model: Steps,
    waiting: Iterable[Waiting],
    settings: SearchSettings,
    *,
    rows: int,
    bos: int,
    eos: int,
    pad: int,
) -> Iterator[list[Hypothesis]]:
    """The same for all that wait, in their order, with at most so many rows of the model at work (or one's)."""
    task = Task(model, settings, Marks(bos, eos, pad))
    each = settings.beams * settings.draws
    queue = _divided(waiting, max(1, rows // each))
    following, block = next(queue, None), None
    parts: dict[int, dict[int, list[Hypothesis]]] = {}
    entered = told = 0
    while following is not None or block is not None:
        while following is not None and (block is None or block.rows + following.batch.rows * each <= rows):
            new = begin(task, following, range(entered, entered + following.batch.rows))
            entered += following.batch.rows
            following = next(queue, None)
            if block is None:
                block = new
            else:
                block.join(new)
        assert block is not None
        for outcome in block.step():
            parts.setdefault(outcome.number, {})[outcome.draw] = outcome.hypotheses
        if not block.sentences:
            block = None
        while len(parts.get(told, ())) == settings.draws:
            draws = parts.pop(told)
            yield [hypothesis for draw in sorted(draws) for hypothesis in draws[draw]]
            told += 1


def begin(task: Task, waiting: Waiting, numbers: Sequence[int]) -> Block:
    """The block that decodes these sentences, called by these numbers."""
    kind = Beam if task.settings.beams > 1 else Single
    return kind(task, waiting.batch, numbers, waiting.prefix)


def _divided(waiting: Iterable[Waiting], most: int) -> Iterator[Waiting]:
    """What is waiting, in batches of at most `most` sentences and never none."""
    for one in waiting:
        rows = one.batch.rows
        if one.prefix is not None and len(one.prefix) != rows:
            raise DataError(
                f"{len(one.prefix)} prefixes for {rows} sentences; give one for each, an empty one to force nothing"
            )
        done = 0
        for batch in one.batch.divided(-(-rows // most)) if rows else []:
            yield Waiting(batch, None if one.prefix is None else one.prefix[done : done + batch.rows])
            done += batch.rows
