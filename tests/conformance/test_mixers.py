"""What a mixer declares, it does: on whole rows. Letters: B rows, T positions, D model width."""

from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.nn.call import Call, Layout, Memory, Want
from tests.conformance.cases import LONG, ROWS, Case, cases, full, numbers, same, source
from tests.conformance.expected import MIXERS, WIDTH

LENGTHS = [7, 4, 1]
DOCUMENTS = [3, 1, 2]


def every(**needs: Any) -> Any:
    return pytest.mark.parametrize("case", cases(**needs), ids=str)


def each_way(case: Case) -> list[bool]:
    """Causal and not, as far as the mixer is expected to be."""
    can = MIXERS[case.name].can
    return [causal for causal in (True, False) if (can.causal != "no" if causal else can.bidirectional)]


def gradient(y: Tensor, x: Tensor, at: tuple[Any, ...]) -> Tensor:
    """How x moves y at a place, along a random direction."""
    (g,) = torch.autograd.grad(y[at], x, numbers(*y[at].shape, seed=5), retain_graph=True, allow_unused=True)
    return torch.zeros_like(x) if g is None else g


@every()
def test_shapes_and_gradients_reach_every_parameter(case: Case) -> None:
    for causal in each_way(case):
        mixer = case.build(causal)
        x = numbers(ROWS, LONG, WIDTH).requires_grad_()
        y = full(mixer, x, Layout(causal=causal))
        assert y.shape == x.shape and y.isfinite().all()
        y.backward(numbers(*y.shape, seed=2))
        idle = [name for name, p in mixer.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
        assert not idle
        assert x.grad is not None and (x.grad.abs().amax(-1) > 0).all()


@every(causal=True)
def test_nothing_leaks_from_the_future(case: Case) -> None:
    mixer = case.build(causal=True)
    x = numbers(ROWS, LONG, WIDTH).requires_grad_()
    y = full(mixer, x, Layout(causal=True))
    bound = 0.0 if MIXERS[case.name].can.causal == "exactly" else 1e-9
    for t in range(LONG):
        g = gradient(y, x, (slice(None), t))
        assert g[:, t + 1 :].abs().sum() <= bound
        assert (g[:, t].abs().amax(-1) > 0).all()


@every(bidirectional=True)
def test_bidirectional_ones_look_ahead_and_back(case: Case) -> None:
    mixer = case.build()
    x = numbers(ROWS, LONG, WIDTH).requires_grad_()
    y = full(mixer, x, Layout())
    seen = torch.stack([gradient(y, x, (slice(None), t)).abs().amax(-1) for t in range(LONG)], 1) > 0  # B T S
    if case.variant != "pointwise":
        assert seen.triu(1).any() and seen.tril(-1).any()
    assert torch.equal(seen, seen.transpose(1, 2)), "what one sees of another, the other sees of it"


@every(padding=True)
def test_real_positions_do_not_feel_the_padded_ones(case: Case) -> None:
    lengths = torch.tensor(LENGTHS)
    for causal in each_way(case):
        mixer = case.build(causal)
        x = numbers(ROWS, LONG, WIDTH)
        junk = numbers(ROWS, LONG + 3, WIDTH, seed=8) * 100
        real = torch.arange(LONG + 3) < lengths[:, None]
        padded = torch.where(real[..., None], torch.nn.functional.pad(x, (0, 0, 0, 3)), junk).requires_grad_()
        y = full(mixer, padded, Layout(causal=causal, lengths=lengths))
        weight = numbers(ROWS, LONG + 3, WIDTH, seed=3)
        y[real].backward(weight[real])
        found = [p.grad.clone() for p in mixer.parameters() if p.grad is not None]
        assert padded.grad is not None and padded.grad[~real].abs().sum() == 0
        mixer.zero_grad()
        for row, length in enumerate(LENGTHS):
            alone = full(mixer, x[row : row + 1, :length], Layout(causal=causal))
            same(y[row, :length].detach(), alone[0].detach())
            alone.backward(weight[row : row + 1, :length])
        for grad, parameter in zip(found, mixer.parameters(), strict=True):
            assert parameter.grad is not None
            same(grad, parameter.grad)


@every(packing=True)
def test_packed_documents_do_not_feel_one_another(case: Case) -> None:
    ends = [sum(DOCUMENTS[: i + 1]) for i in range(len(DOCUMENTS))]
    segments = torch.tensor([[i + 1 for i, n in enumerate(DOCUMENTS) for _ in range(n)] + [0, 0]] * ROWS)
    for causal in each_way(case):
        mixer = case.build(causal)
        x = numbers(ROWS, segments.shape[1], WIDTH).requires_grad_()
        y = full(mixer, x, Layout(causal=causal, segments=segments))
        for start, end in zip([0, *ends], ends, strict=False):
            same(y[:, start:end], full(mixer, x[:, start:end], Layout(causal=causal)))
            g = gradient(y, x, (slice(None), slice(start, end)))
            assert g[:, :start].abs().sum() == 0 and g[:, end:].abs().sum() == 0


@every(prefix=True)
def test_a_prefix_is_seen_by_the_whole_row(case: Case) -> None:
    mixer, prefix = case.build(causal=True), torch.tensor([4, 0, 2])
    x = numbers(ROWS, LONG, WIDTH).requires_grad_()
    y = full(mixer, x, Layout(causal=True, prefix=prefix))
    keys = torch.arange(LONG)
    for t in range(LONG):
        g = gradient(y, x, (slice(None), t)).abs().amax(-1)
        visible = (keys <= t) | (keys < prefix[:, None])
        assert torch.equal(g > 0, visible)


@every(cross=True)
def test_a_memory_is_looked_at_and_its_padding_is_not(case: Case) -> None:
    mixer, lengths = case.build(memory="source"), [5, 2, 1]
    x, memory = numbers(ROWS, LONG, WIDTH), source(lengths=lengths)
    keys = memory.keys.clone().requires_grad_()
    y = full(mixer, x, Layout(causal=True), {"source": Memory(keys, memory.layout)})
    assert y.shape == x.shape
    y.backward(numbers(*y.shape, seed=2))
    assert keys.grad is not None
    real = torch.arange(5) < torch.tensor(lengths)[:, None]
    assert torch.equal(keys.grad.abs().amax(-1) > 0, real)
    for row, length in enumerate(lengths):
        alone = Memory(memory.keys[row : row + 1, :length], Layout())
        same(y[row].detach(), full(mixer, x[row : row + 1], Layout(causal=True), {"source": alone})[0].detach())


@every(cross=True)
def test_a_memory_may_keep_keys_and_values_apart(case: Case) -> None:
    mixer, x, memory = case.build(memory="source"), numbers(ROWS, LONG, WIDTH), source()
    values = numbers(ROWS, 5, WIDTH, seed=4)
    together = full(mixer, x, Layout(), {"source": Memory(memory.keys, Layout(), memory.keys)})
    same(together, full(mixer, x, Layout(), {"source": memory}))
    first = full(mixer, x, Layout(), {"source": Memory(memory.keys, Layout(), values)})
    second = full(mixer, x, Layout(), {"source": Memory(memory.keys, Layout(), 3 * values)})
    nothing = full(mixer, x, Layout(), {"source": Memory(memory.keys, Layout(), 0 * values)})
    same(second - nothing, 3 * (first - nothing))  # linear in the values, so the weights come from the keys alone
    assert not torch.allclose(first, together)


@every(cross=True, packing=True)
def test_packed_targets_look_at_their_own_source(case: Case) -> None:
    mixer = case.build(memory="source")
    memory = source(1, 5)
    keys, layout = memory.keys, Layout(segments=torch.tensor([[1, 1, 2, 2, 2]]))
    x, mine = numbers(1, 4, WIDTH), Layout(causal=True, segments=torch.tensor([[1, 2, 2, 0]]))
    y = full(mixer, x, mine, {"source": Memory(keys, layout)})
    same(y[:, :1], full(mixer, x[:, :1], Layout(), {"source": Memory(keys[:, :2], Layout())}))
    same(y[:, 1:3], full(mixer, x[:, 1:3], Layout(), {"source": Memory(keys[:, 2:], Layout())}))


@every(maps=True)
def test_maps_sum_to_one_and_respect_the_mask(case: Case) -> None:
    for causal in each_way(case):
        mixer, lengths = case.build(causal), torch.tensor(LENGTHS)
        x, layout = numbers(ROWS, LONG, WIDTH), Layout(causal=causal, lengths=lengths)
        y, extras = mixer(x, Call(layout, want=Want.of("maps")))
        maps = extras.maps["maps"]
        assert maps.dim() == 4 and maps.shape[0] == ROWS and maps.shape[2:] == (LONG, LONG)
        same(maps.sum(-1), torch.ones_like(maps.sum(-1)))
        visible = layout.visible(LONG, LONG, x.device)
        assert visible is not None
        assert torch.equal(maps > 0, visible.expand_as(maps))
        same(y, full(mixer, x, layout))
        assert not mixer(x, Call(layout))[1].maps


@every(positions=True)
def test_a_position_inside_changes_what_is_seen(case: Case) -> None:
    if case.position is None:
        return
    x, layout = numbers(ROWS, LONG, WIDTH), Layout(causal=True)
    without = Case(case.name, case.variant).build(causal=True)
    assert not torch.allclose(full(case.build(causal=True), x, layout), full(without, x, layout), atol=1e-3)
