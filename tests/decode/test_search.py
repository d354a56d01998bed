"""The road of every search: limits, prefixes, leaving, coming in, and that no sentence feels another."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from qkv.data.batch import Batch
from qkv.decode.beam import Beam
from qkv.decode.hypothesis import Hypothesis, Marks
from qkv.decode.search import Waiting, begin, stream
from qkv.decode.settings import SearchSettings
from qkv.decode.task import Task
from qkv.errors import DataError
from qkv.nn.state import Decoding
from tests.decode.toys import EOS, MARKS, Recurrent, batch_of, searched

LENGTHS = [3, 9, 5, 6, 2, 8, 4, 7, 5, 3]
KINDS = [
    {"num_beams": 1},
    {},
    {"num_beams": 3, "num_return_sequences": 3, "length_norm": "average"},
    {"num_beams": 2, "early_stopping": True},
    {"do_sample": True, "num_return_sequences": 2},
    {"no_repeat_ngram_size": 2, "min_new_tokens": 3},
]


def same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> bool:
    """Alike in tokens and order, and in scores to rounding."""
    flat, wanted = [h for hs in found for h in hs], [h for hs in expected for h in hs]
    return [len(hs) for hs in found] == [len(hs) for hs in expected] and all(
        (a.ids, a.finished, a.forced) == (b.ids, b.finished, b.forced) and a.score == pytest.approx(b.score, abs=1e-4)
        for a, b in zip(flat, wanted, strict=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_does_not_feel_its_batch(kind: dict[str, object]) -> None:
    model = Recurrent(ending=2.0)
    together = searched(model, batch_of(LENGTHS), max_new_tokens=9, **kind)
    alone = [searched(model, batch_of([n], first=i), max_new_tokens=9, **kind)[0] for i, n in enumerate(LENGTHS)]
    assert same(together, alone)
    assert len({len(h.ids) for hs in together for h in hs}) > 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "size"), [(1, 4), (9, 2), (12, 3), (1000, 1)])
def test_coming_in_midway_changes_nothing(kind: dict[str, object], rows: int, size: int) -> None:
    """Sources of several batches, each with prefixes of its own, in a small budget of rows."""
    model = Recurrent(ending=2.0)
    whole, prefixes = batch_of(LENGTHS), [[4 + i % 8] * (i % 4) for i in range(len(LENGTHS))]
    settings = SearchSettings(max_new_tokens=9, **kind)  # type: ignore[arg-type]
    expected = searched(model, whole, prefix=prefixes, max_new_tokens=9, **kind)
    model.rows.clear()
    parts = whole.divided(-(-len(LENGTHS) // size))
    starts = [int(part.samples[0]) for part in parts]
    waiting = [Waiting(p, prefixes[s : s + p.rows]) for p, s in zip(parts, starts, strict=True)]
    assert same(list(stream(model, waiting, settings, rows=rows, **MARKS)), expected)
    assert max(model.rows) <= max(rows, settings.beams * settings.draws)


def test_answers_come_in_order_and_before_the_last_is_asked_for() -> None:
    model = Recurrent(ending=2.0)
    asked = []

    def queue() -> "object":
        for i, n in enumerate(LENGTHS):
            asked.append(i)
            yield Waiting(batch_of([n], first=i))

    answers = stream(model, queue(), SearchSettings(num_beams=2, max_new_tokens=6), rows=4, **MARKS)  # type: ignore[arg-type]
    first = next(answers)
    assert len(asked) < len(LENGTHS)
    assert same([first, *answers], searched(model, batch_of(LENGTHS), num_beams=2, max_new_tokens=6))


def test_finished_ones_leave_and_the_model_computes_less() -> None:
    model = Recurrent(ending=2.0)
    found = searched(model, batch_of(LENGTHS * 2), num_beams=3, max_new_tokens=12)
    assert model.rows[0] == 20  # the first token is fed before the beam is spread
    assert model.rows[1] == 60 and model.rows[-1] < 30
    assert model.rows[1:] == sorted(model.rows[1:], reverse=True)
    assert all(found)


def test_no_row_is_fed_beyond_its_limit() -> None:
    """Those at their limit leave at once, however few they are: a model may know no place behind it."""
    furthest: list[float] = []

    class Watched(Recurrent):
        def scores(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
            furthest.append(float(hidden[..., -1].max()))
            return super().scores(hidden, subset)

    searched(Watched(ending=-30.0), batch_of(list(range(2, 22))), num_beams=2, max_length_offset=2)
    assert max(furthest) == 2  # tokens fed, BOS among them, less the source's


def test_a_beam_is_reordered_within_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what all lanes of a sentence share need not be copied."""
    seen, honest = [], Decoding.reorder

    def watched(state: Decoding, rows: Tensor, group: int = 1) -> None:
        seen.append((rows // group == torch.arange(len(rows)) // group).all() and group)
        honest(state, rows, group)

    monkeypatch.setattr(Decoding, "reorder", watched)
    searched(Recurrent(ending=-2.0), batch_of(LENGTHS), num_beams=3)
    assert seen and set(seen) == {3}


def test_nothing_in_nothing_out() -> None:
    empty = batch_of([3]).divided(1)[0]
    none = Batch.of(empty.samples[:0], empty.source.slice(0, 0) if empty.source else None, None)
    model = Recurrent()
    assert searched(model, none) == [] and model.rows == []
    assert list(stream(model, [], SearchSettings(), rows=8, **MARKS)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_limits_are_kept_row_by_row(kind: dict[str, object]) -> None:
    model = Recurrent(ending=-30.0)
    for n, hypotheses in zip(LENGTHS, searched(model, batch_of(LENGTHS), max_length_offset=2, **kind), strict=True):
        assert all(len(h.ids) == n + 2 and not h.finished for h in hypotheses)
    assert all(len(h.ids) <= 4 for hs in searched(model, batch_of(LENGTHS), max_new_tokens=4, **kind) for h in hs)


@pytest.mark.parametrize("kind", KINDS[:5])
def test_no_text_ends_too_soon(kind: dict[str, object]) -> None:
    model = Recurrent(ending=8.0)
    assert any(len(h.ids) < 3 for hs in searched(model, batch_of(LENGTHS), **kind) for h in hs)
    held = searched(model, batch_of(LENGTHS), min_new_tokens=3, **kind)
    assert all(len(h.ids) >= 3 for hs in held for h in hs)
    assert any(len(h.ids) == 3 and h.finished for hs in held for h in hs)


@pytest.mark.parametrize("kind", KINDS[:5])
def test_no_ngram_comes_twice(kind: dict[str, object]) -> None:
    def repeats(ids: tuple[int, ...]) -> bool:
        pairs = list(pairwise(ids))
        return len(set(pairs)) < len(pairs)

    model, given = Recurrent(ending=-8.0), {"max_new_tokens": 20, **kind}
    assert any(repeats(h.ids) for hs in searched(model, batch_of(LENGTHS), **given) for h in hs)
    assert not any(
        repeats(h.ids) for hs in searched(model, batch_of(LENGTHS), no_repeat_ngram_size=2, **given) for h in hs
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_forced_prefix_stands_first_and_costs_nothing(kind: dict[str, object]) -> None:
    model = Recurrent(ending=0.0)
    prefixes = [[5, 6, 7], [8, 9], [5, 6, 7, 10, 11], [4, 4]]
    for prefix, hypotheses in zip(
        prefixes, searched(model, batch_of(LENGTHS[:4]), prefix=prefixes, max_new_tokens=6, **kind), strict=True
    ):
        for h in hypotheses:
            assert list(h.ids[: len(prefix)]) == prefix and h.forced == len(prefix)
            new = len(h.ids) - len(prefix) + h.finished
            assert len(h.token_log_probabilities) == new <= 6
            assert h.log_probability == pytest.approx(sum(h.token_log_probabilities), abs=1e-4)
    assert model.widths[:2] == [3, 1]  # BOS and the two tokens that all have: one call


def test_ones_own_best_as_a_prefix_is_gone_on_from() -> None:
    """Forced to a part of its own greedy text, a search writes the rest of it."""
    model = Recurrent(ending=0.0)
    found = searched(model, batch_of(LENGTHS), num_beams=1, max_new_tokens=8)
    prefixes = [list(hs[0].ids[: i % 5]) for i, hs in enumerate(found)]
    again = searched(model, batch_of(LENGTHS), num_beams=1, max_length_ratio=0.0, max_length_offset=8, prefix=prefixes)
    assert [hs[0].ids for hs in again] == [hs[0].ids for hs in found]


def test_who_is_dropped_leaves_without_an_answer() -> None:
    model = Recurrent(ending=0.0)
    task = Task(model, SearchSettings(num_beams=2, max_new_tokens=8), Marks(**MARKS))
    block = begin(task, Waiting(batch_of([3, 4, 5])), range(3))
    assert isinstance(block, Beam) and block.rows == 6
    block.step()
    block.drop({0, 2})
    outcomes = block.step()
    assert block.rows == 2 and not outcomes
    while block.sentences:
        outcomes += block.step()
    assert [o.number for o in outcomes] == [1]
    assert same([outcomes[0].hypotheses], [searched(model, batch_of([4], first=1), num_beams=2, max_new_tokens=8)[0]])
    rest = begin(task, Waiting(batch_of([3])), [7])
    rest.drop({7})
    assert rest.step() == [] and not rest.sentences


def test_eos_is_never_part_of_a_text() -> None:
    found = searched(Recurrent(ending=2.0), batch_of(LENGTHS), num_return_sequences=4)
    assert all(EOS not in h.ids for hs in found for h in hs) and any(h.finished for hs in found for h in hs)


def test_prefixes_are_counted_before_anything_runs() -> None:
    model = Recurrent()
    with pytest.raises(DataError, match="2 prefixes for 3 sentences"):
        searched(model, batch_of([3, 4, 5]), prefix=[[4], [5]])
    assert model.rows == []
