"""Layouts by hand: where things stand and who sees whom; what is wanted and what is said travel by name."""

import torch

from qkv.nn.call import NOTHING, Call, Extras, Layout, Want
from qkv.nn.state import Forgetful, Tree

CPU = torch.device("cpu")


def matrix(layout: Layout, queries: int, keys: int) -> list[str]:
    """The first row's mask as text: # where a query may attend."""
    visible = layout.visible(queries, keys, CPU)
    assert visible is not None
    return ["".join("#" if x else "." for x in line) for line in visible[0, 0].expand(queries, keys).tolist()]


def test_masks_by_hand() -> None:
    assert Layout().visible(2, 3, CPU) is None
    assert matrix(Layout(causal=True), 3, 3) == ["#..", "##.", "###"]
    assert matrix(Layout(causal=True, offset=1), 2, 3) == ["##.", "###"]
    assert matrix(Layout(causal=True, offset=torch.tensor([1, 0]), furthest=1), 2, 4) == ["##..", "###."]
    assert matrix(Layout(lengths=torch.tensor([2, 3])), 2, 3) == ["##.", "##."]
    assert matrix(Layout(causal=True, prefix=torch.tensor([2])), 3, 3) == ["##.", "##.", "###"]
    assert matrix(Layout(segments=torch.tensor([[1, 2, 2, 0]])), 4, 4) == ["#...", ".##.", ".##.", "...."]
    facing = Layout(segments=torch.tensor([[1, 2, 2]]), query_segments=torch.tensor([[2, 1]]))
    assert matrix(facing, 2, 3) == [".##", "#.."]
    both = Layout(causal=True, lengths=torch.tensor([2]))
    assert matrix(both, 3, 3) == ["#..", "##.", "##."]


def test_the_newest_query_needs_no_causal_mask() -> None:
    assert Layout(causal=True, offset=3).visible(1, 4, CPU) is None
    assert matrix(Layout(causal=True, offset=2), 1, 4) == ["###."]
    assert matrix(Layout(causal=True, offset=torch.tensor([2]), furthest=3), 1, 4) == ["###."]


def test_positions_by_hand() -> None:
    assert Layout().positions(3, CPU).tolist() == [0, 1, 2]
    assert Layout(offset=4).positions(2, CPU).tolist() == [4, 5]
    assert Layout(offset=torch.tensor([4, 0]), furthest=4).positions(2, CPU).tolist() == [[4, 5], [0, 1]]
    assert Layout(offset=4).key_positions(2, CPU).tolist() == [0, 1]
    packed = Layout(segments=torch.tensor([[1, 1, 1, 2, 2, 3, 0, 0]]))
    assert packed.positions(8, CPU).tolist() == [[0, 1, 2, 0, 1, 0, 0, 1]]
    apart = Layout(segments=torch.tensor([[1, 1, 2]]), query_segments=torch.tensor([[1, 2, 2]]))
    assert apart.positions(3, CPU).tolist() == [[0, 0, 1]]
    assert apart.key_positions(3, CPU).tolist() == [[0, 1, 0]]


def test_start_is_the_largest_offset() -> None:
    assert Layout(offset=3).start == 3
    assert Layout(offset=torch.tensor([1, 5]), furthest=5).start == 5


def test_facing_a_memory_takes_its_keys_and_my_segments() -> None:
    mine = Layout(causal=True, offset=5, segments=torch.tensor([[1, 2]]))
    memory = Layout(lengths=torch.tensor([3]), segments=torch.tensor([[1, 1, 2]]))
    facing = mine.facing(memory)
    assert not facing.causal and facing.offset == 0
    assert facing.lengths is memory.lengths and facing.segments is memory.segments
    assert facing.query_segments is mine.segments
    plain = mine.facing(Layout(lengths=torch.tensor([3])))
    assert plain.segments is None and plain.query_segments is None


def test_only_causal() -> None:
    assert Layout(causal=True).only_causal and Layout(causal=True, lengths=torch.tensor([1])).only_causal
    ones = torch.ones(1, 1, dtype=torch.long)
    for other in (
        Layout(),
        Layout(causal=True, segments=ones),
        Layout(causal=True, prefix=ones[0]),
        Layout(causal=True, offset=ones[0], furthest=1),
    ):
        assert not other.only_causal


def test_what_is_wanted_goes_down_by_name() -> None:
    want = Want.of("decoder.*.cross.maps", "encoder.0.self.maps")
    assert "maps" in want.at("decoder").at("3").at("cross")
    assert "maps" not in want.at("decoder").at("3").at("self")
    assert "maps" in want.at("encoder").at("0").at("self")
    assert "maps" not in want.at("encoder").at("1").at("self")
    assert "maps" not in want and "decoder" not in want
    assert "maps" in Want.of("*") and not Want().at("decoder").patterns


def test_what_is_said_comes_up_by_name() -> None:
    one, two = Extras(maps={"maps": torch.ones(1)}), Extras(losses={"balance": torch.ones(1)})
    both = (one.under("self") | two.under("experts")).under("3")
    assert set(both.maps) == {"3.self.maps"} and set(both.losses) == {"3.experts.balance"} and not both.loads
    assert (NOTHING | one) is one and (one | NOTHING) is one and NOTHING.under("x") is NOTHING


def test_a_child_is_told_its_own_state_and_wants() -> None:
    inner = Forgetful()
    call = Call(Layout(), state=Tree({"a": Tree({"b": inner})}), want=Want.of("a.b.maps"))
    below = call.at("a").at("b")
    assert below.state is inner and "maps" in below.want
    bare = Call(Layout())
    assert bare.at("a") is bare
