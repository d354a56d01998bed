"""What a mixer remembers: token by token it equals the whole row, whatever search does to the rows meanwhile."""

from typing import Any

import pytest
import torch

from qkv.nn.call import Call, Layout, Memory, Want
from tests.conformance.cases import LONG, ROWS, Case, begun, cases, fed, full, numbers, same, source
from tests.conformance.expected import MIXERS, WIDTH

PIECES = [(1,) * 7, (2, 2, 2, 1), (3, 3, 1), (7,), (2, 1, 3, 1), (1, 4, 2)]
CAUSAL = Layout(causal=True)


def every(**needs: Any) -> Any:
    return pytest.mark.parametrize("case", cases(stepwise=True, **needs), ids=str)


@every(causal=True)
def test_pieces_equal_the_whole(case: Case) -> None:
    mixer, x = case.build(causal=True), numbers(ROWS, LONG, WIDTH)
    whole = full(mixer, x, CAUSAL)
    for pieces in PIECES:
        for capacity in (1, 16):
            same(fed(mixer, x, begun(mixer, ROWS, capacity), *pieces), whole)


@every(causal=True)
def test_rows_reorder_leave_and_are_repeated(case: Case) -> None:
    mixer, x, more = case.build(causal=True), numbers(4, 3, WIDTH), numbers(4, 3, WIDTH, seed=1)
    for rows, group in (([3, 0, 0, 2], 1), ([1, 0, 3, 3], 2), ([2, 2, 1, 0], 4)):
        state = begun(mixer, 4)
        fed(mixer, x, state)
        state.reorder(torch.tensor(rows), group)
        assert state.rows == 4
        same(fed(mixer, more, state, 1, 2), full(mixer, torch.cat([x[rows], more], 1), CAUSAL)[:, 3:])
    for rows in ([2], [0, 3], [1, 1, 0, 2, 2, 3]):
        state, fresh = begun(mixer, 4), numbers(len(rows), 3, WIDTH, seed=1)
        fed(mixer, x, state)
        state.select(torch.tensor(rows))
        assert state.rows == len(rows)
        same(fed(mixer, fresh, state), full(mixer, torch.cat([x[rows], fresh], 1), CAUSAL)[:, 3:])


@every(causal=True)
def test_younger_and_older_rows_come_in(case: Case) -> None:
    """The offsets differ, and still each row equals itself alone."""
    mixer = case.build(causal=True)
    for mine, theirs in ((4, 2), (2, 4), (3, 3), (3, 0)):
        old, new = numbers(2, mine, WIDTH), numbers(1, theirs, WIDTH, seed=1)
        more = numbers(3, 4, WIDTH, seed=2)
        state, other = begun(mixer, 2, 4), begun(mixer, 1, 8)
        fed(mixer, old, state)
        if theirs:
            fed(mixer, new, other)
        state.insert(other)
        assert state.lengths.tolist() == [mine, mine, theirs]
        y = fed(mixer, more[:, :3], state, 1, 2)
        same(y[:2], full(mixer, torch.cat([old, more[:2, :3]], 1), CAUSAL)[:, mine:])
        same(y[2:], full(mixer, torch.cat([new, more[2:, :3]], 1), CAUSAL)[:, theirs:])
        state.reorder(torch.tensor([2, 0, 1]))
        y = fed(mixer, more[:, 3:], state)
        same(y[:1], full(mixer, torch.cat([new, more[2:, :3], more[:1, 3:]], 1), CAUSAL)[:, -1:])
        same(y[1:], full(mixer, torch.cat([old, more[:2, :3], more[1:, 3:]], 1), CAUSAL)[:, -1:])
        state.select(torch.tensor([0]))
        assert state.longest == int(state.lengths.max())
        last = numbers(1, 1, WIDTH, seed=6)
        whole = torch.cat([new, more[2:, :3], more[:1, 3:], last], 1)
        same(fed(mixer, last, state), full(mixer, whole, CAUSAL)[:, -1:])


@every(causal=True)
def test_rewinding_forgets_or_is_refused(case: Case) -> None:
    mixer, x, more = case.build(causal=True), numbers(ROWS, 4, WIDTH), numbers(ROWS, 3, WIDTH, seed=1)
    for kept in ([1, 3, 2], [2, 2, 2], [4, 4, 4], [0, 4, 9]):
        state, lengths = begun(mixer, ROWS), torch.tensor(kept)
        fed(mixer, x, state)
        if not MIXERS[case.name].can.rewind:
            with pytest.raises(AssertionError, match="cannot be rewound"):
                state.rewind(lengths)
            continue
        state.rewind(lengths)
        assert state.lengths.tolist() == [min(n, 4) for n in kept]
        y = fed(mixer, more, state, 2, 1)
        for row, n in enumerate(kept):
            one = slice(row, row + 1)
            same(y[one], full(mixer, torch.cat([x[one, :n], more[one]], 1), CAUSAL)[:, -3:])


@every(causal=True)
def test_every_tensor_is_counted_and_has_a_row_for_each(case: Case) -> None:
    mixer = case.build(causal=True)
    state = begun(mixer, ROWS)
    fed(mixer, numbers(ROWS, 2, WIDTH), state)
    tensors = state.tensors()
    assert all(tensor.shape[0] == ROWS for tensor in tensors.values())
    assert any(name.startswith("mixer.") for name in tensors)
    assert state.nbytes() == sum(t.numel() * t.element_size() for t in tensors.values()) > 0
    assert all(t.dtype in (torch.float64, torch.long) for t in tensors.values()), (
        "the state takes the weights' precision"
    )


@every(cross=True)
def test_a_memory_is_projected_once_and_its_rows_stay_with_their_own(case: Case) -> None:
    mixer, x = case.build(memory="source"), numbers(4, LONG, WIDTH)
    memory = source(4, 5, [5, 1, 3, 2])
    whole = full(mixer, x, CAUSAL, {"source": memory})
    state = begun(mixer, 4, memories={"source": memory})
    memory.keys.mul_(0)  # what was projected at `begin` is what counts
    same(fed(mixer, x[:, :4], state, 1, 3), whole[:, :4])
    state.reorder(torch.tensor([1, 0, 3, 3]), group=2)
    # Within a group the rows are beams of one sentence, so its memory stays where it is.
    same(fed(mixer, x[:, 4:6], state, 1, 1), whole[:, 4:6])
    state.reorder(torch.tensor([3, 2, 1, 0]))
    same(fed(mixer, x[[3, 2, 1, 0], 6:], state), whole[[3, 2, 1, 0], 6:])
    state.select(torch.tensor([2, 0]))
    same(fed(mixer, x[[1, 3], :1], state), whole[[1, 3], :1])


@every(cross=True)
def test_rows_with_a_longer_or_shorter_memory_come_in(case: Case) -> None:
    mixer, x = case.build(memory="source"), numbers(3, 2, WIDTH)
    for mine, theirs in ((5, 3), (3, 5)):
        old, new = source(2, mine, [mine, 1]), source(1, theirs, None, seed=4)
        state = begun(mixer, 2, memories={"source": old})
        state.insert(begun(mixer, 1, memories={"source": new}))
        y = fed(mixer, x, state)
        same(y[:2], full(mixer, x[:2], CAUSAL, {"source": old}))
        same(y[2:], full(mixer, x[2:], CAUSAL, {"source": new}))


@every(cross=True)
def test_keys_and_values_apart_step_too(case: Case) -> None:
    mixer, x = case.build(memory="source"), numbers(ROWS, 3, WIDTH)
    memory = Memory(numbers(ROWS, 5, WIDTH, seed=3), Layout(), numbers(ROWS, 5, WIDTH, seed=4))
    state = begun(mixer, ROWS, memories={"source": memory})
    same(fed(mixer, x, state), full(mixer, x, CAUSAL, {"source": memory}))


@every(causal=True, maps=True)
def test_maps_of_a_step_are_a_row_of_the_maps(case: Case) -> None:
    mixer, x, want = case.build(causal=True), numbers(ROWS, 4, WIDTH), Want.of("maps")
    whole = mixer(x, Call(CAUSAL, want=want))[1].maps["maps"]
    state = begun(mixer, ROWS)
    fed(mixer, x[:, :3], state)
    layout = Layout(causal=True, offset=state.offset)
    with torch.no_grad():
        step = mixer(x[:, 3:], Call(layout, state=state.at("mixer"), want=want))[1].maps["maps"]
    same(step, whole[:, :, 3:].detach())
