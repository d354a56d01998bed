"""Beam search against targets that are counted out, by hand, and against itself without stopping."""

import pytest
import torch

from qkv.decode.hypothesis import Hypothesis, Marks
from qkv.decode.penalties import divisor
from qkv.decode.reference import reference
from qkv.decode.settings import SearchSettings
from qkv.decode.task import Task
from qkv.errors import RunError
from tests.decode.toys import BOS, EOS, MARKS, PAD, Recurrent, Table, batch_of, every_target, random_table, searched

NORMS = [("gnmt", 0.6), ("gnmt", 2.0), ("gnmt", -0.5), ("power", 0.7), ("average", 0.6), ("none", 0.6)]


@pytest.mark.parametrize(("norm", "exponent"), NORMS)
def test_a_beam_wide_enough_finds_the_best_of_all_targets(norm: str, exponent: float) -> None:
    """Two words may follow each: at most 2 ** 4 are alive before the last of 5 tokens."""
    for seed in range(12):
        model = random_table(seed, words=30, choices=2)
        settings = dict(num_beams=32, max_new_tokens=5, length_norm=norm, length_penalty=exponent)
        scored = [
            (total / divisor(norm, exponent, len(ids) + 1), ids)  # type: ignore[arg-type]
            for ids, total in every_target(model, 5)
        ]
        best = sorted(scored, reverse=True)[:6]
        (found,) = searched(model, batch_of([3]), num_return_sequences=6, **settings)
        assert [h.ids for h in found] == [ids for _, ids in best]
        assert [h.score for h in found] == pytest.approx([score for score, _ in best], abs=1e-5)
        assert searched(model, batch_of([3]), **settings)[0][0].ids == best[0][1]


@pytest.mark.parametrize(("norm", "exponent"), NORMS)
@pytest.mark.parametrize("wanted", [1, 3])
def test_stopping_loses_nothing(norm: str, exponent: float, wanted: int) -> None:
    """Against a search to the limit, over tables and recurrent models; and it does stop."""
    steps = judged = 0
    given = dict(num_beams=4, max_new_tokens=9, length_norm=norm, length_penalty=exponent, num_return_sequences=wanted)
    for seed in range(8):
        model: Table | Recurrent = (
            random_table(seed, words=9, choices=5, sharpness=2.0) if seed % 2 else Recurrent(seed=seed, ending=2.0)
        )
        batch = batch_of([4, 6])
        task = Task(model, SearchSettings(**given), Marks(**MARKS))  # type: ignore[arg-type]
        full = reference(task, batch, stop_early=False)
        model.rows.clear()
        found = searched(model, batch, **given)
        steps += len(model.rows)
        for mine, (theirs, margin) in zip(found, full, strict=True):
            if margin > 1e-5:  # a walk over a table has equals: the same transitions in another order
                judged += 1
                assert [(h.ids, h.finished) for h in mine] == [(h.ids, h.finished) for h in theirs]
    assert judged >= 8
    assert steps < 8 * 9


def rows_of(**after: dict[int, float]) -> Table:
    """A table of 7 tokens: what may follow BOS and the words 4, 5, 6, by probability."""
    table = torch.full((7, 7), -torch.inf)
    for name, choices in after.items():
        for token, probability in choices.items():
            table[BOS if name == "bos" else int(name[1:]), token] = torch.tensor(probability).log()
    return Table(table)


def test_the_penalty_turns_a_choice_as_by_hand() -> None:
    """Ending at once: log .4 = -.916. Two words, then the end: log .6 * .7 * .9 = -.973; / (8 / 6) ** .6 = -.819."""
    model = rows_of(bos={EOS: 0.4, 4: 0.6}, w4={5: 0.7, 6: 0.3}, w5={EOS: 0.9, 6: 0.1}, w6={EOS: 1.0})
    (plain,) = searched(model, batch_of([3]), num_beams=2, length_norm="none")
    assert plain[0].ids == () and plain[0].score == pytest.approx(-0.916291, abs=1e-5)
    (gnmt,) = searched(model, batch_of([3]), num_beams=2)
    assert gnmt[0].ids == (4, 5) and gnmt[0].score == pytest.approx(-0.972861 / 1.188402, abs=1e-5)
    assert gnmt[0].log_probability == pytest.approx(-0.972861, abs=1e-5)
    assert gnmt[0].token_log_probabilities == pytest.approx([-0.510826, -0.356675, -0.105361], abs=1e-5)


def test_the_first_num_beams_finished_end_an_early_search() -> None:
    """The two that end first are worse on average than what comes: 4 4 4 ... costs next to nothing."""
    model = rows_of(bos={4: 0.97, EOS: 0.03}, w4={4: 0.97, EOS: 0.03})
    settings = dict(num_beams=2, length_norm="average", max_new_tokens=8)
    (early,) = searched(model, batch_of([3]), early_stopping=True, **settings)
    assert early[0].ids == (4,) and len(model.rows) == 2
    (right,) = searched(model, batch_of([3]), **settings)
    assert right[0].ids == (4,) * 7 and right[0].score > early[0].score


def test_cut_ones_stand_behind_finished_ones() -> None:
    model = rows_of(bos={4: 0.9, EOS: 0.1}, w4={4: 1.0})
    (found,) = searched(model, batch_of([3]), num_beams=2, num_return_sequences=2, max_new_tokens=3)
    assert [(h.ids, h.finished) for h in found] == [((), True), ((4, 4, 4), False)]
    assert found[0].score < found[1].score


def test_a_dead_end_gives_what_there_is() -> None:
    """Nothing may follow word 5, not even the end."""
    model = rows_of(bos={5: 1.0})
    assert [h.ids for h in searched(model, batch_of([3, 4]), num_beams=3)[1]] == [(5,)]
    assert [(h.ids, h.finished) for h in searched(model, batch_of([3]), num_beams=1)[0]] == [((5,), False)]
    nothing = rows_of(bos={BOS: 1.0})
    assert searched(nothing, batch_of([3]), num_beams=2) == [[Hypothesis((), 0.0, 0.0, (), False)]]


def test_what_ended_needs_no_copy_of_itself_that_was_cut() -> None:
    """Two are asked for, and there is but one text."""
    model = rows_of(bos={4: 1.0}, w4={EOS: 1.0})
    (found,) = searched(model, batch_of([3]), num_beams=2, num_return_sequences=2)
    assert [(h.ids, h.finished) for h in found] == [((4,), True)]


def test_equals_are_decided_by_lane_and_id() -> None:
    model = rows_of(bos={4: 0.25, 5: 0.25, 6: 0.5}, w4={EOS: 1.0}, w5={EOS: 1.0}, w6={4: 0.5, EOS: 0.5})
    (found,) = searched(model, batch_of([3]), num_beams=4, num_return_sequences=3, length_norm="none")
    assert [h.ids for h in found] == [(6,), (4,), (5,)]


@pytest.mark.parametrize("beams", [1, 3])
def test_damage_is_told(beams: int) -> None:
    table = random_table(0, words=8, choices=3).table
    with pytest.raises(RunError, match="not numbers"):
        searched(Table(table * torch.nan), batch_of([3, 3]), num_beams=beams)


def test_bos_and_pad_are_never_written_unless_one_ends_a_text() -> None:
    table = torch.full((6, 6), -5.0)
    table[:, PAD] = table[:, BOS] = -0.1
    for found in searched(Table(table), batch_of([3]), max_new_tokens=6, num_return_sequences=4):
        assert all(PAD not in h.ids and BOS not in h.ids for h in found)
    assert Marks(bos=PAD, eos=EOS, pad=PAD).unwritable == (PAD,)
    assert Marks(bos=EOS, eos=EOS, pad=PAD).unwritable == (PAD,)
