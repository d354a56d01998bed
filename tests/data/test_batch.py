"""A batch counts what a model predicts, and dividing it changes neither the rows nor the counts."""

import pytest
import torch

from qkv.data.batch import Batch, Tokens, added


def tokens(rows: list[list[int]], width: int | None = None) -> Tokens:
    width = width or max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return Tokens(ids, torch.tensor([len(row) for row in rows]))


def three() -> Batch:
    source = tokens([[5, 3], [5, 6, 7, 3], [8, 3]])
    target = tokens([[2, 5, 3], [2, 3], [2, 6, 7, 8, 3]])
    return Batch.of(torch.tensor([10, 4, 7]), source, target, task="translate", split="dev")


def test_counts_are_of_read_and_predicted_tokens() -> None:
    assert three().counts == {"sentences": 3, "source_tokens": 2 + 4 + 2, "target_tokens": 2 + 1 + 4}


@pytest.mark.parametrize("parts", [1, 2, 3, 9])
def test_divided_keeps_rows_in_order_and_the_counts(parts: int) -> None:
    divided = three().divided(parts)
    assert len(divided) == min(parts, 3)
    assert torch.cat([part.samples for part in divided]).tolist() == [10, 4, 7]
    assert added([part.counts for part in divided]) == three().counts
    assert all((part.task, part.split) == ("translate", "dev") for part in divided)


def test_divided_trims_what_only_other_rows_need() -> None:
    first, second, third = three().divided(3)
    assert first.source is not None and third.target is not None and second.target is not None
    assert first.source.ids.tolist() == [[5, 3]]
    assert second.target.ids.tolist() == [[2, 3]]
    assert third.target.ids.tolist() == [[2, 6, 7, 8, 3]]


def test_divided_keeps_widths_among_the_rounded_ones() -> None:
    wide = Batch.of(torch.tensor([0, 1]), None, tokens([[2, 5, 3], [2, *[5] * 11, 3]], width=17))
    first, second = wide.divided(2, round_to=4)
    assert first.target is not None and second.target is not None
    assert (first.target.ids.shape[1], second.target.ids.shape[1]) == (5, 13)


def test_joined_is_the_inverse_of_divided() -> None:
    whole, again = three(), Batch.joined(three().divided(3))
    assert again.source is not None and again.target is not None and whole.source is not None
    assert torch.equal(again.source.ids, whole.source.ids)
    assert again.target.ids.tolist() == [[2, 5, 3, 0, 0], [2, 3, 0, 0, 0], [2, 6, 7, 8, 3]]
    assert again.counts == whole.counts


def test_packed_documents_predict_nothing_across_their_border() -> None:
    packed = Tokens(
        torch.tensor([[2, 5, 3, 2, 6, 7, 3, 0]]), torch.tensor([7]), torch.tensor([[1, 1, 1, 2, 2, 2, 2, 0]])
    )
    assert packed.predicted == 2 + 3
    batch = Batch.of(torch.tensor([0]), None, packed)
    assert batch.counts == {"sentences": 1, "target_tokens": 5}
    joined = Batch.joined([batch, batch])
    assert joined.target is not None and joined.target.segments is not None
    assert joined.target.segments.shape == (2, 8)


def test_an_empty_batch_counts_nothing() -> None:
    nothing = Tokens(torch.zeros(0, 1, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    batch = Batch.of(torch.zeros(0, dtype=torch.long), nothing, nothing)
    assert batch.rows == 0
    assert set(batch.counts.values()) == {0}
    assert [part.rows for part in batch.divided(4)] == [0]


def test_counts_of_different_units_add_up() -> None:
    assert added([{"images": 2}, {"sentences": 3, "images": 1}]) == {"images": 3, "sentences": 3}


def test_a_batch_moves_as_a_whole() -> None:
    moved = three().to("meta")
    assert moved.source is not None and moved.target is not None
    assert {moved.samples.device.type, moved.source.ids.device.type, moved.target.lengths.device.type} == {"meta"}
    assert moved.counts == three().counts
