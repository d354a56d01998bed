"""Buffers that grow, trees that pass on, rows that are counted."""

import pytest
import torch

from qkv.nn.state import Decoding, Forgetful, KeyValues, Projected, Tree, Vectors


def zeros(rows: int) -> torch.Tensor:
    return torch.zeros(rows, dtype=torch.long)


def test_buffers_are_written_in_place_and_grow_by_half() -> None:
    state = KeyValues.empty(torch.zeros(1), 2, 1, 4, 3)
    buffer = state.keys
    for step in range(4):
        keys = torch.full((2, 1, 1, 3), float(step + 1))
        seen, values = state.extend(keys, -keys, step, step)
        assert seen[0, 0, :, 0].tolist() == [float(i + 1) for i in range(step + 1)] and torch.equal(values, -seen)
    assert state.keys is buffer
    state.extend(torch.full((2, 1, 1, 3), 5.0), torch.full((2, 1, 1, 3), 5.0), 4, 4)
    assert state.keys.shape[2] == 7 and state.keys[0, 0, :, 0].tolist() == [1, 2, 3, 4, 5, 0, 0]
    assert state.nbytes() == 2 * 2 * 7 * 3 * 4


def test_rows_at_different_places_are_written_at_their_own() -> None:
    state = KeyValues.empty(torch.zeros(1), 2, 1, 4, 1)
    new = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).view(2, 1, 2, 1)
    keys, _ = state.extend(new, new, torch.tensor([0, 2]), 2)
    assert keys[:, 0, :, 0].tolist() == [[1, 2, 0, 0], [0, 0, 3, 4]]


def test_buffers_of_different_capacity_join() -> None:
    one, two = KeyValues.empty(torch.ones(1), 1, 1, 2, 3), KeyValues.empty(torch.ones(1), 2, 1, 5, 3)
    one.insert(two)
    assert one.keys.shape == one.values.shape == (3, 1, 5, 3)


def test_a_memory_keeps_its_lengths_when_rows_move() -> None:
    state = Projected(torch.arange(3.0).view(3, 1, 1, 1), torch.zeros(3, 1, 1, 1), torch.tensor([1, 2, 3]))
    state.reorder(torch.tensor([2, 2, 2]), group=3)
    assert state.lengths.tolist() == [1, 2, 3]
    state.select(torch.tensor([2, 0]))
    assert state.lengths.tolist() == [3, 1] and state.keys.flatten().tolist() == [2, 0]
    state.insert(Projected(torch.ones(1, 1, 4, 1), torch.ones(1, 1, 4, 1), torch.tensor([4])))
    assert state.lengths.tolist() == [3, 1, 4] and state.keys.shape[2] == 4
    assert set(state.tensors()) == {"keys", "values", "lengths"}


def test_vectors_cannot_be_undone() -> None:
    state = Vectors(hidden=torch.arange(4.0)[:, None])
    state.reorder(torch.tensor([3, 3, 0, 1]))
    assert state.values["hidden"].flatten().tolist() == [3, 3, 0, 1]
    with pytest.raises(AssertionError, match="cannot be rewound"):
        state.rewind(zeros(4))


def test_a_tree_names_its_tensors_and_a_leaf_has_no_parts() -> None:
    tree = Tree({"a": Tree({"b": Vectors(x=torch.zeros(2, 3))}), "none": Forgetful()})
    assert set(tree.tensors()) == {"a.b.x"} and tree.nbytes() == 24
    tree.select(torch.tensor([0]))
    assert tree.tensors()["a.b.x"].shape == (1, 3)
    with pytest.raises(AssertionError, match="has no parts, asked for x"):
        tree.at("a").at("b").at("x")
    with pytest.raises(AssertionError):
        tree.insert(Tree({"other": Forgetful()}))


def test_decoding_knows_how_far_each_row_is() -> None:
    state = Decoding({}, zeros(3))
    assert state.offset == 0 and state.rows == 3
    state.advance(2)
    assert state.offset == 2 and state.lengths.tolist() == [2, 2, 2]
    state.insert(Decoding({}, zeros(1)))
    assert state.longest == 2 and isinstance(state.offset, torch.Tensor) and state.offset.tolist() == [2, 2, 2, 0]
    state.reorder(torch.tensor([3, 0, 1, 2]))
    assert state.lengths.tolist() == [0, 2, 2, 2]
    state.advance(1)
    state.select(torch.tensor([0]))
    assert state.offset == 1 and state.longest == 1, "the rows that were ahead have left"
    state.rewind(torch.tensor([0]))
    assert state.offset == 0
    state.select(zeros(0))
    assert state.rows == 0 and Decoding({}, zeros(0)).offset == 0
    assert set(state.tensors()) == {"lengths"}
